"""What a fit answers when the form of its law is not taken for known. Made by `ChinchillaFit.open_form`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.answers import Optimum
from scaling.arguments import positive_count
from scaling.diagnose import extrapolation
from scaling.errors import DataError, NotIdentifiedError
from scaling.estimate import Estimate
from scaling.guard import Unidentified, guard
from scaling.intervals import check_level
from scaling.laws.base import quiet
from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN, ChinchillaLaw
from scaling.laws.coupled import CoupledLaw
from scaling.units import format_count

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

_NAMES = (*CoupledLaw.COEFFICIENTS, "params_exponent", "tokens_exponent")


@dataclass(frozen=True, eq=False, repr=False)
class OpenForm:
    """L(N, D) = E + (A/N^alpha + B/D^beta)^k with k unknown, after the runs of a fit and published laws.

    Values are medians of the posterior of `scaling.open_form`, intervals its central ones. They hold what other
    people's laws say as well as these runs: where the runs say little they say about what those laws do. Those are
    laws of text; losses of other sources (see `experiments/ladders`, a Markov source) are pulled towards them.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit whose form is left open.
    draws : CoupledLaw
        Draws of the posterior; fields of shape (n_draws,).
    """

    fit: ChinchillaFit
    draws: CoupledLaw

    def ci(self, name: str, level: float | None = None) -> Estimate:
        """Return a coefficient, or the exponent a of N* ~ C^a ("params_exponent", "tokens_exponent").

        Raises
        ------
        DataError
            For a name that is none of these.
        """
        if name not in _NAMES:
            raise DataError(f"{name!r} is none of {', '.join(_NAMES)}", column=name)
        inner = self._inner()
        draws = getattr(inner if name.endswith("exponent") else self.draws, name)
        return self._estimate(draws, name, self.fit.runs.loss_unit if name == "E" else "", level)

    def tokens_at(
        self, params: float | str, *, level: float | None = None, unidentified: Unidentified = "raise"
    ) -> Estimate:
        """Return D*(N), as `ChinchillaFit.tokens_at` does; it refuses what that refuses."""
        n = positive_count("params", params)
        out = self._estimate(self._inner().tokens_at(n), f"D*({format_count(n)})", "tokens", level)
        self._guard(out, n * out.value * FLOPS_PER_PARAM_TOKEN, unidentified)
        return out

    def params_at(
        self, tokens: float | str, *, level: float | None = None, unidentified: Unidentified = "raise"
    ) -> Estimate:
        """Return N*(D), as `ChinchillaFit.params_at` does; it refuses what that refuses."""
        d = positive_count("tokens", tokens)
        out = self._estimate(self._inner().params_at(d), f"N*({format_count(d)})", "params", level)
        self._guard(out, d * out.value * FLOPS_PER_PARAM_TOKEN, unidentified)
        return out

    @quiet
    def optimal(
        self, flops: float | str, *, level: float | None = None, unidentified: Unidentified = "raise"
    ) -> Optimum:
        """Return the compute-optimal run for a budget of C = 6 N D FLOPs, as `ChinchillaFit.optimal` does."""
        c = positive_count("flops", flops)
        best = self._inner().optimal(c)
        ratio = self._estimate(np.divide(best.tokens, best.params), "D*/N*", "tokens/param", level)
        self._guard(ratio, c, unidentified)
        return Optimum(
            Estimate(c, c, c, ratio.level, name="C", unit="FLOP"),
            self._estimate(best.params, f"N*(C={c:.3g})", "params", level),
            self._estimate(best.tokens, f"D*(C={c:.3g})", "tokens", level),
            self._estimate(self.draws.loss(best.params, best.tokens), "loss", self.fit.runs.loss_unit, level),
            ratio,
            extrapolation(self.fit.runs, c),
            f"compute-optimal run for {c:.3g} FLOP, the form of the law left open",
        )

    def loss(self, params: float | str, tokens: float | str, *, level: float | None = None) -> Estimate:
        """Return the law's loss at (params, tokens); what one run there would show is `ChinchillaFit.predict`."""
        n, d = positive_count("params", params), positive_count("tokens", tokens)
        return self._estimate(self.draws.loss(n, d), "loss of the law", self.fit.runs.loss_unit, level)

    def __repr__(self) -> str:
        lines = ["L = E + (A/N^alpha + B/D^beta)^k, k left open: these runs and published laws together"]
        shown = (("k", "k"), ("E", "E"), ("N* ~ C^a", "params_exponent"))
        lines += [f"  {label:<9} {self.ci(name)}" for label, name in shown]
        try:
            lines.append(f"  D*(1B)    {self.tokens_at(1e9)}")
        except NotIdentifiedError as refusal:
            lines.append(f"  D*(1B)    {str(refusal).partition('. ')[0]}")
        return "\n".join(lines)

    # --- helpers ---------------------------------------------------------------------------------

    def _inner(self) -> ChinchillaLaw:
        """Return the sum inside the power: it is least where the loss is."""
        d = self.draws
        return ChinchillaLaw(np.zeros_like(d.A), d.A, d.B, d.alpha, d.beta)

    def _estimate(self, draws: Any, name: str, unit: str, level: float | None) -> Estimate:
        wanted = self.fit.settings.level if level is None else check_level(level)
        shares = ((1 - wanted) / 2, 0.5, (1 + wanted) / 2)
        low, value, high = (float(v) for v in np.quantile(np.asarray(draws), shares))
        return Estimate(value, low, high, wanted, "median", name, unit)

    def _guard(self, answer: Estimate, flops: float, unidentified: Unidentified) -> None:
        guard(answer, self.fit.runs, self.fit.diagnostics, flops, unidentified, has_draws=True)
