"""What a token is worth that was seen before, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.errors import DataError, shown
from scaling.estimate import Estimate

if TYPE_CHECKING:
    from scaling.law_fit import LawFit

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
    R_N_range : (float, float), optional
        The same of R_N; the two trade off, so the upper end of one goes with the lower end of the other.
    source : str
        Where they come from.
    """

    R_D: float
    R_N: float
    R_D_range: tuple[float, float]
    R_N_range: tuple[float, float] | None = None
    source: str = "given"

    def __post_init__(self) -> None:
        for name, value in (("R_D", self.R_D), ("R_N", self.R_N)):
            if not (isinstance(value, int | float) and 0 < value <= EDGE):
                raise DataError(
                    f"{name} must lie between 0 and {EDGE:g} repetitions, got {shown(value)}", column=name
                )
        for name in ("R_D", "R_N"):
            value, ends = getattr(self, name), getattr(self, f"{name}_range")
            try:
                low, high = (value, value) if ends is None else map(float, ends)
            except (TypeError, ValueError):
                low = high = math.nan
            if not 0 < low <= value <= high <= EDGE:
                raise DataError(
                    f"{name}_range must be two numbers around {name} = {value:g}, up to {EDGE:g} (no decay that "
                    f"matters); got {shown(ends)}",
                    column=f"{name}_range",
                )

    @classmethod
    def fitted(cls, fit: LawFit, level: float = 0.95) -> Repetition:
        """Return the constants of a fit to runs that repeat their data, with their intervals as ranges.

        Parameters
        ----------
        fit : LawFit
            From `scaling.data_constrained.fit_data_constrained`.
        level : float
            Coverage of the ranges.
        """
        found = {name: fit.ci(name, level) for name in ("R_D", "R_N")}
        ends = {
            name: (min(max(e.low, 1e-6), e.value), max(min(e.high, EDGE), e.value))
            for name, e in found.items()
        }
        return cls(
            found["R_D"].value,
            found["R_N"].value,
            ends["R_D"],
            ends["R_N"],
            f"fitted to {len(fit.runs)} runs",
        )

    @property
    def pairs(self) -> tuple[tuple[float, float], ...]:
        """R_D and R_N that answers are computed at: the constants first, then the ends of their ranges."""
        low, high = self.R_N_range or (self.R_N, self.R_N)
        every = ((self.R_D, self.R_N), (self.R_D_range[0], high), (self.R_D_range[1], low))
        return tuple(dict.fromkeys(every))

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
            raise DataError(f"share must lie between 0 and 1, got {shown(share)}", column="share")
        value, low, high = (
            math.inf if r >= EDGE else 1.0 - r * math.log(share) for r in (self.R_D, *self.R_D_range)
        )
        name = f"epochs until a token is worth {share:.0%}"
        return Estimate(value, low, high, 0.95, "optimum", name, "epochs")


def worth(epochs: Any, repetition: Any) -> Any:
    """Return what the next token is worth after so many epochs, as a share of a new one: exp(-(epochs - 1)/R_D)."""
    return np.exp(-np.maximum(np.asarray(epochs, dtype=float) - 1.0, 0.0) / repetition)


#: The published constants. Their authors' 182 runs do not determine them: refitted (`fit_data_constrained`, their base
#: law held, 300 refits) the optimum is R_D = 95, R_N = 1.7, the 95% intervals go from 4 to the edge of the search and
#: from 0.25 to 23, and the logs of the two correlate with -0.8.
MUENNIGHOFF = Repetition(
    15.387756, 5.309743, (4.0, EDGE), (0.25, 23.0), "Muennighoff et al. 2023, arXiv 2305.16264"
)
