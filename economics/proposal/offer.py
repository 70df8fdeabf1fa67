"""The best run on one kind of machine for a sum of money, and which of many nothing beats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from economics.run_result import RunCost
from scaling.estimate import Estimate

#: Findings of a cost that say a figure behind it was not measured or not quoted well.
DOUBTS = {
    "gpu_not_measured": "speed not measured",
    "dtype_not_measured": "speed not measured in this dtype",
    "outside_calibration": "speed outside what was measured",
    "price_few_providers": "few quotes",
    "price_age": "old price",
    "price_per_node": "doubtful price",
    "price_without_host": "price without host",
}


@dataclass(frozen=True, eq=False)
class Offer:
    """The best run on one kind of machine for a sum of money.

    Parameters
    ----------
    gpu, market : str
    n_gpus : int
    budget_usd : float
        The money; a quantile of the cost equals it.
    params, tokens : float
    loss : float
        Of the law there.
    cost : RunCost
        The run.
    settings : mapping
        Arguments of `cost` that give it again with N and D.
    """

    gpu: str
    market: str
    n_gpus: int
    budget_usd: float
    params: float
    tokens: float
    loss: float
    cost: RunCost
    settings: Mapping[str, Any]

    @property
    def usd(self) -> Estimate:
        """Dollars of the run."""
        return self.cost.usd

    @property
    def hours(self) -> Estimate:
        """Hours from the start of the machines to the end."""
        return self.cost.wall_hours

    @property
    def machine(self) -> str:
        """In words."""
        return f"{self.n_gpus} x {self.gpu}, {self.market}"

    @property
    def doubts(self) -> tuple[str, ...]:
        """What about its speed and price was not measured."""
        codes = {f.code for f in (*self.cost.plan.price.findings, *self.cost.plan.mfu.findings)
                 if f.severity != "info"}  # fmt: skip
        return tuple(words for code, words in DOUBTS.items() if code in codes)

    @property
    def measured(self) -> bool:
        """Whether somebody has measured the speed of this part."""
        return all(f.code != "gpu_not_measured" for f in self.cost.plan.mfu.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        plan = self.cost.plan
        return {
            "gpu": self.gpu, "market": self.market, "n_gpus": self.n_gpus, "budget_usd": self.budget_usd,
            "params": self.params, "tokens": self.tokens, "flops": 6.0 * self.params * self.tokens,
            "loss": self.loss, "usd": self.usd.to_dict(), "hours": self.hours.to_dict(),
            "usd_per_gpu_hour": plan.price.median, "mfu": plan.mfu.quantile(0.5), "measured": self.measured,
            "doubts": list(self.doubts),
        }  # fmt: skip


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the points that no other beats: none is cheaper and no worse, or better and no dearer.

    Parameters
    ----------
    points : sequence of (float, float)
        Dollars and loss.

    Examples
    --------
    >>> front([(1.0, 3.0), (2.0, 2.5), (2.0, 2.6), (3.0, 2.5)])
    [0, 1]
    """
    kept, best = [], math.inf
    for i in sorted(range(len(points)), key=lambda i: points[i]):
        if points[i][1] < best:
            best = points[i][1]
            kept.append(i)
    return sorted(kept)
