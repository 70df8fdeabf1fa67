"""What to tell the reader of an IsoFLOP analysis: errors with their reasons, and doubts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scaling.errors import NotIdentifiedError
from scaling.findings import Finding
from scaling.isoflop.bias import CurveBias
from scaling.isoflop.budgets import Slice, flops_text
from scaling.isoflop.curves import CurveFit, CurveKind
from scaling.isoflop.frontier import Frontier
from scaling.isoflop.quality import Screened
from scaling.isoflop.result import Budget, dropped_lines

#: The power law through the optima is doubted when chance alone gives such scatter this rarely.
_SCATTER_CHANCE = 0.001
#: a + b further from 1 than this means that C and 6ND follow different conventions.
_SUM_TOLERANCE = 0.02


def nothing_left(screened: Sequence[Screened]) -> NotIdentifiedError:
    """Return the error for a table of which no budget passes the checks."""
    return NotIdentifiedError(
        f"none of {len(screened)} budgets passes the checks, so no compute-optimal size is identified:"
        + _reasons(s.dropped for s in screened),
        quantities=("N*", "D*", "a", "b"),
        remedy="runs on both sides of each minimum, at least 5 sizes in each of at least two budgets",
    )


def one_left(budgets: tuple[Budget, ...]) -> NotIdentifiedError:
    """Return the error for a table with a single usable curve, which the error carries as `partial`."""
    good = [b for b in budgets if b.curves]
    if not good:
        seen = ", ".join(flops_text(b.flops) for b in budgets if b.dropped is None)
        text = f"no fitted curve has a minimum (budgets {seen})"
    else:
        b = good[0]
        optimum = ", ".join(f"N* {c.params} by {kind}" for kind, c in b.curves.items())
        text = f"one usable budget, C={flops_text(b.flops)} ({optimum})"
    return NotIdentifiedError(
        f"{text}: N* and D* as power laws of compute need at least two"
        + _reasons(b.dropped for b in budgets),
        quantities=("a", "b", "G", "H"),
        remedy="a second budget at least half a decade of compute away",
        partial=budgets,
    )


def doubts(
    fitted: Mapping[CurveKind, Sequence[CurveFit | None]],
    used: Sequence[Slice],
    frontiers: Mapping[CurveKind, Frontier],
    bias: Mapping[CurveKind, CurveBias],
) -> list[Finding]:
    """Return the findings about curves, frontier and bias."""
    out: list[Finding] = []
    for kind, curves in fitted.items():
        flat = [s.flops for s, c in zip(used, curves, strict=True) if c is None]
        if flat:
            out.append(
                Finding(
                    "no_minimum",
                    "warning",
                    f"the {kind} curve has no minimum at C={', '.join(map(flops_text, flat))}, which the "
                    "frontier therefore leaves out",
                    {"kind": kind, "flops": flat},
                )
            )
    out += [f for frontier in frontiers.values() if (f := _scatter(frontier)) is not None]
    first = next(iter(frontiers.values()))
    if abs(first.exponent_sum.value - 1) > _SUM_TOLERANCE:
        out.append(
            Finding(
                "exponents_do_not_sum_to_one",
                "warning",
                f"a + b = {first.exponent_sum.value:.3f}: C and N·D follow different conventions (N without "
                "embeddings, attention FLOPs), so compare a and b only with fits that count alike",
                {"sum": first.exponent_sum.value},
            )
        )
    if first.n_budgets == 2:
        out.append(
            Finding(
                "two_budgets",
                "warning",
                "two budgets determine the power laws without a check: their intervals rest on the noise "
                "inside the budgets alone",
                {"flops": list(first.flops_range)},
            )
        )
    if "parabola" in bias and "parabola" in frontiers:
        finding = _parabola_biased(frontiers["parabola"], bias["parabola"], "law" in frontiers)
        if finding is not None:
            out.append(finding)
    return out


def _scatter(frontier: Frontier) -> Finding | None:
    from scipy.stats import chi2

    k, dispersion = frontier.n_budgets, frontier.params.dispersion
    if k < 3 or not dispersion * (k - 2) > chi2.isf(_SCATTER_CHANCE, k - 2):
        return None
    return Finding(
        "budgets_scatter",
        "warning",
        f"the optima of the {frontier.kind} curves scatter around the power law {dispersion**0.5:.1f} times "
        "as much as the noise inside the budgets explains (the interval allows for it): some budgets were "
        "tuned or measured differently, or N* is no power law of C",
        {"kind": frontier.kind, "dispersion": dispersion, "n_budgets": k},
    )


def _parabola_biased(frontier: Frontier, bias: CurveBias, has_law: bool) -> Finding | None:
    """Compare the bias with the half-width of the interval, at every budget and where it is extrapolated."""
    places = [*bias.budgets.tolist(), bias.extrapolate_to]
    errors = np.log1p([*bias.relative.tolist(), bias.relative_extrapolated])
    halves = []
    for c in places:
        e = frontier.params.at(c)
        halves.append(float(np.log(e.high / e.low)) / 2 if e.low > 0 and np.isfinite(e.high) else np.inf)
    ratio = np.abs(errors) / np.maximum(halves, 1e-12)
    worst = int(np.nanargmax(ratio))
    if not ratio[worst] > 1 or abs(errors[worst]) < 1e-3:
        return None
    other = "the law-shaped curves, or " if has_law else ""
    error, half = float(np.expm1(errors[worst])), float(np.expm1(halves[worst]))
    return Finding(
        "parabola_biased",
        "warning",
        f"the parabola's N* is off by {100 * error:+.1f}% at C={flops_text(places[worst])} on this design "
        f"without any noise, beyond its interval of ±{100 * half:.1f}%: use {other}the surface fit "
        "(Approach 3, fit_chinchilla)",
        {"flops": places[worst], "relative": error, "half_width": half},
    )


def _reasons(dropped: Iterable[Finding | None]) -> str:
    return "".join(f"\n  {line}" for line in dropped_lines([f for f in dropped if f is not None]))
