"""How much further than the bootstrap says single larger runs stray: from rollouts, and from published tables.

A bootstrap takes every row for an independent witness. Departures from a law are shared: neighbours in N and D
lie on the same side of it, and an extrapolation meets them all at once. Errors that share a correlation rho make
the variance of a mean of n rows larger by the design effect 1 + (n - 1) rho (Kish 1965, Survey Sampling, sec.
5.4); on the other hand resampled rows of n for p coefficients scatter more than new rows would, by about
n / (n - p - 1) (the mean of an inverted Wishart matrix). So the draws of a law are too narrow by a factor

    kappa^2 = (1 + (n - 1) rho) (n - p - 1) / n,    1 at least,

that grows with the rows and knows neither their noise nor the distance: both are in the draws. Published tables
cut by compute agree: laws fitted below a cut miss the runs above by 1 standard error of the draws with 15 rows,
2 with 45, 3 with 100 (experiments/benchmarks, "Predictions of larger runs", where the constants below are also
chosen anew without each family of tables and scored on it).

How rollouts of the table at hand turned out then moves kappa from this prior, each cut counting as one degree of
freedom against those of the prior (the conjugate scaled inverse chi-square, hence Student quantiles), and the centre.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scaling.findings import Finding
from scaling.jacobian import free_columns, log_jacobian
from scaling.laws.base import Array, Mask, quiet
from scaling.laws.chinchilla import attach
from scaling.newton import Objective
from scaling.residuals import noise_sd
from scaling.rollout import FEWEST, FEWEST_BEYOND, Rollout, rollouts
from scaling.single_run import half_width
from scaling.undetermined import needed_levels

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

#: No single rollout says more than this of the squared factor (the third part of it for the centre).
_MOST = 9.0
#: Standard deviations of (log A, alpha, log B, beta) at the centre of the runs, and of E as a share of the loss:
#: wider than published laws are apart, they keep a linearised law within what a law can be.
_WIDEST = (1.0, 0.3, 1.0, 0.3, 0.5)
#: Scatter below this is rounding of the table: four digits of a loss.
_ROUNDED = 1e-4
#: Standard error below which the draws of a law are one law: exact losses.
_EXACT = 1e-6


class Prior(NamedTuple):
    """What published tables say of any other.

    Parameters
    ----------
    rho : float
        Correlation of departures from a law.
    shift : float
        How far larger runs fall off the law, in inflated standard errors: real losses keep falling where
        laws fitted to small runs flatten out.
    dof : float
        Weight of both against one cut of the table at hand.
    """

    rho: float
    shift: float
    dof: float


#: From the tables of experiments/benchmarks ("Predictions of larger runs"); anything from 0.08 to 0.12, -0.3 to
#: -0.7 and 8 to 20 scores within 5% of it.
PUBLISHED = Prior(rho=0.10, shift=-0.5, dof=12.0)


@dataclass(frozen=True)
class Calibration:
    """What makes the interval of a single run of the draws of a law.

    Parameters
    ----------
    inflation : float
        Factor kappa on the law's standard error, at least 1.
    shift : float
        Where single runs lie off the law, in inflated standard errors of log loss.
    noise : float
        Standard deviation of single runs about the law, in log loss.
    dof : float
        Degrees of freedom behind `inflation`.
    n_rollouts : int
        Cuts of this very table behind it; 0 where only published tables speak.
    n_units : int
        Independent units resampled.
    finding : Finding or None
        Said where the table is too small for rollouts.
    """

    inflation: float
    shift: float
    noise: float
    dof: float
    n_rollouts: int
    n_units: int
    finding: Finding | None = None

    def __str__(self) -> str:
        seen = (
            f"{self.n_rollouts} cut{'s' * (self.n_rollouts != 1)} of these runs and "
            if self.n_rollouts
            else ""
        )
        return f"the law's error taken x {self.inflation:.2g}, after {seen}published tables"


def design_effect(n_units: int, n_free: int, rho: float = PUBLISHED.rho) -> float:
    """Return kappa squared for n units and p free coefficients: see the module.

    Examples
    --------
    >>> [round(design_effect(n, 5) ** 0.5, 1) for n in (10, 15, 45, 100, 240)]
    [1.0, 1.2, 2.2, 3.2, 4.9]
    """
    return max((1 + (n_units - 1) * rho) * (n_units - n_free - 1) / n_units, 1.0)


def calibrate(
    fit: ChinchillaFit, prior: Prior = PUBLISHED, samples: tuple[Sample, ...] | None = None
) -> Calibration:
    """Calibrate predictions of single runs on rollouts of the runs fitted. See `ChinchillaFit.calibration`.

    Parameters
    ----------
    fit : ChinchillaFit
        The fit.
    prior : Prior
        What is known before its rollouts are seen.
    samples : tuple of Sample, optional
        Its rollouts, where they are at hand: `rollout_samples`.

    Notes
    -----
    Cost: up to six refits of parts of the runs from the optimum, about that of one fit; no random numbers.
    """
    n_free = free_columns(fit.settings.fixed, fit.settings.tied).shape[1]
    n_units, samples = fit.settings.n_clusters, rollout_samples(fit) if samples is None else samples
    squared, shift, dof = design_effect(n_units, n_free, prior.rho), prior.shift, prior.dof
    if samples:
        ratios, offsets = [], []
        for units, square, offset in samples:
            expected = design_effect(units, n_free, prior.rho)
            ratios.append(min(square / expected, _MOST))
            offsets.append(float(np.clip(offset / math.sqrt(expected), -math.sqrt(_MOST), math.sqrt(_MOST))))
        dof += len(samples)
        squared *= (prior.dof + sum(ratios)) / dof
        shift = (prior.dof * shift + sum(offsets)) / dof
    finding = None if samples else _alone(fit)
    return Calibration(math.sqrt(max(squared, 1.0)), shift, _noise(fit), dof, len(samples), n_units, finding)


class Sample(NamedTuple):
    """One rollout in standard errors of the law below its cut.

    Parameters
    ----------
    n_units : int
        Independent units below the cut.
    square : float
        Mean square of the errors beyond, less the scatter of single runs, in squared standard errors.
    mean : float
        Their mean, in standard errors.
    """

    n_units: int
    square: float
    mean: float


def _noise(fit: ChinchillaFit) -> float:
    """Return the scatter of single runs about the law, in log loss."""
    n_free = free_columns(fit.settings.fixed, fit.settings.tied).shape[1]
    return max(noise_sd(fit.residuals * fit.scale, n_free), _ROUNDED)


@quiet
def rollout_samples(fit: ChinchillaFit) -> tuple[Sample, ...]:
    """Return how every rollout of the runs of a fit turned out.

    The standard error of a law fitted to a part of the runs is that of the linearised law, brought to the
    scale of the draws: refitting every part hundreds of times would cost more than the bootstrap.
    """
    runs, settings, noise = fit.runs, fit.settings, _noise(fit)
    if not free_columns(settings.fixed, settings.tied).size:
        return ()
    log_loss = np.log(runs.loss)
    attached = attach(runs.params, runs.tokens, log_loss, settings.fixed, settings.tied)
    problem = Objective(attached.form, log_loss, fit.weights / fit.weights.mean(), fit.scale, settings.delta)
    needed = needed_levels(settings.fixed, settings.tied)
    found = rollouts(runs, problem, attached.plain(fit.law), attached, needed)
    if not found:
        return ()
    variance = _linear_variance(fit, problem, noise)
    largest = runs.compute >= np.quantile(runs.compute, 2 / 3)
    everything = np.ones(len(runs), dtype=bool)
    scale = 1.0
    if fit.draws.E.size:
        half = half_width(fit, runs.params[largest], runs.tokens[largest], 0.6827)
        ratio = float(np.mean(half**2)) / float(np.mean(variance(everything, largest)))
        scale = ratio if math.isfinite(ratio) else 1.0
    out = [_sample(fit, r, noise, scale * float(np.mean(variance(r.inside, r.beyond)))) for r in found]
    # A law whose coefficients left the range of floats has no derivatives to go by.
    return tuple(sample for sample in out if np.isfinite(sample).all())


def _sample(fit: ChinchillaFit, r: Rollout, noise: float, square: float) -> Sample:
    error, square = r.error[r.beyond], max(square, _EXACT**2)
    excess = max(float(np.mean(error**2)) - noise**2, 0.0)
    units = len(np.unique(fit.cluster[r.inside]))
    return Sample(units, excess / square, float(np.mean(error)) / math.sqrt(square))


def _linear_variance(fit: ChinchillaFit, problem: Objective, noise: float) -> Callable[[Mask, Mask], Array]:
    """Return a function (rows fitted, rows asked) -> variances of the linearised law's log predictions."""
    runs, settings = fit.runs, fit.settings
    free = free_columns(settings.fixed, settings.tied)
    x, y = np.log(runs.params), np.log(runs.tokens)
    jacobian = log_jacobian(fit.law, x - x.mean(), y - y.mean(), runs.params, runs.tokens) @ free
    widest = np.array(_WIDEST) * [1, 1, 1, 1, float(np.median(runs.loss))]
    prior = free.T @ np.diag(widest**-2.0) @ free
    weights = problem.weights * (fit.scale / noise) ** 2

    def variance(rows: Mask, at: Mask) -> Array:
        information = (jacobian[rows] * weights[rows, None]).T @ jacobian[rows] + prior
        return np.asarray(np.einsum("ij,ij->i", jacobian[at], np.linalg.solve(information, jacobian[at].T).T))

    return variance


def _alone(fit: ChinchillaFit) -> Finding:
    """Say that the table is too small for rollouts."""
    n = len(fit.runs)
    return Finding(
        "not_calibrated",
        "info",
        f"No cut of these {n} runs by compute leaves {FEWEST} below that determine the law and {FEWEST_BEYOND} "
        "beyond: how far larger runs stray from it is taken from published tables alone.",
        {"n_runs": n, "needed_below": FEWEST, "needed_beyond": FEWEST_BEYOND},
    )
