"""Dollars and hours of runs of every size, draw by draw: what an optimum for each draw is looked for on.

A run of N parameters on D tokens costs fixed(N) + each(N) · D on a given number of GPUs: starting machines and what
is stored, and then so much a token. Between the nodes of a grid of ln N both are interpolated (each(N) as a power of
N). `economics.decide.costs` computes them, and has those of runs whose tokens have no price each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from economics.inference import InferenceCost, inference_cost
from economics.quantile_draws import Array

#: Distance of the nodes in ln N: multiples of it, so that the shapes behind them are solved for once.
SPACING = 0.4
#: Settings of `cost` that hold for serving as well.
_SHARED = ("market", "provider", "price", "as_of", "book", "draws", "seed")


@dataclass(frozen=True, eq=False)
class Surface:
    """Costs over sizes, draw by draw.

    Parameters
    ----------
    x : array, shape (G,)
        ln N of the nodes.
    usd_fixed, usd_token, hours_fixed, hours_token : array, shape (K, G)
        Dollars and hours of a run: before the first token, and for each.
    usd_served : array, shape (K, G)
        Dollars for each token served; 0 where nothing is.
    """

    x: Array
    usd_fixed: Array
    usd_token: Array
    hours_fixed: Array
    hours_token: Array
    usd_served: Array

    def at(self, x: Array, draws: Array | None = None) -> Surface:
        """Return the same at other sizes, of some of the draws."""
        place = np.clip(np.searchsorted(self.x, x, side="right") - 1, 0, self.x.size - 2)
        share = (np.asarray(x) - self.x[place]) / (self.x[place + 1] - self.x[place])

        def linear(values: Array, log: bool) -> Array:
            chosen = values if draws is None else values[draws]
            with np.errstate(divide="ignore"):
                known = np.log(chosen) if log else chosen
            if log and not np.isfinite(known).all():  # nothing is served
                return np.zeros((chosen.shape[0], len(x)))
            out = known[:, place] * (1.0 - share) + known[:, place + 1] * share
            return np.asarray(np.exp(out) if log else out)

        return Surface(
            np.asarray(x),
            linear(self.usd_fixed, False), linear(self.usd_token, True),
            linear(self.hours_fixed, False), linear(self.hours_token, True), linear(self.usd_served, True),
        )  # fmt: skip

    def tokens(self, limit: float, of: str, served: float) -> Array:
        """Return the tokens that a limit of dollars or hours leaves, draw by draw; 0 where it is gone before.

        Parameters
        ----------
        limit : float
        of : {"usd", "hours"}
        served : float
            Tokens served, which the dollars pay as well.
        """
        if of == "hours":
            return np.asarray(np.maximum(limit - self.hours_fixed, 0.0) / self.hours_token)
        left = limit - self.usd_fixed - served * self.usd_served
        return np.asarray(np.maximum(left, 0.0) / self.usd_token)

    def usd(self, tokens: Array, served: float) -> Array:
        """Return the dollars of training on `tokens`, shape (K, G) or (G,), and of serving."""
        with np.errstate(invalid="ignore"):  # sizes that need tokens without end
            return np.asarray(self.usd_fixed + self.usd_token * tokens + served * self.usd_served)


def serve(n: float, settings: Mapping[str, Any], serving: Mapping[str, Any]) -> InferenceCost:
    """Return what serving a size costs, on the GPUs it is trained on unless others are given."""
    given = {name: settings[name] for name in _SHARED if name in settings}
    if "gpu" in serving and serving["gpu"] != settings.get("gpu"):
        given.pop("price", None)  # that of another part
    return inference_cost(n, **{**given, "gpu": settings.get("gpu"), **serving})
