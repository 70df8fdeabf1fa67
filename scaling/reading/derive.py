"""Quantities that a table gives only through others: tokens from steps, tokens or params from FLOPs."""

from __future__ import annotations

import numpy as np

from scaling.cells import Floats
from scaling.errors import DataError
from scaling.reading.draft import Draft
from scaling.reading.match import missing_error
from scaling.reading.understand import Understanding

#: tokens and steps x batch x length may differ by this factor through rounding ("2.5B") and last batches.
_ROUNDING = 1.1
#: A ratio tokens / (steps x batch) from here on is a sequence length, below it a contradiction.
_LEAST_SEQUENCE = 64


def derive(draft: Draft, result: Understanding) -> None:
    """Fill missing tokens or params in the draft, each with a finding that says how.

    Raises
    ------
    DataError
        Tokens or params are missing and nothing in the table gives them.
    """
    names, source = list(draft.raw.columns), draft.raw.source
    if "tokens" not in draft.values and "steps" in draft.values:
        _tokens_from_steps(draft, result)
    has = {role: role in draft.values for role in ("params", "tokens", "flops")}
    # A bare "tflops" is more often a rate than a total: too little to derive anything from.
    flops = result.chosen.get("flops")
    rate = flops is not None and flops.header.weak and flops.header.scale != 1.0
    flops_named = flops is not None and not rate
    unsure = (
        f" ({flops.seen!r} gives them if it is the total: columns={{'flops': {flops.seen!r}}})"
        if rate and flops
        else ""
    )
    if not has["tokens"]:
        if not (has["params"] and flops_named):
            missing = ["tokens"] if has["params"] else ["params", "tokens"]
            raise missing_error(missing, names, source, unsure or _why(draft))
        active = draft.values.get("params_active", draft.values["params"])
        _set(draft, "tokens", draft.values["flops"] / (6.0 * active), result.chosen["flops"].seen, "C / 6N")
        draft.note(
            "tokens_from_flops",
            "info",
            f"no token counts: D = C / 6N from {result.chosen['flops'].seen!r}, right if the FLOPs are 6·N·D",
        )
    elif not has["params"]:
        if not flops_named:
            raise missing_error(["params"], names, source, unsure)
        seen = result.chosen["flops"].seen
        _set(draft, "params", draft.values["flops"] / (6.0 * draft.values["tokens"]), seen, "C / 6D")
        message = f"no parameter counts: N = C / 6D from {seen!r}, right if the FLOPs are 6·N·D"
        draft.note("params_from_flops", "warning", message)
    if "unique_tokens" not in draft.values and "epochs" in draft.values:
        unique = draft.values["tokens"] / np.maximum(draft.values["epochs"], 1.0)
        if np.any(draft.values["epochs"] > 1.0):
            draft.values["unique_tokens"] = unique
            draft.columns["unique_tokens"] = (result.chosen["epochs"].seen, "tokens / epochs")
    if "warmup_tokens" not in draft.values and "warmup_steps" in draft.values:
        _warmup_tokens(draft, result)


def _why(draft: Draft) -> str:
    if "steps" not in draft.values:
        return ""
    steps = draft.columns["steps"][0]
    return (
        f": {steps!r} counts optimizer steps, which are tokens only with the tokens per step (a column "
        "batch_tokens, or batch and seq_len, or columns={'batch_tokens': 524288})"
    )


def _set(draft: Draft, role: str, values: Floats, seen: str, done: str) -> None:
    draft.values[role] = values
    draft.columns[role] = (seen, done)
    for i in np.flatnonzero(np.isnan(values)).tolist():
        draft.bad.setdefault(i, []).append(f"no {role}: {done} needs a value of {seen}")
    draft.mark_not_positive(role, values)


def _tokens_from_steps(draft: Draft, result: Understanding) -> None:
    values = draft.values
    if "batch_tokens" in values:
        product, how = values["steps"] * values["batch_tokens"], "steps x batch_tokens"
        needs: tuple[str, ...] = ("batch_tokens",)
    elif "batch" in values and "seq_len" in values:
        product = values["steps"] * values["batch"] * values["seq_len"]
        how, needs = "steps x batch x sequence length", ("batch", "seq_len")
    else:
        return
    seen = " x ".join(result.chosen[role].seen for role in ("steps", *needs))
    _set(draft, "tokens", product, seen, how)
    draft.note("tokens_from_steps", "info", f"no token counts: D = {how} ({seen})")


def check_steps(draft: Draft, result: Understanding) -> None:
    """Hold tokens against steps x batch x sequence length, where all are in the table.

    Raises
    ------
    DataError
        They differ by more than rounding; quotes the ratio.
    """
    steps, tokens = draft.column("steps"), draft.column("tokens")
    token_choice = result.chosen.get("tokens")
    if steps is None or tokens is None or token_choice is None or token_choice.explicit:
        return
    batch_tokens, batch, length = (draft.column(role) for role in ("batch_tokens", "batch", "seq_len"))
    if batch_tokens is not None:
        product, how = steps * batch_tokens, "steps x batch_tokens"
    elif batch is not None:
        product = steps * batch * (1.0 if length is None else length)
        how = "steps x batch" + ("" if length is None else " x sequence length")
    else:
        return
    ratio = tokens / product
    known = np.isfinite(ratio)
    off = known & ((ratio > _ROUNDING) | (ratio < 1.0 / _ROUNDING))
    if not off.any():
        if known.any():
            draft.note("tokens_checked", "info", f"tokens agree with {how} in {int(known.sum())} rows")
        return
    middle = float(np.median(ratio[off]))
    if batch_tokens is None and length is None and middle >= _LEAST_SEQUENCE:
        message = (
            f"tokens / ({how}) is {middle:.6g}: taken as the sequence length, so the batch counts sequences"
        )
        draft.note("batch_in_sequences", "info", message, ratio=middle)
        return
    # Written like 2.0x, as one reads it aloud.
    factor = f"{middle:.1f}" if middle >= 0.95 else f"1/{1 / middle:.3g}"
    draft.suspect(
        "tokens_disagree",
        f"tokens is {factor}x {how} (median over {int(off.sum())} rows; {draft.rows_text(off)}). One of the columns "
        "is wrong; say which tokens are right with "
        f"columns={{'tokens': {token_choice.seen!r}}}.",
        draft.row_numbers(off),
        ratio=middle,
    )


def _warmup_tokens(draft: Draft, result: Understanding) -> None:
    values = draft.values
    per_step = None
    if "batch_tokens" in values:
        per_step = values["batch_tokens"]
    elif "steps" in values:
        per_step = values["tokens"] / values["steps"]
    if per_step is not None:
        values["warmup_tokens"] = values["warmup_steps"] * per_step
        draft.columns["warmup_tokens"] = (result.chosen["warmup_steps"].seen, "x tokens per step")


def require_positive_argument(name: str, value: float | None) -> None:
    """Refuse an argument that is no finite positive number."""
    if value is not None and not (np.isfinite(value) and value > 0):
        raise DataError(f"{name}={value!r} must be finite and positive", column=name)
