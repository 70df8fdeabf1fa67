"""The real tables that predictions of larger runs are scored on.

Those that ship and those that `scaling.datasets` fetches are always there. A folder adds four more, under the names
of these files; each needs the columns params, tokens and loss:

- ``gemstones_hot.csv``: mcleish7/gemstone-scaling-laws (MIT), with run_id: many checkpoints of every run;
- ``olmo_ladder_c4_final.csv``: allenai/OLMo-ladder (Apache-2.0);
- ``gadre_overtraining.csv``: mlfoundations/scaling (MIT), with train_set: three training sets, one table each;
- ``datablations_repeat.csv``: huggingface/datablations (Apache-2.0), with epochs: runs that see their data once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scaling.datasets as datasets
from scaling import RunTable, load_runs

#: Names in the table of isoflop runs, shortened, and the family of tables of the same runs.
_FAMILIES = {
    "epochai_chinchilla": ("Hoffmann", "Hoffmann, IsoFLOP points (Epoch)"),
    "ml_scalefit": ("Hoffmann", "Hoffmann, IsoFLOP points (ml-scalefit)"),
    "llama_3__exp_loss": ("Llama 3", "Llama 3"),
    "llama_3__raw_loss": ("Llama 3", "Llama 3, normalised loss"),
    "marin_202603__comma": ("Marin", "Marin, Comma"),
    "marin_202603__dclm": ("Marin", "Marin, DCLM"),
    "marin_202603__nemotron": ("Marin", "Marin, Nemotron"),
    "misfitting": ("Misfitting", "Misfitting, FineWeb"),
}


def real_tables(folder: Path | None) -> Iterator[tuple[str, str, RunTable]]:
    """Yield (family, name, runs) of every table at hand.

    Raises
    ------
    FileNotFoundError
        `folder` lacks one of the files.
    """
    yield "Hoffmann", "Hoffmann, 234 points", load_runs(datasets.builtin("hoffmann2022"))
    yield "Hoffmann", "Hoffmann, 240 points", load_runs(datasets.chinchilla_240())
    import pandas as pd

    frame = pd.read_csv(datasets.fetch("open_athena_isoflops"))
    for experiment in dict.fromkeys(frame["experiment"]):
        family, name = next(known for start, known in _FAMILIES.items() if experiment.startswith(start))
        part = frame[frame["experiment"] == experiment]
        yield family, name, _runs(part[~part["outlier"]])
        yield family, f"{name}, flagged rows too", _runs(part)
    yield "small CPU runs", "CPU sweep", load_runs(datasets.builtin("cpu_sweep"))
    yield "small CPU runs", "CPU, Markov source", load_runs(datasets.builtin("cpu_markov"))
    yield "small CPU runs", "CPU, text ladder", load_runs(datasets.builtin("text_ladder"))
    yield "small CPU runs", "CPU, Markov ladder", load_runs(datasets.builtin("markov_ladder"))
    if folder is None:
        return
    gemstones = pd.read_csv(folder / "gemstones_hot.csv")
    yield "Gemstones", "Gemstones, checkpoints", _runs(gemstones, run_id=list(gemstones["run_id"]))
    yield "OLMo ladder", "OLMo ladder", _runs(pd.read_csv(folder / "olmo_ladder_c4_final.csv"))
    gadre = pd.read_csv(folder / "gadre_overtraining.csv")
    for name in dict.fromkeys(gadre["train_set"]):
        yield "Gadre", f"Gadre, {name}", _runs(gadre[gadre["train_set"] == name])
    repeats = pd.read_csv(folder / "datablations_repeat.csv")
    yield "Datablations", "Datablations, one epoch", _runs(repeats[repeats["epochs"] <= 1.01])


def other_tables(folder: Path) -> Iterator[tuple[str, str, RunTable]]:
    """Yield tables on which no constant of the calibration was looked at: other losses of Gadre's runs, and repeats.

    Raises
    ------
    FileNotFoundError
        `folder` lacks one of the files: those above, or ``datablations_repeat_182_fitset.csv`` of the same source.
    """
    import pandas as pd

    gadre = pd.read_csv(folder / "gadre_overtraining.csv")
    losses = [c for c in gadre.columns if c.startswith("loss_") and c != "loss_c4_val"]
    for name in dict.fromkeys(gadre["train_set"]):
        part = gadre[gadre["train_set"] == name]
        for column in losses:
            yield "Gadre", f"Gadre, {name}, {column[5:]}", _runs(part.assign(loss=part[column]))
    for file, name in (("repeat", "all"), ("repeat_182_fitset", "the authors' choice")):
        repeats = pd.read_csv(folder / f"datablations_{file}.csv")
        yield "Datablations", f"Datablations, four epochs, {name}", _runs(repeats[repeats["epochs"] <= 4.01])


def _runs(frame: Any, **columns: Any) -> RunTable:
    return RunTable.from_arrays(params=frame["params"], tokens=frame["tokens"], loss=frame["loss"], **columns)
