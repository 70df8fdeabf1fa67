"""What a token of a shape costs, in dollars and hours: the unit of which a ladder of runs is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.overheads import Overheads
from economics.run_cost import cost
from scaling.findings import Finding

if TYPE_CHECKING:
    from economics.quantile_draws import Array
    from scaling.architecture import Arch

#: Billed once for a ladder, and so not with its tokens.
_ONCE = {"start_hours": 0.0, "bytes_per_token": 0.0}
_BESIDE = ("people_hours", "people_usd_per_hour", "other_usd")


@dataclass(frozen=True, eq=False)
class TokenCost:
    """Cost of a token of one shape. Made by `token_cost`.

    Parameters
    ----------
    usd, hours : array, shape (draws,)
        Dollars, and wall-clock hours of all GPUs together, of one token.
    findings : tuple of Finding
        What the cost says about itself.
    """

    usd: Array
    hours: Array
    findings: tuple[Finding, ...] = ()


def token_cost(arch: Arch, *, tokens: float = 1e9, **settings: Any) -> TokenCost:
    """Return draws of the dollars and hours that a token of a shape takes, the start of machines left out.

    Parameters
    ----------
    arch : Arch
        The shape.
    tokens : float
        Of the run that is costed and divided: what is saved and lost on the way is proportional to them.
    **settings
        Arguments of `economics.cost`.
    """
    run = cost(arch=arch, D=tokens, **{**settings, "overheads": _without_start(settings.get("overheads"))})
    usd, hours = run.outcome.total_usd, run.outcome.wall_hours
    return TokenCost(np.asarray(usd) / tokens, np.asarray(hours) / tokens, run.findings)


def start_cost(arch: Arch, **settings: Any) -> Array:
    """Return draws of the dollars that are paid before the first token of a ladder, shape (draws,) or (1,)."""
    return np.asarray(cost(arch=arch, D=1.0, **settings).outcome.total_usd)


def _without_start(overheads: Any) -> Any:
    if isinstance(overheads, Overheads):
        overheads = vars(overheads)
    elif overheads is None or (isinstance(overheads, str) and overheads == "default"):
        overheads = {}
    if not isinstance(overheads, Mapping):
        return overheads  # "none", or what cost() refuses
    given = dict(overheads)
    return {**{k: v for k, v in given.items() if k not in _BESIDE}, **_ONCE}
