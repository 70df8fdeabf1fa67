"""Checks of a plan's sizes: parameters against the shape, tokens against the rule and the disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from economics.plan_facts import REFERENCE_LAW, Facts
from economics.plan_rule import tokens_per_param
from scaling.architecture import Arch
from scaling.errors import DataError
from scaling.findings import Finding
from scaling.shapes import solve_shape
from scaling.units import format_count

#: How far a size as people write it may be from the shape: 7B for 6.74B, 1.5B for 1.558B.
_ROUNDED, _WRONG = 0.06, 0.2
_COUNTS = ("total", "non_embedding", "matmul", "body")
#: Training for more epochs than this on the same tokens adds little (Muennighoff et al. 2023, 2305.16264).
_EPOCHS = 4.0


def check_params(facts: Facts) -> Iterator[Finding]:
    """Check that the size that is claimed is the size of the shape."""
    arch, model = facts.arch, facts.plan.model
    if arch is None or model is None or model.params is None:
        return
    has = {count: arch.params(count) for count in _COUNTS}  # type: ignore[arg-type]
    real, claimed = has[model.params_kind], model.params
    off = abs(claimed / real - 1)
    if off <= _ROUNDED:
        return
    evidence = {"claimed": claimed, **has}
    meant = next((c for c in _COUNTS if abs(claimed / has[c] - 1) <= _ROUNDED), None)
    if meant is not None:
        words = (
            f"{format_count(claimed)} is the {meant} count of the shape; its {model.params_kind} count is "
            f'{format_count(real, 4)}. Say params_kind = "{meant}".'
        )
        yield Finding("params_kind", "warning", words, evidence)
        return
    outside = arch.params_total - arch.params_non_embedding
    words = (
        f"[model] claims {format_count(claimed)}, but {arch}: {arch.layers} layers of "
        f"{format_count(arch.params_non_embedding / arch.layers)} and {format_count(outside)} of embeddings, "
        f"{real / claimed:.3g} times the claim."
    )
    near = similar_shape(arch, claimed)
    if near is not None:
        words += f" A model of {format_count(claimed)} is, for instance, {near}."
    yield Finding("params_disagree", "error" if off > _WRONG else "warning", words, evidence)


def similar_shape(arch: Arch, size: float) -> Arch | None:
    """Return a shape of the same kind and vocabulary near another size, or None where there is none."""
    kind: dict[str, Any] = {"tied": arch.tied, "gated": arch.gated, "norm": arch.norm, "bias": arch.bias}
    try:
        return solve_shape(
            size, arch.vocab, kv_group=arch.heads // arch.kv_heads, tolerance=0.05, **kind
        ).arch
    except DataError:
        return None


def check_embeddings(facts: Facts) -> Iterator[Finding]:
    """Check how much of the model is embeddings: such a model needs its other count said."""
    arch = facts.arch
    if arch is None:
        return
    share = 1 - arch.params_non_embedding / arch.params_total
    if share >= 0.4:
        words = (
            f"{share:.0%} of the {format_count(arch.params_total)} are embeddings ({arch.vocab:,} x "
            f"{arch.d_model}{'' if arch.tied else ' x 2'}): say which count N is, here "
            f"{format_count(arch.params_non_embedding)} without them."
        )
        yield Finding("embedding_share", "info", words, {"share": share})


def check_rule(facts: Facts) -> Iterator[Finding]:
    """Check that the rule for tokens is the right way round, and whether the run follows it."""
    written = facts.plan.tokens_rule
    if written is None:
        return
    ratio = tokens_per_param(written)
    if ratio is None:
        words = f'tokens_rule {written!r} is not understood: write it like "D = 20 N".'
        yield Finding("rule_unread", "warning", words)
        return
    params, tokens = facts.params, facts.tokens
    if ratio < 1:
        example = ""
        if tokens is not None:
            example = (
                f": {format_count(tokens)} tokens would ask for {format_count(tokens / ratio)} parameters"
            )
        words = (
            f"the rule {written!r} is inverted{example}. It is tokens that grow with parameters: "
            f"D = {1 / ratio:g} N."
        )
        yield Finding("rule_inverted", "error", words, {"tokens_per_param": ratio})
        ratio = 1 / ratio
    sizes = sorted({1e8, 1e9, 1e10} | ({params} if params is not None else set()))
    by_law = {s: float(facts.law.tokens_per_param(s)) for s in sizes}
    said = ", ".join(f"{value:.1f} at {format_count(s)}" for s, value in by_law.items())
    words = (
        f"{ratio:g} tokens per parameter is a rule of thumb; the ratio falls with the size: {said} "
        f"({REFERENCE_LAW})."
    )
    yield Finding(
        "rule_of_thumb", "info", words, {"rule": ratio, "law": {f"{s:.0f}": v for s, v in by_law.items()}}
    )
    if params is None or tokens is None:
        return
    run = tokens / params
    if not 0.67 <= run / ratio <= 1.5:
        under = run < ratio
        words = (
            f"{format_count(tokens)} tokens for {format_count(params)} parameters are {run:.3g} tokens per "
            f"parameter, {run / ratio:.2g} times what the rule gives ({format_count(ratio * params)}): the model is "
            f"{'too large for its data' if under else 'trained longer than is compute-optimal'}."
        )
        evidence = {"tokens_per_param": run, "rule": ratio}
        yield Finding("rule_not_followed", "warning" if under else "info", words, evidence)


def check_stored(facts: Facts) -> Iterator[Finding]:
    """Check that the tokenized data have the size of their tokens."""
    data = facts.plan.data
    if data is None:
        return
    vocab, width = facts.get("model.vocab"), data.stored_bytes_per_token
    if width is not None and vocab is not None and vocab > 256**width:
        words = (
            f"a vocabulary of {vocab:,} does not fit into {width} bytes per token (up to {256**width:,}): "
            f"store {'uint16' if vocab <= 65536 else 'uint32'}."
        )
        yield Finding("token_width", "error", words, {"vocab": vocab, "bytes": width})
    tokens = data.unique_tokens or data.tokens
    if data.stored_gb is None or tokens is None:
        return
    widths = [width] if width else [2, 4] if vocab is None or vocab <= 65536 else [4]
    sizes = [w * tokens / 1e9 for w in widths]
    if 0.9 * sizes[0] <= data.stored_gb <= 1.1 * sizes[-1]:
        return
    names = {2: "uint16", 4: "uint32"}
    each = " or ".join(
        f"{size:.3g} GB in {names.get(w, f'{w} bytes each')}" for w, size in zip(widths, sizes, strict=True)
    )
    holds = " or ".join(format_count(data.stored_gb * 1e9 / w) for w in widths)
    words = (
        f"{data.stored_gb:g} GB for {format_count(tokens)} tokens are {data.stored_gb * 1e9 / tokens:.3g} bytes per "
        f"token; they take {each}. {data.stored_gb:g} GB hold {holds} tokens"
        f"{'.' if data.unique_tokens else ': if the run sees a part of them, give unique_tokens.'}"
    )
    evidence = {"stored_gb": data.stored_gb, "expected_gb": sizes}
    yield Finding("stored_size", "error", words, evidence)


def check_epochs(facts: Facts) -> Iterator[Finding]:
    """Check that data do not repeat too often."""
    tokens, unique = facts.tokens, facts.get("data.unique_tokens")
    if tokens is None or unique is None or tokens / unique <= _EPOCHS:
        return
    words = (
        f"{format_count(tokens)} tokens of {format_count(unique)} unique ones are {tokens / unique:.3g} epochs: "
        f"beyond about {_EPOCHS:g} repeated tokens add little."
    )
    yield Finding("many_epochs", "warning", words, {"epochs": tokens / unique})
