"""Check of a plan's formulas: whether each gives what it is meant to give, in units and in numbers."""

from __future__ import annotations

from collections.abc import Iterator

from economics.plan_facts import Facts
from economics.plan_formula import FormulaError, Quantity, evaluate
from economics.plan_schema import FormulaSection
from economics.plan_units import COUNTED
from economics.run_estimates import dollars
from scaling.findings import Finding
from scaling.units import format_count

#: What a formula may give -> its dimensions, the unit in base units, its name.
_GIVES = {"usd": ({"$": 1}, 1.0, "$"), "hours": ({"time": 1}, 3600.0, "hours")}
#: How far a stated value may be from its formula: rounded, at least to half a cent.
_ROUND, _ROUND_ABS = 0.05, 0.005


def check_formulas(facts: Facts) -> Iterator[Finding]:
    """Check that a formula gives what it is meant to give, in units and in numbers."""
    for entry in facts.plan.formulas:
        dimensions, unit, name = _GIVES[entry.gives]
        # "24 h × $2/h = $48" states its value itself.
        formula, equals, after = entry.formula.partition("=")
        try:
            result = evaluate(formula)
            stated = _stated(evaluate(after), unit) if equals else None
        except FormulaError as error:
            yield Finding("formula_unread", "error", f"{entry.name}: {error}", {"formula": entry.formula})
            continue
        evidence: dict[str, object] = {"formula": entry.formula, "unit": result.unit}
        if not result.units:
            words = f"{entry.name}: {entry.formula} has no units: nothing but its value is checked."
            yield Finding("formula_without_units", "warning", words, evidence)
            yield from _value(facts, entry, result, result.value, stated, evidence)
            continue
        over = {d: n for d, n in result.dimensions.items() if n != dimensions.get(d, 0)}
        missing = set(dimensions) - set(result.dimensions)
        if missing or not all(_only_counts(d, n, entry.gives) for d, n in over.items()):
            words = f"{entry.name}: {entry.formula} is in {result.unit}, not in {name}.{_why(result)}"
            if entry.gives == "usd" and (
                entry.steps is not None or {"steps", "tokens"} & set(result.dimensions)
            ):
                words += _right_form(facts, entry.steps)
            yield Finding("formula_units", "error", words, {**evidence, "value": result.value})
            continue
        yield from _value(facts, entry, result, result.measured(unit), stated, evidence)


def _only_counts(dimension: str, power: int, gives: str) -> bool:
    """Tell whether a dimension left over changes nothing: ``$1.10/h × 8 GPUs`` is in dollars per hour."""
    if dimension == "GPUs":
        # Hours times GPUs are GPU-hours; a speed of each GPU times their number leaves 1/GPUs in the hours.
        return power in ((1, -1) if gives == "usd" else (-1,))
    return dimension in COUNTED and power == 1


def _value(
    facts: Facts,
    entry: FormulaSection,
    result: Quantity,
    value: float,
    written: float | None,
    evidence: dict[str, object],
) -> Iterator[Finding]:
    """Compare the value with the stated ones; a price per GPU holds for one GPU of the run."""
    evidence["value"] = value
    n = (facts.n_gpus or 1) if entry.gives == "usd" and result.dimensions.get("GPUs", 0) < 0 else 1
    stated = [v for v in (entry.value, written) if v is not None]
    if n > 1 and all(_same(value, v) for v in stated):
        words = (
            f"{entry.name}: {entry.formula} = {dollars(value)} is for one GPU; for the {n} of the run it is "
            f"{dollars(value * n)}."
        )
        yield Finding("formula_per_gpu", "warning", words, {**evidence, "n_gpus": n})
        return
    wrong = [v for v in stated if not (_same(value, v) or _same(value * n, v))]
    if wrong:
        by_hand = (
            f" ({result.value:.4g} is what the numbers give without their units)"
            if result.units and _same(result.value, wrong[0])
            else ""
        )
        words = f"{entry.name}: {entry.formula.partition('=')[0].strip()} = {value:.4g}, not {wrong[0]:g}{by_hand}."
        yield Finding("formula_value", "error", words, evidence)


def _stated(after: Quantity, unit: float) -> float:
    return after.measured(unit) if after.units else after.value


def _same(value: float, stated: float) -> bool:
    return abs(value - stated) <= max(_ROUND * abs(stated), _ROUND_ABS)


def _why(result: Quantity) -> str:
    if result.dimensions.get("tokens", 0) > 0 and result.dimensions.get("time", 0) < 0:
        return " Tokens per second stand above the line: twice the speed would cost twice as much."
    return ""


def _right_form(facts: Facts, steps: float | None) -> str:
    """Say what a number of steps costs."""
    batch, speed, price = facts.get("run.batch_tokens"), facts.tokens_per_s, facts.usd_per_hour
    form = " Steps cost steps x tokens/step / (tokens/s) / 3600 x $/h"
    if steps is None or batch is None or speed is None or price is None:
        return f"{form}."
    usd = steps * batch / speed / 3600 * price
    return (
        f"{form} = {steps:g} x {format_count(batch)} / {format_count(speed)} / 3600 x {price:g} = ${usd:.3g}."
    )
