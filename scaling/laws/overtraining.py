"""L(C, M) = E + (a M^eta + b M^-eta) C^-eta with M = D/N (Gadre et al. 2024, arXiv 2403.08540, eq. 4).

With C = 6 N D it *is* the law of Hoffmann et al. with one exponent, alpha = beta = 2 eta, in other variables:
a M^eta C^-eta = a 6^-eta N^-2eta and b M^-eta C^-eta = b 6^-eta D^-2eta. So it is fitted as that law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from scaling.errors import DataError
from scaling.laws.base import Array, quiet
from scaling.laws.chinchilla import (
    FLOPS_PER_PARAM_TOKEN,
    Attached,
    ChinchillaLaw,
    attach,
    counts,
    plain_value,
)
from scaling.laws.held import check_range
from scaling.laws.power_sum import EXPONENT_BOX


@dataclass(frozen=True)
class OvertrainingLaw:
    """L = E + (a M^eta + b M^-eta) C^-eta: loss against compute C at M tokens per parameter.

    Parameters
    ----------
    E : float or array
        Irreducible loss.
    a, b : float or array
        Coefficients of the shortage of parameters (which grows with M) and of data.
    eta : float or array
        Exponent of compute at a fixed M.

    Examples
    --------
    >>> law = OvertrainingLaw.of(ChinchillaLaw(1.8, 480.0, 2100.0, 0.36, 0.36))
    >>> f"{law.eta:.2f} {law.loss(1e9, 2e10):.6f} {law.loss_at(6 * 1e9 * 2e10, 20.0):.6f}"
    '0.18 2.487217 2.487217'
    """

    COEFFICIENTS: ClassVar[tuple[str, ...]] = ("E", "a", "b", "eta")

    E: Any
    a: Any
    b: Any
    eta: Any

    @classmethod
    def of(cls, law: ChinchillaLaw) -> OvertrainingLaw:
        """Return a law with alpha = beta in the variables C and M.

        Raises
        ------
        DataError
            The exponents differ: then the ratio of the two terms at a fixed M changes with C.
        """
        if not np.array_equal(law.alpha, law.beta):
            raise DataError(
                f"alpha = {law.alpha} and beta = {law.beta} differ: fit with tied=True", column="law"
            )
        eta = np.asarray(law.alpha) / 2.0
        lift = FLOPS_PER_PARAM_TOKEN**eta
        return cls(law.E, plain_value(law.A * lift), plain_value(law.B * lift), plain_value(eta))

    @property
    def chinchilla(self) -> ChinchillaLaw:
        """The same law in N and D."""
        drop = FLOPS_PER_PARAM_TOKEN ** -np.asarray(self.eta)
        both = plain_value(2.0 * np.asarray(self.eta))
        return ChinchillaLaw(self.E, plain_value(self.a * drop), plain_value(self.b * drop), both, both)

    @quiet
    def loss_at(self, flops: ArrayLike, tokens_per_param: ArrayLike) -> Any:
        """Return the predicted loss for C FLOPs at M tokens per parameter."""
        c, m = counts("flops", flops), counts("tokens_per_param", tokens_per_param)
        power = m ** np.asarray(self.eta)
        return plain_value(self.E + (self.a * power + self.b / power) * c ** -np.asarray(self.eta))

    def loss(self, params: ArrayLike, tokens: ArrayLike) -> Any:
        """Return the predicted loss at (params, tokens)."""
        n, d = counts("params", params), counts("tokens", tokens)
        return self.loss_at(FLOPS_PER_PARAM_TOKEN * n * d, d / n)

    @property
    def best_tokens_per_param(self) -> Any:
        """The M of least loss for every budget, (b/a)^(1/(2 eta))."""
        ratio = np.log(self.b) - np.log(self.a)
        return plain_value(np.exp(ratio / (2.0 * np.asarray(self.eta))))


@dataclass(frozen=True)
class AttachedOvertraining:
    """The law attached to runs: the tied law of `scaling.laws.chinchilla`, read off in other coefficients."""

    tied: Attached
    params: Array
    tokens: Array
    fixed: frozenset[str]

    @property
    def form(self) -> Any:
        """What the solver moves."""
        return self.tied.form

    def law(self, plain: Array) -> OvertrainingLaw:
        """Turn the solver's plain coefficients, shape (4,) or (R, 4), into a law."""
        return OvertrainingLaw.of(self.tied.law(plain))

    def condition(self, plain: Array, weights: Array) -> float:
        """Return the condition number at the optimum."""
        from scaling.jacobian import condition_number

        held = {"eta": "alpha"}
        names = {held.get(name, name) for name in self.fixed}
        return condition_number(self.tied.law(plain), self.params, self.tokens, weights, names, True)


def attach_overtraining(
    params: Array, tokens: Array, log_loss: Array, fixed: Mapping[str, float] | None = None
) -> AttachedOvertraining:
    """Attach the law to runs, with E or eta held if asked.

    Raises
    ------
    DataError
        For a name that cannot be held or a value out of range.
    """
    held = dict(fixed or {})
    unknown = set(held) - {"E", "eta"}
    if unknown:
        raise DataError(
            f"fixed: only E and eta can be held, not {', '.join(sorted(unknown))}", column="fixed"
        )
    if "eta" in held:
        check_range("eta", held["eta"], {"eta": (EXPONENT_BOX[0] / 2, EXPONENT_BOX[1] / 2)})
    inner = {
        "alpha" if name == "eta" else name: v * (2.0 if name == "eta" else 1.0) for name, v in held.items()
    }
    tied = attach(params, tokens, log_loss, inner, same_exponent=True)
    return AttachedOvertraining(tied, params, tokens, frozenset(held))
