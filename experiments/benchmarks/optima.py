"""Optima of `scaling.optima` and `economics.decide`: against brute force, coverage of their intervals, and speed.

python -m experiments.benchmarks.optima            # 5 minutes of one core
python -m experiments.benchmarks.optima --write    # and put the tables into README.md
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import scaling.optima as optima
from economics import cost
from economics.decide import best_by_deadline, best_for_budget, cheapest_for_loss
from experiments.benchmarks import tables
from experiments.benchmarks.coverage import OPTIMUM, grid
from scaling import ChinchillaFit, ChinchillaLaw, Estimate, fit_chinchilla
from scaling.laws.chinchilla import attach
from scaling.laws.data_constrained import DataConstrainedLaw
from scaling.newton import Objective
from scaling.optima.data_limited import best_size
from scaling.optima.overtrained import tokens_for
from scaling.optima.served import lifetime_flops, served_at_loss, served_for_flops
from scaling.optima.subject import RunPoint
from scaling.solver import solve_global

LIKE, SERVED, FLOPS, UNIQUE = (1e9, 2e10), 1e12, 1e21, 1e10
LEVEL = 0.9
CERTAIN = optima.Repetition(15.387756, 5.309743, (15.387756, 15.387756))
REAL: dict[str, Any] = {"as_of": "2026-10-10", "draws": 1000, "act_ckpt": False}


# --- against brute force ---------------------------------------------------------------------------------------


def laws(n: int) -> list[ChinchillaLaw]:
    """Return random laws."""
    rng = np.random.default_rng(0)
    return [
        ChinchillaLaw(rng.uniform(0.5, 2.5), *np.exp(rng.uniform(4, 8, 2)), *rng.uniform(0.2, 0.6, 2))
        for _ in range(n)
    ]


def in_flops(n: int = 300) -> list[tuple[str, str, float]]:
    """Return, for each question in FLOPs, how far the answer lies above the best of a fine grid at the worst."""
    x = np.arange(-7, 7, 1e-3)
    worst = {
        "lifetime FLOP for a loss": 0.0,
        "loss for lifetime FLOP": 0.0,
        "loss with 10B unique tokens": 0.0,
    }
    for law in laws(n):
        loss = law.loss(1e9, law.tokens_at(1e9))
        best = served_at_loss(law, loss, SERVED)
        sizes = best.params * np.exp(x)
        every = lifetime_flops(RunPoint(sizes, tokens_for(law, sizes, loss)), SERVED)
        _note(worst, "lifetime FLOP for a loss", lifetime_flops(best, SERVED), np.nanmin(every))
        point = served_for_flops(law, 1e22, SERVED)
        sizes = point.params * np.exp(x)
        tokens = 1e22 / (6 * sizes) - SERVED / 3
        losses = law.loss(sizes[tokens > 1], tokens[tokens > 1])
        _note(worst, "loss for lifetime FLOP", law.loss(*point), losses.min())
        repeated = DataConstrainedLaw(**vars(law), R_D=CERTAIN.R_D, R_N=CERTAIN.R_N)
        run, value = best_size(repeated, FLOPS, UNIQUE, None)
        sizes = run.params * np.exp(x)
        every = repeated.loss(sizes, FLOPS / 6 / sizes, UNIQUE)
        _note(worst, "loss with 10B unique tokens", value, every.min())
    return [(name, f"{n} random laws, sizes 0.1% apart", gap) for name, gap in worst.items()]


def in_dollars() -> list[tuple[str, str, float]]:
    """Return the same for questions in dollars and hours, with the costs of every size computed exactly."""
    worst = {"dollars for a loss of 2.4": 0.0, "loss for money": 0.0, "loss by a deadline": 0.0}
    machines = [
        ("A100 SXM 80GB", 8, "on-demand"),
        ("H100 SXM", 64, "on-demand"),
        ("A100 SXM 80GB", 8, "spot"),
    ]
    for gpu, n_gpus, market in machines:
        asked = {**REAL, "gpu": gpu, "n_gpus": n_gpus, "market": market}
        best = cheapest_for_loss(OPTIMUM, 2.4, **asked)
        sizes = best.params.value * np.exp(np.arange(-1.2, 2.0, 0.05))
        tokens = tokens_for(OPTIMUM, sizes, 2.4)
        dollars = [
            cost(N=n, D=d, **asked).usd.value for n, d in zip(sizes, tokens, strict=True) if np.isfinite(d)
        ]
        _note(worst, "dollars for a loss of 2.4", _value(best.usd), min(dollars))
        money, hours = _value(best.usd), _value(best.hours)
        paid, timed = best_for_budget(money, OPTIMUM, **asked), best_by_deadline(hours, OPTIMUM, **asked)
        for name, found, of, limit in (
            ("loss for money", paid, "usd", money),
            ("loss by a deadline", timed, "wall_hours", hours),
        ):
            sizes = found.params.value * np.exp(np.arange(-1.5, 1.5, 0.05))
            losses = [OPTIMUM.loss(n, _tokens(n, found.tokens.value, of, limit, asked)) for n in sizes]
            _note(worst, name, found.loss.value, min(losses))
    return [(name, "3 kinds of machine, sizes 5% apart, exact costs", gap) for name, gap in worst.items()]


def _value(found: Estimate | None) -> float:
    assert found is not None
    return found.value


def _tokens(n: float, near: float, of: str, limit: float, asked: dict[str, Any]) -> float:
    """Return the tokens that exhaust a limit at a size: ten secant steps on exact costs."""
    d, start = near, getattr(cost(N=n, D=1.0, **asked), of).value
    for _ in range(10):
        d *= (limit - start) / (getattr(cost(N=n, D=d, **asked), of).value - start)
    return d


def _note(worst: dict[str, float], name: str, mine: float, best: float) -> None:
    worst[name] = max(worst[name], mine / best - 1.0)


# --- coverage --------------------------------------------------------------------------------------------------


def questions() -> dict[str, Callable[[ChinchillaFit | ChinchillaLaw], Any]]:
    """Return what is asked of every world, and of the truth."""
    how: dict[str, Any] = {"level": LEVEL, "unidentified": "return"}
    return {
        "N*, inference-aware, 1T served": lambda f: (
            optima.inference_optimal(f, SERVED, like=LIKE, **how).params
        ),
        "D*, the same": lambda f: optima.inference_optimal(f, SERVED, like=LIKE, **how).tokens,
        "FLOP for a loss of 2.4": lambda f: optima.cheapest_for_loss(f, 2.4, **how).flops,
        "N* for a loss of 2.4": lambda f: optima.cheapest_for_loss(f, 2.4, **how).params,
        "epochs of 10B unique tokens, 1e21 FLOP": lambda f: optima.data_limited_optimal(
            f, UNIQUE, FLOPS, repetition=CERTAIN, **how
        ).more["epochs"],
        "break-even of 500M against 1B": lambda f: optima.overtraining(f, 5e8, like=LIKE, **how).break_even,
    }


def coverage(worlds: int) -> dict[str, float]:
    """Return the share of worlds in which the 90% interval holds the truth."""
    asked = questions()
    truth = {name: float(ask(OPTIMUM)) for name, ask in asked.items()}
    hits, world = dict.fromkeys(asked, 0), grid(8, 6)
    for i in range(worlds):
        fit = fit_chinchilla(world(np.random.default_rng([40, i])), n_boot=300, seed=i)
        for name, ask in asked.items():
            found = ask(fit)
            hits[name] += found.low <= truth[name] <= found.high
    return {name: count / worlds for name, count in hits.items()}


# --- speed -----------------------------------------------------------------------------------------------------


def speed(repeats: int = 5) -> list[tuple[str, float, float]]:
    """Return seconds of each question, and how many global fits of the same runs that is."""
    runs = grid(8, 6)(np.random.default_rng(0))
    fit = fit_chinchilla(runs, n_boot=1000)
    log_loss, one = np.log(runs.loss), np.ones(len(runs))
    attached = attach(runs.params, runs.tokens, log_loss)
    machine: dict[str, Any] = {"as_of": "2026-10-10", "gpu": "H100 SXM", "n_gpus": 8}
    asked: dict[str, Callable[[], Any]] = {
        "one global fit": lambda: solve_global(Objective(attached.form, log_loss, one, one, 1e-3)),
        "inference-aware, FLOP": lambda: optima.inference_optimal(fit, SERVED, like=LIKE),
        "loss with a probability, FLOP": lambda: optima.cheapest_for_loss(fit, 2.4, probability=0.9),
        "scarce data, FLOP": lambda: optima.data_limited_optimal(fit, UNIQUE, FLOPS),
        "over-training, FLOP": lambda: optima.overtraining(fit, 5e8, like=LIKE),
        "money": lambda: best_for_budget(2000, fit, **machine),
        "money, serving included": lambda: best_for_budget(20000, fit, served=SERVED, **machine),
        "deadline": lambda: best_by_deadline(48, fit, **machine),
        "loss in dollars": lambda: cheapest_for_loss(fit, 2.4, **machine),
        "loss in dollars, every machine and market": lambda: cheapest_for_loss(
            fit, 2.4, gpus="all", markets="all", as_of="2026-10-10"
        ),
    }
    took = {}
    for name, ask in asked.items():
        ask()  # prices and shapes are read once
        times = []
        for _ in range(1 if "every" in name else repeats):
            begin = time.process_time()
            ask()
            times.append(time.process_time() - begin)
        took[name] = float(np.median(times))
    return [(name, s, s / took["one global fit"]) for name, s in took.items()]


def text(worlds: int) -> str:
    """Return the three tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gaps = [
            (name, how, f"{gap:.0e}" if gap > 1e-9 else "< 1e-9")
            for name, how, gap in (*in_flops(), *in_dollars())
        ]
        covered = [(name, f"{share:.1%}") for name, share in coverage(worlds).items()]
        times = [(name, f"{1e3 * s:,.0f} ms", f"{ratio:,.1f}") for name, s, ratio in speed()]
    return "\n\n".join(
        (
            tables.markdown(("question", "grid", "worst excess over its best"), gaps),
            tables.markdown(("optimum", f"90% interval covers, {worlds} worlds"), covered),
            tables.markdown(("question", "CPU time", "global fits"), times),
        )
    )


def main() -> None:
    """Measure, show, and with ``--write`` keep."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=200, help="made-up tables for the coverage")
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    args = parser.parse_args()
    found = text(args.worlds)
    print(found)
    if args.write:
        tables.write("optima", found)


if __name__ == "__main__":
    main()
