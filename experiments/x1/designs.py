"""Which ladder an A100 should train: predicted precision of D*(1B) against dollars."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from economics.run_estimates import estimate_of
from economics.token_cost import token_cost
from scaling.architecture import Arch
from scaling.design import COOLDOWN, predicted_se
from scaling.estimate import Estimate
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.shapes import solve_shape

#: GPT-2's vocabulary.
VOCAB = 50257
#: Noise of one run's loss, in nats, and how much of it the points of a trunk share: as in plan.toml's check.
NOISE, SHARED = 0.01, 0.5
_Z = 1.96  # of a 95% interval


@dataclass(frozen=True)
class Design:
    """Sizes (non-embedding parameters) times token budgets.

    Parameters
    ----------
    name : str
    sizes, budgets : tuple of float
        Wanted non-embedding parameters; tokens.
    """

    name: str
    sizes: tuple[float, ...]
    budgets: tuple[float, ...]

    @property
    def tokens_paid(self) -> float:
        """Tokens of one trunk with its branches."""
        return max(self.budgets) + COOLDOWN * (sum(self.budgets) - max(self.budgets))

    def archs(self) -> list[Arch]:
        """Shapes of the sizes."""
        return [shape(size) for size in self.sizes]

    def factor(self, law: ChinchillaLaw, shared: float = SHARED) -> float:
        """Return x in "D*(1B) within x/÷ x at 95%", as `scaling.design.predicted_se` has it; N is total."""
        params = np.repeat([a.params_total for a in self.archs()], len(self.budgets)).astype(float)
        tokens = np.tile(self.budgets, len(self.sizes)).astype(float)
        trunk = np.repeat(np.arange(len(self.sizes)), len(self.budgets))
        sigma = NOISE / np.asarray(law.loss(params, tokens))
        se = predicted_se((params, tokens), "ln_tokens@1B", law=law, sigma=sigma, rho=shared, groups=trunk)
        with np.errstate(over="ignore"):
            return float(np.exp(_Z * se))

    def usd(self, **price: Any) -> Estimate:
        """Return the cost of the ladder on one A100, one size after another: draws of the sizes added."""
        total: Any = 0.0
        for arch in self.archs():
            total = total + per_token(arch, json.dumps(price, sort_keys=True)) * self.tokens_paid
        return estimate_of(total, "cost of the ladder", "$")


@cache
def shape(non_embedding: float) -> Arch:
    """Return the shape nearest to a count of parameters outside the embedding."""
    return solve_shape(non_embedding, VOCAB, count="non_embedding", max_embedding_share=0.9).arch


@cache
def per_token(arch: Arch, price: str, tokens: float = 1e9) -> Any:
    """Return draws of dollars a token of a shape, without starts; `price`: arguments of `economics.cost` as JSON."""
    settings = {"gpu": "A100 SXM 80GB", "n_gpus": 1, "seq_len": 1024, "draws": 4000, **json.loads(price)}
    return token_cost(arch, tokens=tokens, **settings).usd


def candidates() -> list[Design]:
    """Return the designs that are compared: the plan's, six by four, and a grid around them."""

    def spaced(low: float, high: float, count: int) -> tuple[float, ...]:
        return tuple(float(x) for x in np.geomspace(low, high, count))

    out = [
        Design("the plan's triple, five budgets", (5e6, 25e6, 100e6), (100e6, 224e6, 500e6, 1.12e9, 2.5e9)),
        Design("six sizes, four budgets", spaced(2e6, 100e6, 6), spaced(100e6, 2.5e9, 4)),
    ]
    for n, m, low, high, fewest, most in product(
        (4, 5, 6, 7), (3, 4, 5), (1e6, 2e6), (50e6, 100e6, 200e6), (50e6, 100e6), (1.25e9, 2.5e9, 5e9)
    ):
        out.append(Design("searched", spaced(low, high, n), spaced(fewest, most, m)))
    return out


def choose(law: ChinchillaLaw, budget_usd: float, **price: Any) -> tuple[list[dict[str, Any]], Design]:
    """Return the designs to show, with precision and cost, and the best that fits.

    Parameters
    ----------
    law : ChinchillaLaw
        Where the precision is wanted.
    budget_usd : float
        What the ladder may cost, by its median.
    **price
        Arguments of `economics.cost`.
    """
    found = [(design, design.factor(law), design.usd(**price)) for design in candidates()]
    fitting = [item for item in found if item[2].value <= budget_usd]
    best = min(fitting or found, key=lambda item: item[1])
    rows = [_row(*item, law) for item in (*found[:2], best)]
    rows[-1]["name"] = "best that fits the sweep's line"
    return rows, best[0]


def _row(design: Design, factor: float, usd: Estimate, law: ChinchillaLaw) -> dict[str, Any]:
    return {
        "name": design.name, "sizes": len(design.sizes), "budgets": len(design.budgets),
        "runs": len(design.sizes) * len(design.budgets),
        "params_total": [a.params_total for a in design.archs()], "tokens": list(design.budgets),
        "tokens_paid": design.tokens_paid * len(design.sizes), "factor": factor,
        "factor_independent": design.factor(law, 0.0), "usd": usd.to_dict(),
    }  # fmt: skip
