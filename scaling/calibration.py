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
freedom against `PRIOR_DOF` (the conjugate scaled inverse chi-square, hence Student quantiles), and the centre.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scaling.findings import Finding
from scaling.intervals import stretch
from scaling.jacobian import free_columns, log_jacobian
from scaling.laws.base import Array, Mask, quiet
from scaling.laws.chinchilla import ChinchillaLaw, attach
from scaling.newton import Objective
from scaling.residuals import noise_sd
from scaling.rollout import FEWEST, FEWEST_BEYOND, Rollout, rollouts
from scaling.undetermined import needed_levels

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

#: Correlation of departures from a law, and how far larger runs fall below it in standard errors: real losses
#: keep falling where laws fitted to small runs flatten out. Weight of both in rollouts. From the 25 tables of
#: experiments/benchmarks; anything from 0.08 to 0.12, -0.3 to -0.7 and 8 to 20 scores within 3% of these.
PRIOR_RHO, PRIOR_SHIFT, PRIOR_DOF = 0.10, -0.5, 12.0
#: No single rollout says more than this of the squared factor (the third part of it for the centre).
_MOST = 9.0
#: Standard deviations of (log A, alpha, log B, beta) at the centre of the runs, and of E as a share of the loss:
#: wider than published laws are apart, they keep a linearised law within what a law can be.
_WIDEST = (1.0, 0.3, 1.0, 0.3, 0.5)
#: Scatter below this is rounding of the table: four digits of a loss.
_ROUNDED = 1e-4
#: Parts of the way from the middle of the runs at which the law's width is looked at.
_WAY = (0.25, 0.5, 0.75, 1.0)


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
        seen = f"{self.n_rollouts} cuts of these runs and " if self.n_rollouts else ""
        return f"the law's error taken x {self.inflation:.2g}, after {seen}published tables"


def design_effect(n_units: int, n_free: int, rho: float = PRIOR_RHO) -> float:
    """Return kappa squared for n units and p free coefficients: see the module.

    Examples
    --------
    >>> [round(design_effect(n, 5) ** 0.5, 1) for n in (10, 15, 45, 100, 240)]
    [1.0, 1.2, 2.2, 3.2, 4.9]
    """
    return max((1 + (n_units - 1) * rho) * (n_units - n_free - 1) / n_units, 1.0)


@quiet
def calibrate(fit: ChinchillaFit) -> Calibration:
    """Calibrate predictions of single runs on rollouts of the runs fitted. See `ChinchillaFit.calibration`.

    Notes
    -----
    Cost: up to six refits of parts of the runs from the optimum, about that of one fit; no random numbers.
    """
    n_free = free_columns(fit.settings.fixed, fit.settings.tied).shape[1]
    noise = max(noise_sd(fit.residuals * fit.scale, n_free), _ROUNDED)
    n_units = fit.settings.n_clusters
    squared, shift, dof = design_effect(n_units, n_free), PRIOR_SHIFT, PRIOR_DOF
    samples = _samples(fit, noise) if n_free else []
    if samples:
        ratios, offsets = [], []
        for units, square, offset in samples:
            expected = design_effect(units, n_free)
            ratios.append(min(square / expected, _MOST))
            most = math.sqrt(_MOST)
            offsets.append(min(max(offset / math.sqrt(expected), -most), most))
        dof += len(samples)
        squared *= (PRIOR_DOF + sum(ratios)) / dof
        shift = (PRIOR_DOF * shift + sum(offsets)) / dof
    finding = None if samples else _alone(fit)
    return Calibration(math.sqrt(max(squared, 1.0)), shift, noise, dof, len(samples), n_units, finding)


def _samples(fit: ChinchillaFit, noise: float) -> list[tuple[int, float, float]]:
    """Return for every rollout its units, and square and mean of its error in squared standard errors and in them.

    The standard error of a law fitted to a part of the runs is that of the linearised law, brought to the
    scale of the draws: refitting every part hundreds of times would cost more than the bootstrap.
    """
    runs, settings = fit.runs, fit.settings
    log_loss = np.log(runs.loss)
    attached = attach(runs.params, runs.tokens, log_loss, settings.fixed, settings.tied)
    problem = Objective(attached.form, log_loss, fit.weights / fit.weights.mean(), fit.scale, settings.delta)
    needed = needed_levels(settings.fixed, settings.tied)
    found = rollouts(runs, problem, attached.plain(fit.law), attached, needed)
    if not found:
        return []
    variance = _linear_variance(fit, problem, noise)
    largest = runs.compute >= np.quantile(runs.compute, 2 / 3)
    everything = np.ones(len(runs), dtype=bool)
    scale = 1.0
    if fit.draws.E.size:
        half = _half_width(fit, runs.params[largest], runs.tokens[largest], 0.6827)
        ratio = float(np.mean(half**2)) / float(np.mean(variance(everything, largest)))
        scale = ratio if math.isfinite(ratio) else 1.0
    out = [_sample(fit, r, noise, scale * float(np.mean(variance(r.inside, r.beyond)))) for r in found]
    # A law whose coefficients left the range of floats has no derivatives to go by.
    return [sample for sample in out if np.isfinite(sample).all()]


def _sample(fit: ChinchillaFit, r: Rollout, noise: float, square: float) -> tuple[int, float, float]:
    error = r.error[r.beyond]
    excess = max(float(np.mean(error**2)) - noise**2, 0.0)
    units = len(np.unique(fit.cluster[r.inside]))
    return units, excess / square, float(np.mean(error)) / math.sqrt(square)


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


@quiet
def _half_width(fit: ChinchillaFit, params: Array, tokens: Array, level: float) -> Array:
    """Return half the width of the central interval of the draws in log loss, shape (n,)."""
    each = ChinchillaLaw(*(np.asarray(v)[:, None] for v in vars(fit.draws).values()))
    logs = np.log(np.asarray(each.loss(params, tokens)))
    # An observed quantile of draws that ran off to infinity is infinite; an interpolated one would be nan.
    how = "linear" if np.isfinite(logs).all() else "closest_observation"
    low, high = np.quantile(logs, [(1 - level) / 2, (1 + level) / 2], axis=0, method=how)  # type: ignore[call-overload]
    return np.asarray((high - low) / 2)


@quiet
def single_run(fit: ChinchillaFit, params: Array, tokens: Array, level: float) -> tuple[Array, Array]:
    """Return the ends of the interval of a single run at each (params, tokens), shape (n,).

    Centre and half-width are those of Student's t in log loss: the law less `Calibration.shift` inflated
    standard errors, and t times the root of (inflation times the law's standard error)^2 + noise^2. The
    law's standard error is the largest on the way from the middle of the runs, so that intervals do not
    narrow with distance (as the draws of a law with a held E would). Intervals of the law are not narrowed:
    `ChinchillaFit.predict` takes the wider of both at either end.

    Parameters
    ----------
    fit : ChinchillaFit
        A fit with draws.
    params, tokens : array, shape (n,)
        The runs asked about.
    level : float
        Coverage.
    """
    from scipy.special import ndtri, stdtrit

    c, tail = fit.calibration, (1 + level) / 2
    x, y = float(np.log(fit.runs.params).mean()), float(np.log(fit.runs.tokens).mean())
    half = np.max(
        [
            _half_width(
                fit, np.exp(x + f * (np.log(params) - x)), np.exp(y + f * (np.log(tokens) - y)), level
            )
            for f in _WAY
        ],
        axis=0,
    )
    error = c.inflation * half * (stretch(c.n_units, level) / float(ndtri(tail)))
    reach = float(stdtrit(c.dof, tail)) * np.hypot(error, c.noise)
    law = np.log(np.asarray(fit.law.loss(params, tokens)))
    low = np.where(np.isfinite(reach), np.exp(law + c.shift * error - reach), 0.0)
    return low, np.where(np.isfinite(reach), np.exp(law + c.shift * error + reach), np.inf)
