"""Which configurations are refused before anything is built."""

from __future__ import annotations

import math
from typing import Any

from reference_trainer.data.shards import TokenSet
from reference_trainer.errors import ConfigError
from reference_trainer.inject import parse_faults
from reference_trainer.operation import require

#: What may end a run; the rest of a configuration is the same run at any length.
HORIZON = ("tokens", "hours", "usd")

_POSITIVE = (
    *("layers", "d_model", "heads", "seq_len", "batch_seqs", "lr", "clip", "eps", "init_std", "rope_base"),
    *("mup_base_width", "mup_base_head_dim", *HORIZON),
)
_NOT_NEGATIVE = ("kv_heads", "d_ff", "vocab", "micro_seqs", "warmup_tokens", "weight_decay", "z_loss", "seed")
_FINITE = ("lr", "eps", "init_std", "rope_base", "warmup_tokens", "weight_decay", "z_loss")
_BELOW_ONE = ("cooldown", "dropout", "lr_end", "beta1", "beta2")


def check(config: Any) -> None:
    """Refuse a `reference_trainer.train.Config` that makes no sense.

    Raises
    ------
    ConfigError
        Which setting, what it is and what it must be.
    """
    require(config, _POSITIVE, lambda x: x > 0, "above 0")
    require(config, _NOT_NEGATIVE, lambda x: x >= 0, "at least 0")
    require(config, _FINITE, lambda x: x < math.inf, "finite")
    require(config, ("eval_tokens",), lambda x: x < math.inf, "finite (1e15, say, for all that there are)")
    require(config, _BELOW_ONE, lambda x: 0 <= x < 1, "at least 0 and below 1")
    require(config, ("precision",), lambda x: x in ("auto", "fp32", "bf16"), "auto, fp32 or bf16")
    if all(getattr(config, name) == math.inf for name in HORIZON):
        raise ConfigError("a run needs an end: give tokens, hours or usd", column="tokens")
    if config.usd < math.inf and not config.usd_per_hour:
        raise ConfigError(
            "a horizon in usd needs usd_per_hour, the price of the whole machine", column="usd_per_hour"
        )
    if config.tokens < config.step_tokens:
        raise ConfigError(
            f"tokens = {config.tokens:g} are less than one step of {config.step_tokens:,} "
            f"(batch_seqs x seq_len): give more tokens or a smaller batch",
            column="tokens",
        )
    parse_faults(config.inject)
    for name, whole in (("heads", "d_model"), ("kv_heads", "heads")):
        part, total = getattr(config, name), getattr(config, whole)
        if part and total % part:
            raise ConfigError(f"{whole} = {total} is not a multiple of {name} = {part}", column=name)
    arch = config.arch(config.vocab or 2)
    if arch.head_dim % 2:
        raise ConfigError(
            f"heads of width {arch.head_dim} (d_model / heads) cannot be rotated in pairs: choose an even width",
            column="heads",
        )


def check_data(config: Any, data: TokenSet, val: TokenSet) -> None:
    """Refuse a run that could not become an honest point on these data, or not do as it was told.

    Raises
    ------
    ConfigError
        The vocabulary is too small, the two sets were tokenized differently or are one, validation has no full
        window, the cooldown begins before the learning rate is reached, or a checkpoint is asked for after the end.
    """
    steps = max(1, round(min(config.tokens / config.step_tokens, 1e18)))  # as `train.total_steps`
    cools_at, warmup = steps - round(config.cooldown * steps), config.warmup_tokens / config.step_tokens
    if cools_at < warmup:
        raise ConfigError(
            f"tokens = {config.tokens:g} are {steps:,} steps, of which the last {steps - cools_at:,} cool down, and "
            f"warmup_tokens = {config.warmup_tokens:g} last {math.ceil(warmup):,}: lr would never be reached. "
            "Give a shorter warm-up or more tokens.",
            column="warmup_tokens",
        )
    if (last := max(config.checkpoint_at, default=0)) > steps:
        raise ConfigError(
            f"checkpoint_at = {last} is never reached: tokens = {config.tokens:g} are {steps:,} steps. Leave it out "
            "(checkpoint_at= for none) or give more tokens.",
            column="checkpoint_at",
        )
    if data.sha256 == val.sha256:
        raise ConfigError(
            f"{config.val_data} holds the tokens of train_data: a loss on them says nothing about text that was not "
            "seen. Give tokens that were held out.",
            column="val_data",
        )
    if (data.tokenizer, data.vocab) != (val.tokenizer, val.vocab):
        raise ConfigError(
            f"train_data was made by {data.tokenizer!r} with {data.vocab} tokens, val_data by {val.tokenizer!r} "
            f"with {val.vocab}: their losses do not compare",
            column="val_data",
        )
    if 0 < config.vocab < data.vocab:
        raise ConfigError(f"vocab = {config.vocab}, but the data have {data.vocab} tokens", column="vocab")
    if min(int(config.eval_tokens), val.tokens - 1) < config.seq_len:
        raise ConfigError(
            f"{config.val_data}: {val.tokens} tokens and eval_tokens = {config.eval_tokens:g} hold no window of "
            f"seq_len + 1 = {config.seq_len + 1}",
            column="eval_tokens",
        )
