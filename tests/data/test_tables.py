"""The tables that ship inside are what their manifest says, and every row is plausible."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

DATA = Path(__file__).parents[2] / "data"
MANIFESTS = sorted(DATA.glob("*/manifest.json"))
ENTRIES = {
    (manifest.parent, name): entry
    for manifest in MANIFESTS
    for name, entry in json.loads(manifest.read_text(encoding="utf-8")).items()
    if "url" not in entry
}
RUNS = DATA / "runs"


def _read(file: str) -> pd.DataFrame:
    return pd.read_csv(RUNS / file)


def test_every_table_has_an_entry():
    listed = {folder / entry["file"] for (folder, _), entry in ENTRIES.items()}
    assert listed == {*DATA.rglob("*.csv"), *DATA.rglob("*.gz")}


@pytest.mark.parametrize(("folder", "name"), ENTRIES, ids=lambda x: str(getattr(x, "name", x)))
def test_manifest_holds(folder, name):
    entry = ENTRIES[folder, name]
    raw = (folder / entry["file"]).read_bytes()
    assert hashlib.sha256(raw).hexdigest() == entry["sha256"], "run `make manifest` after changing a table"
    raw = gzip.decompress(raw) if entry["file"].endswith(".gz") else raw
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in raw
    lines = raw.decode("utf-8").split("\n")[:-1]
    rows = list(map(json.loads, lines)) if ".jsonl" in entry["file"] else list(csv.DictReader(lines))
    assert len(rows) == entry["rows"]
    assert all(None not in row and None not in row.values() for row in rows), "a row of another width"
    for key in ("source", "licence", "date", "note"):
        assert entry[key]


@pytest.mark.parametrize("file", ["hoffmann2022_points.csv", "cpu_sweep.csv", "cpu_markov.csv"])
def test_rows_of_run_tables(file):
    table = _read(file)
    for column in ("source", "licence", "date", "loss_unit", "run_id"):
        assert table[column].notna().all()
    assert table["run_id"].is_unique
    assert pd.to_datetime(table["date"]).notna().all()
    numbers = table.select_dtypes("number").drop(columns="seed", errors="ignore")
    assert np.isfinite(numbers.to_numpy()).all()
    assert (numbers > 0).all().all()
    assert table["loss_unit"].nunique() == 1
    assert table["loss"].between(1, np.log(256)).all(), "below chance, above any entropy seen"


def test_hoffmann_points():
    table = _read("hoffmann2022_points.csv")
    flops = 6.0 * table["params_total"] * table["tokens"]
    assert flops.between(1e18, 2e22).all()
    assert (table["params_total"] < table["tokens"]).all()
    assert table["params_total"].between(5e7, 1.7e10).all()
    assert table["loss"].between(2.0, 3.5).all()
    # In order of the (unrounded) compute, as in the table it was taken from.
    assert (flops.to_numpy()[1:] > flops.to_numpy()[:-1] * (1 - 2e-3)).all()
    # Two points of the figure that four digits make alike (data/README.md), and no other pair.
    alike = table[table.duplicated(["params_total", "tokens", "loss"], keep=False)]
    assert list(alike["run_id"]) == ["hoffmann066", "hoffmann067"]


def _flops(table: pd.DataFrame, vocabulary: int, context: int) -> pd.Series:
    """6·(matmul weights incl. tied head) + 6·L·T·d per token; (2L + 1) RMSNorms of d are no matmul."""
    layers, width = table["layers"], table["width"]
    matmul = table["params_non_embedding"] - (2 * layers + 1) * width + vocabulary * width
    return 6 * (matmul + layers * context * width) * table["tokens"]


def _falls_with_tokens(table: pd.DataFrame, by: list[str]) -> bool:
    runs = table.sort_values("tokens").groupby(by)["loss"]
    return all(group.is_monotonic_decreasing for _, group in runs)


def test_cpu_sweep():
    table = _read("cpu_sweep.csv")
    assert (table["flops_exact"] == _flops(table, vocabulary=256, context=256)).all()
    assert (table["params_total"] == table["params_non_embedding"] + 256 * table["width"]).all()
    assert table["tokens"].between(0.24e6, 16e6).all()
    # "seed" rows of one seed are separate data windows; within one configuration more tokens always help.
    assert _falls_with_tokens(table, ["params_total", "batch_tokens", "lr", "seed"])
    assert sorted(table["batch_tokens"].unique()) == [512, 2048], "the two regimes the README warns of"


def test_run_to_run_noise_of_the_sweep():
    """1.5 to 2.6% of the loss over four seeds, at each of three token counts."""
    table = _read("cpu_sweep.csv")
    same = table[(table["params_total"] == 67824) & (table["lr"] == 0.004) & (table["batch_tokens"] == 512)]
    groups = same.groupby("tokens")["loss"]
    spread = (groups.std() / groups.mean())[groups.count() == 4]
    assert len(spread) == 3
    assert spread.between(0.010, 0.030).all()


def test_cpu_markov():
    table = _read("cpu_markov.csv")
    assert set(table["true_entropy"]) == {2.5131}
    assert (table["loss"] > table["true_entropy"]).all(), "no model beats the entropy of its source"
    assert (table["loss"] < np.log(64)).all()
    assert (table["flops_exact"] == _flops(table, vocabulary=64, context=128)).all()
    assert _falls_with_tokens(table, ["params_non_embedding"])


def test_published_fits():
    table = _read("published_fits.csv")
    assert table["name"].is_unique
    assert table[["source", "verified", "form", "year"]].notna().all().all()
    assert set(table["verified"]) <= {"source", "rederived", "quoted"}
    quoted = table[table["verified"] == "quoted"]
    assert quoted["provenance"].notna().all(), "a row not read in its source says where it was read"
    numeric = ["E", "A", "B", "alpha", "beta", "N_c", "D_c", "a", "b"]
    assert all(pd.api.types.is_float_dtype(table[column]) for column in numeric)
    assert (table[numeric].stack().dropna() > 0).all()

    needed = {
        "chinchilla": ["E", "A", "B", "alpha", "beta"],
        "data_constrained": ["E", "A", "B", "alpha", "beta"],
        "kaplan": ["alpha", "beta", "N_c", "D_c"],
        "kaplan_n": ["alpha", "N_c"],
        "kaplan_d": ["beta", "D_c"],
        "compute": ["E", "A", "alpha"],
        "exponents": ["alpha", "beta"],
        "allocation": ["a", "b"],
    }
    for form, rows in table.groupby("form"):
        assert rows[needed[form]].notna().all().all(), form


def test_published_exponents_agree_with_their_law():
    """A = beta/(alpha + beta) ties three columns; only the rounded Hoffmann row breaks it."""
    table = _read("published_fits.csv").dropna(subset=["alpha", "beta", "a"])
    off = (table["beta"] / (table["alpha"] + table["beta"]) - table["a"]).abs()
    assert list(table["name"][off > 6e-4]) == ["Hoffmann Approach 3 (as printed)"]
    assert len(table) > 15


def test_rounding_a_law_moves_its_answer():
    """Printed (0.34, 0.28) against unrounded coefficients: 44.0 or 29.1 tokens per parameter at 1e9."""
    table = _read("published_fits.csv").set_index("name")

    def tokens_per_param(name: str, params: float) -> float:
        law = table.loc[name]
        # D* solves alpha A / N^alpha = beta B / D^beta.
        ratio = law["beta"] * law["B"] / (law["alpha"] * law["A"])
        return float((ratio * params ** law["alpha"]) ** (1 / law["beta"]) / params)

    assert tokens_per_param("Hoffmann Approach 3 (as printed)", 1e9) == pytest.approx(44.0, abs=0.1)
    assert tokens_per_param("Hoffmann Approach 3 (unrounded)", 1e9) == pytest.approx(29.1, abs=0.1)
    assert tokens_per_param("Besiroglu replication (best of grid)", 1e9) == pytest.approx(22.6, abs=0.1)
