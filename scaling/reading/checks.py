"""What else in a table makes a law from it wrong: other FLOPs, warm-up, padding, experts."""

from __future__ import annotations

import numpy as np

from scaling.reading.draft import Draft
from scaling.reading.understand import Understanding
from scaling.residuals import MANY_EPOCHS
from scaling.units import format_count

_FLOPS_FACTOR = 2.0
_WARMUPS = 2.0


def check_flops(draft: Draft, result: Understanding) -> None:
    """Hold the FLOPs column against 6·N·D, N active where there is such a column."""
    flops = draft.column("flops")
    if flops is None or "C / 6" in draft.columns["tokens"][1] + draft.columns["params"][1]:
        return
    N = draft.column("params_active")
    ratio = flops / (
        6.0 * (draft.values["params"][draft.kept] if N is None else N) * draft.values["tokens"][draft.kept]
    )
    known = np.isfinite(ratio)
    off = known & ((ratio > _FLOPS_FACTOR) | (ratio < 1.0 / _FLOPS_FACTOR))
    if not off.any():
        return
    middle = float(np.median(ratio[off]))
    seen = result.chosen["flops"].seen
    draft.note(
        "flops_disagree",
        "warning",
        f"{seen!r} is {middle:.3g}x 6·N·D (median; {ratio[off].min():.3g} to {ratio[off].max():.3g}) in "
        f"{int(off.sum())} of {int(known.sum())} rows ({draft.rows_text(off)}){_flops_hint(draft, middle)} Fits use "
        "params and tokens; the column is kept beside them",
        rows=draft.row_numbers(off),
        ratio=middle,
        smallest=float(ratio[off].min()),
        largest=float(ratio[off].max()),
    )


def _flops_hint(draft: Draft, ratio: float) -> str:
    tokens = float(np.median(draft.values["tokens"][draft.kept]))
    hints = {
        1e-3: "in thousands?", 1e-6: "in millions?", 1e-9: "in giga-FLOP?", 1e-12: "in tera-FLOP?",
        1e-15: "in peta-FLOP?", 1e-18: "in exa-FLOP?", 1 / 3: "the forward pass alone, 2·N·D?",
        1 / tokens: "per token?", 1 / 8.64e19: "in petaflop/s-days?",
    }  # fmt: skip
    hint = next((text for value, text in hints.items() if 1 / 1.25 < ratio / value < 1.25), "")
    if not hint and ratio > 1:
        hint = "N without embeddings, another convention, or a unit?"
    return f": {hint}" if hint else "."


def check_training(draft: Draft, result: Understanding) -> None:
    """Look at warm-up, repeated data, padding and experts."""
    D = draft.values["tokens"][draft.kept]
    warmup = draft.column("warmup_tokens")
    if warmup is not None:
        early = _WARMUPS * np.nan_to_num(warmup) > D
        if early.any():
            message = (
                f"{draft.rows_text(early, 'have')} fewer tokens than {_WARMUPS:g}x their warm-up: losses inside the "
                "warm-up are no points of a law; leave them out with where="
            )
            draft.note("inside_warmup", "warning", message, rows=draft.row_numbers(early))
    unique = draft.column("unique_tokens")
    if unique is not None:
        epochs = D / unique
        many = np.nan_to_num(epochs) > MANY_EPOCHS
        if many.any():
            draft.note(
                "repeated_data",
                "warning",
                f"{draft.rows_text(many, 'repeat')} their data more than {MANY_EPOCHS:g} times (up to "
                f"{epochs[many].max():.3g} epochs): D counts tokens seen, not unique ones, and is worth less there",
                rows=draft.row_numbers(many),
                epochs=float(epochs[many].max()),
            )
    _check_padding(draft, result)
    _check_experts(draft, result)


def _check_padding(draft: Draft, result: Understanding) -> None:
    kinds = draft.label("tokens_kind")
    padded = (
        np.array([k is not None and "pad" in k.lower() and "non" not in k.lower() for k in kinds])
        if (kinds is not None)
        else np.zeros(len(draft.kept), dtype=bool)
    )
    if "tokens" in result.chosen and result.chosen["tokens"].header.kind == "padded":
        padded[:] = True
    if padded.any():
        message = (
            f"the tokens of {draft.rows_text(padded)} include padding: D should count only tokens that bear loss; the "
            "law reads too many tokens"
        )
        draft.note("tokens_padded", "warning", message, rows=draft.row_numbers(padded))


def _check_experts(draft: Draft, result: Understanding) -> None:
    active, N = draft.column("params_active"), draft.values["params"][draft.kept]
    if result.chosen.get("params") is not None and result.chosen["params"].header.kind == "active":
        message = "N is the active parameters; the total, which sets the memory, is not in the table"
        draft.note("active_only", "warning", message)
    elif active is not None and np.any(active < 0.99 * N):
        sparse = active < 0.99 * N
        words = "is a mixture" if int(sparse.sum()) == 1 else "are mixtures"
        draft.note(
            "mixture_of_experts",
            "warning",
            f"{draft.rows_text(sparse)} {words} of experts (for instance {format_count(float(N[sparse][0]))} "
            f"total, {format_count(float(active[sparse][0]))} active): N of the law is the total, FLOPs are 6 x "
            "active x D; a dense law does not hold for them",
            rows=draft.row_numbers(sparse),
        )
