"""Training logs whose truth is known: healthy ones of many kinds, and incidents to splice into any log."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Log = dict[str, Floats]


def healthy(seed: int, rows: int | None = None) -> Log:
    """Return one healthy log: a power law, a schedule, noise of its own, outliers, and what logs do besides.

    Drawn anew for each seed: bytes or BPE; noise from 0.2% to 7% of the loss, white, autocorrelated or with slow
    waves; normal or Student t with 5 degrees; outliers of one row or two, 1 in 10,000 to 1 in 200; constant, cosine,
    linear or warm-up-stable-decay rates; batches that grow; epochs at whose start the loss drops; restarts that repeat
    steps; losses printed with 2 to 5 digits; every step, every 10th as it is, or the mean of 10.
    """
    rng = np.random.default_rng([20, seed])
    n = rows or int(rng.integers(1500, 9000))
    at = np.arange(n, dtype=float)
    start, floor = (5.6, rng.uniform(0.7, 1.6)) if rng.random() < 0.4 else (10.9, rng.uniform(2.4, 3.6))
    lr, cooling = schedule(rng, n)
    work = np.cumsum(lr)  # time in units of full-rate steps: a warm-up learns slowly
    offset, beta = rng.uniform(3, 60), rng.uniform(0.25, 0.7)
    trend = floor + (start - floor) * (1 + work / offset) ** -beta
    trend -= cooling * rng.uniform(0.02, 0.08) * floor
    if rng.random() < 0.2:  # a second epoch over the same text
        trend -= rng.uniform(0.005, 0.03) * floor * (at > rng.uniform(0.3, 0.8) * n)
    sd = floor * np.exp(rng.uniform(np.log(0.002), np.log(0.07)))
    scale = np.full(n, sd)
    if rng.random() < 0.3:  # batches grow
        for share in (0.3, 0.6):
            scale[int(share * n) :] /= 2**0.5
    loss = trend + scale * noise(rng, n)
    rate, size = np.exp(rng.uniform(np.log(1e-4), np.log(5e-3))), rng.uniform(3, 20)
    hit = np.flatnonzero(rng.random(n) < rate)
    hit = np.concatenate([hit, hit[rng.random(len(hit)) < 0.1] + 1])
    hit = hit[hit < n]
    strange = np.zeros(n)
    strange[hit] = scale[hit] * (4 + rng.exponential(size, len(hit)))
    loss += np.minimum(strange, 2.0)
    every = int(rng.choice([1, 1, 1, 10]))
    grad = rng.uniform(0.2, 1.5) * (1 + 20 / (1 + work / 20))
    grad *= np.exp(rng.uniform(0.03, 0.25) * rng.standard_normal(n) + (strange > 0) * rng.exponential(0.7, n))
    log = {
        "step": at * every,
        "loss": np.round(loss, int(rng.integers(2, 6))),
        "grad_norm": grad,
        "lr": 1e-3 * lr,
    }
    log["update_norm"] = log["lr"] * 300 * np.exp(0.03 * rng.standard_normal(n))
    log["param_norm"] = 60 + 40 * (1 - np.exp(-work / n))
    if rng.random() < 0.2:
        log = restarted(rng, log, lambda k: np.round(scale[k] * noise(rng, len(k)), 3))
    return log


def schedule(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Return the learning rate as a share of its highest, and how far a cooldown has come."""
    at, warm = np.arange(n, dtype=float), max(int(rng.uniform(0.005, 0.1) * n), 1)
    rise, share = np.minimum((at + 1) / warm, 1.0), np.clip((at - warm) / (n - warm), 0, 1)
    kind = rng.integers(4)
    cooling = np.clip((at / n - 0.8) / 0.2, 0, 1) if kind == 3 else np.zeros(n)
    decay = (np.ones(n), 0.55 + 0.45 * np.cos(np.pi * share), 1 - 0.95 * share, 1 - cooling)[kind]
    return rise * decay, 1 - (1 - cooling) ** 0.5


def noise(rng: np.random.Generator, n: int) -> Floats:
    """Return noise of standard deviation about 1: white, autocorrelated, or white with slow waves."""
    white = rng.standard_normal(n) if rng.random() < 0.6 else rng.standard_t(5, n) / (5 / 3) ** 0.5
    kind = rng.random()
    if kind < 0.5:
        return white
    if kind < 0.8:
        return autocorrelated(white, rng.uniform(0.1, 0.8))
    waves = autocorrelated(rng.standard_normal(n), np.exp(-1 / rng.uniform(30, 300)))
    return white + rng.uniform(0.1, 0.5) * waves


def autocorrelated(white: Floats, phi: float) -> Floats:
    """Return first-order autoregressive noise of the same variance."""
    out, last, gain = np.empty_like(white), 0.0, (1 - phi**2) ** 0.5
    for i, x in enumerate(white):
        last = out[i] = phi * last + gain * x
    return out


def restarted(rng: np.random.Generator, log: Log, fresh: Callable[[NDArray[np.int64]], Floats]) -> Log:
    """Return the log of a run that stopped once and repeated some steps from its checkpoint."""
    n = len(log["step"])
    stop = int(rng.uniform(0.4, 0.9) * n)
    back = int(rng.integers(5, 300))
    again = np.concatenate([np.arange(stop), np.arange(stop - back, n)])
    out = {name: column[again].copy() for name, column in log.items()}
    repeated = np.arange(stop, stop + back)
    out["loss"][repeated] += fresh(again[repeated]) * 0.3
    return out


BLOOM = (
    0.02,
    0.40,
    0.04,
    0.15,
    2.90,
    1.29,
    1.01,
    0.60,
)  # excess of the rows quoted in the chronicles, step 31215 on
STUCK = (0.10, 0.37, 3.95, 0.81, 4.28)  # of the 104B model, step 8739 on; 283 steps later it is 3.7


def bloom(k: Floats) -> Floats:
    """Return the excess of a spike like that of BLOOM 176B: up in 5 steps, gone after about 30."""
    return np.where(k < len(BLOOM), np.resize(BLOOM, len(k)), 0.6 * np.exp(-(k - len(BLOOM)) / 6.0))


def stuck(k: Floats) -> Floats:
    """Return the excess of a run that never came back, as the 104B model of the same chronicles."""
    return np.where(k < len(STUCK), np.resize(STUCK, len(k)), 3.7 + 0.3 * np.sin(k))


#: Excess over a healthy loss, by rows since it began; what it must be called; which advice is right.
INCIDENTS: Mapping[str, tuple[Callable[[Floats], Floats], tuple[str, ...], tuple[str, ...]]] = {
    "+0.06 nat": (lambda k: np.full(len(k), 0.06), ("persistent",), ("rollback",)),
    "+0.3 nat": (lambda k: np.full(len(k), 0.3), ("persistent",), ("rollback",)),
    "drift 0.004 a row": (lambda k: 0.004 * (k + 1), ("persistent", "divergent"), ("rollback",)),
    "exponential growth": (
        lambda k: np.minimum(0.01 * np.exp(k / 20), 6.0),
        ("persistent", "divergent"),
        ("rollback",),
    ),
    "one-row outlier": (lambda k: np.where(k == 0, 1.5, 0.0), ("data outlier",), ("none",)),
    "one NaN": (lambda k: np.where(k == 0, np.nan, 0.0), ("data outlier",), ("wait",)),
    "NaN for good": (lambda k: np.full(len(k), np.nan), ("divergent",), ("rollback",)),
    "like BLOOM 176B": (bloom, ("recoverable",), ("wait",)),
    "like 104B": (stuck, ("persistent", "divergent"), ("rollback",)),
}


def splice(log: Log, kind: str, row: int, rows_after: int = 1000) -> Log:
    """Return a log with an incident from `row` on, cut `rows_after` rows later."""
    out = {name: column[: row + rows_after].copy() for name, column in log.items()}
    out["loss"][row:] += INCIDENTS[kind][0](np.arange(len(out["loss"]) - row, dtype=float))
    return out
