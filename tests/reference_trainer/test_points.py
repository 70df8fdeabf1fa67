"""The points table of a ladder is read with no options, fitted by trunk, and says how noisy its points are."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from reference_trainer.ladder import read_ladder
from reference_trainer.noise import run_to_run
from reference_trainer.points import COLUMNS, rows, with_sigma, write_table
from reference_trainer.sweep import sweep
from reference_trainer.sweep_progress import Display
from scaling import fit_chinchilla, load_runs
from scaling.errors import IdentificationWarning
from tests.reference_trainer.tiny_ladders import LADDER, read_rows, write_ladder

#: As DESIGN has them; whoever adds one adds it at the end.
DESIGN = [
    *("run_id", "trunk_id", "seed", "params_total", "params_non_embedding", "params_matmul", "tokens"),
    *("unique_tokens", "flops", "loss", "loss_unit", "bytes_per_token", "loss_se_eval", "sigma", "val_hash"),
    *("tokenizer", "lr", "batch", "seq_len", "cooldown", "status", "wall_s", "device", "usd", "mfu", "git"),
    "config_hash",
]

SIZES = "".join(
    f"[[size]]\nlayers = {layers}\nd_model = {width}\nheads = 2\nlr = {lr}\n"
    for layers, width, lr in ((1, 8, 2e-2), (1, 12, 2e-2), (1, 16, 1e-2), (2, 16, 1e-2))
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A real ladder: 4 sizes, 3 budgets, 2 seeds."""
    text = LADDER[: LADDER.index("[[size]]")].replace("[1280, 2560]", "[1280, 2560, 5120]") + SIZES
    plan = read_ladder(write_ladder(tmp_path_factory.mktemp("points"), text.replace("dropout = 0.1\n", "")))
    result = sweep(plan, display=Display(quiet=True))
    assert result.ok == 24
    return plan, plan.out / "points.csv"


def test_the_table_is_read_with_no_options(made):
    plan, path = made
    table = read_rows(path)
    assert list(table[0])[: len(DESIGN)] == DESIGN and tuple(table[0]) == COLUMNS
    assert [row["run_id"] for row in table] == [run.run_id for run in plan.runs]
    runs = load_runs(path)
    assert len(runs) == 24 and runs.loss_unit == "nats/token" and not runs.audit.warnings
    assert runs.params_kind == "total" and set(runs.params) == {s.arch.params_total for s in plan.sizes}
    assert runs.flops == pytest.approx(6 * runs.params * runs.tokens)
    for run, loss, tokens in zip(plan.runs, runs.loss, runs.tokens, strict=True):
        result = json.loads((plan.folder(run) / "result.json").read_text())
        assert loss == result["loss"] and tokens == result["tokens"] == run.tokens  # to the last digit
    assert len(set(runs.trunk_id)) == 8 and runs.sigma is not None and np.isfinite(runs.sigma).all()
    assert runs.loss_se_eval is not None


def test_the_fit_clusters_by_trunk(made):
    plan, path = made
    with pytest.warns(
        IdentificationWarning
    ):  # two seconds of training leave the law open; the clusters are the point
        fit = fit_chinchilla(path, n_boot=50)
    settings = fit.settings
    assert (settings.resample, settings.cluster_key, settings.n_clusters) == ("cluster", "trunk_id", 8)
    trunks = [run.trunk_id for run in plan.runs]
    assert all(
        (fit.cluster[i] == fit.cluster[j]) == (trunks[i] == trunks[j]) for i in range(24) for j in range(24)
    )


def test_sigma_is_the_deviation_between_seeds(made):
    """With 12 points of 2 seeds the variances are moderated: between the pooled one and each point's own."""
    _, path = made
    points: dict[tuple[str, str], list[float]] = {}
    for row in read_rows(path):
        points.setdefault((row["size_name"], row["tokens"]), []).append(float(row["loss"]))
    pooled = math.sqrt(np.mean([np.var(np.log(x), ddof=1) for x in points.values()]))
    for row in read_rows(path):
        x = points[row["size_name"], row["tokens"]]
        own = float(np.std(np.log(x), ddof=1))
        low, high = sorted((own, pooled))
        assert low / 2 <= float(row["sigma"]) / np.mean(x) <= 2 * high


def test_noise_is_pooled_where_little_is_known_and_told_apart_where_much_is():
    assert run_to_run({"a": [3.0], "b": [4.0]}) == {}
    two = run_to_run({"a": [2.0, 2.02], "b": [4.0, 4.0], "c": [3.0]})
    pooled = math.sqrt(
        np.log(1.01) ** 2 / 2 / 2
    )  # variances (ln 1.01)^2 / 2 and 0, one degree of freedom each
    assert two == pytest.approx({"a": 2.01 * pooled, "b": 4.0 * pooled, "c": 3.0 * pooled})

    rng = np.random.default_rng(0)
    errors = {"alike": [], "apart": []}
    for _ in range(50):
        for name, sd in (("alike", np.full(24, 0.01)), ("apart", np.repeat([0.003, 0.03], 12))):
            losses = {i: list(3 * np.exp(s * rng.normal(size=4))) for i, s in enumerate(sd)}
            found = np.array([run_to_run(losses)[i] for i in range(24)]) / 3
            own = np.array([np.std(np.log(x), ddof=1) for x in losses.values()])
            pooled = np.sqrt(np.mean(own**2))
            errors[name].append([np.mean(np.log(x / sd) ** 2) for x in (found, own, np.full(24, pooled))])
    alike, apart = (np.mean(errors[name], axis=0) for name in ("alike", "apart"))
    assert alike[0] < 0.5 * alike[1] and alike[0] < 3 * alike[2] + 0.01  # as good as pooling, nearly
    assert apart[0] < apart[1] and apart[0] < apart[2]  # better than each alone and than all together


def test_rows_that_are_no_points_are_not_fitted(made, tmp_path):
    """A failed run and one stopped on its way stand in the table, and load_runs leaves them out by their status."""
    plan, path = made
    results = {run.run_id: json.loads((plan.folder(run) / "result.json").read_text()) for run in plan.runs}
    first, second, third, *_ = plan.runs
    del results[first.run_id]
    results[second.run_id] |= {"status": "truncated", "loss": None, "tokens": 640, "ended_by": "SIGTERM"}
    rates = {size.name: size.lr for size in plan.sizes}
    table = with_sigma(rows(plan, plan.runs, results, {first.run_id: "OSError: no space"}, rates))
    write_table(tmp_path / "points.csv", table)
    cells = {row["run_id"]: row for row in read_rows(tmp_path / "points.csv")}
    assert (cells[first.run_id]["status"], cells[first.run_id]["error"]) == ("failed", "OSError: no space")
    assert cells[first.run_id]["loss"] == cells[first.run_id]["sigma"] == cells[second.run_id]["loss"] == ""
    assert cells[first.run_id]["config_hash"] == read_rows(path)[0]["config_hash"]
    runs = load_runs(tmp_path / "points.csv")
    assert len(runs) == 22 and set(runs.status) == {"ok"} and not runs.audit.warnings
    assert third.run_id in set(runs.run_id) and runs.sigma is not None


def test_a_table_without_rows_is_a_header(tmp_path):
    write_table(tmp_path / "points.csv", [])
    assert (tmp_path / "points.csv").read_text() == ",".join(COLUMNS) + "\n"
