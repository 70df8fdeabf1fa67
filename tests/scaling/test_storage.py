"""Saved fits come back to the same bits, are whole or not there, and are valid JSON."""

from __future__ import annotations

import json
import math
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scaling import ChinchillaFit, DataError, RunTable, datasets, fit_chinchilla
from scaling.storage import write_atomically
from scaling.stored_parts import runs_from_dict, runs_to_dict
from tests.scaling.fit_worlds import crossed


@cache
def fit() -> ChinchillaFit:
    n, d, loss = crossed(noise=0.003)
    runs = RunTable.from_arrays(
        params=n,
        tokens=d,
        loss=loss,
        sigma=0.01 * loss,
        run_id=[f"run {i // 2}" for i in range(24)],
        seed=[None, *range(23)],
        covariates={"lr": np.where(np.arange(24) % 5 == 0, np.nan, 3e-4)},
        loss_kind="validation",
        params_kind="total",
    )
    return fit_chinchilla(runs, n_boot=60, weights=np.arange(24) % 3)


def same(one: object, other: object) -> bool:
    """Equal to the bit, nan being equal to nan."""
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and one.tolist().__repr__() == (other.tolist().__repr__())
        )
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return one == other


def test_every_field_comes_back() -> None:
    back = ChinchillaFit.from_json(fit().to_json())
    assert back.law == fit().law and back.certificate == fit().certificate
    assert back.settings == fit().settings and back.failures == fit().failures
    for name in ("objective", "status", "n_failed", "verdict", "weights", "scale", "cluster"):
        assert same(getattr(back, name), getattr(fit(), name)), name
    for name in ("E", "A", "B", "alpha", "beta"):
        assert same(getattr(back.draws, name), getattr(fit().draws, name)), name
    for name in ("condition_number", "correlation", "tokens_per_param", "decades", "remedy"):
        assert same(getattr(back.diagnostics, name), getattr(fit().diagnostics, name)), name
    assert back.diagnostics.findings == fit().diagnostics.findings
    ours, theirs = fit().diagnostics.influence, back.diagnostics.influence
    assert ours is not None and theirs is not None
    for name in vars(ours):
        assert same(getattr(ours, name), getattr(theirs, name)), name
    assert back.to_json() == fit().to_json()


def test_runs_come_back_with_their_audit() -> None:
    runs = fit().runs
    back = runs_from_dict(json.loads(json.dumps(runs_to_dict(runs))))
    for name in ("params", "tokens", "loss", "sigma", "run_id", "seed", "row"):
        assert same(getattr(back, name), getattr(runs, name)), name
    assert same(back.covariates["lr"], runs.covariates["lr"])
    assert (back.loss_kind, back.params_kind, back.source) == ("validation", "total", "arrays")
    assert back.audit.dropped == runs.audit.dropped and len(back.audit.dropped) == 8


def test_answers_are_the_same_afterwards() -> None:
    back = ChinchillaFit.from_json(fit().to_json())
    assert back.tokens_at(1e9) == fit().tokens_at(1e9)
    assert back.predict(1e9, 1e10) == fit().predict(1e9, 1e10)
    assert back.summary() == fit().summary()
    assert back._repr_html_() == fit()._repr_html_()


@pytest.mark.filterwarnings("ignore::scaling.errors.ScalingWarning")
def test_json_is_json_even_where_numbers_are_none() -> None:
    """nan and infinities are no JSON: other readers must not stumble, ours must get them back."""

    def no_constant(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    n, d, _ = crossed()
    wild = fit_chinchilla(params=n, tokens=d, loss=np.random.default_rng(1).uniform(2, 3, 24), n_boot=40)
    for one in (wild, fit(), fit_chinchilla(datasets.builtin("cpu_sweep"), n_boot=40)):
        text = one.to_json()
        json.loads(text, parse_constant=no_constant)
        assert ChinchillaFit.from_json(text).to_json() == text


def test_files_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    fit().save(path)
    assert ChinchillaFit.load(path).law == fit().law
    assert [p.name for p in tmp_path.iterdir()] == ["fit.json"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fit.json"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["fit.json"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        fit().save(tmp_path / "nowhere" / "fit.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a saved fit: Expecting value"),
        ("{}", "format None, expected 'isoflop-fit-1'"),
        ("[1]", "format 'list'"),
        ("null", "format 'NoneType'"),
        ('{"format": "isoflop-fit-0"}', "format 'isoflop-fit-0'"),
        ('{"format": "isoflop-fit-1"}', "runs is missing"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ChinchillaFit.from_json(text)


@pytest.mark.parametrize(
    "part", ["law", "settings", "draws", "runs", "certificate", "diagnostics", "weights"]
)
@pytest.mark.parametrize("put", [None, {}, "x", 3])
def test_damaged_fits_are_refused(part: str, put: object) -> None:
    data = json.loads(fit().to_json())
    data[part] = put
    with pytest.raises(DataError):
        ChinchillaFit.from_json(json.dumps(data))
    del data[part]
    with pytest.raises(DataError):
        ChinchillaFit.from_json(json.dumps(data))


def test_a_fit_cut_short_is_refused() -> None:
    with pytest.raises(DataError, match="not a saved fit"):
        ChinchillaFit.from_json(fit().to_json()[:-40])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("law", "E"), 1.0, "changed after the fit"),
        (("objective",), 1.0, "changed after the fit"),
        (("draws", "E"), [1.0], "one value of each coefficient"),
        (("settings", "level"), 95, "level must"),
        (("settings", "interval"), "foo", "interval must be one of"),
        (("settings", "delta"), 1e-2, "changed after the fit"),
        (("law", "E"), "high", "number"),
    ],
)
def test_an_edited_fit_is_not_taken_for_a_fit(path: tuple[str, ...], value: object, message: str) -> None:
    fit = fit_chinchilla(datasets.builtin("hoffmann2022"), n_boot=50)
    data = json.loads(fit.to_json())
    part = data
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(DataError, match=message):
        ChinchillaFit.from_json(json.dumps(data))
