"""Arguments about serving: how many tokens, and at what cost."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from economics.inference import inference_cost
from economics.run_inputs import MOST_TOKENS
from economics.run_numbers import count
from scaling.errors import DataError, shown


def served_tokens(served: Any, name: str = "served") -> float:
    """Read tokens served; None and 0 are none."""
    if served is None:
        return 0.0
    tokens = count(name, served)
    if not 0.0 <= tokens < math.inf:
        raise DataError(
            f"{name} must be 0 or more tokens served over the life of the model, such as '1T'; got {shown(served)}",
            column=name,
        )
    if tokens > MOST_TOKENS:
        raise DataError(
            f"{name} is more than anybody serves ({MOST_TOKENS:.0e} tokens at most), got {shown(served)}",
            column=name,
        )
    return tokens


def read_serving(served: Any, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the arguments of `inference_cost` for tokens served; None where there are none."""
    about = serving_of(given)
    if about and served is None:
        raise DataError("serving without served, the tokens of it: give both", column="served")
    return about if served_tokens(served) else None


def serving_of(given: Any) -> dict[str, Any]:
    """Check arguments of `inference_cost`."""
    if given is not None and not isinstance(given, Mapping):
        raise DataError(
            f"serving must be a mapping of arguments of inference_cost, got {shown(given)}", column="serving"
        )
    known = set(inspect.signature(inference_cost).parameters) - {"N", "draws", "seed"}
    for name in sorted(map(str, set(given or {}) - known)):
        raise DataError(f"serving has no {name!r}: it takes {', '.join(sorted(known))}", column="serving")
    return dict(given or {})
