"""L(N, D) = E + (A/N^alpha + B/D^beta)^k: how the two shortages add up.

At k = 1 this is the law of Hoffmann et al. 2022 (arXiv 2203.15556); with E = 0, beta = 1 and k = alpha_D that of
Kaplan et al. 2020 (arXiv 2001.08361, eq. 1.5). Where one term rules only alpha k (or beta k) is seen: k shows in
the bend between the two alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from scaling.laws.attached import AttachedExtended, attach_extended
from scaling.laws.base import Array, quiet
from scaling.laws.chinchilla import COEFFICIENTS, counts, plain_value
from scaling.laws.extended import ExtendedForm, Extra
from scaling.laws.jet import exp, log, value
from scaling.laws.power_sum import EXPONENT_BOX


@dataclass(frozen=True)
class CoupledLaw:
    """L = E + (A/N^alpha + B/D^beta)^k.

    Parameters
    ----------
    E : float or array
        Irreducible loss.
    A, B, alpha, beta : float or array
        Coefficients and exponents inside the power.
    k : float or array
        The power; 1 for the law of Hoffmann et al.

    Examples
    --------
    >>> f"{CoupledLaw(1.8, 480.0, 2100.0, 0.35, 0.37, k=1.0).loss(1e9, 2e10):.4f}"
    '2.4640'
    """

    COEFFICIENTS: ClassVar[tuple[str, ...]] = (*COEFFICIENTS, "k")
    EXTRAS: ClassVar[tuple[Extra, ...]] = (Extra("k", 0.05, 20.0, (0.4, 0.7, 1.0, 1.5, 2.5), wide=2.0),)

    E: Any
    A: Any
    B: Any
    alpha: Any
    beta: Any
    k: Any

    @quiet
    def loss(self, params: ArrayLike, tokens: ArrayLike) -> Any:
        """Return the predicted loss at (params, tokens)."""
        n, d = counts("params", params), counts("tokens", tokens)
        inside = self.A * n ** -np.asarray(self.alpha) + self.B * d ** -np.asarray(self.beta)
        return plain_value(self.E + inside ** np.asarray(self.k))

    @quiet
    def tokens_at(self, params: ArrayLike) -> Any:
        """Return D*(N): as for k = 1, since a power of the sum is least where the sum is."""
        n = counts("params", params)
        ratio = np.log(self.beta * np.asarray(self.B)) - np.log(self.alpha * np.asarray(self.A))
        return plain_value(np.exp((ratio + self.alpha * np.log(n)) / self.beta))


class CoupledForm(ExtendedForm):
    """The law tied to its runs: see `ExtendedForm`."""

    extras = CoupledLaw.EXTRAS

    def terms(self, c: dict[str, Any]) -> list[Any]:
        """Return the terms whose sum is the loss at every run."""
        u, v = c["log_A"] - c["alpha"] * self.x, c["log_B"] - c["beta"] * self.y
        top = np.maximum(value(u), value(v))
        return [c["E"], exp(exp(c["log_k"]) * (log(exp(u - top) + exp(v - top)) + top))]

    def start_of(self, base: Array, extras: dict[str, float]) -> Array:
        """Return starts with another power and the level and slopes of the plain law at the centre."""
        k = extras["k"]
        e, a, b, alpha, beta = base.T
        top = a + b
        inside = top ** (1.0 / k) / top
        exponents = (np.clip(s / k, 1.01 * EXPONENT_BOX[0], 0.99 * EXPONENT_BOX[1]) for s in (alpha, beta))
        out = np.column_stack([e, a * inside, b * inside, *exponents, np.full(len(base), k)])
        for i, name in enumerate(self.names):
            if name in self.held:
                out[:, i] = self.held[name]
        return out

    def near(self, plain: Array) -> Array:
        """Return starts around an optimum: another power, the same level and slopes at the centre."""
        e, a, b, alpha, beta, k = plain
        top = (a + b) ** k
        base = np.array([[e, top * a / (a + b), top * b / (a + b), alpha * k, beta * k]])
        if "k" in self.held:
            return plain[None]
        powers = np.clip(k * np.geomspace(0.3, 3.0, 9), 0.06, 18.0)
        return np.concatenate([plain[None], *(self.start_of(base, {"k": float(p)}) for p in powers)])

    @quiet
    def condition(self, plain: Array, weights: Array) -> float:
        """Return the condition number, with the sum inside the power at 1 in the middle of the runs.

        Elsewhere k would change the loss together with A and B, by how much a matter of the unit of the loss.
        """
        a, b, alpha, beta, k = plain[1:]
        unit = np.exp(np.log(a * np.exp(-alpha * self.x) + b * np.exp(-beta * self.y)).mean())
        scaled = plain / np.array([unit**k, unit, unit, 1.0, 1.0, 1.0])
        held = {name: float(v) for name, v in zip(self.names, scaled, strict=True) if name in self.held}
        form = self.again(held)
        return ExtendedForm.condition(form, scaled, weights)


def attach_coupled(
    params: Array,
    tokens: Array,
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
    return attach_extended(CoupledLaw, CoupledForm, params, tokens, log_loss, fixed, tied)
