"""Tables of the page: rows of text, ready to be shown."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.errors import NotIdentifiedError
from scaling.report.phrases import count, ends, flops_text, number, percent, value
from scaling.summary import correlations

if TYPE_CHECKING:
    from scaling.report.answer import Answer
    from scaling.result import ChinchillaFit

_MEANING = {
    "E": "loss that no model and no amount of data gets below",
    "A": "weight of the size term A/N^α",
    "B": "weight of the data term B/D^β",
    "alpha": "how fast the loss falls with parameters",
    "beta": "how fast the loss falls with tokens",
    "params_exponent": "optimal size grows as compute to this power",
    "tokens_exponent": "optimal tokens grow as compute to this power",
}
_SYMBOL = {"alpha": "α", "beta": "β", "params_exponent": "a", "tokens_exponent": "b"}

#: Rows left out one by one that are worth showing.
_SHOWN_ROWS = 5


@dataclass(frozen=True)
class Table:
    """A table: a head and rows of equal length; columns are numbers, but those in `text` (from 0)."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: tuple[int, ...] = (0,)


def coefficients(fit: ChinchillaFit) -> Table:
    """Return the law with intervals."""
    level = percent(fit.settings.level, 3)
    rows = []
    for name, meaning in _MEANING.items():
        e = fit.ci(name)
        held = name in fit.settings.fixed
        interval = "held" if held else ends(e, 5)
        rows.append((_SYMBOL.get(name, name), value(e, 6), interval, meaning))
    return Table(("", "value", f"{level} interval", "what it is"), tuple(rows), (0, 3))


def trade_offs(fit: ChinchillaFit) -> list[str]:
    """Return the coefficients that trade against each other, with their correlation over the draws."""
    names = {"alpha": "α", "beta": "β"}
    out = []
    with np.errstate(invalid="ignore"):  # a coefficient that no float holds correlates with nothing
        found = correlations(fit)
    for pair, r in found.items():
        a, b = (names.get(n.strip(), n.strip()) for n in pair.split(","))
        out.append(f"{a} and {b} {r:+.2f}".replace("-", "−"))
    return out


def sensitivity(fit: ChinchillaFit) -> tuple[Table, Table] | None:
    """Return the most influential rows, and refits without the most suspicious few."""
    found = fit.diagnostics.influence
    if found is None or not len(found.rows):
        return None
    at = f"D*({count(found.reference_params)})"
    runs = fit.runs
    rows = []
    for row, position, change in zip(
        found.rows[:_SHOWN_ROWS], found.positions[:_SHOWN_ROWS], found.change[:_SHOWN_ROWS], strict=True
    ):
        name = "" if runs.run_id is None else str(runs.run_id[position])
        numbers = (count(runs.params[position]), count(runs.tokens[position]), number(runs.loss[position]))
        residual = float(fit.residuals[position])
        rows.append(
            (
                f"{runs.audit.row_word} {row}",
                name,
                *numbers,
                _signed(math.expm1(residual)),
                _signed(math.expm1(change)),
            )
        )
    single = Table(("row", "run", "N", "D", "loss", "off the law", f"{at} without it"), tuple(rows), (0, 1))
    base = fit.law
    trimmed = [("all runs", base, 0)]
    trimmed.append(("without the highest losses", found.without_highest_losses, len(found.highest_loss_rows)))
    trimmed.append(
        ("without the largest residuals", found.without_largest_residuals, len(found.largest_residual_rows))
    )
    groups = tuple(
        (
            what if not n else f"{what} ({n})",
            number(law.E, 4),
            number(law.alpha, 4),
            number(law.beta, 4),
            count(law.tokens_at(found.reference_params)),
        )
        for what, law, n in trimmed
    )
    return single, Table(("fit", "E", "α", "β", at), groups)


def sizes(fit: ChinchillaFit, head: Answer) -> Table:
    """Return the compute-optimal run of round sizes in and around the runs, and of the one asked about."""
    level = percent(fit.settings.level, 3)
    low, high = float(fit.runs.params.min()), 10 * float(fit.runs.params.max())
    chosen = [n for n in _round(low, high) if n != head.params]
    rows = [_size_row(fit, n) for n in sorted([*chosen[:7], head.params])]
    names = (
        "size N",
        "tokens D*",
        f"{level} interval",
        "D*/N",
        "FLOP",
        "loss",
        "one run, " + level,
        "from the runs",
    )
    return Table(names, tuple(rows))


def _size_row(fit: ChinchillaFit, n: float) -> tuple[str, ...]:
    from scaling.diagnose import extrapolation

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rough = fit.tokens_at(n, unidentified="return")
        flops = 6 * n * rough.value
        away = extrapolation(fit.runs, flops)
        where = "inside" if away < 0.05 else f"{away:.1f} decade{'s' * (f'{away:.1f}' != '1.0')}"
        try:
            tokens = fit.tokens_at(n)
        except NotIdentifiedError:
            return (count(n), "not determined", "–", "–", flops_text(flops), "–", "–", where)
        prediction = fit.predict(n, tokens.value)
    return (
        count(n),
        value(tokens),
        ends(tokens),
        number(tokens.value / n, 3),
        flops_text(flops),
        value(prediction.mean),
        ends(prediction.prediction),
        where,
    )


def budgets(fit: ChinchillaFit) -> Table:
    """Return the best run for round budgets in and around the runs."""
    level = percent(fit.settings.level, 3)
    low, high = float(fit.runs.compute.min()), 30 * float(fit.runs.compute.max())
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    rows = []
    for power in powers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                best = fit.optimal(10.0**power)
            except NotIdentifiedError:
                rows.append((f"1e{power}", "not determined", "–", "–", "–", "–"))
                continue
        rows.append(
            (
                f"1e{power}",
                value(best.params),
                ends(best.params),
                value(best.tokens),
                ends(best.tokens),
                value(best.loss),
            )
        )
    return Table(("budget C, FLOP", "size N*", level, "tokens D*", level, "loss"), tuple(rows))


def _round(low: float, high: float) -> list[float]:
    """Return 1 and 3 times powers of ten between two numbers; only the powers where that is many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [m * 10.0**p for p in powers for m in (1, 3) if low <= m * 10.0**p <= high]
    return fine if len(fine) <= 7 else [n for n in fine if math.log10(n).is_integer()]


def columns(audit: Any) -> Table:
    """Return what each quantity was read from."""
    rows = tuple((name, seen, done) for name, (seen, done) in audit.columns.items())
    return Table(("quantity", "column", "what was done"), rows, (0, 1, 2))


def _signed(share: float) -> str:
    text = f"{100 * share:+.2g}%" if np.isfinite(share) else "–"
    return text.replace("-", "−")
