"""Numbers on a page that can be traced: each is read from a document and says from where."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import Any

from economics.run_estimates import dollars, duration
from scaling.report.phrases import count, flops_text, number, percent

#: How a number is written, by name.
FORMATS: dict[str, Callable[[float], str]] = {
    "count": count,
    "usd": dollars,
    "hours": duration,
    "number": lambda x: number(x, 4),
    "short": lambda x: number(x, 3),
    "loss": lambda x: f"{x:.3f}",
    "percent": lambda x: percent(x, 3),
    "flops": flops_text,
    "whole": lambda x: f"{x:,.0f}",
    "small": lambda x: "below 0.001" if 0.0 <= x < 0.001 else f"{x:.3f}",
    "factor": lambda x: _factor(x),
    "difference": lambda x: "open" if math.isinf(x) else f"± {x:.2g}",
}


def written(value: Any, form: str) -> str:
    """Write a number of a document; an open end of an interval is a sign.

    Examples
    --------
    >>> written(2.5e9, "count"), written("Infinity", "usd"), written("Infinity", "factor")
    ('2.5B', '∞', 'open')
    """
    x = float(value)
    return "∞" if math.isinf(x) and form not in ("factor", "difference") else FORMATS[form](x)


def _factor(x: float) -> str:
    """Write the factor on either side of an interval."""
    if math.isinf(x):
        return "open"
    return "x/÷ more than 10,000" if x > 1e4 else f"x/÷ {x:.3g}" if x > 1.2 else f"x/÷ {x:.4g}"


class Document:
    """A document of plain types whose numbers are shown.

    Parameters
    ----------
    content : mapping
        What JSON holds.
    """

    def __init__(self, content: Any) -> None:
        self.content = content

    def at(self, path: str) -> Any:
        """Return the value at a dotted path; None where a part of it is None.

        Raises
        ------
        KeyError, IndexError
            There is no such place.

        Examples
        --------
        >>> Document({"a": [{"b": 3}]}).at("a.0.b")
        3
        """
        found = self.content
        for part in path.split("."):
            if found is None:
                return None
            found = found[int(part)] if isinstance(found, list) else found[part]
        return found

    def show(self, path: str, form: str = "number") -> Any:
        """Return a number as HTML that names its place; an en dash where there is none."""
        from markupsafe import Markup

        value = self.at(path)
        if value is None:
            return Markup("–")
        text = written(value, form)
        return Markup(
            f'<data value="{html.escape(str(value))}" data-form="{form}" title="{html.escape(path)}">'
            f"{html.escape(text)}</data>"
        )

    def interval(self, path: str, form: str = "number", *, level: bool = True) -> Any:
        """Return an estimate: its value, the ends of its interval, and the level unless a head says it."""
        from markupsafe import Markup

        if self.at(path) is None:
            return Markup("–")
        if self.at(f"{path}.low") is None:
            return self.show(f"{path}.value", form)
        says = f"{percent(self.at(f'{path}.level'), 3)}: " if level else ""
        ends = Markup(" to ").join(self.show(f"{path}.{end}", form) for end in ("low", "high"))
        return Markup("{} ({}{})").format(self.show(f"{path}.value", form), says, ends)
