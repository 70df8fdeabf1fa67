"""Where a single new run would land: the ends of its interval, from laws with their form open and their noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scaling.laws.base import Array
from scaling.open_form.rollout import CENTRAL, log_quantiles

if TYPE_CHECKING:
    from scaling.open_form.calibration import Calibration

#: Degrees of freedom of Student's t for the scatter of single runs: `noise_sd` is robust, and so deaf to tails.
TAILS = 12


def single_run(calibration: Calibration, params: Array, tokens: Array, level: float) -> Array:
    """Return (low, middle, high) of the log loss of a single run at each (params, tokens), shape (3, n).

    The middle is the median of the draws, moved by `Calibration.shift` standard errors. Each end is as far from
    it as the root of two squares: how far that end of the central interval of the draws lies from their median,
    times `Calibration.inflation`, and the quantile of the noise.
    """
    from scipy.special import stdtrit

    tail = (1 + level) / 2
    shares = (1 - tail, *CENTRAL, tail)
    low, below, middle, above, high = log_quantiles(calibration.draws, params, tokens, shares)
    error = (above - below) / 2
    scatter = float(stdtrit(TAILS, tail)) * calibration.noise
    at, wider = middle + calibration.shift * error, calibration.inflation
    down, up = np.hypot(wider * (middle - low), scatter), np.hypot(wider * (high - middle), scatter)
    return np.stack([at - down, at, at + up])
