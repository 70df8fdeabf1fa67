"""Sets of runs that could be designed, and what fits to tables made up from them answer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from economics.next_runs.grid import Pool, make_pool
from scaling.bootstrap import search as refit
from scaling.design import Candidates, Known, Search, believe, moments, predicted_se
from scaling.laws.base import Array, Index
from scaling.laws.chinchilla import ChinchillaLaw, attach
from scaling.newton import Objective
from scaling.published import published
from scaling.targets import target_function

#: The law of someone who has no runs yet.
PRIOR = "Besiroglu replication (best of grid)"
#: What is asked: tokens for 1e9 parameters.
TARGET = "ln_tokens@1B"
#: The middle of the runs that are looked at, about which the prior is uncertain.
CENTRE = (5e7, 1e9)
#: Of the Huber objective.
DELTA = 1e-3
#: An A100 at a price of its own: the tables do not change with the price book.
MACHINE = {"gpu": "A100 SXM 80GB", "n_gpus": 1, "price": 1.5, "seq_len": 1024, "draws": 500}
#: Laws of a search's belief.
N_LAWS = 24
_STARTS = 4


@dataclass(frozen=True, eq=False)
class Design:
    """Runs, and which share a trunk."""

    params: Array
    tokens: Array
    trunk: Index

    @classmethod
    def of(cls, candidates: Candidates, positions: Sequence[int], known: Known | None = None) -> Design:
        """Return chosen candidates, beside runs at hand."""
        at, k = np.array(positions, dtype=np.int64), known or Known.nothing()
        above = int(k.cluster.max()) + 1 if len(k.cluster) else 0
        trunk = np.concatenate([k.cluster, above + candidates.trunk[at]])
        return cls(
            np.concatenate([k.params, candidates.params[at]]),
            np.concatenate([k.tokens, candidates.tokens[at]]),
            np.unique(trunk, return_inverse=True)[1],
        )

    def predicted(self, law: ChinchillaLaw, target: str, sigma: float, rho: float) -> float:
        """Return the predicted standard error."""
        return predicted_se(
            (self.params, self.tokens), target, law=law, sigma=sigma, rho=rho, groups=self.trunk
        )

    def answers(
        self,
        law: ChinchillaLaw,
        targets: Sequence[str],
        sigma: float,
        rho: float,
        worlds: int,
        *,
        cold: bool = True,
    ) -> list[Array]:
        """Return what fits to made-up tables answer, one array of shape (worlds,) for each target.

        Fits that are not `cold` begin at the truth and never end in another basin: a favour to whoever gets it.
        """
        rng = np.random.default_rng(0)
        clean = np.log(law.loss(self.params, self.tokens))
        own = rng.normal(size=(worlds, len(clean)))
        shared = rng.normal(size=(worlds, int(self.trunk.max()) + 1))[:, self.trunk]
        noisy = clean + sigma * (math.sqrt(1 - rho) * own + math.sqrt(rho) * shared)
        attached, one = attach(self.params, self.tokens, clean), np.ones(len(clean))
        starts = attached.plain(law)[None]
        if cold:
            starts = np.concatenate([starts, attached.form.starts(clean, one)[:_STARTS]])
        ends = refit(Objective(attached.form, noisy, one, one, DELTA), starts, cold=cold)
        laws = attached.law(ends.plain)
        if all(t == TARGET for t in targets):
            return [np.asarray(laws.log_tokens_at(1e9))]
        each = [ChinchillaLaw(*(float(c[i]) for c in vars(laws).values())) for i in range(worlds)]
        return [np.array([target_function(t)(law) for law in each]) for t in targets]


@cache
def law_of(name: str) -> ChinchillaLaw:
    """Return a published law."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = published(name).law
    assert isinstance(found, ChinchillaLaw)
    return found


@cache
def pool(budget: float) -> Pool:
    """Return what an A100 could train for this."""
    return make_pool(
        None, budget, vocab=50257, sizes=None, tokens=None, trunks=2, max_hours=None, settings=dict(MACHINE)
    )


def searcher(
    candidates: Candidates, sigma: float, rho: float, known: Known | None = None, loss: Any = None
) -> Search:
    """Return the search of someone who knows the prior alone, and the runs at hand."""
    belief = believe(law_of(PRIOR), CENTRE, known, loss, sigma=sigma, rho=rho, n=N_LAWS)
    told = moments(
        belief.laws,
        target_function(TARGET),
        known or Known.nothing(),
        candidates,
        sigma=sigma,
        rho=rho,
        delta=DELTA,
    )
    return Search(told)


def random_set(candidates: Candidates, budget: float, rng: np.random.Generator) -> list[int]:
    """Return candidates in random order as long as the money lasts."""
    out: list[int] = []
    left = budget
    for i in rng.permutation(len(candidates)).tolist():
        added = candidates.added_cost(out)[i]
        if added <= left:
            out.append(i)
            left -= added
    return out


def missed(held: bool) -> str:
    """Return the mark of what did not come out as it should."""
    return "" if held else " MISSED"
