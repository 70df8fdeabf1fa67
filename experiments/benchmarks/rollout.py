"""How often the loss of larger runs lies in the interval predicted from the smaller ones, on real tables.

    python -m experiments.benchmarks.rollout            # 1 minute of one core
    python -m experiments.benchmarks.rollout --write    # the same, and put the table into README.md

Each table is cut by compute: the law is fitted to the runs below and asked for every run above. No run above
the cut is used in any way.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments.benchmarks import tables
from scaling import RunTable, ScalingError, ScalingWarning, datasets, fit_chinchilla, load_runs

SHARES = (0.4, 0.55, 0.7)
LEVEL = 0.95


@dataclass(frozen=True)
class Score:
    """One cut of one table.

    Parameters
    ----------
    table : str
        Name of the table.
    n_fitted, n_scored : int
        Runs below and above the cut.
    verdict : str
        Of the fit below.
    farthest : float
        Decades from the cut to the largest run.
    law, single : float
        Shares of the runs above inside the interval of the law, and of a single run.
    width : float
        Median ratio of the ends of the latter.
    """

    table: str
    n_fitted: int
    n_scored: int
    verdict: str
    farthest: float
    law: float
    single: float
    width: float


def real_tables() -> Iterator[tuple[str, RunTable]]:
    """Yield the tables at hand: those that ship, and the public ones where they can be had."""
    yield "Hoffmann et al., 234 points", load_runs(datasets.builtin("hoffmann2022"))
    yield "Hoffmann et al., 240 points", load_runs(datasets.chinchilla_240())
    path = datasets.fetch("open_athena_isoflops")
    import pandas as pd

    frame = pd.read_csv(path)
    for name in dict.fromkeys(frame["experiment"]):
        part = frame[(frame["experiment"] == name) & ~frame["outlier"]]
        yield name, RunTable.from_arrays(params=part["params"], tokens=part["tokens"], loss=part["loss"])


def score(name: str, runs: RunTable, share: float, n_boot: int = 300) -> Score | None:
    """Fit the smaller runs and score the larger; None where they do not determine a law."""
    cut = np.quantile(runs.compute, share)
    below, above = runs.select(runs.compute <= cut), runs.select(runs.compute > cut)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScalingWarning)
        try:
            fit = fit_chinchilla(below, n_boot=n_boot, level=LEVEL)
        except ScalingError:
            return None
        found = [fit.predict(float(n), float(d)) for n, d in zip(above.params, above.tokens, strict=True)]
    law, single = (
        float(np.mean([e.low <= loss <= e.high for e, loss in zip(ends, above.loss, strict=True)]))
        for ends in ([f.mean for f in found], [f.prediction for f in found])
    )
    width = float(np.median([f.prediction.high / f.prediction.low for f in found]))
    farthest = max(f.decades_outside for f in found)
    return Score(name, len(below), len(above), fit.verdict, farthest, law, single, width)


def table(scores: list[Score]) -> str:
    """Return scores as a table with their mean below."""
    head = ["table", "fitted", "scored", "verdict", "decades", "law covers", "single run covers", "high/low"]
    rows = [
        [
            s.table,
            s.n_fitted,
            s.n_scored,
            s.verdict,
            f"{s.farthest:.1f}",
            f"{100 * s.law:.0f}%",
            f"**{100 * s.single:.0f}%**",
            f"{s.width:.3f}",
        ]
        for s in scores
    ]
    law, single = (100 * float(np.mean([getattr(s, k) for s in scores])) for k in ("law", "single"))
    rows.append(["mean over cuts", "", "", "", "", f"{law:.0f}%", f"**{single:.0f}%**", ""])
    return tables.markdown(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    args = parser.parse_args()
    scores = [
        found
        for name, runs in real_tables()
        for share in SHARES
        if (found := score(name, runs, share)) is not None
    ]
    text = table(scores)
    print(text)
    if args.write:
        tables.write("rollout", text)


if __name__ == "__main__":
    main()
