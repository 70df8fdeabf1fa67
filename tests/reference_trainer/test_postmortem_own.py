"""Post-mortems of our own runs, whose folder knows batches, faults and what the playbook did."""

from __future__ import annotations

import json
import os

import pytest

from reference_trainer.postmortem import post_mortem
from reference_trainer.run_log import RunLog
from tests.reference_trainer.log_samples import curve


@pytest.fixture
def own(tmp_path):
    """A folder of our own trainer: batches 599 to 618 have random labels, and the playbook goes back to step 590."""
    folder = tmp_path / "run"
    loss, again = curve(700), curve(1200)
    loss[599:] += 4.0
    config = {"batch_seqs": 8, "seq_len": 128, "seed": 3, "clip": 1.0, "lr": 1e-3, "usd_per_hour": 3.6,
              "inject": "random_labels@599x20"}  # fmt: skip
    with RunLog(folder / "log.jsonl", 0) as log, RunLog(folder / "perf.jsonl", 0) as perf:
        for begin, end, values in ((0, 700, loss), (590, 1200, again)):
            for s in range(begin, end):
                hit = s >= 599 and values is loss
                row = {"loss": float(values[s]), "grad_norm": 8.0 if hit else 0.5, "lr": 1e-3, "finite": 1.0}
                log.append("step", s + 1, row)
                if s % 50 == 49:
                    log.append("activations", s + 1, {"rms_0": 1.0, "rms_1": 9.0 if hit else 2.0})
            if values is loss:
                skip = {"to_step": 590, "skip_from": 599, "skip": 20}
                log.append("action", 700, {"do": "skip", **skip, "why": "hurt"})
        for at in range(100, 1201, 100):
            perf.append(
                "perf", at, {"tokens_per_s": 1024.0, "step_ms": 1000.0, "wall_s": float(at), "usd": at / 1000}
            )
    (folder / "run.json").write_text(json.dumps({"config": config, "machine": "cpu", "config_hash": "abc"}))
    entry = {"number": 1, "step": 700, "first_step": 600, "what": "skip", "why": "the loss did not come back",
             "to_step": 590, "skip_from": 599, "skip": 20, "lr_factor": 1.0, "outcome": "recovered",
             "outcome_step": 900, "outcome_why": "the loss is back", "loss_after": 3.5,
             "proposals": ["clip 1 -> 0.5: it lets much through"]}  # fmt: skip
    (folder / "interventions.jsonl").write_text(json.dumps(entry) + "\n")
    os.utime(folder / "run.json", (1.8e9, 1.8e9))
    os.utime(folder / "perf.jsonl", (1.8e9 + 1200, 1.8e9 + 1200))
    return folder


def test_our_own_run_tells_more(own):
    page = post_mortem(own)
    (section,) = page.sections
    assert (
        section["batches"] == (599, section["symptoms"]["peak_step"] - 1)
        and "data order with seed 3" in section["batch_text"]
    )
    assert section["injected"] and "random_labels@599x20" in section["injected"][0]
    seen = section["symptoms"]
    assert section["short"] == (
        f"From step 600 on something was wrong: the loss went from {seen['loss_before']:.3f} to "
        f"{seen['loss_peak']:.3f} at step {seen['peak_step']}, and was not wholly back when the run went back to an "
        "earlier step. It was made on purpose (random_labels@599x20:1). Answered at step 700 by the playbook's 'skip': "
        "recovered. Lost: 110 steps, at least $0.11."
    )
    blocks = {row["block"]: row for row in section["activations"]}
    assert blocks[1] == {"block": 1, "before": 2.0, "during": 9.0, "after": 2.0}
    assert (
        "interventions.jsonl, line 1" in section["actions"][0]
        and "20 batches left out" in section["actions"][0]
    )
    assert section["actions"][0].startswith("step 700: skip: the loss did not come back")
    assert "back to step 590, 20 batches left out from batch 599 on" in section["actions"][0]
    assert section["outcome"][0].startswith("step 900, after skip: recovered, the loss is back; loss 3.5000")
    assert any("clip 1 -> 0.5" in text for text in section["lessons"])
    steps, tokens, pace, price, _ = section["cost"]["factors"]
    assert (steps["value"], tokens["value"], pace["value"], price["value"]) == (110, 1024, 1024, 3.6)
    assert section["cost"]["hours"] == pytest.approx(110 / 3600)
    # 1.8e9 s is 08:00; step 600 was reached when the run had been up for 600 s.
    assert section["title"] == "Spike #1 - 2027-01-15 08:10 UTC"
    os.utime(own / "perf.jsonl", (1.9e9, 1.9e9))  # copied: the times of the files are not those of the run
    assert post_mortem(own).sections[0]["date"] == "date unknown"


def test_the_guide_knows_injected_faults(own):
    from reference_trainer.log_guide import read_guide

    guide = read_guide(own)
    assert "injected on purpose" in guide.of("spike")[0].decision
    assert guide.of("restart")[0].decision == "the playbook: skip, because hurt"
