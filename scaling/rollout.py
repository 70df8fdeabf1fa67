"""How far predictions beyond the runs went astray on these very runs: fit the small, score on the large."""

from __future__ import annotations

import numpy as np

from scaling.bootstrap import search
from scaling.laws.base import Array
from scaling.laws.chinchilla import Attached
from scaling.newton import Objective
from scaling.resample import LEVEL, levels
from scaling.residuals import clipped
from scaling.runs import RunTable

#: Shares of the runs, in order of compute, that predict the rest.
_SHARES = (0.4, 0.5, 0.6, 0.7, 0.8)
#: Fewest runs that predict, and that are predicted; and how far away in decades these begin.
_FEWEST, _FEWEST_BEYOND, _BEYOND = 12, 4, 0.05


def rollout_drift(
    runs: RunTable, problem: Objective, best: Array, attached: Attached, needed: tuple[int, int, int]
) -> float:
    """Return the error per decade of compute beyond the runs fitted, in log loss.

    For each of five cuts by compute the law is fitted to the runs below and scored on those above. The
    mean square of their errors, less that of the residuals below the cut, over the mean square of the
    distance is one sample of the squared drift; the root of the mean over cuts is returned. It is 0 where
    no cut leaves enough on both sides.

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
        Levels of N, of D and of both that determine what is free (`scaling.undetermined.needed_levels`).
    """
    decade = np.log10(runs.compute)
    cuts = [cut for cut in np.quantile(decade, _SHARES) if _usable(runs, decade, float(cut), needed)]
    if not cuts:
        return 0.0
    below = decade <= np.array(cuts)[:, None]
    part = Objective(problem.form, problem.log_loss, problem.weights * below, problem.scale, problem.delta)
    laws = attached.law(search(part, best[None], cold=False).plain)
    squares = []
    for i, inside in enumerate(below):
        law = type(laws)(*(np.asarray(value)[i] for value in vars(laws).values()))
        error = problem.log_loss - np.log(law.loss(runs.params, runs.tokens))
        away = decade - decade[inside].max()
        far = away > _BEYOND
        noise = float(np.mean(clipped(error[inside]) ** 2))
        beyond = float(np.mean((np.median(error[far]) + clipped(error[far])) ** 2))
        squares.append(max(beyond - noise, 0.0) / float(np.mean(away[far] ** 2)))
    return float(np.sqrt(np.mean(squares)))


def _usable(runs: RunTable, decade: Array, cut: float, needed: tuple[int, int, int]) -> bool:
    """Tell whether the runs below a cut determine the law and those above are enough to score it."""
    inside = decade <= cut
    if inside.sum() < _FEWEST or (decade > decade[inside].max() + _BEYOND).sum() < _FEWEST_BEYOND:
        return False
    sizes, counts = (int(levels(v[inside], LEVEL).max()) + 1 for v in (runs.params, runs.tokens))
    return sizes >= needed[0] and counts >= needed[1] and sizes + counts >= needed[2]
