"""Saved fits: what a file holds, which part of it is at fault, and what is no file at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scaling import ChinchillaFit, DataError, fit_chinchilla
from scaling.law_fit import LawFit
from scaling.law_names import fit_law
from scaling.storage import write_atomically
from tests.scaling.fit_worlds import table
from tests.scaling.test_cli import scaling


@cache
def law_text() -> str:
    return fit_law("overtraining", table(noise=0.003), n_boot=8, fixed={"E": 1.8}).to_json()


@cache
def main_text() -> str:
    return fit_chinchilla(table(noise=0.003), n_boot=40).to_json()


def edited(path: tuple[str | int, ...], value: Any, text: str = "") -> str:
    """The saved law with one value changed; `...` leaves it out."""
    data = json.loads(text or law_text())
    at = data
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(data)


def test_a_fit_of_another_law_says_which_and_how_to_read_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"fit of the law 'overtraining', not of the main one .*LawFit\.load"):
        ChinchillaFit.from_json(law_text())
    with pytest.raises(DataError, match=r"fit of the main law \(chinchilla\): .*ChinchillaFit\.load"):
        LawFit.from_json(main_text())
    path = tmp_path / "law.json"
    path.write_text(law_text())
    for command in (("predict", path, "--params", "1B"), ("report", path, "--out", tmp_path / "r.html")):
        done = scaling(*command)
        said = done.stderr.replace("\n", " ")
        assert done.exit_code == 2 and "law.json: this is a saved fit of the law 'overtraining'" in said


@pytest.mark.parametrize("read", [ChinchillaFit.from_json, LawFit.from_json])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": "isoflop-fit-law-9", "name": "x"}', "another version: format 'isoflop-fit-law-9'"),
        ('{"format": "isoflop-fit-0"}', "another version: format 'isoflop-fit-0'"),
        ("[]", "format 'list'"),
        ('{"format": 3}', "not a saved fit: format 3"),
        ("[" * 100_000, "nested too deeply|Expecting"),
        (None, "a saved fit is a text, got NoneType"),
    ],
)
def test_what_is_no_fit_of_this_version(read: Callable[[Any], Any], text: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(text)


@pytest.mark.parametrize("name", sorted(json.loads(law_text())))
def test_every_part_of_a_saved_law_is_missed_by_name(name: str) -> None:
    with pytest.raises(DataError) as caught:
        LawFit.from_json(edited((name,), ...))
    assert name in str(caught.value) and caught.value.column == name
    for value in (None, {}, "x", -3.5, [None], {"float": "nan"}):
        try:
            LawFit.from_json(edited((name,), value))
        except DataError as error:
            assert name in str(error) or "objective" in str(error)
        else:  # what may be empty, or not known
            assert (name, value) in [("fixed", {}), ("condition_number", {"float": "nan"})] or (
                name == "condition_number" and value == -3.5
            )


@pytest.mark.parametrize(
    ("path", "value", "message", "column"),
    [
        (("law", "a"), ..., "law.a is missing", "law.a"),
        (("law", "a"), "200", r'law.a: "200" is no number', "law.a"),
        (("law", "a"), {"float": "nan"}, "law.a: NaN is no number", "law.a"),
        (("law", "z"), 1.0, "law has an unknown part 'z'", "law"),
        (("draws", "b"), [1.0], r"draws.b has 1 values and draws.E 8", "draws.b"),
        (("draws", "b", 3), {"float": "nan"}, "draws.b: its value 3 is NaN", "draws.b"),
        (("draws", "b", 3), None, "draws.b: its value 3 is null", "draws.b"),
        (("runs", "loss"), [2.0], "runs.*(same length|1 value|length)", "runs"),
        (("runs", "loss", 2), "low", r'runs.loss: its value 2 is "low"', "runs.loss"),
        (("runs", "loss_unit"), ..., "runs.loss_unit is missing", "runs.loss_unit"),
        (("runs", "audit"), 3, "runs.audit is damaged", "runs.audit"),
        (
            ("certificate", "n_starts"),
            -1,
            "certificate.n_starts: -1 is no whole number",
            "certificate.n_starts",
        ),
        (("certificate", "mood"), 1, "certificate has an unknown part 'mood'", "certificate"),
        (("findings",), [{"code": 3}], r"findings\[0\].code: 3 is no text", "findings[0].code"),
        (("level",), 95, "level must be a number between 0 and 1", "level"),
        (("cluster", 0), 0.5, "cluster: its values must be whole", "cluster"),
        (("cluster",), [0, 1], "cluster: it has 2 values for 24 runs", "cluster"),
        (("fixed",), {"E": 1.7}, r"fixed: E is held at 1.7, and the law has 1.8", "fixed"),
        (("fixed",), {"k": 1.0}, "fixed: 'k' is none of E, a, b, eta", "fixed"),
        (("variables",), ["params"], "variables: .* is not what the law 'overtraining' takes", "variables"),
        (("name",), "coupled", "law has an unknown part 'a'", "law"),
        (("name",), "farseer", "no law is called 'farseer'", "name"),
        (("name",), "chinchilla", "name: fits of the law 'chinchilla' are saved in another format", "name"),
        (("law", "a"), 1.0, "changed after the fit", "objective"),
        (("surprise",), 1, "unknown part 'surprise'", "the fit"),
    ],
)
def test_an_edit_by_hand_is_told_by_file_and_place(
    path: tuple[str | int, ...], value: Any, message: str, column: str, tmp_path: Path
) -> None:
    file = tmp_path / "fit.json"
    file.write_text(edited(path, value))
    with pytest.raises(DataError, match=message) as caught:
        LawFit.load(file)
    assert str(caught.value).startswith(f"{file}: ") and caught.value.source == str(file)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("draws", "E", 0), {"float": "nan"}, "draws.E: its value 0 is NaN"),
        (("diagnostics", "model"), [{"code": "x"}], r"diagnostics.model\[0\].severity is missing"),
        (("settings", "seed"), "x", "settings.seed: .* is no whole number"),
        (("settings", "n_boot"), ..., "settings.n_boot is missing"),
        (("weights",), [1.0], "weights: it must hold one number for each of 24 runs"),
    ],
)
def test_so_is_one_of_the_main_law(path: tuple[str | int, ...], value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ChinchillaFit.from_json(edited(path, value, main_text()))


def test_a_file_cut_short_is_called_that_by_every_reader(tmp_path: Path) -> None:
    for name, text in (("law", law_text()), ("main", main_text())):
        path = tmp_path / f"{name}.json"
        for kept in (0.2, 0.6, 0.99):
            path.write_text(text[: int(kept * len(text))])
            with pytest.raises(DataError, match=rf"{name}.json: not a saved fit: .*cut short"):
                LawFit.load(path)
        done = scaling("fit", path)
        assert done.exit_code == 2 and "not a saved fit" in done.stderr


@pytest.mark.parametrize("path", [None, 3, b"fit.json", "", ["fit.json"]])
def test_a_path_that_is_none(path: Any) -> None:
    fit = LawFit.from_json(law_text())
    for call in (fit.save, LawFit.load, lambda p: write_atomically(p, "text")):
        with pytest.raises(DataError, match="name a file to save to or load from, got"):
            call(path)


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    fit = LawFit.from_json(law_text())
    with pytest.raises(DataError, match="is a folder: name a file in it"):
        LawFit.load(tmp_path)
    with pytest.raises(DataError, match=r"cannot read .*missing.json: No such file"):
        LawFit.load(tmp_path / "missing.json")
    with pytest.raises(DataError, match=r"cannot read .*null"):
        LawFit.load("a\0b")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"bytes\.json is no text"):
        LawFit.load(tmp_path / "bytes.json")
    for target in (tmp_path, tmp_path / "no" / "fit.json", tmp_path / "bytes.json" / "fit.json"):
        with pytest.raises(OSError) as caught:
            fit.save(target)
        assert caught.value.filename == str(target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bytes.json"]
    fit.save(str(tmp_path / "fit.json"))
    assert np.array_equal(LawFit.load(str(tmp_path / "fit.json")).draws.eta, fit.draws.eta)
