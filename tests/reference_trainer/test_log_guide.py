"""The reader's guide against logs whose story is known, because it was written into them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reference_trainer.log_guide import read_guide
from reference_trainer.training_log import read_training_log
from tests.reference_trainer.log_samples import csv, curve

PEAK, WARM, N = 3e-4, 500, 5000
S = np.arange(N, dtype=float)
RISE = np.minimum(1, (S + 1) / WARM)
X = np.clip((S - WARM) / (N - WARM), 0, 1)
LATE = np.clip((S - 4000) / 1000, 0, 1)


@pytest.fixture
def guide(tmp_path):
    """``guide(**columns)``: the guide to a CSV of these columns, line i + 2 for row i."""

    def read(how=None, **columns):
        path = tmp_path / "run.csv"
        path.write_text(csv(**columns))
        return read_guide(path, **(how or {}))

    return read


def with_loss(n=N, **columns):
    return {"step": np.arange(n), "loss": curve(n), **columns}


# ------------------------------------------------------------------------------------------- schedule

SCHEDULES = {
    "cosine": 0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * X)),
    "cosine that the log cuts off": 0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * X / 2)),
    "linear": 1 - X,
    "inverse square root": np.where(S < WARM, 1, np.sqrt(WARM / (S + 1))),
    "exponential": np.exp(-2 * X),
    "constant": np.ones(N),
    "WSD linear": 1 - LATE,
    "WSD 1 - sqrt": 1 - np.sqrt(LATE),
    "WSD cosine": 0.5 * (1 + np.cos(np.pi * LATE)),
    "steps": np.where(S < 3000, 1, np.where(S < 4000, 0.316, 0.1)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(guide, name):
    found = guide(**with_loss(lr=PEAK * RISE * SCHEDULES[name]))
    (warm,), (shape,) = found.of("warm-up"), found.of("schedule")
    assert warm.decision == "warm-up of 500 steps" and warm.where.startswith("lines 2-")
    assert warm.numbers["peak_lr"] == pytest.approx(PEAK, rel=0.01)
    assert shape.numbers["shape"] == name.split()[0] or name.startswith("inverse")
    assert not found.of("learning rate jump")
    if name.startswith("WSD"):
        assert shape.numbers["cooldown"] == name.removeprefix("WSD ")
        assert shape.numbers["cooldown_start"] == pytest.approx(4000, abs=25)
        assert "the last 20% of the steps" in shape.decision
    if name == "cosine that the log cuts off":
        assert shape.numbers["end"] == pytest.approx(9500, rel=0.02) and "beyond the log" in shape.what
        assert shape.decision == f"cosine decay over {shape.numbers['end']:,.0f} steps"
    if name == "steps":
        assert [at for at, _ in shape.numbers["levels"]][1:] == [3000, 4000]


def test_a_schedule_that_is_none_is_called_none(guide):
    (shape,) = guide(**with_loss(lr=PEAK * (0.6 + 0.4 * np.cos(S / 300)))).of("schedule")
    assert shape.numbers["shape"] == "unknown" and shape.confidence == "low"


def test_rates_that_are_not_of_the_schedule(guide):
    lr = PEAK * RISE * SCHEDULES["cosine"]
    lr[2000:2005] *= 100
    lr[3000:] *= 0.5
    found = guide(**with_loss(lr=lr))
    short, lasting = found.of("learning rate jump")
    assert short.where == "lines 2002-2006" and short.numbers["factor"] == pytest.approx(100, rel=0.01)
    assert lasting.where == "lines 3001-3002" and lasting.numbers["factor"] == pytest.approx(0.5, rel=0.01)
    assert found.of("schedule")[0].numbers["shape"] == "cosine"


def test_without_a_rate_the_loss_may_show_a_cooldown(guide):
    step = np.arange(1, 4001)
    loss = 6.5 - 0.4 * np.log(step) - 0.9 * np.maximum(np.log(step / 3000), 0)
    loss += 0.03 * np.random.default_rng(0).normal(size=len(step))
    (shape,) = guide(step=step, loss=loss).of("schedule")
    assert shape.numbers["cooldown_start"] == pytest.approx(3000, rel=0.05) and shape.confidence == "low"
    assert not guide(step=step, loss=curve(4000)).of("schedule")


# ------------------------------------------------------------------------------------------- restarts, data


def test_a_healthy_log_has_no_story(guide):
    for seed in range(5):
        columns = with_loss(3000, grad_norm=np.exp(0.1 * np.random.default_rng(seed).normal(size=3000)),
                            tokens_per_s=1e5 * (1 + 0.05 * np.random.default_rng(seed).normal(size=3000)))  # fmt: skip
        columns["loss"] = curve(3000, seed=seed)
        assert guide(**columns).features == ()


def test_restarts_say_whether_the_batches_were_the_same(guide):
    first, again = curve(300), curve(300)
    other = curve(300, seed=9)[200:]
    step = np.r_[0:300, 200:300, 200:300]
    loss = np.r_[first, again[200:], other]
    exact, shuffled = guide(step=step, loss=loss).of("restart")
    assert exact.where == "lines 301-302" and exact.numbers["same"] == "exact"
    assert (exact.first_step, exact.last_step) == (200, 299) and "100 steps were made again" in exact.what
    assert shuffled.numbers["same"] == "other" and "skipped or shuffled anew" in shuffled.what
    near = np.r_[first, again[200:] + 0.003 * np.random.default_rng(1).normal(size=100)]
    (rounding,) = guide(step=step[:400], loss=near).of("restart")
    assert rounding.numbers["same"] == "same"
    (short,) = guide(step=np.r_[0:300, 299:400], loss=curve(401)).of("restart")
    assert short.numbers["same"] == "unknown"


def test_times_show_stops_and_pauses(guide):
    time = 1.7e9 + 2.0 * np.arange(600)
    time[300:] += 7200
    step = np.arange(600)
    (stop,) = guide(step=step, loss=curve(600), timestamp=time).of("stop")
    assert stop.where == "lines 301-302" and stop.what.startswith("2.0 hours")
    step = np.r_[0:300, 280:580]
    (restart,) = guide(step=step, loss=curve(600), timestamp=time).of("restart")
    assert "2.0 hours later" in restart.what and not guide(step=step, loss=curve(600)).of("stop")


def test_gaps_and_excerpts(guide):
    step = np.r_[0:300, 500:800]
    (gap,) = guide(step=step, loss=curve(600)).of("gap")
    assert gap.where == "lines 301-302" and gap.numbers["steps"] == 201
    pieces = np.r_[10:14, 900:904, 5000:5004, 4990:4994]
    (excerpt,) = guide(step=pieces, loss=np.full(16, 3.0)).of("gap")
    assert "excerpt" in excerpt.decision and excerpt.numbers["pieces"] == 4


def test_borders_of_epochs(guide):
    loss = curve(900)
    loss[300:] -= 0.08
    loss[600:] -= 0.08
    how = {"step_tokens": 1000, "unique_tokens": 300_000}
    first, second = guide(how, step=np.arange(900), loss=loss).of("repeated data")
    assert first.where == "lines 301-302" and "remembers" in first.decision
    assert first.numbers["change"] == pytest.approx(-0.08, abs=0.03) and second.numbers["pass"] == 2
    (quiet,) = guide(how, step=np.arange(500), loss=curve(500)).of("repeated data")
    assert "does not drop" in quiet.what and "no sign" in quiet.decision
    assert any("not known" in text for text in guide(step=np.arange(500), loss=curve(500)).unknown)


def test_batches_that_come_back(guide):
    """The noise of a batch is its own: the same noise again is the same batch again."""
    batches = 0.05 * np.random.default_rng(3).normal(size=1000)
    own = 0.02 * np.random.default_rng(4).normal(size=2000)
    smooth = curve(2000, noise=0)
    (period,) = guide(step=np.arange(2000), loss=smooth + np.r_[batches, batches] + own).of("repeated data")
    assert period.numbers["period"] == 1000 and period.first_step == 1000
    # Started again at step 1000 without its place in the data: it reads from the beginning, and knows it.
    time = 1.7e9 + np.arange(2000.0) + 7200 * (np.arange(2000) >= 1000)
    loss = smooth + np.r_[batches, batches] + own - 0.2 * (np.arange(2000) >= 1000)
    (again,) = guide(step=np.arange(2000), loss=loss, timestamp=time).of("repeated data")
    assert again.where.startswith("lines 1002-") and "as lines 2-" in again.where
    assert "The level drops by 0.19" in again.what and "without the place in the data" in again.decision


def test_a_restart_from_our_own_playbook_is_explained_by_it(tmp_path):
    from reference_trainer.run_log import RunLog

    with RunLog(tmp_path / "log.jsonl", 0) as log:
        loss = curve(200)
        log.extend("step", [{"step": s + 1, "loss": loss[s]} for s in range(150)])
        log.append("action", 150, {"do": "rollback", "to_step": 100, "why": "the loss did not come back"})
        log.extend("step", [{"step": s + 1, "loss": loss[s]} for s in range(100, 200)])
    (restart,) = read_guide(tmp_path).of("restart")
    assert restart.decision == "the playbook: rollback, because the loss did not come back"
    assert restart.where == "lines 150-152"


# ------------------------------------------------------------------------------------------- pace, batch, clip, drifts


def test_throughput(guide):
    rate = 1e5 * (1 + 0.02 * np.random.default_rng(0).normal(size=600))
    rate[200:260] *= 0.5
    rate[400] *= 0.3
    found = guide(**with_loss(600, tokens_per_s=rate))
    (drop,), (stall,) = found.of("throughput drop"), found.of("stalls")
    assert drop.where == "lines 202-221" and drop.numbers["share"] == pytest.approx(0.5, abs=0.02)
    assert "judged by the new pace" in drop.what  # after 20 rows, 0.5 is the pace
    assert stall.where == "line 402" and stall.confidence == "low"
    seconds = np.full(600, 0.5)
    seconds[99::100] = 4.0
    (habit,) = guide(**with_loss(600, step_s=seconds)).of("stalls")
    assert habit.what.startswith("every 100 steps") and "checkpoint" in habit.decision


def test_batch_ramp_and_what_it_explains(guide):
    batch = np.repeat([512, 1024, 2048], [200, 200, 400])
    (ramp,) = guide(**with_loss(800, batch_tokens=batch)).of("batch ramp")
    assert ramp.where == "lines 201-402" and (ramp.numbers["from"], ramp.numbers["to"]) == (512, 2048)
    (counted,) = guide(**with_loss(800, tokens=np.cumsum(batch))).of("batch ramp")
    assert counted.numbers["changes"] == 2
    (pace,) = guide(**with_loss(800, batch_tokens=batch, steps_s=batch / 1e4, step_time=batch / 1e4)).of(
        "throughput drop"
    )[:1]
    assert "the batch goes from 512 to 1,024" in pace.decision


def test_clip(guide):
    norm = np.exp(0.5 * np.random.default_rng(0).normal(size=1000))
    before = guide(**with_loss(1000, grad_norm=norm))
    assert not before.of("clip") and any("before clipping" in text for text in before.unknown)
    (after,) = guide(**with_loss(1000, grad_norm=np.minimum(norm, 1.0))).of("clip")
    assert after.numbers["clip"] == 1.0 and "logged after clipping" in after.decision


def test_updates_that_were_left_out(guide):
    scale = np.full(900, 65536.0)
    skipped = np.zeros(900)
    skipped[[100, 400, 401, 402]] = 1
    scale[403:] = 8192
    (left,) = guide(**with_loss(900, loss_scale=scale, skipped=skipped)).of("skipped updates")
    assert left.where == "lines 402-404" and left.numbers["updates"] == 4
    assert "lowered from 65536 to 8192" in left.decision
    finite = np.ones(900)
    finite[200] = 0
    (withheld,) = guide(**with_loss(900, finite=finite)).of("skipped updates")
    assert withheld.where == "line 202" and "withheld" in withheld.decision


def test_drifts_are_slow_and_jumps_are_none(guide):
    slow = curve(3000)
    slow[1500:2500] += np.linspace(0, 0.5, 1000)
    slow[2500:] += 0.5
    (drift,) = guide(step=np.arange(3000), loss=slow).of("drift")
    assert drift.first_step == pytest.approx(1500, abs=200) and drift.last_step == pytest.approx(
        2500, abs=200
    )
    assert drift.numbers["rise"] == pytest.approx(0.42, abs=0.03)  # on a curve that falls by 0.08
    jump = curve(3000)
    jump[1500:] += 0.5
    found = guide(step=np.arange(3000), loss=jump)
    assert not found.of("drift")
    norm = np.exp(0.05 * np.random.default_rng(0).normal(size=2000)) * np.where(np.arange(2000) > 1000, 3, 1)
    (growth,) = guide(**with_loss(2000, grad_norm=norm)).of("drift")
    assert growth.confidence == "low" and growth.numbers["to"] == pytest.approx(3.0, rel=0.05)


# ------------------------------------------------------------------------------------------- spikes, the whole


def test_spikes_cite_their_lines_and_what_came_before(guide):
    loss = curve(1200)
    loss[700:] += 2.5 * np.exp(-np.arange(500) / 20) + 0.4
    lr = np.full(1200, 1e-3)
    lr[695:700] *= 100
    found = guide(step=np.arange(1200), loss=loss, lr=lr)
    (spike,) = found.of("spike")
    assert spike.first_step in range(695, 702) and spike.where.startswith("lines 70")
    assert spike.numbers["class"] == "persistent" and "learning rate jump" in spike.decision
    broken = curve(400)
    broken[300:] = np.nan
    (spike,) = guide(step=np.arange(400), loss=broken).of("spike")
    assert spike.numbers["class"] == "divergent" and "not finite" in spike.what
    outliers = curve(4000)
    outliers[[900, 1300, 1700, 2100, 2500, 3000, 3500]] += 1.0
    (spike,) = guide(step=np.arange(4000), loss=outliers).of("spike")
    assert spike.numbers["count"] == 7 and spike.where.startswith("lines 902, 1302")


def test_text_markdown_and_json_say_the_same(guide):
    lr = PEAK * RISE * SCHEDULES["linear"]
    found = guide(**with_loss(lr=lr))
    text, page, plain = found.text(), found.markdown(), found.to_dict()
    json.dumps(plain, allow_nan=False)
    for feature in found.features:
        assert feature.where in text and feature.where in page and feature.decision in text
    assert len(plain["features"]) == len(found.features) == page.count("\n| ") - 1
    assert "unit of the loss is not stated" in text and "5,000 rows, step 0 to 4,999" in page


def test_a_log_with_nothing_but_evaluations(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("step,val_loss\n100,4.0\n200,3.9\n")
    found = read_guide(read_training_log(path))
    assert found.features == () and "2 evaluations and no training step" in found.text()
