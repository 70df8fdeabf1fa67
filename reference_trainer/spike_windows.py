"""Streaming medians and noise scales of the spike detector: bounded memory, plain state."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise

#: A normal distribution's standard deviation over its median absolute deviation.
MAD_TO_SD = 1.4826
#: A normal distribution's distance between quartiles over its standard deviation.
IQR_TO_SD = 1.349
#: Standard error of a median over that of a mean, normal noise: sqrt(pi/2).
MEDIAN_SE = 1.2533


def median(values: Iterable[float]) -> float:
    """Return the median of some numbers, at least one.

    Examples
    --------
    >>> median([3.0, 1.0, 2.0, 10.0])
    2.5
    """
    return middle(sorted(values))


def middle(ranks: Sequence[float]) -> float:
    """Return the median of numbers that are sorted already."""
    half = len(ranks) >> 1
    return ranks[half] if len(ranks) & 1 else 0.5 * (ranks[half - 1] + ranks[half])


def centre_and_sd(values: Iterable[float]) -> tuple[float, float]:
    """Return the median and 1.4826 times the median absolute deviation: outliers move neither.

    Examples
    --------
    >>> centre_and_sd([1.0, 2.0, 3.0, 4.0, 1000.0])
    (3.0, 1.4826)
    """
    ranks = sorted(values)
    centre = middle(ranks)
    return centre, MAD_TO_SD * middle(sorted([abs(x - centre) for x in ranks]))


def jitter(values: Iterable[float]) -> float:
    """Return the standard deviation of the noise from first differences, which a trend does not reach.

    The middle half of the differences is used, so that outliers do not count. Positive autocorrelation makes it too
    small: `Blocks` looks at that. Fewer than five numbers give 0.

    Examples
    --------
    >>> round(jitter([5.0, 4.9, 4.8, 4.7, 4.6, 4.5]), 12)  # a straight fall has no noise
    0.0
    """
    steps = sorted([b - a for a, b in pairwise(values)])
    quarter = len(steps) >> 2
    return (steps[-1 - quarter] - steps[quarter]) / (IQR_TO_SD * 2**0.5) if quarter else 0.0


def grain(ranks: Sequence[float]) -> float:
    """Return the smallest distance between two different numbers of a sorted sequence: a log's last digit, or less.

    Examples
    --------
    >>> grain([2.5, 2.75, 2.75, 3.0])
    0.25
    """
    return min([b - a for a, b in pairwise(ranks) if b > a], default=0.0)


class Window:
    """The last `size` numbers and their running median, O(log size) a step.

    Parameters
    ----------
    size : int
        How many numbers it holds.

    Examples
    --------
    >>> window = Window(3)
    >>> for x in (5.0, 1.0, 2.0, 9.0):
    ...     window.push(x)
    >>> window.median()
    2.0
    """

    __slots__ = ("queue", "ranks", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.fill(())

    def __len__(self) -> int:
        return len(self.ranks)

    def fill(self, values: Iterable[float]) -> None:
        """Hold the last of these numbers and nothing else."""
        self.queue: deque[float] = deque(values, maxlen=self.size)
        self.ranks = sorted(self.queue)

    def push(self, x: float) -> None:
        """Take in a finite number; the oldest goes when there is no room."""
        ranks = self.ranks
        if len(ranks) == self.size:
            del ranks[bisect_left(ranks, self.queue[0])]
        self.queue.append(x)
        insort(ranks, x)

    def median(self) -> float:
        """Return the median of what it holds."""
        return middle(self.ranks)


class Blocks:
    """Medians of consecutive blocks, and how far they scatter by themselves.

    White noise says what the median of a block should scatter; slow waves in the data make it more. Two looks at it,
    and the larger counts: second differences, which neither a level nor a slope reaches; and how far the
    medians stood above the lowest level, from which a wave longer than a block cannot hide.

    Parameters
    ----------
    size : int
        Rows of a block.
    keep : int
        Blocks that are remembered.

    Examples
    --------
    >>> blocks = Blocks(16)
    >>> for j in range(20):
    ...     blocks.add(4.0 - 0.01 * j + (0.001 if j % 2 else -0.001))
    >>> round(blocks.scatter(), 4)
    0.0024
    """

    #: With fewer blocks than this there is no scatter to speak of.
    LEAST = 12

    def __init__(self, size: int, keep: int = 64) -> None:
        self.size = size
        self.medians: deque[float] = deque(maxlen=keep)
        self.above: deque[float] = deque(maxlen=keep)

    def add(self, median: float, above: float = 0.0) -> None:
        """Remember a block's median, and how far it was above the lowest level: while the loss falls, it is not."""
        self.medians.append(median)
        self.above.append(max(above, 0.0))

    def scatter(self) -> float:
        """Return the standard deviation of a block's median around its local trend, 0 while unknown."""
        m = list(self.medians)
        n = len(m)
        if n < self.LEAST:
            return 0.0
        ranks = sorted(self.above)
        waves = 2 * (ranks[(3 * n) >> 2] - middle(ranks)) / IQR_TO_SD
        if self.size > 16:  # over long blocks the bend of the curve itself would count as noise
            return waves
        bends = [abs(a - 2 * b + c) for a, b, c in zip(m, m[1:], m[2:], strict=False)]
        return max(MAD_TO_SD * median(bends) / 6**0.5, waves)

    def highest(self) -> float:
        """Return how far a block has stood above the level, the last four left out: they may be what is judged."""
        return max(list(self.above)[:-4]) if len(self.above) >= self.LEAST else 0.0


class Lowest:
    """The lowest of the last `horizon` numbers, O(1) amortised.

    Parameters
    ----------
    horizon : int
        How many numbers back it looks.

    Examples
    --------
    >>> lowest = Lowest(2)
    >>> [lowest.push(x) for x in (3.0, 1.0, 2.0, 5.0)]
    [3.0, 1.0, 1.0, 2.0]
    """

    __slots__ = ("candidates", "horizon", "seen")

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.seen = 0
        self.candidates: deque[tuple[int, float]] = deque()

    def push(self, x: float) -> float:
        """Take in a number and return the lowest."""
        candidates = self.candidates
        while candidates and candidates[-1][1] >= x:
            candidates.pop()
        candidates.append((self.seen, x))
        if candidates[0][0] <= self.seen - self.horizon:
            candidates.popleft()
        self.seen += 1
        return candidates[0][1]

    def restart(self) -> None:
        """Forget everything."""
        self.candidates.clear()


def plain(x: float) -> float | None:
    """Return a number that JSON knows: None stands for infinity, which is "not known yet" here."""
    return None if x == math.inf else x


def unplain(x: float | None) -> float:
    """Return the number that `plain` was given."""
    return math.inf if x is None else x
