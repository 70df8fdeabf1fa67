"""Repeated data over-fit: L = E + A/N^alpha + B/D^beta + P ((D/U - 1) N/U)^kappa.

A model of this package, not a published one. That loss under repetition is the plain law plus a penalty of
few coefficients is the proposal of Lovelace et al. 2026 (arXiv 2605.01640); that it grows with parameters
and falls with unique data, as powers of both, that of the law in arXiv 2605.09189. The form here has one
power of one number: repetitions times parameters per unique token. It is 0 for data seen once, and unlike
the effective tokens of `scaling.laws.data_constrained` it lets the loss *rise* with further epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from scaling.laws.attached import AttachedExtended, attach_extended
from scaling.laws.base import Array, quiet
from scaling.laws.chinchilla import COEFFICIENTS, ChinchillaLaw, counts, plain_value
from scaling.laws.extended import ExtendedForm, Extra
from scaling.laws.jet import exp, where

#: Repetitions below which data count as seen once.
_ONCE = 1e-9


@dataclass(frozen=True)
class RepetitionPenaltyLaw:
    """The plain law and a penalty on repeating data with a model large for them.

    Parameters
    ----------
    E, A, B, alpha, beta : float or array
        The plain law of N and of all D tokens seen.
    P : float or array
        Penalty, in the unit of the loss, where repetitions times parameters per unique token are 1.
    kappa : float or array
        Exponent of that number.

    Examples
    --------
    >>> law = RepetitionPenaltyLaw(1.8, 480.0, 2100.0, 0.35, 0.37, P=0.1, kappa=0.5)
    >>> f"{law.loss(1e9, 4e9, 1e9):.3f} {law.penalty(1e9, 4e9, 1e9):.3f}"
    '2.901 0.173'
    """

    COEFFICIENTS: ClassVar[tuple[str, ...]] = (*COEFFICIENTS, "P", "kappa")
    EXTRAS: ClassVar[tuple[Extra, ...]] = (
        # P is searched as the penalty in the middle of the repeated runs, in shares of the loss.
        Extra("P", 4e-8, 10.0, (0.001, 0.01, 0.1), moved=True),
        Extra("kappa", 0.02, 6.0, (0.3, 0.8, 1.6), wide=4.0),
    )

    E: Any
    A: Any
    B: Any
    alpha: Any
    beta: Any
    P: Any
    kappa: Any

    @property
    def base(self) -> ChinchillaLaw:
        """The law of data seen once."""
        return ChinchillaLaw(self.E, self.A, self.B, self.alpha, self.beta)

    @quiet
    def penalty(self, params: ArrayLike, tokens: ArrayLike, unique_tokens: ArrayLike) -> Any:
        """Return what repetition adds to the loss."""
        load = over_fitting_load(params, tokens, unique_tokens)
        return plain_value(np.where(load > 0, np.asarray(self.P) * load ** np.asarray(self.kappa), 0.0))

    @quiet
    def loss(self, params: ArrayLike, tokens: ArrayLike, unique_tokens: ArrayLike | None = None) -> Any:
        """Return the predicted loss; without `unique_tokens` every token is new."""
        plain = self.base.loss(params, tokens)
        if unique_tokens is None:
            return plain
        return plain_value(plain + self.penalty(params, tokens, unique_tokens))


def over_fitting_load(params: ArrayLike, tokens: ArrayLike, unique_tokens: ArrayLike) -> Array:
    """Return (D/U - 1) N/U: repetitions times parameters per unique token; 0 where no token is repeated."""
    n, d, u = counts("params", params), counts("tokens", tokens), counts("unique_tokens", unique_tokens)
    repeats = d / np.minimum(u, d) - 1.0
    return np.asarray(np.where(repeats > _ONCE, repeats * n / np.minimum(u, d), 0.0))


class PenaltyForm(ExtendedForm):
    """The law tied to its runs: see `ExtendedForm`."""

    extras = RepetitionPenaltyLaw.EXTRAS

    def __init__(self, *args: Any, load: Array, **options: Any) -> None:
        x, y, log_loss, held = args
        with np.errstate(divide="ignore"):
            log_load = np.log(load)
        repeated = np.isfinite(log_load)
        #: Where ln of the load is measured from: a P held by the user is one at a load of 1.
        self.middle = 0.0 if "P" in held or not repeated.any() else float(log_load[repeated].mean())
        self.load, self.log_load = load, log_load - self.middle
        loss = float(np.exp(log_loss.mean()))
        # In the unit of the loss, which may be one of thousands.
        self.extras = tuple(
            e._replace(low=e.low * loss, high=e.high * loss, starts=tuple(v * loss for v in e.starts))
            if e.moved
            else e
            for e in self.extras
        )
        super().__init__(x, y, log_loss, held, **options)

    @property
    def more(self) -> dict[str, Any]:
        """Further arguments that make this form again."""
        return {"load": self.load}

    def further(self, *values: Any) -> tuple[Any, ...]:
        """Return P, which the solver takes in the middle of the repeated runs, and kappa."""
        p, kappa = values
        return p * np.exp(-kappa * self.middle), kappa

    def terms(self, c: dict[str, Any]) -> list[Any]:
        """Return the terms whose sum is the loss at every run."""
        repeated = np.isfinite(self.log_load)
        penalty = exp(c["log_P"] + exp(c["log_kappa"]) * np.where(repeated, self.log_load, 0.0))
        return [
            c["E"],
            exp(c["log_A"] - c["alpha"] * self.x),
            exp(c["log_B"] - c["beta"] * self.y),
            where(repeated, penalty, 0.0),
        ]

    def base_of(self, extras: dict[str, float]) -> tuple[Array, Array, Array]:
        """Return log N, log D and the log of the loss without the penalty, or of a half of it."""
        penalty = extras["P"] * np.exp(extras["kappa"] * self.log_load)
        loss = np.exp(self.log_loss)
        return self.x, self.y, np.log(np.maximum(loss - penalty, loss / 2))


def attach_penalty(
    params: Array,
    tokens: Array,
    unique_tokens: Array,
    log_loss: Array,
    fixed: Mapping[str, float] | None = None,
    tied: bool = False,
) -> AttachedExtended:
    """Attach the law to runs, with some coefficients held and, if asked, alpha = beta.

    Raises
    ------
    DataError
        For an unknown name or a value out of range.
    """
    form = partial(PenaltyForm, load=over_fitting_load(params, tokens, unique_tokens))
    return attach_extended(RepetitionPenaltyLaw, form, params, tokens, log_loss, fixed, tied)
