"""Where a single new run would land: the ends of its interval, from draws of a law and their calibration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from scaling.intervals import stretch
from scaling.laws.base import Array, quiet
from scaling.laws.chinchilla import ChinchillaLaw

if TYPE_CHECKING:
    from scaling.calibration import Calibration
    from scaling.result import ChinchillaFit

#: Steps in ln C on the way from the largest run, at which the law's width is looked at.
_STEP = 1.0


@quiet
def half_width(fit: ChinchillaFit, params: Array, tokens: Array, level: float) -> Array:
    """Return half the width of the central interval of the draws in log loss, shape (n,)."""
    each = ChinchillaLaw(*(np.asarray(v)[:, None] for v in vars(fit.draws).values()))
    logs = np.log(np.asarray(each.loss(params, tokens)))
    # An observed quantile of draws that ran off to infinity is infinite; an interpolated one would be nan.
    how = "linear" if np.isfinite(logs).all() else "closest_observation"
    low, high = np.quantile(logs, [(1 - level) / 2, (1 + level) / 2], axis=0, method=how)  # type: ignore[call-overload]
    return np.asarray((high - low) / 2)


@quiet
def law_error(fit: ChinchillaFit, params: Array, tokens: Array, level: float) -> Array:
    """Return the standard error of the law's log loss at each (params, tokens), shape (n,), from its draws.

    Half the central interval of coverage `level` over the normal quantile, with the factor for few units of
    `scaling.intervals.stretch`. Beyond the compute of the runs it is the largest on the way there at the same
    tokens per parameter, so that intervals never narrow with distance: the draws of a law may meet again
    far out, as those of one with a held E do, but what is known of runs there does not grow.
    """
    from scipy.special import ndtri

    log_flops = np.log(params) + np.log(tokens)
    beyond = np.maximum(log_flops - np.log(fit.runs.params * fit.runs.tokens).max(), 0.0)
    n_steps = math.ceil(float(np.max(beyond, initial=0.0)) / _STEP)
    back = np.maximum(beyond - _STEP * np.arange(n_steps + 1)[:, None], 0.0)
    half = [half_width(fit, params * np.exp(-t / 2), tokens * np.exp(-t / 2), level) for t in back]
    factor = stretch(fit.settings.n_clusters, level) / float(ndtri((1 + level) / 2))
    return np.asarray(np.max(half, axis=0) * factor)


def offsets(calibration: Calibration, error: Array, level: float) -> tuple[Array, Array]:
    """Return how far below and above the law's log loss the ends of a single run's interval lie, shape (n,).

    Student's t with the calibration's degrees of freedom, about the law moved by `Calibration.shift`
    inflated standard errors: t times the root of the squares of inflated standard error and noise.
    """
    from scipy.special import stdtrit

    inflated = calibration.inflation * error
    reach = float(stdtrit(calibration.dof, (1 + level) / 2)) * np.hypot(inflated, calibration.noise)
    return calibration.shift * inflated - reach, calibration.shift * inflated + reach


@quiet
def single_run(fit: ChinchillaFit, params: Array, tokens: Array, level: float) -> tuple[Array, Array]:
    """Return the ends of the interval of a single run at each (params, tokens), in loss, shape (n,).

    The law's own interval is not narrowed: `ChinchillaFit.predict` takes the wider of both at either end.
    Where the draws ran off to infinity the interval is open. See `offsets` and `law_error`.
    """
    error = law_error(fit, params, tokens, level)
    law = np.log(np.asarray(fit.law.loss(params, tokens)))
    low, high = offsets(fit.calibration, error, level)
    known = np.isfinite(error)
    return np.where(known, np.exp(law + low), 0.0), np.where(known, np.exp(law + high), np.inf)
