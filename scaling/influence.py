"""How much single rows, and the most suspicious few, move the answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scaling.bootstrap import search
from scaling.findings import Finding
from scaling.laws.base import Array, Index, quiet
from scaling.laws.chinchilla import Attached, ChinchillaLaw
from scaling.newton import Objective
from scaling.runs import RunTable
from scaling.units import format_count

#: Rows left out one by one; above this number only those with the largest residuals are.
_EXACT_ROWS = 400
#: Share of rows left out together, as 5 of 245 were in Besiroglu et al. 2024.
_TRIMMED = 0.02
#: Moves of the answer by more than this many standard errors are reported.
_NOTABLE = 1.0
#: From this many runs on a single one should not move the answer by a standard error.
_MANY_RUNS = 50
#: Standard errors of ln D* outside these are rounding, or say nothing that one row could change.
_ROUNDED, _HOPELESS = 1e-6, 3.0


@dataclass(frozen=True)
class Influence:
    """Refits without some rows.

    Parameters
    ----------
    reference_params : float
        Size N at which D*(N) is followed.
    rows : int array, shape (k,)
        Row numbers left out one by one, most influential first.
    positions : int array, shape (k,)
        Their positions in the table.
    change : array, shape (k,)
        Change of ln D*(reference_params) without each.
    without_highest_losses, without_largest_residuals : ChinchillaLaw
        Refits without 2% of the rows, chosen by loss and by residual.
    highest_loss_rows, largest_residual_rows : tuple of int
        Which rows those were.
    """

    reference_params: float
    rows: Index
    positions: Index
    change: Array
    without_highest_losses: ChinchillaLaw
    without_largest_residuals: ChinchillaLaw
    highest_loss_rows: tuple[int, ...]
    largest_residual_rows: tuple[int, ...]


@quiet
def influence(
    runs: RunTable, problem: Objective, best: Array, attached: Attached, residuals: Array, reference: float
) -> Influence:
    """Refit without each row (exactly, from the optimum) and without the most suspicious 2%.

    Cost: one bootstrap replicate per row, at most 402 of them.
    """
    n = len(runs)
    size = np.abs(residuals * problem.scale)
    candidates = np.arange(n) if n <= _EXACT_ROWS else np.sort(np.argsort(-size)[:_EXACT_ROWS])
    k = int(np.ceil(_TRIMMED * n))
    highest, largest = np.argsort(-runs.loss)[:k], np.argsort(-size)[:k]
    weights = np.tile(problem.weights, (len(candidates) + 2, 1))
    weights[np.arange(len(candidates)), candidates] = 0.0
    weights[-2, highest] = 0.0
    weights[-1, largest] = 0.0
    without = Objective(problem.form, problem.log_loss, weights, problem.scale, problem.delta)
    ends = attached.law(search(without, best[None], cold=False).plain)
    base = attached.law(best).log_tokens_at(reference)
    change = ends.log_tokens_at(reference)[: len(candidates)] - base
    order = np.argsort(-np.abs(change))
    return Influence(
        reference_params=reference,
        rows=runs.row[candidates][order],
        positions=candidates[order],
        change=change[order],
        without_highest_losses=_one(ends, -2),
        without_largest_residuals=_one(ends, -1),
        highest_loss_rows=tuple(int(r) for r in runs.row[highest]),
        largest_residual_rows=tuple(int(r) for r in runs.row[largest]),
    )


@quiet
def influence_findings(
    found: Influence, runs: RunTable, law: ChinchillaLaw, draws: ChinchillaLaw
) -> tuple[Finding, ...]:
    """Report single rows and small groups of rows that move the answer by a standard error or more."""
    at = found.reference_params
    d = np.asarray(draws.log_tokens_at(at))
    d = d[np.isfinite(d)]
    if d.size < 2:
        return ()
    error = float(np.diff(np.quantile(d, [0.16, 0.84]))[0]) / 2
    if not _ROUNDED < error < _HOPELESS:
        return ()
    out = []
    # Few runs carry much weight each without being suspect.
    notable = _NOTABLE * max(1.0, np.sqrt(_MANY_RUNS / len(runs)))
    heavy = np.isfinite(found.change) & (np.abs(found.change) > notable * error)
    if heavy.any():
        rows, change = found.rows[heavy][:5], found.change[heavy][:5]
        names = [runs.named(int(p)) for p in found.positions[heavy][:5]]
        shown = ", ".join(f"{name}: {100 * np.expm1(c):+.0f}%" for name, c in zip(names, change, strict=True))
        out.append(
            Finding(
                "influential_row",
                "warning",
                f"Single rows move D*({format_count(at)}) by more than its standard error "
                f"({100 * np.expm1(error):.0f}%) when left out ({shown}). Check those runs.",
                {"rows": [int(r) for r in rows], "change": [float(c) for c in change], "se": error},
            )
        )
    for what, other, rows_out in (
        ("the highest losses", found.without_highest_losses, found.highest_loss_rows),
        ("the largest residuals", found.without_largest_residuals, found.largest_residual_rows),
    ):
        moved = [
            name
            for name in ("alpha", "beta")
            if abs(getattr(other, name) - getattr(law, name)) > _NOTABLE * np.std(getattr(draws, name))
        ]
        shift = float(other.log_tokens_at(at) - law.log_tokens_at(at))
        if not moved and abs(shift) <= _NOTABLE * error:
            continue
        out.append(
            Finding(
                "outlier_sensitive",
                "warning",
                f"Without the {len(rows_out)} run(s) with {what} ({runs.audit.row_word} "
                f"{', '.join(map(str, rows_out[:8]))}{', ...' if len(rows_out) > 8 else ''}): "
                f"alpha {law.alpha:.3f} -> {other.alpha:.3f}, beta "
                f"{law.beta:.3f} -> {other.beta:.3f}, D*({format_count(at)}) {format_count(law.tokens_at(at))} -> "
                f"{format_count(other.tokens_at(at))}. None was dropped; decide, and say so when you do.",
                {"rows": list(rows_out), "law": other.to_dict(), "shift": shift},
            )
        )
    return tuple(out)


def _one(laws: ChinchillaLaw, index: int) -> ChinchillaLaw:
    return ChinchillaLaw.from_dict({k: v[index] for k, v in laws.to_dict().items()})
