"""The law with its form left open: what the runs and other published laws together say of a table.

L = E + A/N^alpha + B/D^beta takes for granted that both shortages add. Public tables mostly say otherwise: with
L = E + (A/N^alpha + B/D^beta)^k they ask for k between 0.3 and 1, a law that flattens out later. Where k, or even
alpha, cannot be told from the runs, taking it for known makes intervals too narrow and E too high. Here it is
unknown like the others, under a prior taken from laws other people fitted:

- the exponents that each shortage alone shows, k alpha and k beta: 0.17 to 0.65, about 0.33 the likeliest (the laws of
  `data/runs/published_fits.csv` with Hoffmann's form: alpha 0.18 to 0.71, mean log that of 0.32, sd 0.32; beta 0.21 to
  0.71, 0.34, 0.34);
- k: 0.25 to 1.2, about 0.55 the likeliest (fitted alone to public tables k has the geometric mean 0.49, and 0.44 over
  families of tables; 0.55 scores best in `experiments/benchmarks`, "Predictions of larger runs", where it is also
  chosen anew without each family);
- the shares of E in the loss, and of the two shortages in what is left: anything from 1/10 to 9/10, 1/2 the likeliest.

So it is a prior for losses of text. Laws whose exponents lie outside it are drawn towards it: in worlds with those of
Kaplan et al. (0.08 and 0.10, no floor) the 95% interval of a larger run holds three quarters of them.

The runs speak through the fit's own objective, sum_i w_i |log L_i - log of the law| over the mean size of a residual:
the likelihood of Laplace noise. Departures from any law are shared, neighbours in N and D lie on the same side of
it: errors that share a correlation rho make the variance of a mean of n larger by the design effect 1 + (n - 1) rho
(Kish 1965, Survey Sampling, sec. 5.4), and by that the log likelihood is divided. So a thousand runs tell as much of
the law beyond them as 1/rho independent ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scaling.laws.base import Array, Index, quiet
from scaling.laws.coupled import CoupledLaw
from scaling.open_form.sampler import sample

#: Rows that are looked at: with rho as it is more of them say the same.
MOST_ROWS = 256
#: Scatter below this is rounding of the table: four digits of a loss.
_ROUNDED = 1e-4
#: Log of a shortage from which any is as large: no run is so far off.
_LARGEST = 300.0
#: Level of the loss at the centre of the runs, shares of E and of the parameter term, k alpha, k beta, k.
_DIMENSIONS = 6


class Prior(NamedTuple):
    """What is known of a law before its runs: medians, and standard deviations of logs (of log odds for shares).

    Parameters
    ----------
    exponent, exponent_sd : float
        Of k alpha and k beta.
    power, power_sd : float
        Of k.
    share_sd : float
        Of the share of E in the loss at the centre, and of the parameter term in the rest.
    rho : float
        Correlation of departures from the law.
    """

    exponent: float = 0.33
    exponent_sd: float = 0.35
    power: float = 0.55
    power_sd: float = 0.4
    share_sd: float = 1.2
    rho: float = 0.06


PUBLISHED = Prior()


@dataclass(frozen=True)
class Evidence:
    """Runs as a posterior sees them.

    Parameters
    ----------
    params, tokens, loss : array, shape (n,)
        The runs.
    weights : array, shape (n,)
        Their weights, times how precise they are against the middling row, at most 1.
    spread : float
        Mean size of a residual of log loss.
    n_units : float
        Independent units among them; rows of little weight count as parts of one.
    held : mapping of str to float
        Coefficients held at a value.
    tied : bool
        Whether alpha = beta.
    """

    params: Array
    tokens: Array
    loss: Array
    weights: Array
    spread: float
    n_units: float
    held: Mapping[str, float]
    tied: bool


def design_effect(n_units: float, rho: float) -> float:
    """Return the factor by which a mean of n equally correlated errors varies more: 1 + (n - 1) rho.

    Examples
    --------
    >>> [round(n / design_effect(n, 0.06), 1) for n in (8, 30, 240, 10_000)]
    [5.6, 10.9, 15.6, 16.6]
    """
    return 1.0 + (n_units - 1) * rho


@quiet
def posterior(
    evidence: Evidence, prior: Prior = PUBLISHED, particles: int = 1024, seed: int = 0
) -> CoupledLaw:
    """Return laws drawn from the posterior of the module's text; fields have shape (4 particles,).

    Notes
    -----
    Cost: 50 to 100 evaluations of `particles` laws at `MOST_ROWS` rows at most, whatever the table.
    """
    rows, weights = _looked_at(evidence.params * evidence.tokens, evidence.weights)
    x, y = np.log(evidence.params[rows]), np.log(evidence.tokens[rows])
    centre = float(x.mean()), float(y.mean())
    x, y, log_loss = x - centre[0], y - centre[1], np.log(evidence.loss[rows])
    effect = design_effect(evidence.n_units, prior.rho) * len(evidence.loss) / evidence.n_units
    weights = weights / effect / max(evidence.spread, _ROUNDED)

    def log_likelihood(u: Array) -> Array:
        law = _local(u, prior, log_loss, centre, evidence)
        return np.asarray(-np.abs(log_loss - _log_loss(law, x, y)) @ weights)

    e, a, b, alpha, beta, k = (
        v[:, 0]
        for v in _local(
            sample(_DIMENSIONS, log_likelihood, particles, seed), prior, log_loss, centre, evidence
        )
    )
    log_a, log_b = a + alpha * centre[0], b + beta * centre[1]
    return CoupledLaw(e, np.exp(log_a), np.exp(log_b), alpha, beta, k)


def _looked_at(compute: Array, weights: Array) -> tuple[Index, Array]:
    """Return the rows looked at and their weights: where they are too many, at even steps of weight by compute."""
    if len(compute) <= MOST_ROWS:
        return np.arange(len(compute)), weights
    order = np.argsort(compute, kind="stable")
    sums = np.cumsum(weights[order])
    rows = order[np.searchsorted(sums, (np.arange(MOST_ROWS) + 0.5) / MOST_ROWS * sums[-1])]
    return rows, np.full(MOST_ROWS, sums[-1] / MOST_ROWS)


@quiet
def _log_loss(law: tuple[Array, ...], x: Array, y: Array) -> Array:
    """Return log losses, shape (m, n), of (E, log a, log b, alpha, beta, k) as columns; nan where there are none."""
    e, a, b, alpha, beta, k = law
    of_params, of_tokens = (np.minimum(v, _LARGEST) for v in (a - alpha * x, b - beta * y))
    return np.asarray(np.log(e + np.exp(k * np.log(np.exp(of_params) + np.exp(of_tokens)))))


@quiet
def _local(
    u: Array, prior: Prior, log_loss: Array, centre: tuple[float, float], evidence: Evidence
) -> tuple[Array, ...]:
    """Turn standard normal coefficients into (E, log a, log b, alpha, beta, k), a and b those at the centre.

    An exponent held is the one its shortage alone shows, k alpha. A and B mean what they do for k = 1 alone: held
    they hold k. They also set the level of the loss; elsewhere it is one of the coefficients, left to the runs.
    """
    held = evidence.held
    level, floor, share, log_alpha, log_beta, log_k = (u[:, i : i + 1] for i in range(_DIMENSIONS))
    k = prior.power * np.exp(prior.power_sd * log_k)
    k = np.ones_like(k) if {"A", "B"} & set(held) else k
    alpha = prior.exponent * np.exp(prior.exponent_sd * log_alpha) / k
    beta = prior.exponent * np.exp(prior.exponent_sd * log_beta) / k
    alpha = held["alpha"] / k if "alpha" in held else alpha
    beta = held["beta"] / k if "beta" in held else beta
    if evidence.tied:
        alpha, beta = (beta, beta) if "beta" in held else (alpha, alpha)
    of_params = 1.0 / (1.0 + np.exp(-prior.share_sd * share))
    of_floor = 1.0 / (1.0 + np.exp(-prior.share_sd * floor))
    a = np.log(held["A"]) - alpha * centre[0] if "A" in held else None
    b = np.log(held["B"]) - beta * centre[1] if "B" in held else None
    if a is None and b is None:
        loss = np.exp(log_loss.mean() + (log_loss.std() + 0.05) * level)
        e = np.full_like(k, held["E"]) if "E" in held else of_floor * loss
        total = np.log(loss - e) / k
        return e, total + np.log(of_params), total + np.log1p(-of_params), alpha, beta, k
    odds = np.log(of_params) - np.log1p(-of_params)
    a = b + odds if a is None else a
    b = a - odds if b is None else b
    above = np.exp(k * np.logaddexp(a, b))
    e = np.full_like(k, held["E"]) if "E" in held else of_floor / (1.0 - of_floor) * above
    return e, a, b, alpha, beta, k
