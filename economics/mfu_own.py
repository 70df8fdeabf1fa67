"""The user's own measured speeds: read, compared with each other, and doubted where nothing explains them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

import numpy as np

from economics.logit_t import LogitT
from economics.mfu_rows import Array, Rows
from economics.run_numbers import count
from economics.utilisation import MfuError, MfuWarning
from scaling.errors import DataError, shown
from scaling.findings import Finding

#: Below this no training step is under way: a speed of one GPU given for hundreds, samples for tokens.
_NOTHING = 0.002
#: A measured speed outside the prediction by this much on the low side is doubted.
_UNLIKELY = 0.002


def read_speeds(given: object) -> Array:
    """Return speeds in tokens per second, each positive, shape (n,).

    Examples
    --------
    >>> read_speeds(["655k", 662e3])
    array([655000., 662000.])
    """
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | dict)
    values = list(given) if several else [given]  # type: ignore[call-overload]
    if not values:
        raise DataError(
            "measured_tokens_per_s is empty: give at least one speed", column="measured_tokens_per_s"
        )
    speeds = [count("measured_tokens_per_s", value) for value in values]
    for i, (value, speed) in enumerate(zip(values, speeds, strict=True)):
        if not (math.isfinite(speed) and speed > 0):
            where = f" at position {i}" if several else ""
            raise DataError(
                f"measured_tokens_per_s must be positive, got {shown(value)}{where}: leave out steps that failed.",
                column="measured_tokens_per_s",
            )
    return np.array(speeds, dtype=np.float64)


def pooled_noise(rows: Rows, own: tuple[float, ...]) -> tuple[float, ...]:
    """Widen the spread of measurements of one set-up that differ by more than they claim.

    Parameters
    ----------
    rows : Rows
        All rows; the last ``len(own)`` are the user's.
    own : tuple of float
        Spread of each, logit units. Of a set-up that was measured more than once, none is taken to be better
        than the standard deviation between its measurements.
    """
    mine = rows.select(np.arange(len(rows)) >= len(rows) - len(own))
    share = np.minimum(mine.mfu / mine.ceiling, 0.99)
    logit = np.log(share / (1.0 - share))
    out = np.array(own)
    config = mine.labels["config"]
    for name in set(map(str, config)):
        same = config == name
        if int(same.sum()) > 1:
            out[same] = np.maximum(out[same], float(np.std(logit[same], ddof=1)))
    return tuple(map(float, out))


def own_doubts(mfu: float, expected: LogitT, n_gpus: int) -> tuple[Finding, ...]:
    """Doubt a measured utilisation far below what such set-ups reach.

    Parameters
    ----------
    mfu : float
        What the speed amounts to.
    expected : LogitT
        Prediction without it.
    n_gpus : int
        GPUs it was said to belong to.

    Raises
    ------
    MfuError
        So little that no training can have been measured.
    """
    low, high = expected.quantile(_UNLIKELY), expected.quantile(1.0 - _UNLIKELY)
    if mfu >= low:
        return ()
    causes = ["are the first steps, which compile, left out"]
    if n_gpus > 1 and low <= mfu * n_gpus <= high:
        causes.insert(0, f"is it the speed of one GPU (of all {n_gpus} together that is {mfu * n_gpus:.0%})")
    elif low <= mfu * 1000 <= high:
        causes.insert(0, f"was it in thousands (that is {mfu * 1000:.0%})")
    words = (
        f"the measured speed amounts to {mfu:.2g} of the peak ({mfu:.1%}), where such set-ups reach {low:.0%} to "
        f"{high:.0%}: {'; or '.join(causes)}?"
    )
    if mfu < _NOTHING:
        raise MfuError(words, value=mfu, causes=tuple(causes), column="measured_tokens_per_s")
    warnings.warn(MfuWarning(words, value=mfu), stacklevel=3)
    return (Finding("speed_far_below_expected", "warning", words, {"mfu": mfu, "low": low, "high": high}),)
