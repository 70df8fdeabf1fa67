"""``prediction.md`` and the figures of the ladders, from their points and nothing else."""

from __future__ import annotations

import tomllib
import warnings
from pathlib import Path
from typing import Any

import scaling.datasets as datasets
from experiments.ladders import analysis, known_law
from experiments.x1.law import fit_or_refusal, load, summary, timeless
from experiments.x1.stages import ROOT, write_json
from experiments.x1.templating import environment
from reference_trainer.points import TIMES
from scaling.report.phrases import count, number, percent
from scaling.storage import write_atomically

HOME = ROOT / "experiments" / "X1-pretraining" / "scaling-law"
#: Where the points are shipped from, and under which name.
SHIPPED = ROOT / "data" / "runs"
SHIPPED_AS = {"known-law": "markov_ladder", "text": "text_ladder"}
#: Name -> title and what it is.
LADDERS = {
    "known-law": (
        "A source whose entropy is known",
        "A Markov source of second order (`experiments/ladders/known_law.py`). No model can go below its entropy, so "
        "the law's E has a right answer.",
    ),
    "text": (
        "Text",
        "181 MB of text from the packages of three registries, as bytes (`experiments/x1/large_corpus.py`); no byte "
        "comes twice, and every run is scored on the same block.",
    ),
}


def seq_len(name: str) -> int:
    """Return the tokens of a sequence in a ladder."""
    content = tomllib.loads((HOME / f"{name}-ladder.toml").read_text(encoding="utf-8"))
    return int(content["common"]["seq_len"])


def fit(name: str) -> list[Path]:
    """Write ``law.json`` and the figures of a ladder beside its ``points.csv``.

    Parameters
    ----------
    name : str
        A key of `LADDERS`.
    """
    from scaling.plots import save

    folder = HOME / name
    truth = known_law.truth(seq_len(name)) if name == "known-law" else None
    content, found = analysis.analyse(folder / "points.csv", truth)
    files = [write_json(folder / "law.json", content)]
    if found is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind in ("curves", "isoflop"):
                files += save(found, kind, folder / f"{kind}.png", dpi=110)
    return files


def ship(name: str) -> Path:
    """Write the points among the tables that ship, without what holds times; `make manifest` counts them.

    Parameters
    ----------
    name : str
        A key of `LADDERS`.
    """
    points = timeless((HOME / name / "points.csv").read_bytes(), TIMES).decode("utf-8")
    if name == "known-law":
        head, *rows = points.splitlines()
        floor = known_law.source().entropy
        points = "\n".join([f"{head},true_entropy", *(f"{row},{floor!r}" for row in rows)]) + "\n"
    write_atomically(SHIPPED / f"{SHIPPED_AS[name]}.csv", points)
    return SHIPPED / f"{SHIPPED_AS[name]}.csv"


def write() -> Path:
    """Write ``prediction.md`` from ``law.json`` of every ladder that has one."""
    published = load(datasets.builtin("hoffmann2022"))
    answers = [{"name": "234 points of Hoffmann et al. 2022 (ships)",
                **summary(fit_or_refusal(published, analysis.N_BOOT), published)}]  # fmt: skip
    ladders: list[dict[str, Any]] = []
    for name, (title, what) in LADDERS.items():
        if (HOME / name / "law.json").exists():
            content = analysis.read(HOME / name) | {
                "name": name, "title": title, "what": what, "seq_len": seq_len(name),
                "command": f"python -m experiments.ladders {name}",
            }  # fmt: skip
            ladders.append(content)
            answers.append(content | {"name": f"[{title.lower()}](#{title.lower().replace(' ', '-')})"})
    for answer in answers:
        outside = answer["decades_outside"]
        answer["decades"] = "–" if outside is None else number(outside, 3)
    templates = environment(Path(__file__).parent / "templates")
    text = templates.get_template("prediction.md.j2").render(
        answers=answers, ladders=ladders, count=count, number=number, percent=lambda x: percent(x, 3),
        interval=_interval,
    )  # fmt: skip
    write_atomically(HOME / "prediction.md", text)
    return HOME / "prediction.md"


def _interval(estimate: dict[str, Any], digits: int = 3) -> str:
    """Write an estimate; ends that JSON cannot hold stand in it as text."""
    if estimate["low"] is None:
        return number(estimate["value"], digits)
    value, low, high = (number(float(estimate[name]), digits) for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
