"""How often intervals of `fit_chinchilla` cover a truth that is known.

    python -m experiments.benchmarks.coverage                    # all studies, about 40 minutes of one core
    python -m experiments.benchmarks.coverage --jobs 2 --write   # on two, and put the table into README.md
    python -m experiments.benchmarks.coverage small              # the studies whose name contains "small"

Every world is a table of runs made from a known law and known noise, with seed (study, world): a study
gives the same figures again on any machine.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

import scaling.datasets as datasets
from experiments.benchmarks import tables
from scaling import (
    ChinchillaFit,
    ChinchillaLaw,
    RunTable,
    ScalingWarning,
    fit_chinchilla,
    load_runs,
)
from scaling.intervals import interval
from scaling.resample import Resample

#: The optimum of the 240 points (a fit without random numbers; tests/scaling/test_certified.py holds it).
OPTIMUM = ChinchillaLaw(E=1.817218, A=477.826, B=2143.417, alpha=0.347310, beta=0.367172)
TARGETS = ("alpha", "beta", "ln D*(1e9)")

World = Callable[[np.random.Generator], RunTable]


@dataclass(frozen=True)
class Study:
    """A way to make worlds, and how they are fitted.

    Parameters
    ----------
    name : str
        What it is, in words.
    key : int
        First part of every seed.
    world : callable
        Makes a table of runs.
    law : ChinchillaLaw
        The truth.
    level : float
        Nominal coverage.
    worlds : int
        How many are made.
    resample : str
        As in `fit_chinchilla`.
    """

    name: str
    key: int
    world: World
    law: ChinchillaLaw
    level: float = 0.95
    worlds: int = 400
    resample: Resample = "auto"


@dataclass(frozen=True)
class Result:
    """Shares of worlds covered, by target: as `fit_chinchilla` answers, and of other intervals of its draws."""

    study: Study
    worlds: int
    covered: dict[str, float]
    plain: dict[str, float]
    corrected: dict[str, float]
    ratio: float
    seconds: float


@cache
def published(table: str = "auto") -> tuple[RunTable, ChinchillaLaw, np.ndarray]:
    """Return a table of real points, its optimum and its log residuals with both signs.

    Parameters
    ----------
    table : {"auto", "240", "embedded"}
        The 240 points where `SCALING_DATA_DIR` has them, else the 234 that ship.
    """
    if table == "240" or (table == "auto" and os.environ.get(datasets.DATA_DIR_VARIABLE)):
        runs = load_runs(datasets.chinchilla_240(datasets.fetch("epoch_chinchilla")))
    else:
        runs = load_runs(datasets.builtin("hoffmann2022"))
    fit = fit_chinchilla(runs, n_boot=0)
    return runs, fit.law, np.concatenate([fit.residuals, -fit.residuals])


def like_the_points(table: str = "auto") -> tuple[World, ChinchillaLaw]:
    """Return worlds with the (N, D) of the points, the optimum as truth, and resampled residuals as noise."""
    runs, law, pool = published(table)
    clean = law.loss(runs.params, runs.tokens)

    def world(rng: np.random.Generator) -> RunTable:
        loss = clean * np.exp(rng.choice(pool, size=len(runs)))
        return RunTable.from_arrays(params=runs.params, tokens=runs.tokens, loss=loss)

    return world, law


def checkpoints(sizes: int, copies: int, *, run_sd: float = 0.005, row_sd: float = 0.002) -> World:
    """Return worlds of `sizes` x `copies` runs with 20 checkpoints each, which share the luck of their run."""
    n = np.repeat(np.geomspace(3e7, 3e9, sizes), copies)
    params, tokens = np.repeat(n, 20), np.tile(np.geomspace(1e9, 1e11, 20), len(n))
    clean, run = OPTIMUM.loss(params, tokens), np.repeat(np.arange(len(n)), 20)

    def world(rng: np.random.Generator) -> RunTable:
        noise = rng.normal(0, run_sd, len(n))[run] + rng.normal(0, row_sd, len(run))
        return RunTable.from_arrays(
            params=params, tokens=tokens, loss=clean * np.exp(noise), run_id=run.tolist()
        )

    return world


def grid(sizes: int, counts: int, *, sd: float = 0.005) -> World:
    """Return worlds of independent runs at every crossing of `sizes` sizes and `counts` token counts."""
    mesh = np.meshgrid(np.geomspace(3e7, 3e9, sizes), np.geomspace(1e9, 1e11, counts))
    params, tokens = (a.ravel() for a in mesh)
    clean = OPTIMUM.loss(params, tokens)

    def world(rng: np.random.Generator) -> RunTable:
        loss = clean * np.exp(rng.normal(0, sd, len(params)))
        return RunTable.from_arrays(params=params, tokens=tokens, loss=loss)

    return world


def studies() -> list[Study]:
    """Return the studies of the README."""
    points, law = like_the_points()
    twelve, four = checkpoints(12, 1), checkpoints(4, 3)
    return [
        Study("points of Hoffmann et al., rows", 1, points, law, worlds=1000),
        Study("points of Hoffmann et al., wild", 1, points, law, worlds=300, resample="wild"),
        Study("12 runs x 20 checkpoints, 12 sizes: default", 2, twelve, OPTIMUM, 0.90),
        Study("12 runs x 20 checkpoints, 12 sizes: rows", 2, twelve, OPTIMUM, 0.90, resample="pairs"),
        Study("12 runs x 20 checkpoints, 4 sizes x 3: default", 3, four, OPTIMUM, 0.90),
        Study("12 runs x 20 checkpoints, 4 sizes x 3: rows", 3, four, OPTIMUM, 0.90, resample="pairs"),
        Study("small: 12 runs, 4 sizes x 3 D", 4, grid(4, 3), OPTIMUM),
        Study("small: 24 runs, 6 sizes x 4 D", 5, grid(6, 4), OPTIMUM),
        Study("small: 48 runs, 8 sizes x 6 D", 6, grid(8, 6), OPTIMUM),
    ]


def _targets(law: ChinchillaLaw) -> dict[str, np.ndarray]:
    return {
        "alpha": np.asarray(law.alpha),
        "beta": np.asarray(law.beta),
        "ln D*(1e9)": np.asarray(law.log_tokens_at(1e9)),
    }


def _answers(fit: ChinchillaFit, level: float) -> dict[str, tuple[float, float]]:
    """Return the intervals a user would get."""
    tokens = fit.tokens_at(1e9, level=level, unidentified="return")
    with np.errstate(divide="ignore"):
        ends = (float(np.log(tokens.low)), float(np.log(tokens.high)))
    return {
        "alpha": fit.ci("alpha", level).interval,
        "beta": fit.ci("beta", level).interval,
        TARGETS[2]: ends,
    }


def measure(study: Study, worlds: int | None = None, n_boot: int = 1000) -> Result:
    """Fit every world of a study and count how often each target is inside its interval."""
    n = worlds or study.worlds
    truth = {name: float(value) for name, value in _targets(study.law).items()}
    hits = {kind: dict.fromkeys(TARGETS, 0) for kind in ("covered", "plain", "corrected")}
    ratios, begin = [], time.perf_counter()
    for world in range(n):
        runs = study.world(np.random.default_rng([study.key, world]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScalingWarning)
            fit = fit_chinchilla(
                runs,
                resample=study.resample,
                n_boot=n_boot,
                seed=world,
                level=study.level,
            )
            answers = _answers(fit, study.level)
        draws, value = _targets(fit.draws), _targets(fit.law)
        ratios.append(answers[TARGETS[2]][1] - answers[TARGETS[2]][0])
        for name in TARGETS:
            centre = float(value[name])
            ends = {
                "covered": answers[name],
                "plain": interval(draws[name], centre, study.level),
                "corrected": interval(draws[name], centre, study.level, "bias-corrected"),
            }
            for kind, (low, high) in ends.items():
                hits[kind][name] += low <= truth[name] <= high
    shares = {kind: {name: count / n for name, count in found.items()} for kind, found in hits.items()}
    ratio = math.exp(float(np.median(ratios)))
    return Result(study, n, **shares, ratio=ratio, seconds=time.perf_counter() - begin)


def table(results: list[Result]) -> str:
    """Return results as a table."""
    head = ["study", "worlds", "nominal", *TARGETS, "high/low of D*", "plain percentile", "bias-corrected"]
    rows = []
    for r in results:
        others = [" / ".join(f"{100 * d[name]:.1f}" for name in TARGETS) for d in (r.plain, r.corrected)]
        own = [f"**{100 * r.covered[name]:.1f}%**" for name in TARGETS]
        rows.append([r.study.name, r.worlds, f"{100 * r.study.level:g}%", *own, f"{r.ratio:.2f}", *others])
    return tables.markdown(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="?", default="", help="part of the name of the studies to run")
    parser.add_argument("--worlds", type=int, help="worlds per study instead of its own number")
    parser.add_argument("--n-boot", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="studies measured at a time, one process each")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    args = parser.parse_args()
    chosen = [i for i, study in enumerate(studies()) if args.only in study.name]
    results = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for result in pool.map(partial(_measure, worlds=args.worlds, n_boot=args.n_boot), chosen):
            results.append(result)
            print(table([result]).splitlines()[-1], f"{result.seconds:.0f} s", flush=True)
    text = table(results)
    print(f"\n{text}")
    if args.write:
        if args.only or args.worlds:
            raise SystemExit("only a whole run is written to the README")
        note = f"{len(published()[0])} points; {args.n_boot} replicates per world; numpy {np.__version__}."
        tables.write("coverage", f"{text}\n\n{note}")


def _measure(index: int, worlds: int | None, n_boot: int) -> Result:
    """Measure one of `studies`, by its position: what makes worlds does not travel between processes."""
    result = measure(studies()[index], worlds, n_boot)
    return replace(result, study=replace(result.study, world=_elsewhere))


def _elsewhere(rng: np.random.Generator) -> RunTable:
    raise NotImplementedError("this study was measured in another process")


if __name__ == "__main__":
    main()
