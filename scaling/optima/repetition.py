"""What a token is worth that was seen before, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scaling.errors import DataError
from scaling.estimate import Estimate

#: Beyond this many repetitions nothing decays in anybody's run: where the search for R_D ends.
EDGE = 1e6


@dataclass(frozen=True)
class Repetition:
    """How the worth of repeated tokens and of excess parameters decays.

    The r-th repetition of a token is worth exp(-r/R_D) of a new one (Muennighoff et al. 2023, arXiv 2305.16264,
    sec. 3.2), parameters beyond those that the unique tokens would use best exp(-r/R_N).

    Parameters
    ----------
    R_D, R_N : float
        The two constants.
    R_D_range : (float, float)
        What R_D may as well be: every answer is computed at both ends too.
    source : str
        Where they come from.
    """

    R_D: float
    R_N: float
    R_D_range: tuple[float, float]
    source: str = field(default="given")

    def __post_init__(self) -> None:
        for name, value in (("R_D", self.R_D), ("R_N", self.R_N)):
            if not (isinstance(value, int | float) and 0 < value <= EDGE):
                raise DataError(
                    f"{name} must lie between 0 and {EDGE:g} repetitions, got {value!r}", column=name
                )
        try:
            low, high = map(float, self.R_D_range)
        except (TypeError, ValueError):
            low = high = math.nan
        if not 0 < low <= self.R_D <= high <= EDGE:
            raise DataError(
                f"R_D_range must be two numbers around R_D = {self.R_D:g}, up to {EDGE:g} (no decay that matters); got "
                f"{self.R_D_range!r}",
                column="R_D_range",
            )

    def epochs_until(self, share: float) -> Estimate:
        """Return the epochs after which a further token is worth less than `share` of a new one.

        Parameters
        ----------
        share : float
            Between 0 and 1.

        Returns
        -------
        Estimate
            1 + R_D ln(1/share); its interval is that of the range of R_D.

        Examples
        --------
        >>> MUENNIGHOFF.epochs_until(0.5)
        epochs until a token is worth 50%: 11.67 epochs, 95% [3.773, inf]
        """
        if not (isinstance(share, int | float) and 0.0 < share < 1.0):
            raise DataError(f"share must lie between 0 and 1, got {share!r}", column="share")
        value, low, high = (
            math.inf if r >= EDGE else 1.0 - r * math.log(share) for r in (self.R_D, *self.R_D_range)
        )
        name = f"epochs until a token is worth {share:.0%}"
        return Estimate(value, low, high, 0.95, "optimum", name, "epochs")


def worth(epochs: Any, repetition: Any) -> Any:
    """Return what the next token is worth after so many epochs, as a share of a new one: exp(-(epochs - 1)/R_D)."""
    return np.exp(-np.maximum(np.asarray(epochs, dtype=float) - 1.0, 0.0) / repetition)


#: The published constants. Their authors' 182 runs do not determine R_D: refitted (Huber loss of log losses, R_N
#: free) the optimum is 95, and the 95% interval goes from 4 to the edge of the search.
MUENNIGHOFF = Repetition(
    15.387756, 5.309743, (4.0, EDGE), "Muennighoff et al. 2023, arXiv 2305.16264 (182 runs on C4)"
)
