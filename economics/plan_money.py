"""Checks of a plan's money: lines and their sum, prices, what on-demand would cost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

from economics.errors import PriceError
from economics.plan_facts import Facts
from economics.plan_schema import BudgetLine
from economics.price_search import fixed_price, prices
from economics.run_estimates import dollars
from scaling.findings import Finding

#: A line may be its arithmetic rounded: to the dollar, or by a few per cent.
_ROUND_USD, _ROUND = 0.5, 0.04
#: A price this many times outside the interval of the price book is looked at again.
_FAR = 2.0


def check_lines(facts: Facts) -> Iterator[Finding]:
    """Check that hours times price is the line, and that one line is one cost."""
    for line in facts.plan.budget.lines if facts.plan.budget else []:
        price = _hourly(facts, line)
        if line.hours is not None and price is not None:
            expected = line.hours * price
            if abs(expected - line.usd) > max(_ROUND_USD, _ROUND * expected):
                words = (
                    f"budget line {line.name!r}: {line.hours:g} h x {dollars(price)}/h = {dollars(expected)}, not "
                    f"{dollars(line.usd)}."
                )
                yield Finding("line_disagrees", "error", words, {"line": line.usd, "computed": expected})
        if {"storage", "egress"} <= set(line.covers):
            words = (
                f"budget line {line.name!r} ({dollars(line.usd)}) is two costs: storage grows with GB and months, "
                f"egress with every GB that leaves. Give each a line."
            )
            yield Finding("two_costs_in_one_line", "warning", words, {"line": line.usd})


def check_hours(facts: Facts) -> Iterator[Finding]:
    """Check that the lines pay for the hours of the run."""
    hours, budget = facts.get("run.hours"), facts.plan.budget
    paid = [
        line.hours for line in (budget.lines if budget else []) if line.hours and "compute" in line.covers
    ]
    if hours is None or not paid or math.fsum(paid) >= 0.95 * hours:
        return
    words = f"the budget pays for {math.fsum(paid):g} h of compute, the run takes {hours:g} h."
    yield Finding("hours_not_paid", "error", words, {"paid": math.fsum(paid), "hours": hours})


def _hourly(facts: Facts, line: BudgetLine, column: str = "usd_per_gpu_hour") -> float | None:
    """Price per hour of all the accelerators of a line."""
    price, n = facts.get(f"run.{column}"), line.n_gpus or facts.n_gpus
    return None if price is None or n is None else float(price * n)


def check_sum(facts: Facts) -> Iterator[Finding]:
    """Check that the lines add up to the budget."""
    budget = facts.plan.budget
    if budget is None or not budget.lines:
        return
    total = math.fsum(line.usd for line in budget.lines)
    added = " + ".join(f"{line.usd:g}" for line in budget.lines)
    slack = rounding(budget.usd, *(line.usd for line in budget.lines))
    evidence = {"sum": total, "budget": budget.usd, "rounding": slack}
    if abs(total - budget.usd) <= slack:
        return
    if total > budget.usd:
        over = dollars(total - budget.usd)
        words = f"the lines {added} = {dollars(total)} are {over} over the budget of {dollars(budget.usd)}."
        yield Finding("over_budget", "error", words, evidence)
    else:
        words = (
            f"the lines {added} = {total:g} of {budget.usd:g}: {dollars(budget.usd - total)} "
            f"({1 - total / budget.usd:.0%}) have no line."
        )
        yield Finding("lines_do_not_sum", "warning", words, evidence)


def rounding(*amounts: float) -> float:
    """Return how far a sum may be off where every amount is rounded to its digits, or to three.

    Examples
    --------
    >>> rounding(101.0), rounding(1234.0, 50.0), rounding(0.0)
    (0.5, 0.55, 0.0)
    """
    total = 0.0
    for amount in amounts:
        if amount > 0:
            mantissa, exponent = f"{amount:.11e}".split("e")
            digits = len(mantissa.rstrip("0").replace(".", ""))
            total += 0.5 * 10.0 ** (int(exponent) + 1 - max(3, digits))
    return total


def check_run_cost(facts: Facts) -> Iterator[Finding]:
    """Check that the run alone fits into the budget, where no line says what it costs."""
    budget, hours, price = facts.plan.budget, facts.get("run.hours"), facts.usd_per_hour
    if budget is None or hours is None or price is None:
        return
    if any(line.hours is not None and "compute" in line.covers for line in budget.lines):
        return
    cost = hours * price
    if cost > budget.usd + rounding(budget.usd):
        words = (
            f"{hours:g} h x {facts.n_gpus} x {dollars(facts.get('run.usd_per_gpu_hour'))} = {dollars(cost)}, over the "
            f"budget of {dollars(budget.usd)}: it pays for {budget.usd / price:.3g} h."
        )
        yield Finding("run_over_budget", "error", words, {"usd": cost, "budget": budget.usd})


def check_on_demand(facts: Facts) -> Iterator[Finding]:
    """Check what the same hours cost on demand, if the cheaper market has no machine."""
    budget, fallback = facts.plan.budget, facts.get("run.on_demand_usd_per_gpu_hour")
    price, market = facts.get("run.usd_per_gpu_hour"), facts.get("run.market")
    if fallback is None or market is None:
        return
    if market == "on-demand":
        if price is not None and not math.isclose(price, fallback, rel_tol=0.02):
            words = (
                f"the run is on demand at {dollars(price)}, and on demand costs {dollars(fallback)}: one price is "
                f"mislabelled."
            )
            evidence = {"price": price, "on_demand": fallback}
            yield Finding("on_demand_twice", "error", words, evidence)
        return
    if price is not None and market == "spot" and price >= fallback:
        words = f"spot at {dollars(price)} is not cheaper than on-demand at {dollars(fallback)}: one is mislabelled."
        yield Finding("spot_not_cheaper", "error", words, {"spot": price, "on_demand": fallback})
    if budget is None:
        return
    hours = [
        (line, _hourly(facts, line, "on_demand_usd_per_gpu_hour")) for line in budget.lines if line.hours
    ]
    if not hours or any(hourly is None for _, hourly in hours):
        return
    running = math.fsum((line.hours or 0.0) * (hourly or 0.0) for line, hourly in hours)
    # What is set aside for preemptions is not needed where there are none.
    rest = math.fsum(
        line.usd
        for line in budget.lines
        if not line.hours and ({*line.covers} - {"rework", "buffer"} or not line.covers)
    )
    total = running + rest
    if total > budget.usd + rounding(budget.usd):
        n_hours = math.fsum(line.hours or 0.0 for line, _ in hours)
        words = (
            f"on demand at {dollars(fallback)} the same {n_hours:g} h cost {dollars(running)}, with the other lines "
            f"{dollars(total)}: {dollars(total - budget.usd)} over the budget of {dollars(budget.usd)}, should "
            f"there be no {market} machine."
        )
        yield Finding("on_demand_over_budget", "warning", words, {"usd": total, "compute": running})


def check_amount(facts: Facts) -> Iterator[Finding]:
    """Check that a price is one at all."""
    run = facts.plan.run
    for price in dict.fromkeys((run.usd_per_gpu_hour, run.on_demand_usd_per_gpu_hour)) if run else ():
        if price is not None and (why := _no_price(facts, price)):
            yield Finding("price_impossible", "error", why, {"price": price})
            return


def check_price(facts: Facts) -> Iterator[Finding]:
    """Check that a price is one that the price book has seen."""
    run, part = facts.plan.run, facts.part
    if run is None or part is None or run.usd_per_gpu_hour is None or run.market is None:
        return
    if _no_price(facts, run.usd_per_gpu_hour):  # an error already
        return
    if any(f.code == "gpu_open" for f in facts.faults):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the age is in the message
            quote = prices(part, run.market, as_of=facts.plan.date)
    except PriceError as error:
        words = f"{dollars(run.usd_per_gpu_hour)} per GPU-hour is compared with nothing: {error}"
        yield Finding("price_not_compared", "info", words)
        return
    price = run.usd_per_gpu_hour
    if quote.low / _FAR <= price <= quote.high * _FAR:
        return
    n = facts.n_gpus or 1
    hint = (
        f" Is {dollars(price)} the price of all {n}?"
        if n > 1 and quote.low <= price / n <= quote.high
        else ""
    )
    words = (
        f"{dollars(price)} per GPU-hour for {part.name} {run.market}: the price book has {dollars(quote.median)}, 80% "
        f"{dollars(quote.low)} to {dollars(quote.high)}, newest of {quote.age_days} days before.{hint}"
    )
    evidence = {"price": price, "low": quote.low, "median": quote.median, "high": quote.high}
    yield Finding("price_unusual", "warning", words, evidence)


def _no_price(facts: Facts, price: float) -> str:
    """Say why an amount is no price of a GPU-hour; empty where it may be one."""
    try:
        fixed_price(price, facts.part or "any")
    except PriceError as error:
        n = facts.n_gpus or 1
        return f"{error}{f' Is it the price of all {n}?' if n > 1 and price > 1 else ''}"
    return ""
