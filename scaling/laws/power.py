"""L(x) = E + A/x^alpha in one variable: loss against compute, parameters or tokens alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from scaling.errors import DataError
from scaling.laws.base import Array
from scaling.laws.held import check_range
from scaling.laws.power_sum import EXPONENT_BOX, PowerSum


@dataclass(frozen=True)
class PowerLaw:
    """L(x) = E + A/x^alpha (Kaplan et al. 2020, arXiv 2001.08361, eq. 1.1-1.3, with a floor).

    Parameters
    ----------
    E : float or array
        Floor, in the unit of the loss.
    A : float or array
        Coefficient, for x in its own unit.
    alpha : float or array
        Exponent.
    """

    COEFFICIENTS: ClassVar[tuple[str, ...]] = ("E", "A", "alpha")

    E: Any
    A: Any
    alpha: Any

    def loss(self, x: ArrayLike) -> Any:
        """Return the predicted loss at x."""
        value = self.E + self.A * np.asarray(x, dtype=float) ** -np.asarray(self.alpha)
        return float(value) if value.ndim == 0 else value


@dataclass(frozen=True)
class AttachedPower:
    """The law attached to data: see `scaling.laws.chinchilla.Attached`."""

    form: PowerSum
    centre: float

    def law(self, plain: Array) -> PowerLaw:
        """Turn the solver's plain coefficients, shape (3,) or (R, 3), into a law."""
        e, a, alpha = plain[..., 0], plain[..., 1], plain[..., 2]
        values = (e, a * np.exp(alpha * self.centre), alpha)
        return PowerLaw(*(float(v) if np.ndim(v) == 0 else v for v in values))


def attach_power(x: Array, log_loss: Array, fixed: Mapping[str, float] | None = None) -> AttachedPower:
    """Attach the law to data, with a pinned floor or exponent if asked.

    Raises
    ------
    DataError
        For a coefficient that cannot be held, or a floor above the smallest loss.
    """
    held = dict(fixed or {})
    unknown = set(held) - {"E", "alpha"}
    if unknown:
        raise DataError(
            f"fixed: only E and alpha can be held, not {', '.join(sorted(unknown))}", column="fixed"
        )
    if "alpha" in held and not held["alpha"] > 0:
        raise DataError(f"fixed['alpha'] must be positive, got {held['alpha']}", column="fixed")
    if "alpha" in held:
        check_range("alpha", held["alpha"], {"alpha": EXPONENT_BOX})
    if "E" in held and not 0 <= held["E"] < np.exp(log_loss.min()):
        raise DataError(
            f"fixed['E'] = {held['E']} is not between 0 and the smallest loss {np.exp(log_loss.min()):.6g}",
            column="fixed",
        )
    centre = float(np.log(x).mean())
    form = PowerSum(
        np.log(x)[None, :] - centre,
        (0,),
        log_loss,
        floor=held.get("E"),
        held_exponents={0: held["alpha"]} if "alpha" in held else {},
    )
    return AttachedPower(form, centre)
