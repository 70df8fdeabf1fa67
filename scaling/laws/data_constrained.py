"""Repeated data are worth less: effective tokens and parameters (Muennighoff et al. 2023, arXiv 2305.16264).

L = E + A/N'^alpha + B/D'^beta with (their sec. 3 and appendix A)

    D' = U + U R_D (1 - exp(-r_D/R_D)),   r_D = D/U - 1,
    N' = V + V R_N (1 - exp(-r_N/R_N)),   r_N = N/V - 1,

U the unique tokens (never more than D) and V the parameters for which U tokens are compute-optimal under
the base law (never more than N).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from scaling.laws.attached import AttachedExtended, attach_extended
from scaling.laws.base import Array, Mask, quiet
from scaling.laws.chinchilla import COEFFICIENTS, ChinchillaLaw, counts, plain_value
from scaling.laws.extended import ExtendedForm, Extra
from scaling.laws.jet import Jet, compose, exp, expm1, log, value, where

#: Tokens per parameter assumed in starts alone (Hoffmann et al. 2022).
_RULE_OF_THUMB = 20.0


@dataclass(frozen=True)
class DataConstrainedLaw:
    """L = E + A/N'^alpha + B/D'^beta with effective parameters N' and tokens D'.

    Parameters
    ----------
    E, A, B, alpha, beta : float or array
        The base law, of new data and models no larger than these can use (`ChinchillaLaw`).
    R_D : float or array
        Repetitions after which a repeated token is worth 1/e of a new one.
    R_N : float or array
        The same for parameters beyond those that the unique tokens would use best.

    Examples
    --------
    >>> law = DataConstrainedLaw(1.8691435, 520.7, 1487.7, 0.3526596, 0.3526596, 15.387756, 5.309743)
    >>> f"{law.effective_tokens(1e11, 2e9) / 1e11:.2f} of each token seen 50 times"
    '0.32 of each token seen 50 times'
    """

    COEFFICIENTS: ClassVar[tuple[str, ...]] = (*COEFFICIENTS, "R_D", "R_N")
    EXTRAS: ClassVar[tuple[Extra, ...]] = (
        Extra("R_D", 1e-2, 1e6, (2.0, 10.0, 60.0, 1000.0)),
        Extra("R_N", 1e-2, 1e6, (1.0, 6.0, 60.0)),
    )

    E: Any
    A: Any
    B: Any
    alpha: Any
    beta: Any
    R_D: Any
    R_N: Any

    @property
    def base(self) -> ChinchillaLaw:
        """The law of new data."""
        return ChinchillaLaw(self.E, self.A, self.B, self.alpha, self.beta)

    @quiet
    def effective_tokens(self, tokens: ArrayLike, unique_tokens: ArrayLike | None = None) -> Any:
        """Return D': how many new tokens `tokens` tokens of `unique_tokens` unique ones are worth."""
        d, u = _seen(tokens, unique_tokens)
        return plain_value(u * (1.0 + _worth(d / u - 1.0, self.R_D)))

    @quiet
    def effective_params(self, params: ArrayLike, unique_tokens: ArrayLike | None = None) -> Any:
        """Return N': parameters beyond the best size for `unique_tokens` count for less."""
        n = np.asarray(params, dtype=float)
        if unique_tokens is None:
            return plain_value(n + 0.0 * np.asarray(self.R_N))
        best = np.exp(np.minimum(self.base.log_params_at(unique_tokens), 700.0))
        v = np.minimum(n, best)
        return plain_value(v * (1.0 + _worth(n / v - 1.0, self.R_N)))

    @quiet
    def loss(self, params: ArrayLike, tokens: ArrayLike, unique_tokens: ArrayLike | None = None) -> Any:
        """Return the predicted loss; without `unique_tokens` every token is new, as are the parameters' uses.

        Parameters
        ----------
        params, tokens : array_like
            N, and D as seen in training.
        unique_tokens : array_like, optional
            Distinct tokens at hand; a run that sees fewer has that many.
        """
        d, u = _seen(tokens, unique_tokens)
        n = self.effective_params(params, None if unique_tokens is None else u)
        return self.base.loss(n, self.effective_tokens(d, u))


class DataConstrainedForm(ExtendedForm):
    """The law tied to its runs: see `ExtendedForm`."""

    extras = DataConstrainedLaw.EXTRAS

    def __init__(self, *args: Any, unique: Array, **options: Any) -> None:
        super().__init__(*args, **options)
        d = np.exp(self.y + self.centre[1])
        self.log_u = np.log(np.minimum(unique, d))
        self.repeats = np.maximum(d / np.minimum(unique, d) - 1.0, 0.0)

    @property
    def more(self) -> dict[str, Any]:
        """Further arguments that make this form again."""
        return {"unique": np.exp(self.log_u)}

    def terms(self, c: dict[str, Any]) -> list[Any]:
        """Return the terms whose sum is the loss at every run."""
        log_d = self.log_u - self.centre[1] + log(_repeated(self.repeats, c["log_R_D"]) + 1.0)
        log_n = self._log_params(c)
        return [c["E"], exp(c["log_A"] - c["alpha"] * log_n), exp(c["log_B"] - c["beta"] * log_d)]

    def _log_params(self, c: dict[str, Any]) -> Any:
        """Return ln N', from the same origin as x."""
        lead = log(c["alpha"]) + c["log_A"] - log(c["beta"]) - c["log_B"]
        log_v = (lead + c["beta"] * (self.log_u - self.centre[1])) / c["alpha"]
        log_r = c["log_R_N"]
        mask = value(log_v) < self.x
        if not isinstance(log_v, Jet):
            return where(mask, self._beyond(log_v, log_r, mask), self.x)
        # As a function of these two first: the parameters behind them come in once, at the end.
        inside = [q for q in (log_v, log_r) if isinstance(q, Jet)]
        apart = [q.alone(i) for i, q in enumerate(inside)]
        out = self._beyond(apart[0], apart[1] if len(apart) > 1 else log_r, mask)
        return compose(out.where(mask, self.x), inside)

    def _beyond(self, log_v: Any, log_r: Any, mask: Mask) -> Any:
        """Return ln N' of runs larger than the best size."""
        extra = _repeated(expm1(where(mask, self.x - log_v, 0.0)), log_r)
        return log_v + log(extra + 1.0)

    def base_of(self, extras: dict[str, float]) -> tuple[Array, Array, Array]:
        """Return logs of effective parameters and tokens, with 20 tokens per parameter for the best size."""
        log_d = self.log_u + np.log1p(_worth(self.repeats, extras["R_D"]))
        n = np.exp(self.x + self.centre[0])
        v = np.minimum(n, np.exp(self.log_u) / _RULE_OF_THUMB)
        log_n = np.log(v) + np.log1p(_worth(n / v - 1.0, extras["R_N"]))
        return log_n - self.centre[0], log_d - self.centre[1], self.log_loss


def attach_data_constrained(
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
    form = partial(DataConstrainedForm, unique=unique_tokens)
    return attach_extended(DataConstrainedLaw, form, params, tokens, log_loss, fixed, tied)


def _seen(tokens: ArrayLike, unique_tokens: ArrayLike | None) -> tuple[Array, Array]:
    """Return D and the unique tokens a run of D tokens sees."""
    d = counts("tokens", tokens)
    return d, d if unique_tokens is None else np.minimum(counts("unique_tokens", unique_tokens), d)


def _worth(repeats: Any, scale: Any) -> Any:
    """Return R (1 - exp(-r/R)), what r repetitions are worth."""
    return -np.asarray(scale) * np.expm1(-np.asarray(repeats) / scale)


def _repeated(repeats: Any, log_scale: Any) -> Any:
    """Return the same of jets, from the log of the scale."""
    scale = exp(log_scale)
    return scale * -expm1(repeats * exp(-log_scale) * -1.0)
