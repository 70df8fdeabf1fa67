"""A fitted law of any form: numbers with intervals, and a verdict on what the runs determine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scaling.arguments import positive_count
from scaling.errors import DataError
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.intervals import IntervalMethod, check_level, estimate
from scaling.laws.base import Array, Index
from scaling.open_ends import open_ends
from scaling.runs import RunTable
from scaling.solver import Certificate

if TYPE_CHECKING:
    from pathlib import Path

    from scaling.profile import Profile

#: Coefficients that are exponents or losses: their errors are differences, those of all others are factors.
_ADDITIVE = frozenset({"E", "alpha", "beta", "alpha_N", "alpha_D", "eta", "kappa"})


@dataclass(frozen=True, eq=False, repr=False)
class LawFit:
    """A fitted law of any form.

    Parameters
    ----------
    law : PowerLaw, KaplanLaw, DataConstrainedLaw, RepetitionPenaltyLaw, OvertrainingLaw or CoupledLaw
        The optimum, at full precision.
    variables : tuple of str
        What its `loss` takes: ("flops",), ("params",), ("tokens",), ("params", "tokens") or ("params",
        "tokens", "unique_tokens"), of which the last may be left out.
    objective : float
        Sum of Huber losses of log residuals.
    certificate : Certificate
        Evidence that the optimum is global.
    draws : law
        Bootstrap draws: a law whose fields are arrays.
    n_failed : int
        Replicates without a usable optimum.
    runs : RunTable
        The runs fitted.
    level : float
        Default coverage.
    interval : {"percentile", "bias-corrected"}
        How intervals are made of draws.
    fixed : mapping of str to float
        Coefficients held.
    n_units : int
        Independent units resampled.
    name : str
        Name of the law in `scaling.law_names.LAWS`.
    tied : bool
        Whether alpha = beta was imposed.
    delta, seed : float, int
        Huber threshold in log loss, and seed of the bootstrap.
    cluster : int array, shape (n,)
        Unit of resampling each row belongs to.
    condition_number : float
        Of the centred, column-scaled Jacobian in the free coefficients; nan where a law offers none.
    findings : tuple of Finding
        What is and is not determined.
    """

    law: Any
    variables: tuple[str, ...]
    objective: float
    certificate: Certificate
    draws: Any
    n_failed: int
    runs: RunTable
    level: float
    interval: IntervalMethod
    fixed: dict[str, float]
    n_units: int
    name: str = ""
    tied: bool = False
    delta: float = 1e-3
    seed: int = 0
    cluster: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    condition_number: float = float("nan")
    findings: tuple[Finding, ...] = ()

    # --- what may be concluded -------------------------------------------------------------------

    @property
    def n_runs(self) -> int:
        """Number of runs fitted."""
        return len(self.runs)

    @property
    def verdict(self) -> Literal["identified", "weak", "not identified"]:
        """Whether the data determine the law, by `findings`."""
        severities = {f.severity for f in self.findings}
        if "error" in severities:
            return "not identified"
        return "weak" if "warning" in severities else "identified"

    def finding(self, code: str) -> Finding | None:
        """Return the first finding with this code, or None."""
        return next((f for f in self.findings if f.code == code), None)

    @property
    def residuals(self) -> Array:
        """Log L minus the log of the law, shape (n,)."""
        return np.asarray(np.log(self.runs.loss) - np.log(self.fitted(self.runs)))

    def fitted(self, runs: RunTable) -> Array:
        """Return the law's loss at every row of a table, shape (n,).

        Raises
        ------
        DataError
            The law needs a column that the table lacks, or `runs` is no table.
        """
        if not isinstance(runs, RunTable):
            raise DataError(f"runs must be a RunTable, got {type(runs).__name__}", column="runs")
        return np.asarray(self.law.loss(*(column(runs, name) for name in self.variables)))

    # --- numbers with intervals ------------------------------------------------------------------

    def ci(self, name: str, level: float | None = None) -> Estimate:
        """Return a coefficient with its interval; an end at the edge of what was searched is 0 or infinite.

        Raises
        ------
        DataError
            For a name that is none of the law's coefficients.

        Notes
        -----
        With some dozens of runs whose noise is far above `delta` the bootstrap is too wide: 95% intervals hold the
        truth in 97 to 99% of worlds. ``interval="bias-corrected"`` comes nearer to 95%; so does a `delta` of twice
        the noise, with narrower intervals, at the price of trusting outliers more (experiments/benchmarks,
        "Coverage of intervals of other laws").
        """
        names = self.law.COEFFICIENTS
        if name not in names:
            raise DataError(f"{name!r} is none of {', '.join(names)}", column=name)
        unit = self.runs.loss_unit if name == "E" else ""
        draws, value = getattr(self.draws, name), getattr(self.law, name)
        out = self._estimate(draws, value, name, unit, level, name not in _ADDITIVE)
        extra = next((e for e in getattr(self.law, "EXTRAS", ()) if e.name == name), None)
        if extra is None or name in self.fixed or not np.size(draws):
            return out
        low, high = open_ends(extra, value, np.asarray(draws), out.level)
        return replace(out, low=0.0 if low else out.low, high=float("inf") if high else out.high)

    def predict(self, *at: float | str, level: float | None = None) -> Estimate:
        """Return the law's loss at one point (in the order of `variables`) with its interval."""
        fewest = len(self.variables) - (self.variables[-1] == "unique_tokens")
        if not fewest <= len(at) <= len(self.variables):
            raise DataError(f"this law takes {', '.join(self.variables)}")
        x = [positive_count(name, value) for name, value in zip(self.variables, at, strict=False)]
        return self._estimate(
            self.draws.loss(*x), self.law.loss(*x), "loss of the law", self.runs.loss_unit, level
        )

    def profile(self, name: str, *, values: Array | None = None, n_boot: int = 200) -> Profile:
        """Profile the objective over a coefficient: see `scaling.law_profile.profile_law`."""
        from scaling.law_profile import profile_law

        return profile_law(self, name, values=values, n_boot=n_boot)

    # --- words and files -------------------------------------------------------------------------

    def summary(self) -> str:
        """Return the fit as one readable block."""
        head = f"{type(self.law).__name__} in {', '.join(self.variables)}: {len(self.runs)} runs, objective "
        lines = [f"{head}{self.objective:.6g}"]
        for name in self.law.COEFFICIENTS:
            held = " (held)" if name in self.fixed else ""
            lines.append(f"  {name:<8}{self.ci(name)}{held}")
        lines.append(f"verdict: {self.verdict}")
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def to_json(self) -> str:
        """Return the whole fit, with its runs and draws, as JSON; `from_json` gives it back exactly."""
        from scaling.law_storage import law_fit_to_json

        return law_fit_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> LawFit:
        """Read what `to_json` wrote.

        Raises
        ------
        DataError
            The text is no saved fit of such a law.
        """
        from scaling.law_storage import law_fit_from_json

        return law_fit_from_json(text)

    def save(self, path: str | Path) -> None:
        """Write `to_json` to a file; complete or not at all.

        Raises
        ------
        DataError
            `path` is no path.
        OSError
            It is a folder, its folder is missing, or it cannot be written; ``filename`` says which.
        """
        from scaling.storage import write_atomically

        write_atomically(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> LawFit:
        """Read what `save` wrote.

        Raises
        ------
        DataError
            The file cannot be read or is no saved fit of such a law; the message names it and the part at fault.
        """
        from scaling.json_parts import load_text

        return load_text(path, cls.from_json)

    def _estimate(
        self,
        draws: Any,
        value: float,
        name: str,
        unit: str,
        level: float | None,
        log_scale: bool = False,
    ) -> Estimate:
        chosen = self.level if level is None else check_level(level)
        out = estimate(
            np.asarray(draws),
            value,
            chosen,
            self.interval,
            n_units=self.n_units,
            log_scale=log_scale,
            name=name,
            unit=unit,
        )
        # No loss and no coefficient is negative: an interval stretched past zero ends there.
        return replace(out, low=max(out.low, 0.0)) if np.size(draws) else out


def column(runs: RunTable, name: str) -> Array:
    """Return a column that a law takes: ``"flops"`` is the 6 N D of the runs.

    Raises
    ------
    DataError
        The table has no such column, or not all of it.
    """
    values = runs.compute if name == "flops" else getattr(runs, name)
    if values is None:
        left_out = next(
            (
                f.message
                for f in runs.audit.findings
                if f.code == "incomplete_column" and f.message.startswith(name)
            ),
            "",
        )
        if left_out:
            raise DataError(f"{runs.source}: {left_out}", column=name, source=runs.source)
        raise DataError(
            f"{runs.source} has no column {name}: name it with columns={{'{name}': ...}}, or give {name}= to "
            "RunTable.from_arrays",
            column=name,
            source=runs.source,
        )
    return np.asarray(values, dtype=float)
