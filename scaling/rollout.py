"""How far predictions beyond the runs went astray on these very runs: fit the small, score on the large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scaling.bootstrap import search
from scaling.laws.base import Array, Mask
from scaling.laws.chinchilla import Attached, ChinchillaLaw
from scaling.newton import Objective
from scaling.resample import LEVEL, levels
from scaling.runs import RunTable

#: Shares of the runs, in order of compute, that predict the rest.
SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: Fewest runs that predict (three for each coefficient), and that are predicted; and how far away in
#: decades these begin.
FEWEST, FEWEST_BEYOND, BEYOND = 15, 4, 0.05


@dataclass(frozen=True)
class Rollout:
    """The law fitted to the runs below a cut of compute, and what it made of those above.

    Parameters
    ----------
    share : float
        Share of the runs that lie below.
    inside, beyond : bool array, shape (n,)
        The runs fitted, and those predicted.
    law : ChinchillaLaw
        The law below the cut.
    error : array, shape (n,)
        Log loss less its log prediction, of every run.
    away : array, shape (n,)
        Decades of compute from the largest run fitted.
    """

    share: float
    inside: Mask
    beyond: Mask
    law: ChinchillaLaw
    error: Array
    away: Array


def usable_cuts(
    compute: Array, needed: tuple[int, int, int], params: Array, tokens: Array
) -> list[tuple[float, Mask, Mask]]:
    """Return the cuts of a table by compute that leave enough on both sides.

    Parameters
    ----------
    compute : array, shape (n,)
        FLOPs of the runs.
    needed : tuple of int
        Levels of N, of D and of both that determine what is free (`scaling.undetermined.needed_levels`).
    params, tokens : array, shape (n,)
        The runs.

    Returns
    -------
    list of (float, bool array, bool array)
        Share below, the runs below and the runs beyond; cuts that give the same runs are given once.
    """
    decade = np.log10(compute)
    out: list[tuple[float, Mask, Mask]] = []
    for share in SHARES:
        inside = decade <= np.quantile(decade, share)
        beyond = decade > decade[inside].max() + BEYOND
        if inside.sum() < FEWEST or beyond.sum() < FEWEST_BEYOND:
            continue
        if out and inside.sum() == out[-1][1].sum():
            continue
        sizes, counts = (int(levels(v[inside], LEVEL).max()) + 1 for v in (params, tokens))
        if sizes >= needed[0] and counts >= needed[1] and sizes + counts >= needed[2]:
            out.append((float(inside.mean()), inside, beyond))
    return out


def rollouts(
    runs: RunTable, problem: Objective, best: Array, attached: Attached, needed: tuple[int, int, int]
) -> tuple[Rollout, ...]:
    """Fit the law below every usable cut and keep its errors above.

    Parameters
    ----------
    runs : RunTable
        The runs.
    problem : Objective
        What was minimised on all of them; its weights say which are used.
    best : array, shape (q,)
        Its minimum, where the refits start.
    attached : Attached
        The law attached to the runs.
    needed : tuple of int
        See `usable_cuts`.
    """
    cuts = usable_cuts(runs.compute, needed, runs.params, runs.tokens)
    if not cuts:
        return ()
    below = np.array([inside for _, inside, _ in cuts])
    part = Objective(problem.form, problem.log_loss, problem.weights * below, problem.scale, problem.delta)
    laws = attached.law(search(part, best[None], cold=False).plain)
    decade, out = np.log10(runs.compute), []
    for i, (share, inside, beyond) in enumerate(cuts):
        law = ChinchillaLaw(*(float(np.asarray(value)[i]) for value in vars(laws).values()))
        error = problem.log_loss - np.log(law.loss(runs.params, runs.tokens))
        out.append(Rollout(share, inside, beyond, law, error, decade - decade[inside].max()))
    return tuple(out)
