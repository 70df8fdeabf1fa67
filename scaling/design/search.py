"""Search for the set of runs that determines a quantity best for the money, or well enough for the least.

Greedy addition from several beginnings, then exchange as long as it helps (after Fedorov 1972, with costs): a
run, or a whole trunk, is taken out and the money spent again; or a run is put in and others make room for it.

What is minimised is the mean over draws of the law of the log standard error: every law that the data leave
possible counts, a halving of the error counts the same wherever it starts, and a few draws in which the
quantity is hopeless do not outweigh all others, as they would in a mean of variances. With `quantile` it is
that quantile of the error over the draws instead: safer, and a little worse on the average.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scaling.design.candidates import Candidates
from scaling.design.moments import Moments
from scaling.errors import DataError
from scaling.laws.base import Array

#: A gain in log standard error below this is none.
_GAIN = 1e-6
#: Passes of the exchange over all runs.
_PASSES = 12
#: Runs, the most telling first, that an exchange tries to put in.
_SWAPS = 12
#: Runs, the least telling for their cost first, that it tries to take out.
_REMOVALS = 16
#: Passes while the budget of the cheapest set is looked for.
_QUICK = 2
#: Powers of the added cost by which a gain is divided, one beginning each.
_THRIFT = (1.0, 0.5, 0.0)
#: How closely the budget of the cheapest set is found, as a ratio.
_CLOSE = 1.02


@dataclass(frozen=True)
class Chosen:
    """A set of candidates.

    Parameters
    ----------
    positions : tuple of int
        Which candidates, sorted.
    cost : float
        Their cost together.
    score : float
        What was minimised: log standard error, averaged over the draws.
    """

    positions: tuple[int, ...]
    cost: float
    score: float


class Search:
    """Search among candidates.

    Parameters
    ----------
    moments : Moments
        What runs tell about the quantity.
    quantile : float, optional
        Minimise this quantile of the standard error over the draws, not the mean of its log.
    """

    def __init__(self, moments: Moments, quantile: float | None = None) -> None:
        if quantile is not None and not 0 < quantile < 1:
            raise DataError(f"quantile must lie between 0 and 1, got {quantile!r}", column="quantile")
        self.moments, self.quantile = moments, quantile

    @property
    def candidates(self) -> Candidates:
        """The runs that could be made."""
        return self.moments.candidates

    def score(self, positions: Sequence[int]) -> float:
        """Return the criterion of a set."""
        return float(self._average(self.moments.log_se(positions)[:, None])[0])

    def chosen(self, positions: Iterable[int]) -> Chosen:
        """Return a set with its cost and score."""
        at = tuple(sorted(positions))
        return Chosen(at, self.candidates.cost(at), self.score(at))

    def greedy(self, budget: float) -> Chosen:
        """Return the set of a single greedy pass: quick, and what `most_precise` begins with."""
        return self.chosen(self._fill([], budget, 0.5))

    def most_precise(self, budget: float, starts: Iterable[Sequence[int]] = ()) -> Chosen:
        """Return the best set found whose cost is within a budget.

        Parameters
        ----------
        budget : float
            In the unit of the candidates' costs.
        starts : iterable of sequences of int
            Sets to begin from besides: the answer is at least as good as each that is within the budget.

        Raises
        ------
        DataError
            The budget does not pay for a single run.
        """
        cheapest = float((self.candidates.rate * self.candidates.tokens).min())
        if not budget >= cheapest:
            raise DataError(
                f"a budget of {budget:.4g} pays for none of the candidates: the cheapest costs {cheapest:.4g}",
                column="budget",
            )
        begun = [self._fill([], budget, thrift) for thrift in _THRIFT]
        begun += [self._fill(s, budget, 0.5) for s in starts if self.candidates.cost(s) <= budget]
        begun.sort(key=self.score)
        best = min((self._exchange(s, budget) for s in begun[:2]), key=self.score)
        return self.chosen(best)

    def cheapest(self, score: float, limit: float | None = None) -> Chosen | None:
        """Return the cheapest set found whose criterion is at most `score`; None where no set reaches it.

        Parameters
        ----------
        score : float
            Wanted log standard error, averaged as the criterion is.
        limit : float, optional
            Most that may be spent: by default the cost of all candidates.
        """
        c = self.candidates
        low = float((c.rate * c.tokens).min())
        high = c.cost(range(len(c))) if limit is None else limit
        best = self._reach(score, high) if high >= low else None
        while best is not None and best.cost > _CLOSE * low:
            middle = float(np.sqrt(low * best.cost))
            tried = self.chosen(self._exchange(self._fill([], middle, 0.5), middle, _QUICK))
            if tried.score <= score:
                best = self._trimmed(tried, score)
            else:
                low = middle
        return best

    def spared(self, positions: Sequence[int], share: float) -> Chosen:
        """Return a set without the runs that hardly tell anything, those that tell least first.

        Parameters
        ----------
        positions : sequence of int
            The set.
        share : float
            By how much all that are left out may raise the standard error together, as a share of it.
        """
        here = list(positions)
        most = self.score(here) + float(np.log1p(share))
        while len(here) > 1:
            without = self._average(self.moments.log_se_without_each(here))[here]
            rest = [i for k, i in enumerate(here) if k != int(np.argmin(np.nan_to_num(without, nan=np.inf)))]
            if not self.score(rest) <= most:
                break
            here = rest
        return self.chosen(here)

    # --- steps -------------------------------------------------------------------------------------

    def _average(self, log_se: Array) -> Array:
        if self.quantile is None:
            return np.asarray(log_se.mean(axis=0))
        return np.asarray(np.quantile(log_se, self.quantile, axis=0))

    def _fill(self, positions: Iterable[int], budget: float, thrift: float) -> list[int]:
        """Add runs while the money lasts: each time that of most gain by its cost to the power `thrift`."""
        out = list(positions)
        left, here = budget - self.candidates.cost(out), self.score(out)
        while True:
            added = self.candidates.added_cost(out)
            dear = added > left * (1 + 1e-12)
            dear[out] = True
            if dear.all():
                return out
            scores = self._average(self.moments.log_se_with_each(out))
            gain = here - scores
            gain[dear] = -np.inf
            worth = np.where(gain > _GAIN, gain, 0.0) / added**thrift
            best = int(np.argmax(worth))
            if worth[best] <= 0:
                if out:
                    return out
                best = int(np.argmin(np.where(dear, np.inf, scores)))  # something must be begun with
            out.append(best)
            left, here = left - added[best], float(scores[best])

    def _exchange(self, positions: list[int], budget: float, passes: int = _PASSES) -> list[int]:
        """Take out runs and trunks, or put runs in, and spend the money again, as long as the criterion falls."""
        here, best = list(positions), self.score(positions)
        for _ in range(passes):
            before = best
            for part in self._parts(here, best):
                if part <= set(here):
                    tried = self._fill([i for i in here if i not in part], budget, 0.5)
                    if (score := self.score(tried)) < best - _GAIN:
                        here, best = tried, score
            if best >= before - _GAIN:
                here, best = self._swap(here, best, budget)
            if best >= before - _GAIN:
                break
        return here

    def _parts(self, positions: list[int], score: float) -> list[set[int]]:
        """Return what is worth taking out: the runs that tell least for their cost, and whole trunks."""
        without = self._average(self.moments.log_se_without_each(positions))[positions]
        worth = np.maximum(without - score, 0.0) / self.candidates.shares(positions)
        runs = [{positions[k]} for k in np.argsort(worth)[:_REMOVALS].tolist()]
        trunk = self.candidates.trunk
        return runs + [{i for i in positions if trunk[i] == t} for t in np.unique(trunk[positions]).tolist()]

    def _swap(self, positions: list[int], best: float, budget: float) -> tuple[list[int], float]:
        """Put in one of the most telling runs, and take out the least telling ones until the money suffices."""
        scores = self._average(self.moments.log_se_with_each(positions))
        scores[positions] = np.inf
        alone = self.candidates.rate * self.candidates.tokens
        for i in np.argsort(scores)[:_SWAPS].tolist():
            if i in positions or alone[i] > budget:
                continue
            tried = [*positions, i]
            while (cost := self.candidates.cost(tried)) > budget * (1 + 1e-12):
                without = self._average(self.moments.log_se_without_each(tried))
                saved = np.array(
                    [cost - self.candidates.cost([k for k in tried if k != j]) for j in tried[:-1]]
                )
                harm = np.maximum(without[tried[:-1]] - self.score(tried), 0.0) + _GAIN
                tried.pop(int(np.argmin(harm / np.minimum(saved, cost - budget))))
            tried = self._fill(tried, budget, 0.5)
            score = self.score(tried)
            if score < best - _GAIN:
                return tried, score
        return positions, best

    def _reach(self, score: float, limit: float) -> Chosen | None:
        """Return some set of that criterion: greedy first, the best for all the money where that fails."""
        found = self.chosen(self._fill_until(score, limit))
        if found.score > score and limit < self.candidates.cost(range(len(self.candidates))):
            found = self.most_precise(limit)
        return self._trimmed(found, score) if found.score <= score else None

    def _fill_until(self, score: float, limit: float) -> list[int]:
        full = self._fill([], limit, 1.0)  # each run is added where those before it are
        for count in range(1, len(full) + 1):
            if self.score(full[:count]) <= score:
                return full[:count]
        return full

    def _trimmed(self, found: Chosen, score: float) -> Chosen:
        """Leave out runs that the wanted criterion does not need, dearest first."""
        here = list(found.positions)
        for _ in range(len(here)):
            worth = sorted(here, key=lambda i: -self.candidates.shares([i])[0])
            for i in worth:
                rest = [k for k in here if k != i]
                if rest and self.score(rest) <= score:
                    here = rest
                    break
            else:
                break
        return self.chosen(here)
