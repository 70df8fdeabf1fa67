"""Laws with further coefficients attached to runs: what the solver moves, and the way back to the law."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scaling.laws.base import Array, quiet
from scaling.laws.chinchilla import plain_value
from scaling.laws.extended import ExtendedForm, Extra
from scaling.laws.held import centres, checked_held
from scaling.laws.power_sum import EXPONENT_BOX


@dataclass(frozen=True)
class AttachedExtended:
    """A law with further coefficients attached to runs: see `scaling.laws.chinchilla.Attached`.

    Parameters
    ----------
    form : ExtendedForm
        What the solver moves.
    kind : type
        The law's class.
    centre : tuple of float
        Where ln N and ln D are measured from.
    """

    form: ExtendedForm
    kind: Callable[..., Any]
    centre: tuple[float, float]

    @quiet
    def law(self, plain: Array) -> Any:
        """Turn the solver's plain coefficients, shape (q,) or (R, q), into a law."""
        e, a, b, alpha, beta, *further = (plain[..., i] for i in range(plain.shape[-1]))
        x, y = self.centre
        values = (e, a * np.exp(alpha * x), b * np.exp(beta * y), alpha, beta, *self.form.further(*further))
        return self.kind(*(plain_value(v) for v in values))

    def condition(self, plain: Array, weights: Array) -> float:
        """Return the condition number at the optimum."""
        return self.form.condition(plain, weights)


def attach_extended(
    kind: Any,
    form: Callable[..., ExtendedForm],
    params: Array,
    tokens: Array,
    log_loss: Array,
    fixed: Mapping[str, float] | None,
    tied: bool,
) -> AttachedExtended:
    """Attach a law to runs, with some coefficients held and, if asked, alpha = beta.

    Parameters
    ----------
    kind : type
        The law's class, with ``COEFFICIENTS`` and ``EXTRAS``.
    form : callable
        ``form(x, y, log_loss, held, tied=, centre=)``: the law tied to ln N and ln D from those centres.
    params, tokens, log_loss : array, shape (n,)
        The runs.
    fixed : mapping of str to float, optional
        Coefficients held.
    tied : bool
        Whether alpha = beta.

    Raises
    ------
    DataError
        For an unknown name or a value out of range.
    """
    extras: tuple[Extra, ...] = kind.EXTRAS
    ranges = dict.fromkeys(("alpha", "beta"), EXPONENT_BOX) | {
        e.name: (e.low, e.high) for e in extras if not e.moved
    }
    held = checked_held(fixed, kind.COEFFICIENTS, log_loss, tied, ranges)
    centre = centres(params, tokens, held)
    x, y = np.log(params) - centre[0], np.log(tokens) - centre[1]
    return AttachedExtended(form(x, y, log_loss, held, tied=tied, centre=centre), kind, centre)
