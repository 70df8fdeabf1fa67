"""How often intervals of the laws beside the main one cover a truth that is known.

    python -m experiments.benchmarks.law_coverage             # all studies, about 20 minutes of one core
    python -m experiments.benchmarks.law_coverage --write     # and put the table into README.md
    python -m experiments.benchmarks.law_coverage coupled     # the studies whose name contains "coupled"

Every world is a table of runs made from a known law on a design that determines it, with normal noise of 1% of
the loss and seed (study, world): a study gives the same figures again on any machine.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks import tables
from scaling import ChinchillaLaw, RunTable, ScalingError, ScalingWarning
from scaling.law_fit import LawFit
from scaling.law_names import fit_law, named_law
from scaling.laws.coupled import CoupledLaw
from scaling.laws.data_constrained import DataConstrainedLaw
from scaling.laws.overtraining import OvertrainingLaw
from scaling.laws.penalty import RepetitionPenaltyLaw

#: Noise of a loss: the run-to-run scatter of small runs (sd of its log).
NOISE = 0.01
LEVEL = 0.95
#: A law of new data near that of Hoffmann et al. 2022, of which all worlds are variations.
BASE = ChinchillaLaw(E=1.82, A=482.0, B=2085.0, alpha=0.348, beta=0.366)
#: Repetition is worth what Muennighoff et al. 2023 say, in round figures (arXiv 2305.16264, sec. 5).
REPEATED = DataConstrainedLaw(BASE.E, BASE.A, BASE.B, BASE.alpha, BASE.beta, R_D=12.0, R_N=6.0)
PENALISED = RepetitionPenaltyLaw(BASE.E, BASE.A, BASE.B, BASE.alpha, BASE.beta, P=0.03, kappa=0.5)
OVERTRAINED = OvertrainingLaw(E=1.84, a=200.0, b=450.0, eta=0.14)
#: Both shortages are 1 at 3e8 parameters and at 2e10 tokens, inside the grid.
COUPLED = CoupledLaw(1.8, 3e8**0.45, 2e10**0.5, 0.45, 0.5, k=0.6)

Design = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """A law, the runs it is fitted on, and how.

    Parameters
    ----------
    name : str
        What it is, in words.
    key : int
        First part of every seed.
    law : str
        Name of the law fitted (`scaling.law_names.LAWS`).
    truth : law
        What makes the losses.
    design : dict of array
        Columns of the table, without the loss.
    beyond : tuple of float
        Where the loss is foretold, outside the runs.
    worlds, n_boot : int
        Worlds made, and refits of each.
    options : mapping
        Further arguments of the fit.
    """

    name: str
    key: int
    law: str
    truth: Any
    design: Design
    beyond: tuple[float, ...]
    worlds: int = 400
    n_boot: int = 200
    options: Mapping[str, Any] = field(default_factory=dict)

    def world(self, number: int) -> RunTable:
        """Return the table of one world."""
        clean = self.truth.loss(*self.design.values())
        rng = np.random.default_rng([self.key, number])
        return RunTable.from_arrays(**self.design, loss=clean * np.exp(rng.normal(0, NOISE, clean.size)))


@dataclass(frozen=True)
class Result:
    """Share of worlds covered by target, in the order they are shown, and what else was seen.

    Parameters
    ----------
    study : Study
        What was measured.
    worlds : int
        How many worlds.
    covered : dict of str to float
        Coefficients that were fitted, and ``"loss beyond"``.
    corrected : dict of str to float
        The same for ``interval="bias-corrected"``.
    spread : dict of str to float
        Median over worlds of the ratio of the ends of those intervals.
    identified : float
        Share of worlds with the verdict "identified".
    refused : int
        Worlds that could not be fitted; they count as not covered.
    seconds : float
        Of one core.
    """

    study: Study
    worlds: int
    covered: dict[str, float]
    corrected: dict[str, float]
    spread: dict[str, float]
    identified: float
    refused: int
    seconds: float


def grid(params: tuple[float, float, int], tokens: tuple[float, float, int]) -> Design:
    """Return every crossing of sizes and token counts, each spaced evenly in logs from low to high."""
    n, d = np.meshgrid(np.geomspace(*params), np.geomspace(*tokens))
    return {"params": n.ravel(), "tokens": d.ravel()}


def epochs() -> Design:
    """Return six sizes, three counts of unique tokens, 1 to 60 epochs: 90 runs."""
    crossed = np.meshgrid(np.geomspace(3e7, 6e9, 6), [5e8, 4e9, 3e10], [1.0, 3.0, 10.0, 25.0, 60.0])
    n, u, e = (a.ravel() for a in crossed)
    return {"params": n, "tokens": u * e, "unique_tokens": u}


def studies() -> list[Study]:
    """Return the studies of the README."""
    seen, far = epochs(), (2e10, 1e13, 1e11)  # three times the size, and data seen 100 times
    held = {"base": BASE}
    wide = grid((1e7, 1e10, 8), (1e8, 2e12, 8))
    few, some, many = (grid((2e7, 2e9, k), (1e9, 1e11, k)) for k in (5, 7, 14))
    beyond, smooth = (2e10, 1e12), {"delta": 2 * NOISE}
    return [
        Study("data-constrained, base law held", 11, "data-constrained", REPEATED, seen, far, options=held),
        Study("data-constrained", 12, "data-constrained", REPEATED, seen, far, 200, 200),
        Study(
            "repetition penalty, base law held", 13, "repetition-penalty", PENALISED, seen, far, options=held
        ),
        Study("repetition penalty", 14, "repetition-penalty", PENALISED, seen, far, 200, 200),
        Study("coupled, k = 0.6", 15, "coupled", COUPLED, wide, (1e11, 2e13), 200, 200),
        Study("over-training, 5 sizes x 5 D", 16, "overtraining", OVERTRAINED, few, beyond),
        Study("over-training, 7 sizes x 7 D", 17, "overtraining", OVERTRAINED, some, beyond),
        Study("over-training, 14 sizes x 14 D", 18, "overtraining", OVERTRAINED, many, beyond, 300),
        Study(
            "over-training, 7 x 7, delta = 0.02",
            17,
            "overtraining",
            OVERTRAINED,
            some,
            beyond,
            options=smooth,
        ),
    ]


def targets(study: Study) -> dict[str, float]:
    """Return the true values of what is covered or not, by name."""
    law: Any = named_law(study.law).law
    names = law.COEFFICIENTS
    held = set(vars(BASE)) if "base" in study.options else set()
    out = {name: float(getattr(study.truth, name)) for name in names if name not in held}
    return out | {"loss beyond": float(study.truth.loss(*study.beyond))}


def measure(study: Study, worlds: int | None = None, n_boot: int | None = None) -> Result:
    """Fit every world of a study and count how often each target is inside its interval."""
    n, truth = worlds or study.worlds, targets(study)
    hits, corrected = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    spreads = {name: list[float]() for name in truth}
    identified, refused, begin = 0, 0, time.process_time()
    for world in range(n):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ScalingWarning)
                fit = fit_law(
                    study.law,
                    study.world(world),
                    n_boot=study.n_boot if n_boot is None else n_boot,
                    seed=world,
                    level=LEVEL,
                    **study.options,
                )
        except ScalingError:
            refused += 1
            continue
        assert isinstance(fit, LawFit)
        identified += fit.verdict == "identified"
        other = replace(fit, interval="bias-corrected")
        for name, value in truth.items():
            found, again = (
                f.predict(*study.beyond) if name == "loss beyond" else f.ci(name) for f in (fit, other)
            )
            hits[name] += found.low <= value <= found.high
            corrected[name] += again.low <= value <= again.high
            spreads[name].append(found.high / found.low if found.low > 0 else math.inf)
    covered, others = ({name: count / n for name, count in c.items()} for c in (hits, corrected))
    spread = {name: float(np.median(v)) if v else math.nan for name, v in spreads.items()}
    return Result(study, n, covered, others, spread, identified / n, refused, time.process_time() - begin)


def by_chance(n_boot: int) -> float:
    """Return what a perfect bootstrap covers: its interpolated quantiles of few draws lie a little inside.

    The q quantile of R draws is read at rank 1 + q (R - 1) of them, below which a further draw falls with
    probability (1 + q (R - 1))/(R + 1).
    """
    q = (1 - LEVEL) / 2
    return 1 - 2 * (1 + q * (n_boot - 1)) / (n_boot + 1)


HEAD = ["law fitted", "runs", "worlds", "refits", "coefficients", "loss beyond", "identified"]


def row(r: Result) -> list[object]:
    """Return a row of the table: coverage, in brackets that of the bias-corrected interval, and its width."""
    cells = {
        name: f"**{_percent(share)}** ({_percent(r.corrected[name])}; x{_ratio(r.spread[name])})"
        for name, share in r.covered.items()
    }
    beyond = cells.pop("loss beyond")
    own = ", ".join(f"{name} {cell}" for name, cell in cells.items())
    runs = len(next(iter(r.study.design.values())))
    certain = f"{100 * r.identified:.0f}%" + (f", {r.refused} refused" if r.refused else "")
    return [r.study.name, runs, r.worlds, r.study.n_boot, own, beyond, certain]


def measured(log: str) -> dict[str, tuple[list[object], float]]:
    """Return the rows, and their seconds, that an earlier run printed, by study."""
    found = {}
    for line in log.splitlines():
        cells, _, took = line.rpartition(" | ")
        if line.startswith("| ") and took.endswith(" s"):
            cut = cells.removeprefix("| ").split(" | ")
            found[cut[0]] = (list[object](cut), float(took.removesuffix(" s")))
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _ratio(x: float) -> str:
    return f"{x:.3f}" if x < 1.2 else f"{x:.2f}" if x < 10 else f"{x:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="?", default="", help="part of the name of the studies to run")
    parser.add_argument("--worlds", type=int, help="worlds per study instead of its own number")
    parser.add_argument("--done", type=Path, help="output of an earlier run: its studies are not run again")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    args = parser.parse_args()
    done = measured(args.done.read_text(encoding="utf-8")) if args.done else {}
    rows, seconds = [], 0.0
    for study in (s for s in studies() if args.only in s.name):
        if study.name in done:
            cells, took = done[study.name]
        else:
            result = measure(study, args.worlds)
            cells, took = row(result), result.seconds
        rows.append(cells)
        seconds += took
        print(f"| {' | '.join(map(str, cells))} | {took:.0f} s", flush=True)
    text = tables.markdown(HEAD, rows)
    print(f"\n{text}")
    if args.write:
        if args.only or args.worlds:
            raise SystemExit("only a whole run is written to the README")
        chance = ", ".join(
            f"{_percent(by_chance(n))} with {n}" for n in sorted({s.n_boot for s in studies()})
        )
        note = (
            f"Nominal {100 * LEVEL:g}%; intervals that were exact but for reading quantiles off few refits would cover "
            f"{chance}. {seconds / 60:.0f} minutes of one core; numpy {np.__version__}."
        )
        tables.write("law_coverage", f"{text}\n\n{note}")


if __name__ == "__main__":
    main()
