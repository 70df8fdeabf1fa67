"""Where single larger runs land: the law with its form open, moved by how rollouts of these runs turned out.

The draws of a bootstrap take the form of the law for granted, and every row for an independent witness: beyond the
runs their 95% intervals hold less than half of what comes. The law with its form left open (`posterior`) gives up
both. Rollouts of the table at hand, the law of the smaller runs asked for the larger ones (`rollout`), say on which
side of it larger runs of this table fall, each counting as one observation of that against `WEIGHT` imagined ones
that say on neither; and where they missed by more than their standard errors how much wider intervals must be, each
as one degree of freedom against `DOF` that say no wider (the conjugate scaled inverse chi-square).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scaling.findings import Finding
from scaling.jacobian import free_columns
from scaling.laws.base import Array
from scaling.laws.coupled import CoupledLaw
from scaling.open_form.posterior import PUBLISHED, Evidence, Prior, posterior
from scaling.open_form.rollout import FEWEST, FEWEST_BEYOND, effective_units, rollouts
from scaling.residuals import noise_sd

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

#: Weight of "larger runs fall on neither side" against one rollout: 1.5 to 6 score within 1% of it.
WEIGHT = 2.0
#: Weight of "no wider" against one rollout, in degrees of freedom: 4 to 8 score within 1%.
DOF = 4.0
#: No single rollout says more than this many standard errors.
_MOST = 3.0
#: Share of the mean weight from which a row's residual counts for the noise.
_COUNTS = 0.1
#: Scatter below this is rounding of the table: four digits of a loss.
_ROUNDED = 1e-4


@dataclass(frozen=True, eq=False)
class Calibration:
    """What the interval of a single run is made of.

    Parameters
    ----------
    draws : CoupledLaw
        Laws with the form open, from `scaling.open_form.posterior`; fields of shape (n_draws,).
    shift : float
        Where single runs lie off their median, in standard errors of log loss.
    inflation : float
        Factor on the distance of the ends from the median, at least 1.
    noise : float
        Standard deviation of single runs about a law, in log loss.
    rollouts : tuple of float
        What `shift` and `inflation` come from: see `scaling.open_form.rollout.rollouts`.
    n_runs : int
        Runs fitted.
    """

    draws: CoupledLaw
    shift: float
    inflation: float
    noise: float
    rollouts: tuple[float, ...]
    n_runs: int

    @property
    def finding(self) -> Finding | None:
        """Said where the table is too small for rollouts."""
        if self.rollouts:
            return None
        return Finding(
            "not_calibrated",
            "info",
            f"No cut of these {self.n_runs} runs by compute leaves {FEWEST} below and {FEWEST_BEYOND} beyond: how "
            "far larger runs stray from the law is taken from published tables alone.",
            {"n_runs": self.n_runs, "needed_below": FEWEST, "needed_beyond": FEWEST_BEYOND},
        )

    def __str__(self) -> str:
        n = len(self.rollouts)
        seen = f"{n} cut{'s' * (n != 1)} of these runs by compute and " if n else ""
        return f"the form of the law is left open, after {seen}published laws"


def evidence(fit: ChinchillaFit) -> Evidence:
    """Return the runs of a fit as `scaling.open_form.posterior` sees them.

    Noise levels count, but no row for better than the middling one: a law departs from a run that was measured
    many times as far as from its neighbours.
    """
    runs, settings = fit.runs, fit.settings
    weights = fit.weights / fit.weights.mean() * np.minimum(fit.scale / np.median(fit.scale), 1.0)
    spread = float(np.average(np.abs(_residuals(fit)), weights=weights))
    spread *= len(runs) / max(len(runs) - _n_free(fit), 1)
    units = effective_units(weights, fit.cluster)
    return Evidence(
        runs.params, runs.tokens, runs.loss, weights, spread, units, settings.fixed, settings.tied
    )


def _residuals(fit: ChinchillaFit) -> Array:
    """Return the residuals, or where the law left the range of floats what is left without one."""
    log_loss, off = np.log(fit.runs.loss), fit.residuals
    return np.asarray(off if np.isfinite(off).all() else log_loss - log_loss.mean())


def _n_free(fit: ChinchillaFit) -> int:
    return int(free_columns(fit.settings.fixed, fit.settings.tied).shape[1])


def calibrate(
    fit: ChinchillaFit, prior: Prior = PUBLISHED, seen: Sequence[float] | None = None
) -> Calibration:
    """Calibrate predictions of single runs on the runs fitted. See `ChinchillaFit.calibration`.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    prior : Prior
        What is known before its runs are seen.
    seen : sequence of float, optional
        Its rollouts, where they are at hand or others are to be tried.

    Notes
    -----
    Cost: three posteriors of `scaling.open_form`, whatever the number of runs; always the same random numbers.
    """
    known = evidence(fit)
    found = tuple(rollouts(known, fit.cluster, prior) if seen is None else seen)
    off = np.clip(np.asarray(found, dtype=float), -_MOST, _MOST)
    shift = float(off.sum()) / (WEIGHT + len(off))
    inflation = math.sqrt(max((DOF + float(off @ off)) / (DOF + len(off)), 1.0))
    counts = fit.weights > _COUNTS * fit.weights.mean()
    noise = max(noise_sd((_residuals(fit) * fit.scale)[counts], _n_free(fit)), _ROUNDED)
    return Calibration(posterior(known, prior), shift, inflation, noise, found, len(fit.runs))
