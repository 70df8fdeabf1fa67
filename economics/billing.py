"""How providers bill, and the words of a budget: sessions, charges, status, refusal. Standard library alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from uuid import uuid4

from economics.errors import EconomicsError
from economics.run_numbers import hours as read_hours, plain
from scaling.errors import DataError, shown

#: Billing granularities people name, in seconds.
GRANULARITIES = {"second": 1.0, "minute": 60.0, "hour": 3600.0}


@dataclass(frozen=True)
class Charge:
    """Money that the clock does not show: reason and US dollars; `key` tells it from another like it."""

    reason: str
    usd: float
    key: str = field(default_factory=lambda: uuid4().hex, compare=False, repr=False)


@dataclass(frozen=True)
class Session:
    """One billed instance.

    Parameters
    ----------
    instance : str
        Its name.
    started_at, ended_at : float
        Seconds since the epoch; None while its end is open.
    usd_per_hour, billing_granularity, minimum_s : float
        Its tariff: US dollars an hour, seconds it is rounded up to, and seconds that are billed at least.
    seen_at : float, optional
        Its last sign of life, where its end is only an assumption.
    """

    instance: str
    started_at: float
    ended_at: float | None
    usd_per_hour: float
    billing_granularity: float
    minimum_s: float
    seen_at: float | None = None

    def usd(self, until: float) -> float:
        """US dollars billed for the session if it ends at `until` (its own end, where it has one)."""
        end = until if self.ended_at is None else self.ended_at
        return billed_usd(
            max(end - self.started_at, 0.0), self.usd_per_hour, self.billing_granularity, self.minimum_s
        )

    def seconds_for(self, usd: float) -> float:
        """Longest time up that is billed at no more than `usd`."""
        unit = self.billing_granularity / 3600.0 * self.usd_per_hour
        if unit == 0.0:
            return math.inf
        seconds = math.floor(usd / unit + 1e-9) * self.billing_granularity
        return seconds if seconds >= self.minimum_s else 0.0


class BudgetExceeded(EconomicsError):
    """Going on would pass the cap. Nothing has been overspent when this is raised.

    Parameters
    ----------
    message : str
        The numbers, and what would fit.
    spent : float
        Billed so far, US dollars.
    cap : float
        The cap.
    needed : float
        What the bill would come to.
    fits : mapping
        What would fit: ``hours`` of running, ``usd`` for it, ``fraction`` of the plan, ``tokens``.
    """

    def __init__(
        self, message: str, *, spent: float, cap: float, needed: float, fits: Mapping[str, float]
    ) -> None:
        super().__init__(message)
        self.spent = spent
        self.cap = cap
        self.needed = needed
        self.fits = dict(fits)


def refusal(
    *, planned_s: float | None, quantile: float, tokens: float | None, hours_fit: float, spent: float,
    needed: float, cap: float, usd_fit: float,
) -> BudgetExceeded:  # fmt: skip
    """Return the refusal of a plan (None: of one step): what it needs, and how much of it fits."""
    fits = {"hours": hours_fit, "usd": usd_fit}
    what, part = "the next step", ""
    if planned_s is not None:
        fits["fraction"] = hours_fit * 3600.0 / planned_s
        what = f"{planned_s / 3600.0:.2f} h (the {quantile:.0%} quantile of the plan)"
        part = f", {fits['fraction']:.0%} of the plan"
        if tokens is not None:
            fits["tokens"] = fits["fraction"] * tokens
            part += f", {fits['tokens']:.3g} tokens"
    return BudgetExceeded(
        f"{what} with the final save and the shutdown comes to ${needed:.2f}, above the cap of ${cap:.2f} "
        f"(${spent:.2f} spent already). What fits: {hours_fit:.2f} h of running{part}.",
        spent=spent,
        cap=cap,
        needed=needed,
        fits=fits,
    )


@dataclass(frozen=True)
class BudgetStatus:
    """Where the money stands. True in a condition while one more step fits.

    Parameters
    ----------
    fits : bool
        One more step, the final save and the shutdown stay within the cap.
    spent, compute, charges : float
        Billed up to now: in all, for instances, and single charges. US dollars.
    committed : float
        What the bill comes to with the steps the reserve holds, the save and the shutdown.
    cap : float
        The cap.
    closed : bool
        The run is over and `spent` is final.
    hours_left : float
        Hours that can still be run before the save must begin.
    """

    fits: bool
    spent: float
    compute: float
    charges: float
    committed: float
    cap: float
    closed: bool
    hours_left: float

    @property
    def remaining(self) -> float:
        """The cap less what is spent, US dollars."""
        return self.cap - self.spent

    def __bool__(self) -> bool:
        return self.fits

    def __str__(self) -> str:
        spent = f"${self.spent:.2f} of ${self.cap:.2f} spent"
        if self.closed:
            return f"{spent}, closed"
        verdict = "one more step fits" if self.fits else "save and shut down now"
        return (
            f"{spent}, {self.hours_left:.2f} h left before the final save; with one more step, the save and "
            f"the shutdown ${self.committed:.2f}: {verdict}"
        )


def billed_usd(
    seconds: float, usd_per_hour: float, billing_granularity: float = 1.0, minimum_s: float = 0.0
) -> float:
    """US dollars billed for an instance that was up for `seconds`.

    Examples
    --------
    >>> billed_usd(3601, 2.0), billed_usd(3601, 2.0, billing_granularity=3600)
    (2.0005555555555556, 4.0)
    """
    # A hair is taken off before rounding up, so that 60.000000001 s from a float clock is one minute.
    units = math.ceil(max(seconds, minimum_s) / billing_granularity - 1e-9)
    return units * billing_granularity / 3600.0 * usd_per_hour


def quantile_of(plan: object, quantile: float) -> float:
    """Return a quantile of a plan: a number as it is, of draws, or of an estimate with an interval.

    Parameters
    ----------
    plan : float, str, sequence of float, or object
        A number, or hours as text ("24", "30 min"), is taken to be the quantile already. A sequence is draws.
        An object offers ``quantile(q)``, or ``low``, ``value``, ``high`` at a ``level``
        (`scaling.estimate.Estimate`), of which the lower end, the median and the upper end can be asked for.
    quantile : float
        Between 0 and 1.

    Raises
    ------
    DataError
        Something else, or hours that are negative or not finite.

    Examples
    --------
    >>> quantile_of(range(101), 0.9), quantile_of("30 min", 0.9)
    (90.0, 0.5)
    """
    q = fraction_between("quantile", quantile)
    if plan is not True and plan is not False and isinstance(plan, str | Real | Decimal):
        return read_hours("hours", plan)
    if callable(getattr(plan, "quantile", None)):
        return _hours(plan.quantile(q), plan)  # type: ignore[attr-defined]
    if hasattr(plan, "level"):
        level = float(plan.level)
        ends = {(1 - level) / 2: "low", 0.5: "value", (1 + level) / 2: "high"}
        for at, name in ends.items():
            if abs(at - q) < 1e-9:
                return _hours(getattr(plan, name), plan)
        known = ", ".join(f"{at:g}" for at in ends)
        raise DataError(
            f"quantile {q:g} of an estimate that has {known}: give one of them.", column="quantile"
        )
    # Bytes, and the keys of a mapping, would be read as draws without a word.
    given = plan if isinstance(plan, Iterable) and not isinstance(plan, bytes | bytearray | Mapping) else ()
    draws = sorted(_hours(x, plan) for x in given)
    if not draws:
        raise DataError(
            f"hours of a plan are a number, draws or an estimate, got {shown(plan)}", column="hours"
        )
    position = q * (len(draws) - 1)
    below = int(position)
    above = min(below + 1, len(draws) - 1)
    return draws[below] + (position - below) * (draws[above] - draws[below])


def _hours(value: object, plan: object) -> float:
    """Return hours of a plan that are a finite number, not negative."""
    number = plain(value)
    if not 0.0 <= number < math.inf:
        raise DataError(
            f"hours of a plan are finite and not negative, got {shown(value)} in {shown(plan)}",
            column="hours",
        )
    return number


def fraction_between(name: str, value: object) -> float:
    """Return a number from 0 to 1, which may be text ("0.9", "90%")."""
    text = value.strip() if isinstance(value, str) else value
    scale = 1.0
    if isinstance(text, str) and text.endswith("%"):
        text, scale = text.removesuffix("%"), 0.01
    number = amount(name, text) * scale
    if number > 1.0:
        raise DataError(f"{name} must lie between 0 and 1, got {shown(value)}", column=name)
    return number


def granularity_s(value: float | str) -> float:
    """Return a billing granularity in seconds, given as seconds or as one of `GRANULARITIES`."""
    if isinstance(value, str):
        if value not in GRANULARITIES:
            raise DataError(
                f"billing_granularity {shown(value)}: give seconds or one of {', '.join(GRANULARITIES)}",
                column="billing_granularity",
            )
        return GRANULARITIES[value]
    return amount("billing_granularity", value, positive=True)


def amount(name: str, value: object, *, positive: bool = False) -> float:
    """Return a finite amount that is not negative (or not zero either)."""
    number = plain(value)
    if not 0.0 <= number < math.inf or (positive and number == 0.0):
        what = f"a number {'above' if positive else 'from'} 0{'' if positive else ' on'}"
        raise DataError(f"{name} must be {what}, got {shown(value)}", column=name)
    return number


def boot_time(path: str = "/proc/uptime", clock: Callable[[], float] = time.time) -> float:
    """When this Linux machine booted, in seconds since the epoch: a guard's `started_at`.

    On a virtual machine of one's own that is when billing began. In a container it is when the host booted,
    which may be weeks ago: ask the provider instead.

    Parameters
    ----------
    path : str
        File whose first word is the uptime in seconds.
    clock : callable
        Seconds since the epoch.
    """
    with open(path, encoding="ascii") as file:
        return clock() - float(file.read().split()[0])
