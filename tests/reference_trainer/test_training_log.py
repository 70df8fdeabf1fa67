"""Logs of other programs, read: each format as its program prints it, and what goes wrong in real files."""

from __future__ import annotations

import json
import math
import sqlite3

import numpy as np
import pytest

from reference_trainer.run_log import RunLog
from reference_trainer.training_log import read_training_log
from scaling.errors import DataError
from tests.reference_trainer import log_samples as samples
from tests.reference_trainer.log_samples import codes, nan_equal

# ------------------------------------------------------------------------------------------- formats


def test_nanogpt(written):
    log = read_training_log(written(samples.NANOGPT))
    assert log.format == "nanoGPT text" and log.step_tokens == 491_520
    nan_equal(log["step"], [0, 10, 20, 30])
    nan_equal(log["loss"], [10.9893, 9.7512, math.nan, 7.9021])
    nan_equal(log["step_s"], [40.41822, 1.20311, 1.2019, 1.2])
    nan_equal(log["mfu"], [math.nan, 0.4102, 0.4104, 0.4105])  # -100%: not measured yet
    assert log.lines.tolist() == [4, 5, 6, 9]
    # NaN that was printed is a broken loss, not a missing one.
    assert not log.steps.absent["loss"].any() and len(log.history()["loss"]) == 4
    val = log.series("val_loss")
    assert val.value.tolist() == [10.9897, 8.5303] and val.lines.tolist() == [3, 7]


def test_llmc(written):
    log = read_training_log(written(samples.LLMC_SCREEN))
    assert log.step_tokens == 524_288 and log.facts["total_steps"] == 19_560
    nan_equal(log["loss"], [11.00912, 10.959812, 10.855603])
    nan_equal(log["grad_norm"], [15.372, 15.2411, 14.8402])
    nan_equal(log["lr"], [8.57e-7, 1.71e-6, 2.57e-6])
    nan_equal(log["step_s"], [3.05636, 2.99602, 2.99551])
    nan_equal(log["tokens_per_s"], [171_540, 174_995, 175_000])
    nan_equal(log["mfu"], [0.412, 0.42, math.nan])
    val = log.series("val_loss")  # the screen does not repeat the step
    assert val.step.tolist() == [0, 3] and val.value.tolist() == [11.009135, 10.8012]
    log = read_training_log(written(samples.LLMC_FILE))
    nan_equal(log["loss"], [11.0091, 10.9598, math.inf])
    nan_equal(log["lr"], [1e-6, 2e-6, 3e-6])
    assert log.series("val_loss").step.tolist() == [0, 250]
    log = read_training_log(written(samples.SPEED_RUN))
    assert log["loss"].tolist() == [15.9929, 9.8606] and log.facts["total_steps"] == 5100
    assert log.series("val_loss").value.tolist() == [10.8258]


def test_megatron_tells_a_skipped_update_from_a_broken_loss(written):
    log = read_training_log(written(samples.MEGATRON))
    assert log.format == "Megatron or GPT-NeoX text" and log.facts["total_steps"] == 115_311
    assert log["step"].tolist() == [31213, 31214, 31215] and log.lines.tolist() == [2, 3, 4]
    nan_equal(log["loss"], [2.205034, math.nan, math.nan])
    assert log.steps.absent["loss"].tolist() == [False, True, False]
    assert log.history()["step"].tolist() == [31213, 31215]  # the skipped one has no loss to look at
    assert log["skipped"].tolist() == [0, 1, 0] and log["nans"].tolist() == [0, 0, 1]
    nan_equal(log["step_s"], [104.8, 104.71, 104.9])
    assert log.batch().value.tolist() == pytest.approx([2048 * 2048] * 2, rel=1e-9)
    assert log.series("val_loss").value.tolist() == [2.342049]


def test_gpt_neox(written):
    log = read_training_log(written(samples.NEOX))
    nan_equal(log["loss"], [4.302116, 4.289917])
    nan_equal(log["lr"], [4.196e-4, 4.238e-4])
    nan_equal(log["step_s"], [0.7991, 0.8006])
    assert log["seqs_per_s"].tolist() == [1281.432, 1279.02]
    assert log.series("val_loss").step.tolist() == [1010]


def test_olmo(written):
    log = read_training_log(written(samples.OLMO))
    assert log.format == "OLMo text"
    nan_equal(log["loss"], [11.25, 10.73])
    nan_equal(log["grad_norm"], [math.nan, 1.25])
    nan_equal(log["tokens"], [4_194_304, 8_388_608])
    assert log["time"][1] - log["time"][0] == 12.0 and log.lines.tolist() == [1, 6]
    assert log.series("val_loss").value.tolist() == [10.51]
    table = read_training_log(written(samples.OLMO_CSV, "olmo.csv"))
    assert table["loss"].tolist() == [11.25, 10.73]  # not the perplexity beside it
    assert table["grad_norm"].tolist() == [4.18, 4.02] and table["lr"].tolist() == [1.5e-7, 3e-7]
    assert table.loss_unit == "nats/token"  # e to the loss is the perplexity beside it
    assert table.batch().value.tolist() == [4_194_304]


def test_wandb_export_wants_to_know_the_run(written):
    path = written(samples.WANDB, "chart.csv")
    with pytest.raises(DataError, match=r"holds 2 runs: say which with run=.*brisk-owl-7, calm-elk-8"):
        read_training_log(path)
    with pytest.raises(DataError, match="no run 'owl'"):
        read_training_log(path, run="owl")
    log = read_training_log(path, run="brisk-owl-7")
    assert log.format == "wandb CSV export" and log["loss"].tolist() == [10.1, 9.1, 8.4]
    assert log["loss_max"].tolist() == [10.2, 9.1, 12.5]
    assert "averaged_rows" in codes(log)  # the spike to 12.5 would not be seen in the averages
    other = read_training_log(path, run="calm-elk-8")
    assert other["step"].tolist() == [20, 30] and other.lines.tolist() == [3, 4]
    by_time = samples.WANDB.replace('"Step"', '"Relative Time (Wall)"')
    with pytest.raises(DataError, match="numbered by Relative Time"):
        read_training_log(written(by_time, "time.csv"), run="calm-elk-8")


def test_mlflow_store(written, tmp_path):
    """The tables as mlflow 3 makes them; NaN is stored as 0 with a mark, infinity as the largest float."""
    path = tmp_path / "mlflow.db"
    database = sqlite3.connect(path)
    database.executescript(
        "CREATE TABLE runs (run_uuid VARCHAR(32), name VARCHAR(250), lifecycle_stage VARCHAR(20));"
        "CREATE TABLE params (key VARCHAR(250), value VARCHAR(8000), run_uuid VARCHAR(32));"
        "CREATE TABLE metrics (key VARCHAR(250), value FLOAT, timestamp BIGINT, run_uuid VARCHAR(32), step BIGINT,"
        " is_nan BOOLEAN);"
        "INSERT INTO runs VALUES ('aa', 'first', 'active'), ('bb', 'second', 'active'), ('cc', 'gone', 'deleted');"
        "INSERT INTO params VALUES ('batch_seqs', '8', 'aa'), ('seq_len', '128', 'aa');"
    )
    rows = [("loss", 5.0, 1000, "aa", 1, 0), ("grad_norm", 2.0, 1000, "aa", 1, 0), ("loss", 0.0, 2000, "aa", 2, 1),
            ("loss", 1.7976931348623157e308, 3000, "aa", 3, 0), ("loss", 4.5, 9000, "aa", 2, 0),
            ("eval_loss", 4.9, 9000, "aa", 2, 0), ("loss", 7.0, 1000, "bb", 1, 0)]  # fmt: skip
    database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()
    with pytest.raises(DataError, match=r"first \(aa\), second \(bb\)"):
        read_training_log(path)
    log = read_training_log(f"sqlite:///{path}", run="first")
    nan_equal(log["loss"], [5.0, math.nan, math.inf, 4.5])
    assert log["step"].tolist() == [1, 2, 3, 2]  # the run went back, and the store keeps both
    nan_equal(log["grad_norm"], [2.0, math.nan, math.nan, math.nan])
    assert log["time"].tolist() == [1, 2, 3, 9] and log.step_tokens == 1024
    assert log.series("val_loss").value.tolist() == [4.9] and log.cite(1, 4) == "rows 1-4"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_itself_writes_what_is_read(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/m.db")
    run = client.create_run(client.create_experiment("x"), run_name="only").info.run_id
    for step, loss in enumerate([3.0, math.nan, math.inf]):
        client.log_metric(run, "loss", loss, step=step)
    nan_equal(read_training_log(tmp_path / "m.db")["loss"], [3.0, math.nan, math.inf])


def test_own_run_folder(tmp_path):
    with RunLog(tmp_path / "log.jsonl", 0) as log, RunLog(tmp_path / "perf.jsonl", 0) as perf:
        log.extend("step", [{"step": s, "loss": 5.0 - s, "lr": 1e-3, "finite": 1.0} for s in (1, 2)])
        log.append("eval", 2, {"loss": 3.5, "loss_se": 0.1, "tokens": 640})
        log.append("step", 3, {"loss": math.nan, "lr": 1e-3, "finite": 0.0})
        log.append("action", 3, {"do": "skip", "why": "a strange batch", "skip": 8})
        log.append("activations", 3, {"rms_0": 1.0, "rms_1": 2.0})
        perf.append("perf", 2, {"tokens_per_s": 900.0, "step_ms": 250.0, "wall_s": 4.0, "usd": 0.1})
    with (tmp_path / "log.jsonl").open("a") as being_written:
        being_written.write('{"kind": "step", "st')
    manifest = {"config": {"batch_seqs": 4, "seq_len": 16, "clip": 1.0, "lr": 1e-3, "usd_per_hour": 2.0}}
    (tmp_path / "run.json").write_text(json.dumps(manifest))
    for source in (tmp_path, tmp_path / "log.jsonl"):
        log = read_training_log(source)
        nan_equal(log["loss"], [4.0, 3.0, math.nan])
        assert log.lines.tolist() == [1, 2, 4] and log.step_tokens == 64 and log.facts["clip"] == 1.0
        assert log.series("tokens_per_s").source.endswith("perf.jsonl")
        assert log.series("step_s").value.tolist() == [0.25]
        assert log.facts["actions"][0]["line"] == 5 and len(log.side["activations"]) == 1


def test_hugging_face_state_and_json_lines(written):
    rows = [{"loss": 2.5, "grad_norm": 1.1, "learning_rate": 1e-4, "epoch": 0.1, "step": 10},
            {"eval_loss": 2.4, "epoch": 0.1, "step": 10}, {"loss": 2.3, "learning_rate": 9e-5, "step": 20}]  # fmt: skip
    state = read_training_log(
        written(json.dumps({"log_history": rows, "global_step": 20}, indent=2), "state.json")
    )
    lines = read_training_log(
        written("".join(json.dumps(row) + "\n" for row in rows) + '{"loss": 2', "log.jsonl")
    )
    for log in (state, lines):
        assert log["loss"].tolist() == [2.5, 2.3] and log["step"].tolist() == [10, 20]
        assert log.series("val_loss").value.tolist() == [2.4]
    assert "unfinished_line" in codes(lines)


def test_names_and_numbers_of_other_programs(written):
    titan = read_training_log(written(samples.TORCHTITAN))
    assert titan.format == "text with names and numbers" and titan.lines.tolist() == [1, 2]
    nan_equal(titan["loss"], [8.1309, 7.6002])
    nan_equal(titan["grad_norm"], [1.4521, 3.912])
    nan_equal(titan["tokens_per_s"], [1234, 9876])
    nan_equal(titan["mfu"], [0.0615, 0.412])
    assert titan["time"][1] - titan["time"][0] == pytest.approx(9.5)
    karpathy = read_training_log(written(samples.BUILD_NANOGPT))
    nan_equal(karpathy["loss"], [10.955029, 10.906954])
    nan_equal(karpathy["step_s"], [1.33022, 0.33913])
    nan_equal(karpathy["lr"], [8.3916e-7, 1.6783e-6])
    assert karpathy["tokens_per_s"][1] == 1545992.11
    litgpt = read_training_log(written(samples.LITGPT))
    assert litgpt["step"].tolist() == [10, 20]  # not the micro-batches that stand before them
    nan_equal(litgpt["loss"], [9.821, 8.911])


def test_the_level_of_a_logger_is_no_part_of_a_name(written):
    text = "".join(
        f"2026-01-02 03:00:0{s} INFO step={s} aux loss=0.01 loss={9 - s}.5 lr=3e-06\n" for s in range(3)
    )
    log = read_training_log(written(text))
    assert log["step"].tolist() == [0, 1, 2] and log["loss"].tolist() == [9.5, 8.5, 7.5]


def test_a_perplexity_beside_a_loss_tells_its_unit(written):
    """fairseq and metaseq print losses in bits: 2**15.052 is 33,967."""
    log = read_training_log(written(samples.FAIRSEQ))
    assert log.loss_unit == "nats/token" and log["step"].tolist() == [10, 20]
    np.testing.assert_allclose(log["loss"], [15.052 * math.log(2), 13.010 * math.log(2)])
    assert log["grad_norm"].tolist() == [27.354, 9.113] and log["wall_s"].tolist() == [259, 379]
    nats = samples.FAIRSEQ.replace("33967.3", "3443500").replace("8249", "446860")  # e**loss
    np.testing.assert_allclose(read_training_log(written(nats))["loss"], [15.052, 13.010])


def test_metrics_one_number_a_row(written):
    log = read_training_log(written(samples.METRICS, "metrics.csv"))
    assert log["step"].tolist() == [1, 2, 1] and log["loss"].tolist() == [5.0, 4.5, 4.6]
    nan_equal(log["grad_norm"], [2.0, math.nan, math.nan])
    assert log.series("val_loss").value.tolist() == [4.9] and log.lines.tolist() == [2, 4, 5]
    board = "Wall time,Step,Value\n1700000000.5,1,9.5\n1700000002.5,2,9.1\n"
    with pytest.raises(DataError, match="no column of losses among Wall time, Step, Value"):
        read_training_log(written(board, "board.csv"))
    named = read_training_log(written(board, "board.csv"), columns={"loss": "Value"})
    assert named["loss"].tolist() == [9.5, 9.1] and named["time"][0] == 1700000000.5
