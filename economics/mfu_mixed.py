"""A linear mixed model in closed form: which spread comes from where, and what it says of a new row.

y = X·b + sum over groups of Z_g·u_g + e, with u_g ~ N(0, sd_g^2) and e ~ N(0, sd_row^2). Given the standard
deviations, the best linear unbiased prediction is a ridge regression whose penalty on a group's effects is
sd_row^2/sd_g^2 (Henderson 1975; Robinson 1991), one small linear system. That is why this is a page of numpy
and not a call of statsmodels: prediction needs numpy alone, the posterior covariance of all effects together
comes with it, and a user's own measurement is one more row. The standard deviations come from restricted
maximum likelihood (REML, Patterson & Thompson 1971), once, by a script; they ship as a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from economics.mfu_rows import FIXED, GROUPS, Array, Rows, design

#: Prior standard deviation of a fixed effect: so wide that it says nothing, and the system is never singular.
_FLAT = 30.0


@dataclass(frozen=True)
class Spread:
    """Standard deviations, in logit units.

    Parameters
    ----------
    groups : mapping of str to float
        For each of `GROUPS`: between accelerators, set-ups (a code base on a part), fp8 implementations,
        model sizes of one code base, and exact configurations a user has measured.
    row : float
        What remains from row to row.
    """

    groups: Mapping[str, float]
    row: float


@dataclass(frozen=True)
class Posterior:
    """Effects given the rows: mean, covariance, and the names of the groups' members.

    Parameters
    ----------
    mean : array, shape (k,)
        Fixed effects, then the members of each group.
    cov : array, shape (k, k)
        Their covariance.
    levels : mapping of str to tuple of str
        Members of each group, in order.
    spread : Spread
        The standard deviations behind it.
    """

    mean: Array
    cov: Array
    levels: Mapping[str, tuple[str, ...]]
    spread: Spread

    def predict(self, rows: Rows, *, skip: Sequence[str] = ()) -> tuple[Array, Array]:
        """Mean and standard deviation of the logit of new rows.

        A group member that was never seen adds the spread of its group. The row-to-row spread is added
        except where the row is a configuration that was measured.

        Parameters
        ----------
        rows : Rows
            What to predict.
        skip : sequence of str
            Groups whose spread is not added for an unseen member.

        Returns
        -------
        mean, sd : array, shape (n,)
            Logit units.
        """
        columns = [design(rows), *(_indicator(rows, g, self.levels[g]) for g in GROUPS)]
        full = np.column_stack(columns)
        var = np.einsum("ij,jk,ik->i", full, self.cov, full)
        for name, block in zip(GROUPS, columns[1:], strict=True):
            unseen = (rows.labels[name] != "") & (block.sum(axis=1) == 0)
            if name != "config" and name not in skip:
                var = var + np.where(unseen, self.spread.groups[name] ** 2, 0.0)
        measured = columns[-1].sum(axis=1) > 0
        var = var + np.where(measured, 0.0, self.spread.row**2)
        return np.asarray(full @ self.mean), np.asarray(np.sqrt(var))

    def effect(self, name: str, member: str) -> float:
        """Mean effect of a member of a group, logit units.

        Parameters
        ----------
        name, member : str
            One of `GROUPS` and one of its `levels`; or ``"fixed"`` and one of `FIXED`.
        """
        if name == "fixed":
            return float(self.mean[FIXED.index(member)])
        start = len(FIXED) + sum(len(self.levels[g]) for g in GROUPS[: GROUPS.index(name)])
        return float(self.mean[start + self.levels[name].index(member)])


def fit(rows: Rows, spread: Spread, noise: Array | None = None) -> Posterior:
    """Return the effects given measured rows and the standard deviations.

    Parameters
    ----------
    rows : Rows
        Measured rows.
    spread : Spread
        Standard deviations.
    noise : array, shape (n,), optional
        Standard deviation of each row where it is not ``spread.row`` (a repeated measurement).
    """
    levels = _levels(rows)
    full = np.column_stack([design(rows), *(_indicator(rows, g, levels[g]) for g in GROUPS)])
    prior = np.concatenate(
        [np.full(len(FIXED), _FLAT), *(np.full(len(levels[g]), max(spread.groups[g], 1e-6)) for g in GROUPS)]
    )
    weight = 1.0 / (np.full(len(rows), spread.row) if noise is None else noise) ** 2
    # Scaled by the prior, the system is the identity plus something positive: always well conditioned.
    scaled = full * prior
    cov = np.linalg.inv(np.eye(prior.size) + (scaled * weight[:, None]).T @ scaled)
    mean = prior * (cov @ (scaled.T @ (weight * rows.logit)))
    return Posterior(mean, prior[:, None] * cov * prior, levels, spread)


def reml(rows: Rows, config: float) -> Spread:
    """Return the standard deviations that maximise the restricted likelihood.

    In the form of Henderson's equations, which needs one small matrix per evaluation: -2 log L = n log s^2 +
    sum q_g log sd_g^2 + log det M + (y'y - m'W'y)/s^2, with W all effects side by side, M = W'W/s^2 plus the
    penalties, and m the solution of M·m = W'y/s^2. Starts from several points: the likelihood is flat between
    explanations that the data hardly tell apart.

    Parameters
    ----------
    rows : Rows
        Measured rows.
    config : float
        Standard deviation of exact configurations, taken over: published rows have none twice.
    """
    from scipy.optimize import minimize

    names = [g for g in GROUPS if g != "config"]
    levels = _levels(rows)
    fixed = design(rows)
    fixed = fixed[:, (np.ptp(fixed, axis=0) > 0) | (np.arange(fixed.shape[1]) == 0)]
    full = np.column_stack([fixed, *(_indicator(rows, g, levels[g]) for g in names)])
    sizes = np.array([len(levels[g]) for g in names])
    gram, right, square = full.T @ full, full.T @ rows.logit, float(rows.logit @ rows.logit)

    def minus_log_likelihood(log_sd: Array) -> float:
        row, groups = np.exp(2.0 * log_sd[-1]), np.exp(2.0 * log_sd[:-1])
        penalty = np.concatenate([np.zeros(fixed.shape[1]), np.repeat(1.0 / groups, sizes)])
        matrix = gram / row + np.diag(penalty)
        solution = np.linalg.solve(matrix, right / row)
        logdet = len(rows) * np.log(row) + sizes @ np.log(groups) + np.linalg.slogdet(matrix)[1]
        return float(0.5 * (logdet + (square - solution @ right) / row) - log_sd[:-1].sum())

    best = None
    for first in (0.05, 0.3):
        for second in (0.05, 0.3):
            begin = np.log(np.array([first, second, 0.3, 0.2, 0.16]))
            bounds = [(np.log(0.01), np.log(3.0))] * begin.size
            found = minimize(minus_log_likelihood, begin, method="L-BFGS-B", bounds=bounds)
            best = found if best is None or found.fun < best.fun else best
    assert best is not None
    sd = np.exp(np.asarray(best.x, dtype=np.float64))
    return Spread({**dict(zip(names, map(float, sd), strict=False)), "config": config}, float(sd[-1]))


def _levels(rows: Rows) -> dict[str, tuple[str, ...]]:
    """Members of each group; "" is no member and "?" is one that no other row shares."""
    return {g: tuple(sorted({str(v) for v in rows.labels[g]} - {"", "?"})) for g in GROUPS}


def _indicator(rows: Rows, group: str, members: Sequence[str]) -> Array:
    labels = rows.labels[group]
    if not members:
        return np.zeros((len(rows), 0))
    return np.asarray(labels[:, None] == np.array(members, dtype=object)[None, :], dtype=np.float64)
