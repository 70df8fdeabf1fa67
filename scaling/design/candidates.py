"""Runs that could be made, and what a set of them costs when branches share their trunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from scaling.cells import checked_numbers
from scaling.errors import DataError
from scaling.laws.base import Array, Index
from scaling.resample import labels

#: Share of a run in which the learning rate falls: what a branch costs beyond its trunk.
COOLDOWN = 0.2


@dataclass(frozen=True, eq=False)
class Candidates:
    """Runs that could be made. Make them with `Candidates.of` or `grid_candidates`.

    Parameters
    ----------
    params, tokens : array, shape (n,)
        Size and tokens of each.
    rate : array, shape (n,)
        Cost of a token at its size, in any unit; the same within a trunk.
    trunk : int array, shape (n,)
        Runs of one number are branches of one trunk: one size, one seed. They share its steps, and noise.
    cooldown : float
        Share of a run that a branch trains by itself.

    Notes
    -----
    Of the runs chosen from a trunk the longest pays for the trunk, rate x tokens; every other pays for its
    cooldown alone, cooldown x rate x tokens.
    """

    params: Array
    tokens: Array
    rate: Array
    trunk: Index
    cooldown: float = COOLDOWN

    @classmethod
    def of(
        cls,
        params: ArrayLike,
        tokens: ArrayLike,
        rate: ArrayLike,
        trunk: ArrayLike | None = None,
        cooldown: float = COOLDOWN,
    ) -> Candidates:
        """Check arrays and make candidates of them.

        Parameters
        ----------
        params, tokens, rate : array_like, shape (n,)
            Finite and positive.
        trunk : array_like, shape (n,), optional
            Labels of trunks; every run its own if not given.
        cooldown : float
            Between 0 and 1.

        Raises
        ------
        DataError
            The arrays do not fit each other, or a trunk has two sizes, two rates or one run twice.
        """
        n, d, r = (
            checked_numbers(name, v) for name, v in (("params", params), ("tokens", tokens), ("rate", rate))
        )
        if not len(n) == len(d) == len(r) or not len(n):
            raise DataError(
                f"candidates have {len(n)} params, {len(d)} tokens and {len(r)} rates: give one of each per run",
                column="candidates",
            )
        if not 0 <= cooldown <= 1:
            raise DataError(
                f"cooldown is a share of a run, between 0 and 1, got {cooldown!r}", column="cooldown"
            )
        if trunk is not None and np.shape(trunk) != n.shape:
            raise DataError(f"trunk has shape {np.shape(trunk)} for {len(n)} candidates", column="trunk")
        group = np.arange(len(n)) if trunk is None else labels(trunk)
        for i in np.unique(group):
            mine = group == i
            if np.unique(n[mine]).size > 1 or np.unique(r[mine]).size > 1:
                raise DataError("a trunk has one size and one rate: give each size its own", column="trunk")
            if np.unique(d[mine]).size < mine.sum():
                raise DataError(
                    "a trunk has the same tokens twice: a branch can be made once; give a repeat another trunk",
                    column="trunk",
                )
        return cls(n, d, r, group, float(cooldown))

    def __len__(self) -> int:
        return len(self.params)

    @property
    def n_trunks(self) -> int:
        """Number of trunks."""
        return int(self.trunk.max()) + 1

    def cost(self, chosen: Sequence[int] | Index) -> float:
        """Return the cost of a set of runs, given by their positions."""
        return float(self.shares(chosen).sum())

    def shares(self, chosen: Sequence[int] | Index) -> Array:
        """Return what each run of a set costs: the longest of a trunk pays for it, shape (len(chosen),)."""
        at = np.asarray(chosen, dtype=np.int64)
        longest = np.zeros(self.n_trunks)
        np.maximum.at(longest, self.trunk[at], self.tokens[at])
        whole = self.tokens[at] == longest[self.trunk[at]]
        return np.asarray(self.rate[at] * self.tokens[at] * np.where(whole, 1.0, self.cooldown))

    def added_cost(self, chosen: Sequence[int] | Index) -> Array:
        """Return what each candidate would add to the cost of a set, shape (n,)."""
        at = np.asarray(chosen, dtype=np.int64)
        longest = np.zeros(self.n_trunks)
        np.maximum.at(longest, self.trunk[at], self.tokens[at])
        top = longest[self.trunk]
        # A longer run makes a branch of what paid for the trunk.
        longer = self.tokens - (1 - self.cooldown) * top
        return np.asarray(self.rate * np.where(self.tokens > top, longer, self.cooldown * self.tokens))


def grid_candidates(
    sizes: ArrayLike, counts: ArrayLike, rates: ArrayLike, *, trunks: int = 2, cooldown: float = COOLDOWN
) -> Candidates:
    """Return every size at every token count, on each of several trunks (seeds) of the size.

    Parameters
    ----------
    sizes, rates : array_like, shape (s,)
        Parameters, and the cost of a token at each.
    counts : array_like, shape (t,) or (s, t)
        Token counts, the same for all sizes or one row for each; nan leaves one out.
    trunks : int
        Trunks of each size: a second one is a second seed.
    cooldown : float
        See `Candidates`.
    """
    n, r = checked_numbers("sizes", sizes), checked_numbers("rates", rates)
    d = np.broadcast_to(np.asarray(counts, dtype=float), (len(n), np.shape(counts)[-1]))
    seed, size, count = (a.ravel() for a in np.indices((trunks, *d.shape)))
    kept = np.isfinite(d[size, count])
    seed, size, count = seed[kept], size[kept], count[kept]
    return Candidates.of(n[size], d[size, count], r[size], seed * len(n) + size, cooldown)
