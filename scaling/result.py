"""The fitted Chinchilla law: numbers with intervals, and what may be concluded from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scaling.answers import Optimum, Prediction, Regime, regime_label
from scaling.arguments import positive_count
from scaling.audit import Audit
from scaling.diagnose import Diagnostics, extrapolation
from scaling.errors import DataError
from scaling.estimate import COUNT_UNITS, Estimate
from scaling.guard import Unidentified, guard, warn_if_far
from scaling.intervals import check_level, estimate
from scaling.laws.base import Array, Index, quiet
from scaling.laws.chinchilla import COEFFICIENTS, FLOPS_PER_PARAM_TOKEN, ChinchillaLaw
from scaling.open_form.answers import OpenForm
from scaling.open_form.calibration import Calibration, calibrate
from scaling.open_form.single_run import single_run
from scaling.runs import RunTable
from scaling.settings import Settings
from scaling.solver import Certificate
from scaling.units import format_count

if TYPE_CHECKING:
    from pathlib import Path

Verdict = Literal["identified", "weak", "not identified"]
Status = Literal["converged", "bound_hit", "not_converged"]


@dataclass(frozen=True, eq=False, repr=False)
class ChinchillaFit:
    """A fitted law L(N, D) = E + A/N^alpha + B/D^beta. Made by `fit_chinchilla`.

    Parameters
    ----------
    law : ChinchillaLaw
        The optimum, at full precision.
    objective : float
        Sum over runs of w_i Huber_delta(log L - log of the law).
    certificate : Certificate
        Evidence that the optimum is global.
    status : {"converged", "bound_hit", "not_converged"}
        How the search ended; ``"bound_hit"`` when E = 0 or an exponent is at its bound.
    draws : ChinchillaLaw
        Bootstrap draws: a law whose fields are arrays, shape (n_draws,).
    n_failed, failures : int, tuple of (str, int)
        Bootstrap replicates without a usable optimum, and why.
    diagnostics : Diagnostics
        Condition, spread, influence, residuals, and the findings drawn from them.
    runs : RunTable
        The runs fitted.
    weights, scale : array, shape (n,)
        Row weights and residual multipliers (sigma0 / sigma_i) used.
    cluster : int array, shape (n,)
        Unit of resampling each row belongs to.
    settings : Settings
        What was asked for.
    """

    law: ChinchillaLaw
    objective: float
    certificate: Certificate
    status: Status
    draws: ChinchillaLaw
    n_failed: int
    failures: tuple[tuple[str, int], ...]
    diagnostics: Diagnostics
    runs: RunTable
    weights: Array
    scale: Array
    cluster: Index
    settings: Settings

    # --- what may be concluded -------------------------------------------------------------------

    @property
    def audit(self) -> Audit:
        """How the table was read."""
        return self.runs.audit

    @property
    def n_runs(self) -> int:
        """Number of runs fitted."""
        return len(self.runs)

    @property
    def converged(self) -> bool:
        """Whether the optimiser's own test was passed; `certificate.reason` says how it ended."""
        return self.certificate.converged

    @property
    def verdict(self) -> Verdict:
        """Whether the data determine the law, by `diagnostics.identification`."""
        severities = {f.severity for f in self.diagnostics.identification}
        if "error" in severities:
            return "not identified"
        return "weak" if "warning" in severities else "identified"

    @property
    def residuals(self) -> Array:
        """Log L minus the log of the law, shape (n,)."""
        return np.asarray(np.log(self.runs.loss) - np.log(self.law.loss(self.runs.params, self.runs.tokens)))

    @cached_property
    def calibration(self) -> Calibration:
        """Laws with their form left open and cuts of these runs: what predictions of single runs rest on."""
        return calibrate(self)

    @cached_property
    def open_form(self) -> OpenForm:
        """The same questions with the form of the law left open, L = E + (A/N^alpha + B/D^beta)^k."""
        return OpenForm(self, self.calibration.draws)

    # --- numbers with intervals ------------------------------------------------------------------

    def ci(self, name: str, level: float | None = None) -> Estimate:
        """Return a coefficient, or the exponent a of N* ~ C^a ("params_exponent", "tokens_exponent").

        Raises
        ------
        DataError
            For a name that is none of these.
        """
        names = (*COEFFICIENTS, "params_exponent", "tokens_exponent")
        if name not in names:
            raise DataError(f"{name!r} is none of {', '.join(names)}", column=name)
        unit = self.runs.loss_unit if name == "E" else ""
        return self._estimate(getattr(self.draws, name), getattr(self.law, name), name, unit, level)

    def tokens_at(
        self, params: float | str, *, level: float | None = None, unidentified: Unidentified = "raise"
    ) -> Estimate:
        """Return D*(N): the tokens at which `params` is the compute-optimal size.

        Parameters
        ----------
        params : float or str
            N, e.g. ``1e9`` or ``"1B"``, counted as in the table fitted (`runs.params_kind`).
        level : float, optional
            Coverage of the interval; the fit's own by default.
        unidentified : {"raise", "return"}
            What to do when the data do not determine the answer.

        Raises
        ------
        NotIdentifiedError
            The interval spans more than a factor 100 or the answer lies more than 3 decades of
            compute beyond the data; the message says what would identify it.
        """
        n = positive_count("params", params)
        out = self._estimate(
            self.draws.tokens_at(n), self.law.tokens_at(n), f"D*({format_count(n)})", "tokens", level
        )
        self._guard(out, n * out.value * FLOPS_PER_PARAM_TOKEN, unidentified)
        return out

    def params_at(
        self, tokens: float | str, *, level: float | None = None, unidentified: Unidentified = "raise"
    ) -> Estimate:
        """Return N*(D): the size for which `tokens` are compute-optimal. See `tokens_at`."""
        d = positive_count("tokens", tokens)
        out = self._estimate(
            self.draws.params_at(d), self.law.params_at(d), f"N*({format_count(d)})", "params", level
        )
        self._guard(out, d * out.value * FLOPS_PER_PARAM_TOKEN, unidentified)
        return out

    def tokens_per_param(
        self, params: float | str, *, level: float | None = None, unidentified: Unidentified = "raise"
    ) -> Estimate:
        """Return D*(N)/N. It is constant only when alpha = beta. See `tokens_at`."""
        n = positive_count("params", params)
        draws, value = self.draws.tokens_per_param(n), self.law.tokens_per_param(n)
        out = self._estimate(draws, value, f"D*/N at {format_count(n)}", "tokens/param", level)
        self._guard(out, n * n * out.value * FLOPS_PER_PARAM_TOKEN, unidentified)
        return out

    @quiet
    def optimal(
        self, flops: float | str, *, level: float | None = None, unidentified: Unidentified = "raise"
    ) -> Optimum:
        """Return the compute-optimal run for a budget of C = 6 N D FLOPs. See `tokens_at`."""
        c = positive_count("flops", flops)
        best, draws = self.law.optimal(c), self.draws.optimal(c)
        # numpy's division: a size that ran off to nothing makes the ratio infinite.
        ratios, value = (np.divide(b.tokens, b.params) for b in (draws, best))
        ratio = self._estimate(ratios, float(value), "D*/N*", "tokens/param", level)
        self._guard(ratio, c, unidentified)
        return Optimum(
            Estimate(c, c, c, ratio.level, name="C", unit="FLOP"),
            self._estimate(draws.params, best.params, f"N*(C={c:.3g})", "params", level),
            self._estimate(draws.tokens, best.tokens, f"D*(C={c:.3g})", "tokens", level),
            self._estimate(draws.loss, best.loss, "loss", self.runs.loss_unit, level),
            ratio,
            extrapolation(self.runs, c),
            f"compute-optimal run for {c:.3g} FLOP",
        )

    @quiet
    def predict(self, params: float | str, tokens: float | str, *, level: float | None = None) -> Prediction:
        """Return the loss at (params, tokens): of the law, and of one new run.

        What is said of a single run rests neither on the fitted form nor on a bootstrap: see
        `scaling.open_form.calibration`. Its middle may lie off the law, mostly below.
        """
        n, d = positive_count("params", params), positive_count("tokens", tokens)
        mean = self._estimate(
            self.draws.loss(n, d), self.law.loss(n, d), "loss of the law", self.runs.loss_unit, level
        )
        away = extrapolation(self.runs, FLOPS_PER_PARAM_TOKEN * n * d)
        ends = single_run(self.calibration, np.array([n]), np.array([d]), mean.level)
        low, value, high = np.exp(ends[:, 0]).tolist()
        single = replace(mean, name="loss of one run", value=value, low=low, high=high, kind="median")
        warn_if_far(f"The loss at N={format_count(n)}, D={format_count(d)}", away)
        return Prediction(n, d, mean, single, away, self.runs.loss_kind, str(self.calibration))

    @quiet
    def regime(self, params: float | str, tokens: float | str, *, level: float | None = None) -> Regime:
        """Say whether a run of `tokens` is over- or under-trained for its size, and at what loss."""
        n, d = positive_count("params", params), positive_count("tokens", tokens)
        ahead, draws_ahead = (np.log(d) - law.log_tokens_at(n) for law in (self.law, self.draws))
        factor = self._estimate(np.exp(draws_ahead), float(np.exp(ahead)), "D/D*(N)", "", level)
        c, unit = FLOPS_PER_PARAM_TOKEN * n * d, self.runs.loss_unit
        self._guard(factor, c, "raise")
        here, draws_here = self.law.loss(n, d), self.draws.loss(n, d)
        loss = self._estimate(draws_here, here, "loss", unit, level)
        above, draws_above = here - self.law.optimal(c).loss, draws_here - self.draws.optimal(c).loss
        excess = self._estimate(draws_above, above, "excess loss", unit, level)
        return Regime(n, d, factor, loss, excess, regime_label(factor))

    # --- words and files -------------------------------------------------------------------------

    def summary(self) -> str:
        """Return the fit as one readable block: law, intervals, verdict, warnings."""
        from scaling.summary import text

        return text(self)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from scaling.summary import html

        return html(self)

    def to_json(self) -> str:
        """Return the whole fit, with its runs and draws, as JSON; `from_json` gives it back exactly."""
        from scaling.storage import fit_to_json

        return fit_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> ChinchillaFit:
        """Read what `to_json` wrote."""
        from scaling.storage import fit_from_json

        return fit_from_json(text)

    def save(self, path: str | Path) -> None:
        """Write `to_json` to a file; complete or not at all."""
        from scaling.storage import write_atomically

        write_atomically(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> ChinchillaFit:
        """Read what `save` wrote."""
        from scaling.json_parts import load_text

        return load_text(path, cls.from_json)

    # --- helpers ---------------------------------------------------------------------------------

    def _estimate(self, draws: Any, value: float, name: str, unit: str, level: float | None) -> Estimate:
        out = estimate(
            np.asarray(draws),
            value,
            self.settings.level if level is None else check_level(level),
            self.settings.interval,
            n_units=self.settings.n_clusters,
            # Counts, ratios and coefficients err by factors; exponents and losses by differences.
            log_scale=unit in COUNT_UNITS or name in ("A", "B", "D/D*(N)"),
            name=name,
            unit=unit,
        )
        # No loss and no coefficient is negative: an interval stretched past zero ends there.
        return replace(out, low=max(out.low, 0.0)) if np.all(np.asarray(draws) >= 0) else out

    def _guard(self, answer: Estimate, flops: float, unidentified: Unidentified) -> None:
        guard(answer, self.runs, self.diagnostics, flops, unidentified, has_draws=self.draws.E.size > 0)
