"""Errors and warnings of the package. Each carries its evidence as attributes and says what to do.

An error is raised when going on would mean guessing; a warning is issued when the answer stands but
a reader could take it for more than it is.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any


class ScalingError(Exception):
    """Base of every error this package raises on purpose."""


class DataError(ScalingError, ValueError):
    """A table or an argument cannot be read as what it claims to be.

    Parameters
    ----------
    message : str
        What was seen and what to do about it.
    source : str, optional
        File or object that held the data.
    column : str, optional
        Column (or argument) at fault, as the user wrote it.
    rows : sequence of int, optional
        Row numbers at fault: line numbers of the file where there is one, else 0-based positions.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        column: str | None = None,
        rows: Sequence[int] = (),
    ) -> None:
        super().__init__(message)
        self.source = source
        self.column = column
        self.rows = tuple(int(r) for r in rows)


class UnitError(DataError):
    """A unit is missing, contradictory, or cannot be converted with what was given."""


class NotIdentifiedError(ScalingError):
    """The data do not determine the quantity asked for: unidentified is not a number.

    Parameters
    ----------
    message : str
        Which quantity is not identified, the numbers that show it, and what would identify it.
    quantities : sequence of str
        Names of the quantities the data leave open.
    condition_number : float, optional
        Condition number of the column-scaled Jacobian, where one was computed.
    remedy : str, optional
        The extra run or runs that would identify it.
    partial : object, optional
        What the data *do* identify, as a fitted result (for one token count: alpha and
        E + B/D^beta).
    """

    def __init__(
        self,
        message: str,
        *,
        quantities: Sequence[str] = (),
        condition_number: float | None = None,
        remedy: str | None = None,
        partial: Any = None,
    ) -> None:
        super().__init__(message)
        self.quantities = tuple(quantities)
        self.condition_number = condition_number
        self.remedy = remedy
        self.partial = partial


class TooFewRunsError(NotIdentifiedError):
    """Fewer usable runs than the law has room for.

    Parameters
    ----------
    message : str
        What was seen and what is needed.
    n_runs, needed : int
        Runs seen and runs needed.
    """

    def __init__(self, message: str, *, n_runs: int, needed: int, **evidence: Any) -> None:
        super().__init__(message, **evidence)
        self.n_runs = n_runs
        self.needed = needed


class ScalingWarning(UserWarning):
    """Base of every warning this package issues."""


class DataWarning(ScalingWarning):
    """The table was read, with a doubt that the audit spells out."""


class IdentificationWarning(ScalingWarning):
    """The fit stands, but a quantity in it is weakly determined."""


class ExtrapolationWarning(ScalingWarning):
    """The question lies far outside the data; the interval does not cover the law being wrong there."""


class BootstrapWarning(ScalingWarning):
    """Some bootstrap refits failed, or there are too few runs for the interval to be trusted."""


def warn(message: str, category: type[ScalingWarning]) -> None:
    """Issue a warning at the line of whoever called this package, however deep inside it arose."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _inside(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _inside(frame: FrameType) -> bool:
    """Tell whether a frame is of this package, or of numpy's decorators between its functions."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in (__name__.partition(".")[0], "numpy")


def shown(value: object, most: int = 60) -> str:
    """Return a value as a message shows it: on one short line; what has more to say than that, by its kind.

    Examples
    --------
    >>> shown(-1), shown("x" * 100), shown(list(range(100)))
    ('-1', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...", 'a list')
    """
    text = repr(value) if isinstance(value, str | bytes | int | float) else ""
    if not text:
        try:
            text = repr(value)
        except Exception:  # of somebody else's class
            text = "<"
        if len(text) > most or "\n" in text or text.startswith("<"):
            kind = type(value).__name__
            return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
    return text if len(text) <= most else f"{text[: most - 3]}..."
