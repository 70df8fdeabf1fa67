"""What several parts of the guide ask of a loss: its noise, its level, what is left when the trend is taken out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Standard deviation of a normal variable over its median absolute deviation.
MAD = 1.4826
#: Standard error of a median over that of a mean, for normal noise.
MEDIAN_SE = 1.2533


def stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return first and last position of each stretch that is true.

    Examples
    --------
    >>> stretches(np.array([True, False, True, True]))
    [(0, 0), (2, 3)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2)]


def noise(value: Floats) -> float:
    """Return the standard deviation from one row to the next, from the median of the differences: trends do not count.

    Examples
    --------
    >>> round(noise(np.arange(2000) * 0.1 + np.random.default_rng(0).normal(size=2000)), 1)
    1.0
    """
    difference = np.diff(value[np.isfinite(value)])
    if len(difference) == 0:
        return 0.0
    return float(MAD * np.median(np.abs(difference - np.median(difference))) / np.sqrt(2.0))


def residual(value: Floats, half: int = 25) -> Floats:
    """Return what is left of a loss without its running median, cut at 5 standard deviations; 0 where not finite.

    It is 0 around spikes too, where five rows of a window are far off: a spike is not the noise of a batch, and any
    two spikes of a log would agree at the distance that they have.
    """
    if len(value) < 4 * half:
        return np.zeros(len(value))
    filled = np.where(np.isfinite(value), value, np.nanmedian(value[np.isfinite(value)]))
    padded = np.concatenate((filled[half:0:-1], filled, filled[-2 : -half - 2 : -1]))
    trend = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
    left = filled - trend
    scale = max(MAD * float(np.median(np.abs(left))), 1e-12)
    far = np.convolve(np.abs(left) > 4.0 * scale, np.ones(2 * half + 1), mode="same") >= 5
    spike = np.convolve(far, np.ones(2 * half + 1), mode="same") > 0.5
    cut: Floats = np.clip(left / scale, -5.0, 5.0) * (np.isfinite(value) & ~spike)
    return cut


def lagged(a: Floats, b: Floats, least: int) -> tuple[int, float, int, float]:
    """Find the offset at which two residuals agree best.

    Parameters
    ----------
    a, b : ndarray, (n,), (m,)
        Residuals (`residual`), the same rows or different ones.
    least : int
        Rows that must overlap.

    Returns
    -------
    offset : int
        ``b[i + offset]`` goes with ``a[i]``.
    correlation : float
        Of the rows that overlap.
    overlap : int
    z : float
        Correlation over its standard error under no relation, ``r * sqrt(overlap)``.
    """
    n, m = len(a), len(b)
    size = 1 << int(np.ceil(np.log2(n + m)))
    spectrum = np.conj(np.fft.rfft(a, size)) * np.fft.rfft(b, size)
    product = np.fft.irfft(spectrum, size)
    offsets = np.arange(-(n - 1), m)
    product = product[offsets % size]
    cumulated = [np.concatenate(([0.0], np.cumsum(x**2))) for x in (a, b)]
    low_a, high_a = np.maximum(0, -offsets), np.minimum(n, m - offsets)
    overlap = high_a - low_a
    power_a = cumulated[0][high_a] - cumulated[0][low_a]
    power_b = cumulated[1][high_a + offsets] - cumulated[1][low_a + offsets]
    with np.errstate(divide="ignore", invalid="ignore"):
        r = product / np.sqrt(power_a * power_b)
    z = np.where((overlap >= least) & np.isfinite(r), r * np.sqrt(overlap), -np.inf)
    if a is b or (n == m and np.array_equal(a, b)):
        z[np.abs(offsets) < least] = -np.inf
        z[offsets < 0] = -np.inf
    best = int(np.argmax(z))
    return int(offsets[best]), float(r[best]), int(overlap[best]), float(z[best])


def level_change(value: Floats, at: int, width: int) -> tuple[float, float]:
    """Return by how much the level changes at a row against the trend around it, and over its standard error.

    Straight lines through the rows before and after, robust against single outliers, are compared at the row.
    """
    before, after = value[max(at - width, 0) : at], value[at : at + width]
    before, after = before[np.isfinite(before)], after[np.isfinite(after)]
    if len(before) < 8 or len(after) < 8:
        return 0.0, 0.0
    ends, errors = [], []
    for part, x0 in ((before, float(len(before))), (after, 0.0)):
        x = np.arange(len(part), dtype=np.float64)
        cut = np.clip(
            part,
            *(
                np.median(part)
                + np.array([-4.0, 4.0]) * max(MAD * float(np.median(np.abs(part - np.median(part)))), 1e-12)
            ),
        )
        slope, offset = np.polyfit(x, cut, 1)
        spread = float(np.std(cut - slope * x - offset))
        ends.append(offset + slope * x0)
        errors.append(
            2.0 * spread / np.sqrt(len(part))
        )  # of a line at its end, against s/sqrt(n) in its middle
    change, error = ends[1] - ends[0], float(np.hypot(*errors))
    return float(change), float(change / max(error, 1e-12))
