"""How often the loss of larger runs lies in the interval predicted from the smaller ones, on real tables.

    python -m experiments.benchmarks.rollout                     # the tables that ship or can be fetched
    python -m experiments.benchmarks.rollout --tables DIR        # and others in a folder: see rollout_tables.py
    python -m experiments.benchmarks.rollout --tables DIR --write

Each table is cut by compute at three places: the law is fitted to the runs below and asked for every run above. No
run above the cut is used in its prediction; the prior of that was chosen with these tables in view, which the tables
"left out" and "others" are to test. Scored beside the interval of a single run: the draws of the law, alone and with
the same noise of single runs, and two intervals of one constant width about the law, split-conformal on the runs
below: the residual quantile of the half of the runs that was not fitted, the half drawn at random (mean of four), or
the larger in compute.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from experiments.benchmarks import tables
from experiments.benchmarks.rollout_tables import other_tables, real_tables
from scaling import ChinchillaFit, RunTable, ScalingError, ScalingWarning, fit_chinchilla
from scaling.foresight import cuts_at, interval_score
from scaling.laws.base import Array, Mask
from scaling.laws.chinchilla import attach
from scaling.newton import Objective
from scaling.open_form.calibration import calibrate
from scaling.open_form.posterior import PUBLISHED, Prior
from scaling.open_form.single_run import TAILS, single_run
from scaling.solver import solve_global

SHARES = (0.4, 0.55, 0.7)
LEVEL = 0.95
METHODS = ("calibrated", "draws alone", "draws and noise", "constant, random", "constant, by compute")
#: What the constants of the prior are chosen from when a family of tables is left out.
GRID = tuple(
    Prior(rho=rho, power=power) for rho, power in product((0.03, 0.06, 0.1), (0.35, 0.45, 0.55, 0.7))
)


@dataclass(frozen=True)
class Score:
    """One cut of one table; ends of intervals are relative to the law, in log loss.

    Parameters
    ----------
    family, table : str
        Name of the table, and of those made of the same runs.
    n_fitted, n_scored : int
        Runs below and above the cut.
    verdict : str
        Of the fit below.
    farthest : float
        Decades from the cut to the largest run.
    error : array, shape (n_scored,)
        Log loss less its prediction.
    ends : dict of str to pair of array
        Ends of the interval of every method.
    middle : array, shape (n_scored,)
        Middle of the interval of a single run.
    fit : ChinchillaFit
        Fitted below.
    above : RunTable
        The runs above.
    """

    family: str
    table: str
    n_fitted: int
    n_scored: int
    verdict: str
    farthest: float
    error: Array
    ends: dict[str, tuple[Array, Array]]
    middle: Array
    fit: ChinchillaFit
    above: RunTable

    def covered(self, method: str) -> Array:
        """Tell which runs lie inside; nan where there is no interval."""
        low, high = self.ends[method]
        inside = np.asarray((low <= self.error) & (self.error <= high), dtype=float)
        return np.where(np.isnan(low), np.nan, inside)

    def score(self, method: str) -> Array:
        """Return the interval score of every run."""
        return interval_score(*self.ends[method], self.error, LEVEL)

    def under(self, prior: Prior) -> tuple[Array, Array]:
        """Return the ends under another prior."""
        law = np.log(self.fit.law.loss(self.above.params, self.above.tokens))
        low, _, high = (
            single_run(calibrate(self.fit, prior), self.above.params, self.above.tokens, LEVEL) - law
        )
        return low, high


def score(family: str, name: str, runs: RunTable, share: float, n_boot: int = 300) -> Score | None:
    """Fit the smaller runs and score the larger; None where they do not determine a law."""
    _, inside, beyond = cuts_at(runs, [share])[0]
    below, above = runs.select(inside), runs.select(beyond)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScalingWarning)
        try:
            fit = fit_chinchilla(below, n_boot=n_boot, level=LEVEL)
        except ScalingError:
            return None
        found = [fit.predict(float(n), float(d)) for n, d in zip(above.params, above.tokens, strict=True)]
        wide = [_conformal(below, fitted) for fitted in _halves(below)]
    law = np.log(fit.law.loss(above.params, above.tokens))
    ends = {
        method: (np.log([e.low for e in each]) - law, np.log([e.high for e in each]) - law)
        for method, each in (
            ("calibrated", [f.prediction for f in found]),
            ("draws alone", [f.mean for f in found]),
        )
    }
    ends["draws and noise"] = _with_noise(fit, *ends["draws alone"])
    for method, half in (
        ("constant, random", float(np.mean(wide[:-1]))),
        ("constant, by compute", wide[-1]),
    ):
        ends[method] = (np.full(len(above), -half), np.full(len(above), half))
    farthest = max(f.decades_outside for f in found)
    return Score(
        family, name, len(below), len(above), fit.verdict, farthest, np.log(above.loss) - law, ends,
        np.log([f.prediction.value for f in found]) - law, fit, above,
    )  # fmt: skip


def _with_noise(fit: ChinchillaFit, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the ends of an interval of the law widened by the same scatter as that of a single run."""
    from scipy.special import stdtrit

    scatter = float(stdtrit(TAILS, (1 + LEVEL) / 2)) * fit.calibration.noise
    middle, half = (low + high) / 2, np.hypot((high - low) / 2, scatter)
    return middle - half, middle + half


def _halves(runs: RunTable) -> list[Mask]:
    """Return which rows are fitted: four random halves, then the 60% of least compute."""
    rng, n = np.random.default_rng(0), len(runs)
    halves = [np.isin(np.arange(n), rng.permutation(n)[: n // 2]) for _ in range(4)]
    return [*halves, runs.compute <= np.quantile(runs.compute, 0.6)]


def _conformal(runs: RunTable, fitted: Mask) -> float:
    """Return the split-conformal half-width; nan where no rows are left to calibrate on."""
    if fitted.all():
        return float("nan")
    half, rest = runs.select(fitted), runs.select(~fitted)
    log_loss, one = np.log(half.loss), np.ones(len(half))
    attached = attach(half.params, half.tokens, log_loss)
    law = attached.law(solve_global(Objective(attached.form, log_loss, one, one, 1e-3))[0])
    size = np.sort(np.abs(np.log(rest.loss) - np.log(law.loss(rest.params, rest.tokens))))
    return float(size[min(int(np.ceil(LEVEL * (size.size + 1))), size.size) - 1])


def _coverage(scores: list[Score], method: str) -> float:
    return float(np.nanmean(np.concatenate([s.covered(method) for s in scores])))


def _points(scores: list[Score], method: str) -> float:
    return 100 * float(np.nanmean(np.concatenate([s.score(method) for s in scores])))


def _by_table(scores: list[Score]) -> dict[str, list[Score]]:
    return {name: [s for s in scores if s.table == name] for name in dict.fromkeys(s.table for s in scores)}


def table(scores: list[Score]) -> str:
    """Return coverage and 100 times the interval score per table, over its cuts, and what is missed."""
    rows, missed, better = [], [], []
    for name, own in _by_table(scores).items():
        cover = {m: _coverage(own, m) for m in METHODS}
        points = {m: _points(own, m) for m in METHODS}
        if cover["calibrated"] < 0.9:
            missed.append(f"{name} ({100 * cover['calibrated']:.1f}%)")
        worse = [m for m in METHODS[1:] if not points["calibrated"] < points[m]]
        if worse:
            better.append(f"{name} ({', '.join(worse)})")
        fitted = " / ".join(str(s.n_fitted) for s in own)
        cells = [f"{100 * cover[m]:.0f}%, {points[m]:.1f}" for m in METHODS]
        rows.append([name, fitted, f"{max(s.farthest for s in own):.1f}", f"**{cells[0]}**", *cells[1:]])
    total = []
    for m in METHODS:
        each = [np.log(_points(own, m)) for own in _by_table(scores).values()]
        total.append(f"{100 * _coverage(scores, m):.0f}%, {np.exp(np.mean(each)):.1f}")
    rows.append(["all runs; geometric mean of scores", "", "", f"**{total[0]}**", *total[1:]])
    head = ["table", "fitted", "decades", *METHODS]
    said = (
        f"Coverage of a nominal 95%, and mean interval score x 100, over {len(scores)} cuts. Tables covered less than "
        f"90%: {', '.join(missed) or 'none'}. Tables where another interval scores better: "
        f"{'; '.join(better) or 'none'}."
    )
    return f"{tables.markdown(head, rows)}\n\n{said}"


def cuts(scores: list[Score]) -> str:
    """Return every cut: coverage, and width at the median."""
    rows = [
        [
            s.table,
            s.n_fitted,
            s.n_scored,
            s.verdict,
            f"{s.farthest:.1f}",
            f"{float(np.median(np.asarray(s.fit.calibration.draws.k))):.2f}",
            f"{s.fit.calibration.shift:+.1f}, x {s.fit.calibration.inflation:.1f} ({len(s.fit.calibration.rollouts)})",
            f"**{100 * s.covered('calibrated').mean():.0f}%**",
            f"{100 * s.covered('draws alone').mean():.0f}%",
            f"{100 * float(np.median(s.ends['calibrated'][1] - s.ends['calibrated'][0])):.1f}%",
            f"{100 * float(np.median(s.error)):+.1f}%",
            f"{100 * float(np.median(s.error - s.middle)):+.1f}%",
        ]
        for s in scores
    ]
    head = [
        "table",
        "fitted",
        "scored",
        "verdict",
        "decades",
        "k",
        "moved, widened (rollouts)",
        "covered",
        "draws alone",
    ]
    return tables.markdown([*head, "width", "off the law", "off the middle"], rows)


def left_out(scores: list[Score]) -> str:
    """Choose the prior without each family of tables, and score it on that family.

    The choice: least mean log interval score among those that cover 95% of the other families' runs.
    """
    by_prior = []
    for prior in GRID:
        ends = [s.under(prior) for s in scores]
        inside = [
            np.mean((low <= s.error) & (s.error <= high)) for s, (low, high) in zip(scores, ends, strict=True)
        ]
        points = [np.mean(interval_score(*e, s.error, LEVEL)) for s, e in zip(scores, ends, strict=True)]
        by_prior.append((np.array(inside), np.log(points)))
    families = np.array([s.family for s in scores])
    rows = []
    for family in dict.fromkeys(families):
        others = [families == f for f in dict.fromkeys(families) if f != family]
        cover = [np.mean([c[o].mean() for o in others]) for c, _ in by_prior]
        points = [np.mean([p[o].mean() for o in others]) for _, p in by_prior]
        allowed = np.flatnonzero(np.array(cover) >= LEVEL)
        best = int(allowed[np.argmin(np.array(points)[allowed])])
        chosen, own = GRID[best], families == family
        now = GRID.index(PUBLISHED)
        rows.append(
            [
                family,
                f"{chosen.rho:g}, {chosen.power:g}",
                f"{100 * by_prior[best][0][own].mean():.0f}%",
                f"{100 * np.exp(by_prior[best][1][own].mean()):.1f}",
                f"{100 * by_prior[now][0][own].mean():.0f}%",
                f"{100 * np.exp(by_prior[now][1][own].mean()):.1f}",
            ]
        )
    head = ["left out", "chosen without it: rho, k", "covers it", "score", "as shipped", "score"]
    return tables.markdown(head, rows)


def _scores(named: Iterable[tuple[str, str, RunTable]]) -> list[Score]:
    """Score every cut of every table at which the runs below determine a law."""
    found = [score(family, name, runs, share) for family, name, runs in named for share in SHARES]
    return [s for s in found if s is not None]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, help="folder with further public tables")
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    args = parser.parse_args()
    scores = _scores(real_tables(args.tables))
    parts = {"rollout": table(scores), "rollout_left_out": left_out(scores), "rollout_cuts": cuts(scores)}
    if args.tables is not None:
        parts["rollout_others"] = table(_scores(other_tables(args.tables)))
    for name, text in parts.items():
        print(text, end="\n\n")
        if args.write:
            tables.write(name, text)


if __name__ == "__main__":
    main()
