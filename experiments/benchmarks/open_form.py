"""How often intervals cover a truth that is known where the form of the law is wrong, and where losses stray from it.

    python -m experiments.benchmarks.open_form             # about 15 minutes of one core
    python -m experiments.benchmarks.open_form --write     # and put the table into README.md

Worlds of 8 sizes x 7 token counts with L = E + (A/N^alpha + B/D^beta)^k and noise of 0.5% of the loss. In the worlds
"that stray" a smooth departure is added that neighbours in N and D share: a random field of 0.5% whose correlation
falls to e^(-1/2) over a decade of either. Asked of each: E, D* at 1B and the law's loss at 100 times the largest
compute, of the law fitted (k = 1, its bootstrap) and of `open_form`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np

from experiments.benchmarks import tables
from scaling import ChinchillaFit, Estimate, fit_chinchilla
from scaling.laws.base import Array
from scaling.laws.coupled import CoupledLaw

N, D = (v.ravel() for v in np.meshgrid(np.geomspace(2e7, 2e9, 8), np.geomspace(5e8, 5e10, 7)))
#: A run of 100 times the compute of the largest.
BEYOND = (2e10, 5e11)
NOISE = STRAY = 0.005
TARGETS = ("E", "D*(1B)", "loss at 100 x")


def law(k: float) -> CoupledLaw:
    """Return a law with Hoffmann's levels and slopes at the centre of the grid, and this k."""
    plain = (480.0, 0.35, 2100.0, 0.37)
    n, d = float(np.exp(np.log(N).mean())), float(np.exp(np.log(D).mean()))
    a, b = plain[0] * n ** -plain[1], plain[2] * d ** -plain[3]
    inside = (a + b) ** (1 / k) / (a + b)
    alpha, beta = plain[1] / k, plain[3] / k
    return CoupledLaw(1.8, a * inside * n**alpha, b * inside * d**beta, alpha, beta, k)


def worlds(k: float, strays: bool, n_worlds: int) -> Iterator[Array]:
    """Yield losses of the grid."""
    x, y = np.log10(N), np.log10(D)
    apart = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2
    root = np.linalg.cholesky(np.exp(-apart / 2) + 1e-8 * np.eye(len(N)))
    clean = np.asarray(law(k).loss(N, D))
    for seed in range(n_worlds):
        rng = np.random.default_rng([int(100 * k), strays, seed])
        noise = NOISE * rng.normal(size=len(N))
        yield clean * np.exp(noise + (STRAY * root @ rng.normal(size=len(N)) if strays else 0.0))


def answers(fit: ChinchillaFit) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
    """Return the targets of the law fitted, and with its form open."""
    open_ = fit.open_form
    return (
        (fit.ci("E"), fit.tokens_at(1e9, unidentified="return"), fit.predict(*BEYOND).mean),
        (open_.ci("E"), open_.tokens_at(1e9, unidentified="return"), open_.loss(*BEYOND)),
    )


def study(k: float, strays: bool, n_worlds: int) -> list[list[str]]:
    """Return the rows of the table for one kind of world."""
    truth = (law(k).E, law(k).tokens_at(1e9), law(k).loss(*BEYOND))
    inside, width, rejected = np.zeros((2, 3)), [], 0
    for loss in worlds(k, strays, n_worlds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = fit_chinchilla(params=N, tokens=D, loss=loss, n_boot=200)
            found = answers(fit)
        rejected += fit.diagnostics.finding("form_rejected") is not None
        inside += [[e.low <= t <= e.high for e, t in zip(each, truth, strict=True)] for each in found]
        width.append([[_width(e, i) for i, e in enumerate(each)] for each in found])
    cells = 100 * inside / n_worlds
    wide = np.median(np.array(width), axis=0)
    start = [f"{k:g}{', that stray' if strays else ''}", f"{100 * rejected / n_worlds:.0f}%"]
    rows = []
    for i, name in enumerate(("k = 1, as fitted", "k open")):
        shown = [f"{cells[i, j]:.0f}%, {_shown(wide[i, j], j)}" for j in range(3)]
        rows.append([*(start if i == 0 else ("", "")), name, *shown])
    return rows


def _width(e: Estimate, target: int) -> float:
    return float(np.sqrt(e.high / e.low)) if target == 1 else e.high - e.low


def _shown(width: float, target: int) -> str:
    return f"x/÷ {width:.2f}" if target == 1 else f"{width:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=100, help="of every kind")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    args = parser.parse_args()
    rows = [
        row for strays in (False, True) for k in (1.0, 0.75, 0.5) for row in study(k, strays, args.worlds)
    ]
    text = tables.markdown(["worlds, k", "form rejected", "intervals of", *TARGETS], rows)
    text += f"\n\nCoverage of a nominal 95% and median width, over {args.worlds} worlds of each kind."
    print(text)
    if args.write:
        tables.write("open_form", text)


if __name__ == "__main__":
    main()
