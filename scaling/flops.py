"""Floating-point operations of training and inference, by named convention.

A multiply-add is 2 FLOPs. A matrix costs 2 FLOPs a weight and token in the forward pass and twice that in
the backward pass; attention adds a term that grows with the context. Conventions differ in which weights
they count and in how much of the attention matrix; two MFU figures compare only under one convention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args, overload

import numpy as np

from scaling.architecture import Arch, Count
from scaling.errors import DataError
from scaling.units import format_count, parse_count

#: How much of the attention matrix counts: nothing, all of it, or the half that causality leaves.
Attention = Literal["none", "full", "causal"]
Recompute = Literal["none", "selective", "full"]
Passes = Literal["forward", "train", "train+recompute"]

#: FLOPs per weight and token: one forward pass; forward and backward; the forward pass done twice.
PASSES: Mapping[str, int] = MappingProxyType({"forward": 2, "train": 6, "train+recompute": 8})


@dataclass(frozen=True)
class Convention:
    """Which weights and how much attention a named convention counts."""

    name: str
    count: Count
    attention: Attention
    source: str


#: The named conventions. ``count`` and ``attention`` of a call override those of the convention.
CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        c.name: c
        for c in (
            Convention("6N", "total", "none", "Kaplan et al. 2020 (arXiv 2001.08361), section 2.1"),
            Convention("palm", "total", "full", "Chowdhery et al. 2022 (arXiv 2204.02311), appendix B"),
            Convention("causal", "total", "causal", "palm with the masked half of attention left out"),
            Convention("matmul", "matmul", "causal", "every multiplication that is done and no other"),
        )
    }
)


def attention_flops_per_token(
    arch: Arch, seq_len: float, *, attention: Attention = "full", passes: Passes = "train"
) -> float:
    """FLOPs of queries times keys and of scores times values, per token, averaged over a sequence.

    Parameters
    ----------
    arch : Arch
        The shape; sliding windows and the width H·Q of all heads are taken from it.
    seq_len : float
        Tokens in a training sequence.
    attention : {"full", "causal", "none"}
        ``full``: 12·L·H·Q·T for a training step (every token sees T). ``causal``: 6·L·H·Q·T (T/2 on
        average). A window W < T counts as W (full) or W - W^2/(2T) (causal) in the layers that have it.
    passes : {"forward", "train", "train+recompute"}
        A third of the training figure, the figure, four thirds of it.

    Examples
    --------
    >>> arch = Arch(layers=32, d_model=4096, heads=32, kv_heads=8, d_ff=14336, vocab=128256, tied=False)
    >>> full = attention_flops_per_token(arch, 8192)
    >>> full / 1e9, full / attention_flops_per_token(arch, 8192, attention="causal")
    (12.884901888, 2.0)
    """
    _check(attention, Attention, "attention")
    factor = _passes(passes)
    if attention == "none":
        return 0.0
    length: float = _counts(seq_len, "seq_len")
    windowed = arch.layers - arch.global_layers if arch.window is not None else 0
    seen = float(arch.layers - windowed) * _context(length, length, attention)
    if arch.window is not None:
        seen += windowed * _context(length, float(arch.window), attention)
    return 2.0 * factor * arch.d_attention * seen


def _context(length: float, window: float, attention: Attention) -> float:
    """Tokens one token attends to, averaged over the sequence in the continuous form of the conventions."""
    seen = min(length, window)
    return seen if attention == "full" else seen - seen * seen / (2.0 * length)


def flops_per_token(
    arch: Arch,
    convention: str = "6N",
    *,
    seq_len: float | None = None,
    count: Count | None = None,
    attention: Attention | None = None,
    passes: Passes = "train",
) -> float:
    """FLOPs per token by a named convention; the numerator of an MFU.

    Parameters
    ----------
    arch : Arch
        The shape. Of a mixture only the experts a token is routed to count.
    convention : {"6N", "palm", "causal", "matmul"}
        ``6N``: 6 FLOPs per parameter, lookups included. ``palm``: 6N + 12·L·H·Q·T. ``causal``:
        6N + 6·L·H·Q·T. ``matmul``: 6 FLOPs per matrix weight incl. the output head, plus causal attention.
    seq_len : float, optional
        Tokens in a sequence; needed by all but ``6N``.
    count, attention : str, optional
        Replace the weights (`Arch.params`) or the attention (`attention_flops_per_token`) counted.
    passes : {"forward", "train", "train+recompute"}
        2, 6 or 8 FLOPs per weight. MFU takes ``train`` whatever is recomputed: see
        `hardware_flops_per_token`.

    Raises
    ------
    DataError
        An unknown name, or no `seq_len` where attention counts.

    Examples
    --------
    The output head is 6·V·d of the cost of a small model:

    >>> gpt2 = Arch(layers=12, d_model=768, heads=12, d_ff=3072, vocab=50257, gated=False, bias=True,
    ...             norm="layernorm", learned_positions=1024)
    >>> flops_per_token(gpt2, count="matmul") - flops_per_token(gpt2, count="body")
    231584256.0
    """
    if convention not in CONVENTIONS:
        raise DataError(
            f"FLOP convention {convention!r} is not known: one of {', '.join(CONVENTIONS)}",
            column="convention",
        )
    named = CONVENTIONS[convention]
    weights = float(arch.params(count or named.count, active=True))
    masked = attention or named.attention
    if masked != "none" and seq_len is None:
        raise DataError(
            f"convention {convention!r} counts attention ({masked}): give seq_len", column="seq_len"
        )
    length = 1.0 if seq_len is None else seq_len
    attended = attention_flops_per_token(arch, length, attention=masked, passes=passes)
    return _passes(passes) * weights + attended


def hardware_flops_per_token(
    arch: Arch,
    convention: str = "palm",
    *,
    seq_len: float | None = None,
    recompute: Recompute = "full",
    count: Count | None = None,
    attention: Attention | None = None,
) -> float:
    """FLOPs per token the hardware really does with activation recomputation; the numerator of an HFU.

    Parameters
    ----------
    arch, convention, seq_len, count, attention
        As in `flops_per_token`.
    recompute : {"none", "selective", "full"}
        ``full``: a second forward pass, so HFU is 4/3 of MFU. ``selective``: attention alone a second time
        (Korthikanti et al. 2022, arXiv 2205.05198, section 5). ``none``: HFU equals MFU.

    Examples
    --------
    >>> arch = Arch(layers=32, d_model=4096, heads=32, d_ff=11008, vocab=32000, tied=False)
    >>> round(hardware_flops_per_token(arch, seq_len=4096) / flops_per_token(arch, "palm", seq_len=4096), 4)
    1.3333
    """
    _check(recompute, Recompute, "recompute")
    step = flops_per_token(arch, convention, seq_len=seq_len, count=count, attention=attention)
    if recompute == "none":
        return step
    if recompute == "full":
        return step * PASSES["train+recompute"] / PASSES["train"]
    masked = attention or CONVENTIONS[convention].attention
    length = 1.0 if seq_len is None else seq_len
    return step + attention_flops_per_token(arch, length, attention=masked, passes="forward")


def compare_conventions(arch: Arch, seq_len: float) -> dict[str, float]:
    """FLOPs per token of a training step under every named convention.

    Examples
    --------
    >>> arch = Arch(layers=8, d_model=512, heads=8, kv_heads=2, d_ff=1408, vocab=50257)
    >>> {name: f"{flops / 1e6:.1f}M" for name, flops in compare_conventions(arch, 1024).items()}
    {'6N': '289.7M', 'palm': '340.0M', 'causal': '314.9M', 'matmul': '314.8M'}
    """
    return {name: flops_per_token(arch, name, seq_len=seq_len) for name in CONVENTIONS}


# fmt: off
@overload
def training_flops(
    params: Arch | float | str, tokens: float | str, *, active_params: float | str | None = ...,
    convention: str = ..., seq_len: float | None = ..., passes: Passes = ...,
) -> float: ...
@overload
def training_flops(
    params: Any, tokens: Any, *, active_params: Any = ...,
    convention: str = ..., seq_len: float | None = ..., passes: Passes = ...,
) -> Any: ...
# fmt: on
def training_flops(
    params: Any,
    tokens: Any,
    *,
    active_params: Any = None,
    convention: str = "6N",
    seq_len: float | None = None,
    passes: Passes = "train",
) -> Any:
    """FLOPs of a whole run.

    Parameters
    ----------
    params : Arch, float, str or array
        The shape, or the total parameters ("7B"). Without a shape only ``6N`` can be computed.
    tokens : float, str or array
        Tokens seen.
    active_params : float, str or array, optional
        Of a mixture of experts given by numbers: the parameters a token uses, which are what is multiplied.
    convention, seq_len, passes
        As in `flops_per_token`.

    Returns
    -------
    float or array
        Always float64: 6·N·D of a large run does not fit into a 64-bit integer.

    Raises
    ------
    DataError
        A convention with attention without a shape; more active than total parameters; not positive.

    Examples
    --------
    >>> training_flops("7B", "2T")
    8.4e+22
    >>> training_flops(131e9, 1.02e12, active_params=16e9)
    9.792e+22
    """
    seen = _counts(tokens, "tokens")
    if isinstance(params, Arch):
        if active_params is not None:
            raise DataError("active_params follow from the shape: give one of them", column="active_params")
        return flops_per_token(params, convention, seq_len=seq_len, passes=passes) * seen
    if convention != "6N":
        raise DataError(
            f"convention {convention!r} needs the shape, not only a number of parameters: pass an Arch, or "
            f"use convention='6N'.",
            column="convention",
        )
    total = _counts(params, "params")
    if active_params is None:
        return _passes(passes) * total * seen
    active = _counts(active_params, "active_params")
    if np.any(active > total):
        raise DataError(
            f"active_params {_show(active)} exceed the total {_show(total)}: were they swapped?",
            column="active_params",
        )
    return _passes(passes) * active * seen


def _counts(value: Any, name: str) -> Any:
    """Return a float64 scalar or array, checked to be positive."""
    if isinstance(value, str):
        value = parse_count(value)
    numbers = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise DataError(f"{name} must be positive, got {_show(value)}", column=name)
    return numbers if numbers.ndim else float(numbers)


def _show(value: Any) -> str:
    return format_count(float(value)) if np.ndim(value) == 0 else repr(value)


def _passes(passes: str) -> int:
    if passes not in PASSES:
        raise DataError(f"passes must be one of {', '.join(PASSES)}, got {passes!r}", column="passes")
    return PASSES[passes]


def _check(value: str, kind: Any, name: str) -> None:
    if value not in get_args(kind):
        raise DataError(f"{name} must be one of {', '.join(get_args(kind))}, got {value!r}", column=name)
