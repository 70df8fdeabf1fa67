"""L(N, D) = E + A/N^alpha + B/D^beta (Hoffmann et al. 2022, arXiv 2203.15556, eq. 2).

Everything here is a function of the five coefficients, in closed form, and works on a single law as
well as on arrays of bootstrap draws.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scaling.errors import DataError, DataWarning, warn
from scaling.laws.base import Array, quiet
from scaling.laws.held import centres, checked_held
from scaling.laws.power_sum import PowerSum

#: FLOPs per parameter and token in C = 6 N D (2 forward, 4 backward; Kaplan et al. 2020, sec. 2.1).
FLOPS_PER_PARAM_TOKEN = 6.0

COEFFICIENTS = ("E", "A", "B", "alpha", "beta")


class OptimalPoint(NamedTuple):
    """The compute-optimal (params, tokens) for a budget and the loss there."""

    params: Any
    tokens: Any
    loss: Any


@dataclass(frozen=True)
class ChinchillaLaw:
    """L = E + A/N^alpha + B/D^beta, with D in tokens and N in parameters (not millions of them).

    Parameters
    ----------
    E : float or array
        Irreducible loss, in the unit of the losses fitted.
    A, B : float or array
        Coefficients of the parameter and the data term.
    alpha, beta : float or array
        Exponents.

    Notes
    -----
    Fields may be arrays of one shape (bootstrap draws); every method then returns arrays. Never
    round a law: Hoffmann's printed exponents (0.34, 0.28) put 44.0 tokens per parameter at 1e9,
    the unrounded ones (0.33917, 0.28491) 29.1.

    Examples
    --------
    >>> law = ChinchillaLaw(E=1.817218, A=477.826, B=2143.417, alpha=0.347310, beta=0.367172)
    >>> f"{law.tokens_at(1e9):.2e}"
    '2.26e+10'
    """

    E: Any
    A: Any
    B: Any
    alpha: Any
    beta: Any

    def loss(self, params: ArrayLike, tokens: ArrayLike) -> Any:
        """Return the predicted loss at (params, tokens), in the unit of E."""
        return self._loss(counts("params", params), counts("tokens", tokens))

    @quiet
    def _loss(self, n: Array, d: Array) -> Any:
        return plain_value(
            self.E + self.A * n ** -np.asarray(self.alpha) + self.B * d ** -np.asarray(self.beta)
        )

    @quiet
    def tokens_at(self, params: ArrayLike) -> Any:
        """Return D*(N), the tokens at which N is the compute-optimal size.

        At the optimum of C = 6ND the two terms fall equally fast along the budget,
        alpha A N^-alpha = beta B D^-beta (Hoffmann et al. 2022, eq. 4).
        """
        return plain_value(np.exp(self.log_tokens_at(params)))

    @quiet
    def log_tokens_at(self, params: ArrayLike) -> Any:
        """Return ln D*(N), finite even where D* itself overflows."""
        n = counts("params", params)
        ratio = np.log(self.beta * np.asarray(self.B)) - np.log(self.alpha * np.asarray(self.A))
        return plain_value((ratio + self.alpha * np.log(n)) / self.beta)

    @quiet
    def params_at(self, tokens: ArrayLike) -> Any:
        """Return N*(D), the size for which D tokens are compute-optimal; inverse of `tokens_at`."""
        return plain_value(np.exp(self.log_params_at(tokens)))

    @quiet
    def log_params_at(self, tokens: ArrayLike) -> Any:
        """Return ln N*(D), finite even where N* itself overflows."""
        d = counts("tokens", tokens)
        ratio = np.log(self.alpha * np.asarray(self.A)) - np.log(self.beta * np.asarray(self.B))
        return plain_value((ratio + self.beta * np.log(d)) / self.alpha)

    @quiet
    def tokens_per_param(self, params: ArrayLike) -> Any:
        """Return D*(N)/N. Constant only when alpha == beta: 20 is a rule of thumb, not a law."""
        return plain_value(np.asarray(self.tokens_at(params)) / np.asarray(params, dtype=float))

    @quiet
    def optimal(self, flops: ArrayLike) -> OptimalPoint:
        """Return the (params, tokens) of least loss with 6 N D = flops, and that loss.

        N* = G (C/6)^(beta/(alpha+beta)), D* = (C/6)/N*, G = (alpha A / (beta B))^(1/(alpha+beta))
        (Hoffmann et al. 2022, eq. 4).
        """
        nd = counts("flops", flops) / FLOPS_PER_PARAM_TOKEN
        ratio = np.log(self.alpha * np.asarray(self.A)) - np.log(self.beta * np.asarray(self.B))
        total = np.asarray(self.alpha) + self.beta
        n = np.exp((ratio + self.beta * np.log(nd)) / total)
        d = nd / n
        return OptimalPoint(plain_value(n), plain_value(d), self._loss(n, d))

    @property
    def params_exponent(self) -> Any:
        """Exponent a of N* ~ C^a, beta/(alpha+beta)."""
        return plain_value(np.asarray(self.beta) / (np.asarray(self.alpha) + self.beta))

    @property
    def tokens_exponent(self) -> Any:
        """Exponent b of D* ~ C^b, alpha/(alpha+beta)."""
        return plain_value(np.asarray(self.alpha) / (np.asarray(self.alpha) + self.beta))

    def scaled(self, *, params: float = 1.0, tokens: float = 1.0, loss: float = 1.0) -> ChinchillaLaw:
        """Return the same law with N, D and L measured in other units (each new = factor * old)."""
        return ChinchillaLaw(
            E=self.E * loss,
            A=self.A * loss * params**self.alpha,
            B=self.B * loss * tokens**self.beta,
            alpha=self.alpha,
            beta=self.beta,
        )

    @property
    def two_digit_exponents(self) -> bool:
        """Whether both exponents look rounded to two significant digits."""
        return all(float(f"{float(e):.2g}") == float(e) for e in (self.alpha, self.beta))

    def rounding_note(self, params: float = 1e9) -> str:
        """Say what half a unit in the second decimal of the exponents does to D*(params)."""
        shifts = [
            ChinchillaLaw(self.E, self.A, self.B, self.alpha + s / 200, self.beta - s / 200).tokens_at(params)
            for s in (-1, 1)
        ]
        return (
            f"Rounding them alone puts D*({params:.3g}) anywhere from {min(shifts):.2e} to {max(shifts):.2e} "
            "tokens: use unrounded coefficients."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the coefficients as floats (or lists of floats)."""
        return {name: np.asarray(getattr(self, name), dtype=float).tolist() for name in COEFFICIENTS}

    def to_json(self) -> str:
        """Return the coefficients as JSON at full precision: `from_json` gives the same bits back."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ChinchillaLaw:
        """Build a law from a mapping with the keys E, A, B, alpha, beta (others are an error)."""
        names = {f.name for f in fields(cls)}
        if set(data) != names:
            raise DataError(f"a law has the keys {sorted(names)}, not {sorted(data)}")
        try:
            values = {k: np.asarray(v, dtype=float) for k, v in data.items()}
        except (TypeError, ValueError) as error:
            raise DataError(f"the coefficients of a law are numbers: {error}") from error
        return cls(**{k: float(v) if v.ndim == 0 else v for k, v in values.items()})

    @classmethod
    def from_json(cls, text: str) -> ChinchillaLaw:
        """Read what `to_json` wrote.

        Raises
        ------
        DataError
            The text is no law, or one with a coefficient that is missing or negative.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise DataError(f"not a law in JSON: {error}") from error
        if not isinstance(data, dict):
            raise DataError(f"a law is a JSON object with the keys {', '.join(COEFFICIENTS)}")
        law = cls.from_dict(data)
        bad = [name for name, value in vars(law).items() if not np.all(np.asarray(value) >= 0)]
        if bad:
            raise DataError(f"{bad[0]} of a law is not negative, got {getattr(law, bad[0])}", column=bad[0])
        if np.ndim(law.alpha) == 0 and law.two_digit_exponents:
            note = f"This law has exponents of two digits. {law.rounding_note()}"
            warn(note, DataWarning)
        return law


@dataclass(frozen=True)
class Attached:
    """The law attached to a set of runs: how its coefficients map to the solver's and back.

    The solver works with ln N and ln D relative to their means; a coefficient held by the user is
    only constant in absolute units, so that term is not centred.
    """

    form: PowerSum
    centre: tuple[float, float]
    same_exponent: bool = False

    def law(self, plain: Array) -> ChinchillaLaw:
        """Turn the solver's plain coefficients, shape (q,) or (R, q), into a law."""
        e, a, b = plain[..., 0], plain[..., 1], plain[..., 2]
        alpha = plain[..., 3]
        beta = alpha if self.same_exponent else plain[..., 4]
        x, y = self.centre
        values = (e, a * np.exp(alpha * x), b * np.exp(beta * y), alpha, beta)
        return ChinchillaLaw(*(plain_value(v) for v in values))

    def plain(self, law: ChinchillaLaw) -> Array:
        """Inverse of `law`."""
        x, y = self.centre
        columns = [law.E, law.A * np.exp(-law.alpha * x), law.B * np.exp(-law.beta * y), law.alpha]
        if not self.same_exponent:
            columns.append(law.beta)
        return np.stack(np.broadcast_arrays(*columns), axis=-1)


def attach(
    params: Array,
    tokens: Array,
    log_loss: Array,
    fixed: Mapping[str, float] | None = None,
    same_exponent: bool = False,
) -> Attached:
    """Attach the law to runs, with some coefficients held and, if asked, alpha = beta.

    Parameters
    ----------
    params, tokens, log_loss : array, shape (n,)
        The runs.
    fixed : mapping of str to float, optional
        Coefficients held at a value, by name.
    same_exponent : bool
        Whether alpha and beta are one parameter (Muennighoff et al. 2023 fit C4 this way).

    Raises
    ------
    DataError
        For an unknown name, a value out of range, or contradicting exponents.
    """
    held = checked_held(fixed, COEFFICIENTS, log_loss, same_exponent)
    centre = centres(params, tokens, held)
    log_n, log_d = np.log(params), np.log(tokens)
    exponents = {i: held[n] for i, n in enumerate(("alpha", "beta")) if n in held}
    if same_exponent:
        exponents = dict.fromkeys([0] if exponents else [], next(iter(exponents.values()), 0.0))
    form = PowerSum(
        np.stack([log_n - centre[0], log_d - centre[1]]),
        (0, 0) if same_exponent else (0, 1),
        log_loss,
        floor=held.get("E"),
        held_coefficients={i: held[n] for i, n in enumerate(("A", "B")) if n in held},
        held_exponents=exponents,
    )
    return Attached(form, centre, same_exponent)


def counts(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return positive numbers as an array; `DataError` otherwise."""
    out = np.asarray(value, dtype=float)
    if not np.all(out > 0):
        raise DataError(f"{name} must be positive, got {value!r}", column=name)
    return out


def plain_value(value: Any) -> Any:
    """Return a scalar for a scalar law, an array for arrays."""
    out = np.asarray(value, dtype=float)
    return float(out) if out.ndim == 0 else out
