"""Fit the Chinchilla law to a table of runs: what users call. The work is in `scaling.wiring`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import ArrayLike

    from scaling.intervals import IntervalMethod
    from scaling.resample import Resample
    from scaling.result import ChinchillaFit
    from scaling.runs import RunTable


def fit_chinchilla(
    runs: str | PathLike[str] | RunTable | Any | None = None,
    *,
    params: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    loss: ArrayLike | None = None,
    delta: float = 1e-3,
    resample: Resample = "auto",
    groups: ArrayLike | str | None = None,
    weights: ArrayLike | None = None,
    sigma: ArrayLike | None = None,
    fixed: Mapping[str, float] | None = None,
    tied: bool = False,
    n_boot: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    interval: IntervalMethod = "percentile",
    progress: Callable[[int, int], None] | None = None,
    **reading: Any,
) -> ChinchillaFit:
    """Fit L(N, D) = E + A/N^alpha + B/D^beta with bootstrapped intervals and a verdict.

    Parameters
    ----------
    runs : path, DataFrame, RunTable or anything `load_runs` reads
        The runs; or give arrays.
    params, tokens, loss : array_like, shape (n,), optional
        Parameters N, training tokens D and loss (nats/token) of each run, instead of `runs`.
    delta : float
        Huber threshold in log loss. 1e-3 as in Hoffmann et al. 2022.
    resample : {"auto", "pairs", "cluster", "wild"}
        Bootstrap. ``"auto"`` resamples clusters of rows when `groups` is given or ``trunk_id`` or
        ``run_id`` repeats, since rows of one run share its luck, and rows otherwise. ``"wild"`` flips
        signs of residuals and so keeps every row; it covers less (91% of a nominal 95% on the published
        points, where rows cover 96%: experiments/benchmarks).
    groups : array_like or str, optional
        Cluster of every row, or ``"model_size"``, or the name of a column.
    weights : array_like, shape (n,), optional
        Multiply each run's term of the objective; whole numbers are copies of rows, and rows of
        weight 0 are left out (the audit lists them).
    sigma : array_like, shape (n,), optional
        Run-to-run standard deviation of each loss, in the unit of the losses: log residuals are scaled
        by sigma0/sigma_i before Huber. The table's own ``sigma`` column is used by default.
    fixed : mapping of str to float, optional
        Coefficients held at a value, e.g. ``{"E": 1.6}``.
    tied : bool
        Impose alpha = beta.
    n_boot : int
        Bootstrap replicates; 0 for none.
    seed : int
        Seed of the bootstrap; the optimum needs no random numbers.
    level : float
        Coverage of intervals.
    interval : {"percentile", "bias-corrected"}
        How intervals are made of draws.
    progress : callable, optional
        Called with (replicates done, replicates in all).
    **reading
        Passed to `load_runs` (``columns=``, ``where=``, ``loss_unit=``, ``on_bad=`` ...).

    Returns
    -------
    ChinchillaFit

    Raises
    ------
    DataError
        The table or an argument cannot be used; says where and why.
    TooFewRunsError
        Fewer than 6 usable runs.
    NotIdentifiedError
        One size only, one token count only, or D proportional to N throughout; carries in `partial`
        what can be fitted all the same.

    Notes
    -----
    Objective (Hoffmann et al. 2022, sec. D.2): sum over runs of Huber_delta(log L - log prediction).
    The answer does not depend on its scale, nor on a starting point. Cost: O(n) per iteration, about
    10 ms for 240 runs; the bootstrap O(n_boot n), about 0.1 ms per replicate of 240 runs.

    Examples
    --------
    >>> import numpy as np
    >>> N, D = np.meshgrid([1e8, 3e8, 1e9, 3e9], [2e9, 8e9, 32e9])
    >>> loss = 1.8 + 480 / N**0.35 + 2100 / D**0.37
    >>> fit = fit_chinchilla(params=N.ravel(), tokens=D.ravel(), loss=loss.ravel(), n_boot=0)
    >>> f"{fit.law.E:.6f} {fit.law.alpha:.6f} {fit.law.beta:.6f}"
    '1.800000 0.350000 0.370000'
    """
    # Loaded with the first fit, so that the name alone costs nothing.
    from scaling.wiring import fit_runs

    return fit_runs(
        runs, params=params, tokens=tokens, loss=loss, delta=delta, resample=resample, groups=groups, weights=weights,
        sigma=sigma, fixed=fixed, tied=tied, n_boot=n_boot, seed=seed, level=level, interval=interval,
        progress=progress, reading=reading,
    )  # fmt: skip
