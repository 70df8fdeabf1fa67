"""Laws that extend L = E + A/N^alpha + B/D^beta by further positive coefficients: a `Form` for the solver.

A law says, in `ExtendedForm.terms`, how its loss is made of its coefficients; derivatives come from
`scaling.laws.jet`. As in `scaling.laws.power_sum` the solver moves the level of the loss at the centre of
the data and the slopes of the two terms there, not E, A and B, which trade against each other along a
curved valley. Where one of the three is held it moves the others as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from scaling.laws.base import Array, Mask, quiet
from scaling.laws.jet import Jet, JetTape, exp, log, value
from scaling.laws.power_sum import EXPONENT_BOX
from scaling.laws.varpro import check_starts, power_sum_starts

BASE = ("E", "A", "B", "alpha", "beta")
#: Starts of the base law tried with every start of the further coefficients.
_BASE_STARTS = 4
#: Starts that are polished, and the log residual from which a start is no worse for being further off.
_MOST_STARTS, _GROSS = 12, 0.5
#: Factors by which further coefficients are moved around an optimum, and coarser ones for many free coefficients.
_NEAR, _NEAR_MANY = np.geomspace(1 / 40, 40, 9), np.geomspace(1 / 10, 10, 4)
_MANY_FREE = 4


class Extra(NamedTuple):
    """A coefficient beyond the five: positive, moved in logs.

    Parameters
    ----------
    name : str
        Its name.
    low, high : float
        Where the search for it ends.
    starts : tuple of float
        Values tried as starts.
    wide : float
        Ratio of the ends of its interval from which it is weakly identified; from ten times that not at all.
    moved : bool
        Whether it is searched in another unit than it is given in, so that `low` and `high` are not its own.
    """

    name: str
    low: float
    high: float
    starts: tuple[float, ...]
    wide: float = 10.0
    moved: bool = False


class ExtendedForm:
    """A law with the coefficients E, A, B, alpha, beta and further ones, tied to its runs.

    Parameters
    ----------
    x, y : array, shape (n,)
        ln N and ln D, centred unless A (B) is held.
    log_loss : array, shape (n,)
        Log losses; their range bounds the coefficients.
    held : mapping of str to float
        Coefficients held at a value; A and B in the units of x and y.
    tied : bool
        Whether beta = alpha.
    direct : bool
        Whether to move E, A and B as they are although all three are free.
    centre : tuple of float
        Where x and y are measured from, in ln N and ln D.

    Notes
    -----
    Plain coefficients: (E, A, B, alpha, beta, further ones). `vector` gives the free ones alone: with all of
    E, A, B free the log level and log slopes in their places, everything but exponents in logs.
    """

    extras: tuple[Extra, ...] = ()
    #: Starts of the base law kept for every start of the further coefficients.
    base_starts = _BASE_STARTS
    cold_starts = 3  # each of several seconds per thousand replicates

    def __init__(
        self,
        x: Array,
        y: Array,
        log_loss: Array,
        held: Mapping[str, float] | None = None,
        *,
        tied: bool = False,
        direct: bool = False,
        centre: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.x, self.y, self.log_loss, self.held = x, y, log_loss, dict(held or {})
        self.centre = centre
        self.tied = tied
        self._level = not direct and not {"E", "A", "B"} & set(self.held)
        self.names = (*BASE, *(e.name for e in self.extras))
        self.free = [n for n in self.names if n not in self.held and not (tied and n == "beta")]
        if tied and "beta" in self.held:
            self.free = [n for n in self.free if n != "alpha"]
            self.held.setdefault("alpha", self.held["beta"])
        low, high = float(log_loss.min()), float(log_loss.max())
        box = dict.fromkeys(("A", "B"), (low - 20.0, high + 12.0)) | dict.fromkeys(
            ("alpha", "beta"), EXPONENT_BOX
        )
        box["E"] = (low - 4.0, high + 4.0) if self._level else (low - 20.0, high)
        box |= {e.name: (np.log(e.low), np.log(e.high)) for e in self.extras}
        if not self._level:  # held coefficients are absolute: so are those beside them
            box |= {n: (-50.0, 100.0) for n, centred in (("A", x), ("B", y)) if abs(centred.mean()) > 1e-6}
        self.lower, self.upper = (np.array([box[n][i] for n in self.free]) for i in (0, 1))
        self.fixed: dict[int, float] = {}

    # --- the law itself ---------------------------------------------------------------------------

    def terms(self, c: dict[str, Any]) -> list[Any]:
        """Return the terms whose sum is the loss at every run.

        Parameters
        ----------
        c : dict
            ``E``, ``log_A``, ``log_B``, ``alpha``, ``beta`` and ``log_<name>`` of every further coefficient:
            jets, columns or numbers.
        """
        raise NotImplementedError

    def further(self, *values: Any) -> tuple[Any, ...]:
        """Return the further coefficients in the units of the law, from those of the solver."""
        return values

    def base_of(self, extras: dict[str, float]) -> tuple[Array, Array, Array]:
        """Return log N, log D and log loss as the base law would see them, given the further coefficients."""
        return self.x, self.y, self.log_loss

    def start_of(self, base: Array, extras: dict[str, float]) -> Array:
        """Return plain coefficients, shape (S, q), of starts of the base law and given further ones."""
        rest = np.broadcast_to([extras[e.name] for e in self.extras], (len(base), len(self.extras)))
        return np.column_stack([base, rest])

    # --- what the solver asks ----------------------------------------------------------------------

    @quiet
    def tape(self, theta: Array) -> JetTape:
        """Evaluate at a batch of parameter vectors, shape (P, p)."""
        terms = self.terms(self._coefficients(dict(zip(self.free, Jet.parameters(theta), strict=True))))
        return JetTape(terms, len(theta), theta.shape[1], len(self.log_loss))

    @quiet
    def plain(self, theta: Array) -> Array:
        """Return (E, A, B, alpha, beta, further ones), shape (P, q); E is negative where it has crossed 0."""
        columns = {name: theta[:, i : i + 1] for i, name in enumerate(self.free)}
        c = self._coefficients(columns)
        held = self.held
        named: list[Any] = [held.get("E", c["E"])]
        named += [held[n] if n in held else np.exp(c[f"log_{n}"]) for n in ("A", "B")]
        named += [c["alpha"], c["beta"]]
        named += [held[e.name] if e.name in held else np.exp(c[f"log_{e.name}"]) for e in self.extras]
        return np.column_stack([np.broadcast_to(value(v), (len(theta), 1)) for v in named])

    @quiet
    def vector(self, plain: Array) -> Array:
        """Inverse of `plain`."""
        named = dict(zip(self.names, plain.T, strict=True))
        out = {n: named[n] if n in ("alpha", "beta") else np.log(named[n]) for n in self.free}
        if self._level:
            e, a, b, alpha, beta = plain.T[:5]
            k = named.get("k", 1.0)
            top = (a + b) ** k
            out["E"] = np.log(np.maximum(e + top, 1e-300))
            out["A"], out["B"] = (np.log(top * k * part * s / (a + b)) for part, s in ((a, alpha), (b, beta)))
        elif "E" in out:
            out["E"] = np.maximum(out["E"], float(self.log_loss.min()) - 20.0)
        return np.column_stack([out[n] for n in self.free])

    def starts(self, log_loss: Array, weights: Array) -> Array:
        """Return cold starts: those of the base law for every combination of further coefficients."""
        held = self.held
        grid = [(held[e.name],) if e.name in held else e.starts for e in self.extras]
        rows: list[Array] = []
        for values in product(*grid):
            extras = dict(zip((e.name for e in self.extras), values, strict=True))
            x, y, seen = self.base_of(extras)
            base = self._base_starts(x, y, seen + (log_loss - self.log_loss), weights)
            rows.append(self.start_of(base, extras))
        return self._best(check_starts(np.concatenate(rows)), log_loss, weights)

    def near(self, plain: Array) -> Array:
        """Return starts around an optimum, shape (S, q): its base law with every further coefficient moved.

        In the flat valleys these laws have the objective has several minima, which smoother objectives
        hide from the cold starts.
        """
        rows = [plain]
        at = {e.name: 5 + i for i, e in enumerate(self.extras)}
        factors = _NEAR if len(self.free) <= _MANY_FREE else _NEAR_MANY
        grids = [
            np.clip(plain[at[e.name]] * factors, e.low * 2, e.high / 2) if e.name in self.free else [None]
            for e in self.extras
        ]
        for values in product(*grids):
            row = plain.copy()
            for e, moved in zip(self.extras, values, strict=True):
                if moved is not None:
                    row[at[e.name]] = moved
            rows.append(row)
        return np.array(rows)

    def face(self) -> ExtendedForm | None:
        """Return the law with E = 0, or None when E is held already."""
        return None if "E" in self.held else self.again({**self.held, "E": 0.0})

    def outside(self, plain: Array) -> Mask:
        """Tell which plain coefficients have E < 0."""
        return np.asarray(plain[:, 0] < 0.0)

    def onto_face(self, plain: Array) -> Array:
        """Return coefficients with E = 0 near ones with E < 0: same level and slopes at the centre."""
        out = plain.copy()
        k = plain[:, self.names.index("k")] if "k" in self.names else np.ones(len(plain))
        top = (plain[:, 1] + plain[:, 2]) ** k
        factor = np.maximum(plain[:, 0] + top, 1e-12) / top
        out[:, 0] = 0.0
        out[:, 1:3] *= (factor ** (1.0 / k))[:, None]
        out[:, 3:5] /= factor[:, None]
        return out

    def again(self, held: Mapping[str, float], *, direct: bool = False) -> ExtendedForm:
        """Return the same law on the same runs with other coefficients held."""
        same = {"tied": self.tied, "centre": self.centre, **self.more}
        return type(self)(self.x, self.y, self.log_loss, held, direct=direct, **same)

    @property
    def more(self) -> dict[str, Any]:
        """Further arguments that make this form again."""
        return {}

    @quiet
    def condition(self, plain: Array, weights: Array) -> float:
        """Return the condition number of the weighted, column-scaled Jacobian in the free coefficients.

        Taken in (E, log A, log B, alpha, beta, logs of further ones) with ln N and ln D centred, as
        `scaling.jacobian.condition_number` does for the base law; an E of 0 is left out.
        """
        held = {**self.held, **({"E": 0.0} if plain[0] <= 0 and "E" not in self.held else {})}
        form = self.again(held, direct=True)
        if not form.free:
            return 1.0
        jacobian = form.tape(form.vector(plain[None])).jacobian()[0].T * np.sqrt(weights)[:, None]
        length = np.linalg.norm(jacobian, axis=0)
        if len(jacobian) < len(length) or not (length > 0).all() or not np.isfinite(length).all():
            return float("inf")
        return float(np.linalg.cond(jacobian / length))

    def _best(self, starts: Array, log_loss: Array, weights: Array) -> Array:
        """Return the starts with the smallest residuals, best first; large ones count as one another."""
        z = log_loss - self.tape(self.vector(starts)).f
        size = np.sqrt(np.minimum(np.nan_to_num(z**2, nan=np.inf), _GROSS**2)) @ weights
        return np.asarray(starts[np.argsort(size, kind="stable")[:_MOST_STARTS]])

    def _coefficients(self, moved: dict[str, Any]) -> dict[str, Any]:
        """Turn what is moved, by name, and what is held into the coefficients of the law."""
        held = self.held
        alpha: Any = moved["alpha"] if "alpha" in moved else held["alpha"]
        beta: Any = alpha if self.tied else moved["beta"] if "beta" in moved else held["beta"]
        c: dict[str, Any] = {"alpha": alpha, "beta": beta}
        for e in self.extras:
            c[f"log_{e.name}"] = moved[e.name] if e.name in moved else np.log(held[e.name])
        if self._level:
            k = exp(c["log_k"]) if "log_k" in c else 1.0
            tops = {n: exp(moved[n]) / (s * k) for n, s in (("A", alpha), ("B", beta))}
            top = tops["A"] + tops["B"]
            c["E"] = exp(moved["E"]) - top
            lift = (1.0 / k - 1.0) * log(top) if "log_k" in c else 0.0
            for name, s in (("A", alpha), ("B", beta)):
                c[f"log_{name}"] = moved[name] - log(s * k) + lift
            return c
        c["E"] = exp(moved["E"]) if "E" in moved else held["E"]
        for name in ("A", "B"):
            c[f"log_{name}"] = moved[name] if name in moved else np.log(held[name])
        return c

    def _base_starts(self, x: Array, y: Array, log_loss: Array, weights: Array) -> Array:
        """Return starts (E, A, B, alpha, beta) of the base law, shape (S, 5)."""
        held = self.held
        if set(BASE) <= set(held):
            return np.array([[held[n] for n in BASE]])
        names = ("alpha",) if self.tied else ("alpha", "beta")
        found = power_sum_starts(
            np.stack([x, y]),
            (0, 0) if self.tied else (0, 1),
            log_loss,
            weights,
            held.get("E"),
            {i: held[n] for i, n in enumerate(("A", "B")) if n in held},
            {i: held[n] for i, n in enumerate(names) if n in held},
        )[: self.base_starts]
        return np.column_stack([found, found[:, 3]]) if self.tied else found
