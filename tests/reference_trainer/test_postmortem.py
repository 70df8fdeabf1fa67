"""Post-mortems: what is known is said with its source, what is not is called unknown, and dollars add up by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pytest
from typer.testing import CliRunner

from reference_trainer.cli.app import app
from reference_trainer.postmortem import post_mortem
from reference_trainer.training_log import read_training_log
from scaling.errors import DataError
from tests.reference_trainer.log_samples import csv, curve

SECTIONS = ("Symptoms", "Evidence", "Classification", "Action", "Outcome", "Cost", "Lessons", "Not known")


@pytest.fixture
def path(tmp_path):
    """``path(**columns)``: a CSV of these columns."""

    def write(name="run.csv", **columns):
        file = tmp_path / name
        file.write_text(csv(**columns))
        return file

    return write


def hurt(n=1200, at=600, lasting=0.4, peak=2.5):
    """A loss that is hit at a step and keeps part of it."""
    loss = curve(n)
    loss[at:] += peak * np.exp(-np.arange(n - at) / 20) + lasting
    return {"step": np.arange(n), "loss": loss}


# ------------------------------------------------------------------------------------------- outside logs


def test_sections_and_dollars(path):
    """600 steps to the end x 1e6 tokens / 2e6 tokens/s = 300 s; at $36/h that is $3.00."""
    page = post_mortem(path(**hurt()), step_tokens=1e6, tokens_per_s=2e6, usd_per_hour=36.0)
    (section,) = page.sections
    text = page.markdown()
    assert all(f"### {title}" in text for title in SECTIONS)
    assert section["kind"] == "persistent" and section["title"] == "Spike #1 - date unknown"
    steps, *_ = section["cost"]["factors"]
    assert steps["value"] == pytest.approx(600, abs=3) and section["cost"]["at_least"]
    assert section["cost"]["usd"] == pytest.approx(steps["value"] * 1e6 / 2e6 / 3600 * 36.0)
    assert f"= at least ${section['cost']['usd']:.2f}" in text
    symptoms = section["symptoms"]
    assert symptoms["loss_before"] == pytest.approx(curve(1200)[530:600].mean(), abs=0.03)
    assert symptoms["loss_peak"] == pytest.approx(hurt()["loss"][600:].max())
    assert symptoms["loss_after_500"] == pytest.approx(hurt()["loss"][1100], abs=0.1)
    assert section["lines"].startswith("lines 602-")


def test_what_is_not_known_is_called_unknown(path):
    page = post_mortem(path(**hurt()))
    (section,) = page.sections
    assert section["cost"]["usd"] is None and "price" in section["cost"]["text"]
    assert section["date"] == "date unknown" and section["batches"] is None and section["actions"] == []
    text = page.markdown()
    for words in (
        "tokens of the offending batches: nothing was replayed",
        "activations of the layers: not in the log",
        "Unknown: neither the log nor whoever asked for this page says.",
        "the date: the log has no times",
    ):
        assert words in text
    assert "$" not in text  # no dollars without a price
    known = post_mortem(path(**hurt()), usd_per_hour=2.0).sections[0]["cost"]
    assert (
        known["usd"] is None
        and known["hours"] is None
        and "tokens a step, tokens a second are" in known["text"]
    )


def test_a_restart_is_the_action_and_its_pause_is_paid(path):
    """A run that went back from step 699 to step 500 made 200 steps for nothing (200 s) and stood still for 1,800 s."""
    loss, healthy = curve(700), curve(1000)
    loss[600:] += 3.0
    step = np.r_[0:700, 500:1000]
    time = 1.8e9 + np.arange(1200.0) + 1800 * (np.arange(1200) >= 700)
    columns = {"step": step, "loss": np.r_[loss, healthy[500:]], "timestamp": time, "step_s": np.ones(1200)}
    page = post_mortem(path(**columns), step_tokens=1000, usd_per_hour=36.0)
    (section,) = page.sections
    assert section["title"] == "Spike #1 - 2027-01-15 08:10 UTC"  # 1.8e9 s is 08:00:00 that day
    steps, tokens, pace, price, restart = section["cost"]["factors"]
    assert (steps["value"], tokens["source"], pace["value"]) == (200, "given", 1000)
    assert restart["value"] == pytest.approx(1801) and price["value"] == 36.0
    assert (
        section["cost"]["usd"] == pytest.approx((200 + 1801) / 3600 * 36.0)
        and not section["cost"]["at_least"]
    )
    assert "went back to step 500" in section["outcome"][0] and "when it passed step" in section["outcome"][0]
    assert section["actions"][0].startswith("after step 699 comes step 500")
    told = post_mortem(path(**columns), step_tokens=1000, usd_per_hour=36.0, restart_s=600.0)
    assert told.sections[0]["cost"]["restart_usd"] == pytest.approx(6.0)
    del columns["timestamp"]
    silent = post_mortem(path(**columns), step_tokens=1000, usd_per_hour=36.0).sections[0]
    assert silent["cost"]["restart_usd"] is None and "the restart is not in it" in silent["cost"]["text"]
    assert silent["cost"]["at_least"] and "give restart_s" in silent["unknown"][-1]


def test_another_attempt_is_not_what_came_of_this_one(path):
    """The attempt ends at step 699; steps 1,084 to 1,116 are of the next one, which was healthy."""
    loss, healthy = curve(700), curve(1200)
    loss[600:] += 3.0
    log = path(step=np.r_[0:700, 500:1200], loss=np.r_[loss, healthy[500:]])
    (section,) = post_mortem(log).sections
    assert section["symptoms"]["loss_after_500"] is None
    assert next(row for row in section["norms"] if row["name"] == "loss")["after"] is None
    straight = path("one.csv", **hurt()).rename(log.with_name("two.csv"))
    (section,) = post_mortem(straight).sections
    assert section["norms"][0]["after"] == pytest.approx(section["symptoms"]["loss_after_500"], abs=0.05)


def test_an_excerpt_pays_for_no_steps_of_another_piece(path):
    """Quoted are steps 7,000 to 7,220, and a later attempt: 211 steps of 1 s at $36/h are $2.11."""
    step = np.array([7000, 7010, 7220, 11446, 11448, 6900, 6910, 6920, 9026])
    loss = np.array([6.44, 11.42, 7.16, 3.0, 3.1, 6.37, 6.4, 6.35, 6.3])
    page = post_mortem(path(step=step, loss=loss), step_tokens=1000, tokens_per_s=1000, usd_per_hour=36.0)
    cost = page.sections[0]["cost"]
    assert cost["usd"] == pytest.approx(211 / 3600 * 36.0) and cost["at_least"]
    assert "the end of this attempt" in cost["factors"][0]["source"]
    assert cost["restart_usd"] is None and "the restart is not in it" in cost["text"]


def test_what_an_excerpt_had_before_is_of_the_same_piece(path):
    """The gradient rises a row before the loss; what is quoted of step 12,695 is not what was before."""
    step = np.array([12695, 31214, 31215, 31216, 31217, 31218, 31219])
    loss = np.array([2.46, 2.199, 2.22, 2.9, 4.1, 2.3, 2.21])
    norm = np.array([0.174, 0.242, 0.947, 9.0, 90.0, 0.5, 0.3])
    (section,) = post_mortem(path(step=step, loss=loss, grad_norm=norm)).sections
    before = {row["name"]: row["before"] for row in section["norms"]}
    assert before == {"loss": 2.199, "grad_norm": 0.242} and section["symptoms"]["loss_before"] == 2.199


def test_several_spikes_several_sections(path):
    loss = curve(4000)
    for at in (900, 2600):
        loss[at : at + 200] += 2.0 * np.exp(-np.arange(200) / 25)
    loss[1800] += 1.5
    file = path(step=np.arange(4000), loss=loss)
    page = post_mortem(file)
    assert [s["title"] for s in page.sections] == ["Spike #1 - date unknown", "Spike #3 - date unknown"]
    assert "#2 at step 1,800" in page.markdown() and all(s["kind"] == "recoverable" for s in page.sections)
    assert [s["number"] for s in post_mortem(file, outliers=True).sections] == [1, 2, 3]
    (only,) = post_mortem(
        file, only=2, actions_taken=["nothing"], lessons_learned=["look at shard 7"]
    ).sections
    assert only["kind"] == "data outlier" and only["actions"] == ["nothing (as told)"]
    assert only["lessons"][0] == "look at shard 7"
    with pytest.raises(DataError, match="not clear which"):
        post_mortem(file, actions_taken=["nothing"])
    with pytest.raises(DataError, match="no spike #9: there are 3"):
        post_mortem(file, only=9)


def test_losses_that_are_not_finite_are_no_numbers(path, tmp_path):
    loss = curve(400)
    loss[300:] = np.nan
    page = post_mortem(path(step=np.arange(400), loss=loss))
    files = page.save(tmp_path / "page.md")
    (section,) = json.loads(files[1].read_text())["spikes"]
    assert section["kind"] == "divergent" and section["symptoms"]["loss_peak"] == "Infinity"
    assert "| not finite |" in page.markdown() and "| nan |" not in page.markdown()


def test_a_healthy_log_has_an_empty_page(path):
    page = post_mortem(path(step=np.arange(1500), loss=curve(1500)))
    assert page.sections == () and "No spike was found" in page.markdown()
    loss = curve(4000)
    loss[400::400] += 1.0  # strange batches, as every healthy log has them
    page = post_mortem(path(step=np.arange(4000), loss=loss))
    assert page.sections == () and "Data outliers, gone at once" in page.markdown()
    assert "No spike was found" not in page.markdown()


def test_dates_are_only_those_that_are_known(path):
    timed = {**hurt(), "elapsed_s": 10.0 * np.arange(1200)}
    started = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert (
        post_mortem(path(**timed), started=started).sections[0]["title"] == "Spike #1 - 2026-05-01 13:40 UTC"
    )
    without = post_mortem(path(**hurt()), started=started).sections[0]
    assert without["date"] == "date unknown" and "2026-05-01 12:00" in without["date_source"]
    with pytest.raises(DataError, match="time zone"):
        post_mortem(path(**timed), started=datetime(2026, 5, 1, 12))


def test_files_are_written_whole_and_never_over_the_log(path, tmp_path):
    columns = {**hurt(), "grad_norm": np.r_[np.full(598, 0.5), np.full(602, 9.0)], "lr": np.full(1200, 1e-3)}
    page = post_mortem(path(**columns))
    files = page.save(tmp_path / "out.md")
    assert [f.name for f in files] == ["out.md", "out.json", "out-1.png", "out-1.csv"]
    assert (
        files[2].read_bytes().startswith(b"\x89PNG")
        and "![Spike #1 - date unknown](out-1.png)" in files[0].read_text()
    )
    drawn = read_training_log(files[3])
    assert {"loss", "grad_norm", "lr"} <= set(drawn.names) and drawn["step"].min() < 600 < drawn["step"].max()
    with pytest.raises(DataError):
        post_mortem(read_training_log(path("log-1.csv", **columns))).save(tmp_path / "log.md")
    # The norm led the loss by two steps, and the page says so.
    assert any(
        "grad_norm" in text and "steps before the peak" in text for text in page.sections[0]["lessons"]
    )


def test_a_replay_is_shown_as_it_was_found(path):
    class Found:
        def markdown(self):
            return "| token | batch | corpus |\n|---|---|---|\n| 7 | 0.91 | 0.002 |"

        def to_dict(self):
            return {"tokens": {"7": 0.91}}

    page = post_mortem(path(**hurt()), evidence={1: Found()})
    assert "| 7 | 0.91 | 0.002 |" in page.markdown() and page.sections[0]["replay"] == {"tokens": {"7": 0.91}}
    assert not any("replayed" in text for text in page.sections[0]["unknown"])


@pytest.mark.parametrize("name", ["step_tokens", "tokens_per_s", "usd_per_hour", "restart_s"])
def test_a_cost_is_made_of_numbers(path, name):
    file = path(**hurt())
    for wrong in (-1.0, np.nan, np.inf, *([0.0] if name in ("step_tokens", "tokens_per_s") else [])):
        with pytest.raises(DataError, match=f"{name} must be") as caught:
            post_mortem(file, **{name: wrong})
        assert caught.value.column == name
    for wrong in (0.0, -5.0, np.nan):
        with pytest.raises(DataError, match="unique_tokens must be positive"):
            read_training_log(file, unique_tokens=wrong)


@pytest.mark.parametrize("out", ["", "folder", "missing/page.md"])
def test_a_page_that_cannot_be_leaves_nothing_beside_it(path, tmp_path, monkeypatch, out):
    page = post_mortem(path(**hurt()))
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=f"out = '{out}'"):
        page.save(out)
    assert sorted(tmp_path.rglob("*")) == before


# ------------------------------------------------------------------------------------------- command line


def test_commands(path, tmp_path):
    def run(*words):
        return CliRunner().invoke(app, [str(w) for w in words])

    file = path(**hurt())
    told = run("guide", file)
    assert told.exit_code == 0 and "persistent" in told.stdout and "lines 602-" in told.stdout
    assert json.loads(run("guide", file, "--json").stdout)["features"]
    assert run("guide", file, "--markdown").stdout.startswith("# Reader's guide to run.csv")
    out = tmp_path / "pm.md"
    done = run("postmortem", file, "-o", out, "--step-tokens", "1M", "--tokens-per-s", "2M", "--usd-per-hour", "36",
               "--action", "rolled back by hand", "--lesson", "watch it")  # fmt: skip
    assert (
        done.exit_code == 1
        and "Spike #1 - date unknown: persistent" in done.stdout
        and "at least $3.0" in done.stdout
    )
    assert "rolled back by hand (as told)" in out.read_text() and "- watch it" in out.read_text()
    healthy = path("healthy.csv", step=np.arange(900), loss=curve(900))
    assert run("postmortem", healthy, "-o", tmp_path / "none.md").exit_code == 0
    refused = run("postmortem", file, "-o", out, "--started", "yesterday")
    assert refused.exit_code == 2 and "is no time" in refused.stderr
    unknown = tmp_path / "notes.txt"
    unknown.write_text("nothing here\n")
    refused = run("guide", unknown)
    assert refused.exit_code == 2 and "no format knows this log" in refused.stderr
