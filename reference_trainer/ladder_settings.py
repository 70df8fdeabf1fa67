"""The settings of a ladder's runs: those in common, the data, and each size with its shape, steps and rate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reference_trainer.config_text import parse_value
from reference_trainer.errors import ConfigError
from reference_trainer.ladder import Size, leaves_at, to_steps
from reference_trainer.ladder_data import PATHS
from reference_trainer.ladder_file import LadderFile, SizeSection
from scaling.units import format_count

#: Settings that are no business of ``[common]``, and where they belong.
_ELSEWHERE = {
    **dict.fromkeys(("layers", "d_model", "heads", "kv_heads", "d_ff"), "a shape belongs in [[size]]"),
    **dict.fromkeys(("cap_usd", "usd_per_hour", "billing_granularity", "instance", "max_step_s"), "see [budget]"),
    **dict.fromkeys(("started_at", "previous_ended_at", "gone_after_s"), "see [budget]"),
    **dict.fromkeys(("hours", "usd"), "a run that is cut by time is no exact point: give tokens"),
    **dict.fromkeys(("run_dir", "start_from", "checkpoint_at", "run_name"), "the ladder sets it for every run"),
    "inject": "a run that is hurt on purpose is no point",
    "tokens": "give the budgets as tokens = [...] at the top",
    "seed": "give seeds = [...] at the top",
    "cooldown": "give cooldown at the top",
}  # fmt: skip

#: Bytes of a size's name: with seed and tokens it names a folder, which may have 255.
_LONGEST_NAME = 128


def read_common(file: LadderFile, path: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the settings of all runs, read as a training configuration reads them.

    Raises
    ------
    ConfigError
        A key is unknown, belongs elsewhere, or has no value of its kind.
    """
    from reference_trainer.train import Config

    fields = {f.name: f for f in dataclasses.fields(Config)}
    kinds = {name: f.type for name, f in fields.items()}
    given: dict[str, tuple[Any, Path, str]] = {}
    for key, value in file.common.items():
        given[key] = (value, path.parent, f"{path} [common]")
    for item in overrides:
        name, equals, text = item.partition("=")
        given[name] = (text if equals else None, Path(), "the command line")
    out = {}
    for key, (value, base, source) in given.items():
        if key in _ELSEWHERE:
            raise ConfigError(f"{source}: {key} cannot stand here: {_ELSEWHERE[key]}", column=key)
        out[key] = parse_value(key, value, kinds, file=source)
        if key in PATHS:
            out[key] = str((base / out[key]).absolute())
    missing = [key for key in PATHS if key not in out]
    if missing:
        raise ConfigError(f"{path}: [common] needs {' and '.join(missing)}", column=missing[0])
    defaults = {name: f.default for name, f in fields.items() if f.default is not dataclasses.MISSING}
    for name in ("seq_len", "batch_seqs", "warmup_tokens", "tied", "qk_norm", "vocab", "mup", "eval_tokens"):
        out.setdefault(name, defaults[name])
    # A mirror is a process of its own for every run, and runs of a ladder may be shorter than its start.
    out.setdefault("mlflow", "")
    return out


def read_out(file: LadderFile, path: Path, out: str | Path | None) -> Path:
    """Return the folder of a ladder: what was asked for, else the file's, which is relative to the file.

    Raises
    ------
    ConfigError
        It is no name, or that of a file.
    """
    if out is not None and not str(out).strip():
        raise ConfigError("out is empty: name the folder of the runs", column="out")
    folder = (path.parent / file.out if out is None else Path(out)).absolute()
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"out = {str(folder)!r} is a file: name the folder of the runs", column="out")
    return folder


def read_sizes(
    file: LadderFile, path: Path, common: Mapping[str, Any], vocab: int, step_tokens: int
) -> tuple[Size, ...]:
    """Return the sizes of a ladder, smallest first.

    Raises
    ------
    ConfigError
        Two sizes are one; a rate comes from nowhere; budgets are too close, or too small for the warm-up.
    """
    sizes = [
        _size(section, number, file, path, common, vocab, step_tokens) for number, section in enumerate(file.size)
    ]  # fmt: skip
    for name, values in (("name", [s.name for s in sizes]), ("shape", [str(s.arch) for s in sizes])):
        again = [value for i, value in enumerate(values) if value in values[:i]]
        if again:
            raise ConfigError(f"{path}: two sizes have the {name} {again[0]}: leave one out", column="size")
    grids = [s.name for s in sizes if s.lr_grid]
    if grids and file.lr_check is None:
        raise ConfigError(
            f"{path}: {', '.join(grids)}: a lr_grid needs [lr_check] with the tokens of its runs",
            column="lr_check",
        )
    if file.lr_check is not None and not grids:
        raise ConfigError(f"{path}: [lr_check], but no size has a lr_grid", column="lr_check")
    if file.lr_check is not None:
        _check_cooldown(
            "a run of [lr_check]",
            to_steps(file.lr_check.tokens, step_tokens),
            file,
            path,
            common,
            step_tokens,
        )
        least = min(s.steps[-1] for s in sizes if s.lr_grid) * step_tokens
        if file.lr_check.tokens > least:
            raise ConfigError(
                f"{path}: [lr_check] tokens = {format_count(file.lr_check.tokens)} are more than the longest run of a "
                f"size ({format_count(least)}): a check is meant to be short",
                column="lr_check",
            )
    if len(set(file.seeds)) < len(file.seeds):
        raise ConfigError(f"{path}: seeds = {file.seeds} names a seed twice", column="seeds")
    return tuple(sorted(sizes, key=lambda s: s.arch.params_total))


def _size(
    section: SizeSection, number: int, file: LadderFile, path: Path, common: Mapping[str, Any], vocab: int,
    step_tokens: int,
) -> Size:  # fmt: skip
    from reference_trainer.train import Config

    where = f"{path} size[{number}]"
    shape = section.shape
    if section.params is not None:
        from scaling.shapes import solve_shape

        qk_norm = "head" if common["qk_norm"] else "none"
        arch = solve_shape(section.params, vocab, tied=common["tied"], qk_norm=qk_norm, **section.solver).arch
        shape = {k: getattr(arch, k) for k in ("layers", "d_model", "heads", "kv_heads", "d_ff")}
    mup = common["mup"] if section.mup is None else section.mup
    settings = {**shape, "mup": mup}
    lr, rule = _rate(section, common, mup, where)
    config = Config(
        **{**common, **settings, "run_dir": "x", "tokens": math.inf, "hours": 1.0, "lr": lr or 1.0}
    )
    name = section.name or f"{config.layers}x{config.d_model}"
    if "/" in name or "\0" in name or name.startswith(".") or len(name.encode()) > _LONGEST_NAME:
        raise ConfigError(f"{where}: name {name!r} cannot name a folder", column="name")
    budgets = section.tokens or file.tokens
    if not budgets:
        raise ConfigError(f"{where}: no token budgets, neither here nor at the top", column="tokens")
    steps: dict[int, float] = {}
    for tokens in sorted(budgets):
        n = to_steps(tokens, step_tokens)
        if n in steps:
            raise ConfigError(
                f"{where}: budgets of {steps[n]:,.0f} and {tokens:,.0f} tokens are both {n} steps of {step_tokens:,} "
                f"tokens: leave one out, or make the batch smaller",
                column="tokens",
            )
        steps[n] = tokens
        _check_cooldown(f"size {name}: the run of {tokens:,.0f} tokens", n, file, path, common, step_tokens)
    return Size(name, settings, config.arch(vocab), tuple(steps), lr, tuple(section.lr_grid or ()), rule)


def _rate(section: SizeSection, common: Mapping[str, Any], mup: bool, where: str) -> tuple[float | None, str]:
    """Return the learning rate, None where short runs choose it, and the rule in words."""
    if section.lr_grid is not None:
        return None, f"best of {', '.join(f'{lr:g}' for lr in section.lr_grid)}"
    lr = section.lr if section.lr is not None else common.get("lr")
    if lr is None:
        raise ConfigError(
            f"{where}: no learning rate: give lr or lr_grid for the size, or lr in [common] (with mup = true it then "
            "holds for all widths)",
            column="lr",
        )
    if mup:
        return lr, f"muP, base width {common.get('mup_base_width', 256)}"
    return lr, "given for the size" if section.lr is not None else "the same for all sizes"


def _check_cooldown(
    what: str, steps: int, file: LadderFile, path: Path, common: Mapping[str, Any], step_tokens: int
) -> None:
    """Refuse a run whose cooldown begins inside the warm-up, or has no step."""
    began, warmup = leaves_at(steps, file.cooldown), math.ceil(common["warmup_tokens"] / step_tokens)
    if began >= steps:
        raise ConfigError(
            f"{path}: {what} is {steps} steps, of which {file.cooldown:g} is no step of cooldown: give more tokens",
            column="tokens",
        )
    if began < max(warmup, 1):
        raise ConfigError(
            f"{path}: {what} begins its cooldown at step {began}, inside the warm-up that ends at step {warmup} "
            f"(warmup_tokens = {common['warmup_tokens']:g}, {step_tokens:,} a step): give more tokens or a shorter "
            "warm-up",
            column="warmup_tokens",
        )
