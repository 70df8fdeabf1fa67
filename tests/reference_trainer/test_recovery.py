"""The playbook: which line comes when, that it ends whatever happens, and that a restart changes nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from reference_trainer.playbook import PlaybookSettings
from reference_trainer.proposals import proposals
from reference_trainer.recovery import RATES, Playbook
from reference_trainer.spike_causes import Cause
from reference_trainer.spike_class import Diagnosis
from scaling.errors import DataError

SETTINGS = PlaybookSettings(wait=20, skip=5, margin=50)


def diagnosis(kind="persistent", advice="rollback", *causes):
    return Diagnosis(kind, "high", "for the test", tuple(Cause(c, "seen", "high") for c in causes), advice)


def follow(book, hurt, *, steps=2000, said=None, finite=lambda step: True, restart=lambda book: book):
    """Drive a playbook as the loop does, the loss hurt where `hurt(step, changes)`; return its moves."""
    moves, step, made = [], 0, 0
    while step < steps:
        step, made = step + 1, made + 1
        assert made < 20 * steps, "it does not end"
        first = hurt(step, book.memory.changes)
        tiers = {} if first is None else {"shift": first}
        move = book.step(step, tiers, finite(step), lambda: said, ends_at=steps)
        book = restart(book)
        if move is None:
            continue
        moves.append((step, move))
        if move.action.kind == "stop" and book.acts:
            break
        if move.action.to_step is not None and book.acts:
            assert 0 <= move.action.to_step < move.first_step <= step
            step = move.action.to_step
    return moves


def names(moves):
    return [move.name for _, move in moves]


def test_what_passes_by_itself_is_waited_for():
    moves = follow(Playbook(SETTINGS), lambda step, _: 100 if 104 <= step < 115 else None)
    assert [(step, move.name) for step, move in moves] == [(104, "wait"), (115, "over")]


def test_the_lines_of_the_playbook_in_their_order():
    """A loss that stays hurt whatever is done."""
    moves = follow(Playbook(SETTINGS), lambda step, _: 500 if step >= 508 else None, said=diagnosis())
    assert names(moves) == ["wait", "skip", "failed", "rollback", "failed", "rollback", "failed", "stop"]
    skip, *back = [move.action for _, move in moves if move.action.to_step is not None]
    assert (skip.to_step, skip.skip_from, skip.skip, skip.lr_factor) == (496, 496, 5 + 3, 1.0)
    assert [a.to_step for a in back] == [449, 449]  # the margin before the first evidence
    # What was suspected and what came until the decision at step 528; batches behind those that are out already.
    assert [(a.skip_from, a.skip) for a in back] == [(504, 5 + 3 + 28), (540, 5 + 3 + 28)]
    assert [a.lr_factor for a in back] == [1.0, 0.75]
    assert "3 rollbacks did not help" in moves[-1][1].action.why


def test_what_passed_but_cost_much_is_gone_back_over():
    """Fifteen of 1,000 steps are more than a hundredth of the run: once more without their batches."""
    hurt = lambda step, changes: 100 if 104 <= step < 115 and not changes else None  # noqa: E731
    moves = follow(Playbook(SETTINGS), hurt, steps=1000)
    assert names(moves) == ["wait", "skip", "recovered"]
    action, before = moves[1][1].action, moves[1][1].before
    assert (action.to_step, action.skip_from, action.skip, before) == (96, 96, 15 + 5 + 3, "over")
    assert names(follow(Playbook(SETTINGS), hurt, steps=2000)) == ["wait", "over"]
    assert names(follow(Playbook(SETTINGS, acts=False), hurt, steps=1000)) == ["wait", "over"]


def test_norms_date_what_they_led_to():
    """They rose at 80, were quiet for a while, and the loss followed at 120; a lone outlier says nothing."""
    tiers = {step: {"norm": 80} for step in range(80, 95)} | {
        step: {"shift": 115} for step in range(120, 200)
    }
    book = Playbook(PlaybookSettings(wait=50, skip=5))
    moves = [book.step(step, {"point": 10} | tiers.get(step, {}), True, lambda: None) for step in range(171)]
    assert [(move.name, move.first_step) for move in moves if move] == [("wait", 80), ("skip", 80)]
    assert moves[170].action.to_step == 76


def test_a_loss_on_its_way_back_is_given_more_time():
    moves = follow(
        Playbook(SETTINGS),
        lambda step, _: 500 if 508 <= step else None,
        said=diagnosis("recoverable", "wait"),
    )
    assert names(moves)[:4] == ["wait", "wait", "wait", "skip"]
    assert [step for step, _ in moves[:4]] == [508, 528, 548, 568]


def test_a_rate_that_is_too_high_is_lowered_first():
    said = diagnosis("divergent", "rollback", "learning rate too high")
    moves = follow(Playbook(SETTINGS), lambda step, _: 500 if step >= 508 else None, said=said)
    treated = [move for _, move in moves if move.action.to_step is not None]
    assert [move.name for move in treated] == ["lower_lr", "rollback", "rollback"]
    rate, rates = 1.0, []
    for move in treated:
        rate *= move.action.lr_factor
        rates.append(rate)
    assert rates == pytest.approx(RATES) and treated[0].action.skip == 0


def test_a_rate_that_was_too_high_for_a_while_is_left_alone():
    book, said = Playbook(SETTINGS), diagnosis("divergent", "rollback", "learning rate too high")
    moves = [
        book.step(step, {"shift": 500} if step >= 508 else {}, True, lambda: said, rate_back=lambda: True)
        for step in range(529)
    ]
    assert moves[-1].name == "skip" and moves[-1].action.lr_factor == 1.0


def test_updates_that_are_withheld_are_not_waited_for_long():
    """Fifty in a row would end the run: it goes back after ten."""
    book = Playbook(SETTINGS)
    bad = [True]

    def hurt(step, changes):
        if changes:
            bad[0] = False
        return 300 if bad[0] and step >= 300 else None

    moves = follow(book, hurt, said=diagnosis("divergent"), finite=lambda step: not (bad[0] and step >= 300))
    assert [(step, move.name) for step, move in moves[:2]] == [(300, "wait"), (309, "skip")]
    assert names(moves)[2:] == ["recovered"]


def test_what_is_open_at_the_end_is_decided_there():
    book = Playbook(SETTINGS)
    moves = follow(book, lambda step, changes: 995 if step >= 998 and not changes else None, steps=1000)
    assert [(s, m.name) for s, m in moves] == [(998, "wait"), (1000, "skip"), (1000, "unjudged")]


def test_asking_never_acts_and_falls_silent():
    book = Playbook(SETTINGS, acts=False)
    moves = follow(book, lambda step, _: 500 if 508 <= step < 900 else None, said=diagnosis())
    assert names(moves) == ["wait", "skip", "rollback", "rollback", "stop", "over"]
    assert book.memory.changes == [] and book.open_incident is None
    again = follow(book, lambda step, _: 500 if 508 <= step < 900 else None, said=diagnosis())
    assert names(again) == names(moves)  # the next incident is proposed for as the first was


def test_a_person_may_go_on_after_a_stop():
    book = Playbook(SETTINGS)
    follow(book, lambda step, _: 500 if step >= 508 else None, said=diagnosis())
    assert [book.step(step, {"shift": 500}, True, lambda: None) for step in range(600, 700)] == [None] * 100
    assert book.step(700, {}, True, lambda: None).name == "over" and book.open_incident is None
    again = follow(book, lambda step, _: 900 if step >= 908 else None, said=diagnosis())
    assert names(again)[-1] == "stop" and "skip" not in names(again)  # its rollbacks are spent


hurts = st.lists(st.tuples(st.integers(1, 1900), st.integers(1, 400), st.booleans()), max_size=8)
kinds = st.sampled_from([None, diagnosis(), diagnosis("recoverable", "wait"),
                         diagnosis("divergent", "rollback", "learning rate too high")])  # fmt: skip


def hurting(spans):
    """Spans of hurt steps; those that heal are gone once something was done."""

    def hurt(step, changes):
        here = [a for a, n, heals in spans if a + 3 <= step < a + n and not (heals and changes)]
        return min(here, default=None)

    return hurt


@settings(max_examples=80, deadline=None)
@given(hurts, kinds, st.booleans(), st.integers(0, 4))
def test_it_ends_and_never_goes_back_too_often(spans, said, acts, most):
    book = Playbook(PlaybookSettings(wait=20, skip=5, margin=50, most_rollbacks=most), acts=acts)
    moves = follow(book, hurting(spans), said=said)
    back = [move for _, move in moves if move.action.to_step is not None]
    if acts:
        assert len(back) <= most and names(moves).count("stop") <= 1
        assert len(book.memory.changes) == len(back)
    rate = 1.0
    for move in back if acts else []:
        assert move.action.skip or move.action.lr_factor < 1  # going back alone would change nothing
        rate *= move.action.lr_factor
    assert rate >= RATES[-1] - 1e-12


@settings(max_examples=40, deadline=None)
@given(hurts, kinds, st.integers(1, 50))
def test_a_restart_changes_nothing(spans, said, every):
    """The state goes through JSON, as in a checkpoint, over and over."""
    count = [0]

    def restart(book):
        count[0] += 1
        if count[0] % every:
            return book
        fresh = Playbook(book.settings, acts=book.acts)
        fresh.load_state_dict(json.loads(json.dumps(book.state_dict())))
        return fresh

    hurt = hurting(spans)
    plain = follow(Playbook(SETTINGS), hurt, said=said)
    assert follow(Playbook(SETTINGS), hurt, said=said, restart=restart) == plain


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(DataError, match="wait must be at least 1"):
        PlaybookSettings(wait=0)


def test_nothing_is_proposed_without_evidence():
    config = {"clip": 1.0, "beta2": 0.99, "mup": False, "mup_base_width": 256, "d_model": 1024}
    assert proposals(config, None, [], 0) == []
    assert proposals(config, diagnosis(), [0.9, 1.1], 0) == []
    said = diagnosis(
        "divergent", "rollback", "corrupted data", "stale Adam second moment", "learning rate too high"
    )
    found = proposals(config, said, [0.2, 0.2], 0)
    assert [text.split(":")[0] for text in found] == [
        "clip 1 -> 0.5", "beta2 0.99 -> 0.95", "mup = true", "another source of data"
    ]  # fmt: skip
    assert proposals({**config, "clip": 0.5}, None, [0.1], 2)[0].startswith("clip 0.5 -> 0.3")
    assert proposals({**config, "beta2": 0.95, "mup": True, "clip": 0.3}, said, [0.1], 0) == [found[-1]]
