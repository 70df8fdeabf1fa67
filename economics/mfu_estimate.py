"""A predicted utilisation and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from economics.logit_t import LogitT
from economics.mfu_rows import Rows
from economics.quantile_draws import Array
from economics.run_numbers import positive
from scaling.errors import DataError, shown
from scaling.estimate import Estimate
from scaling.findings import Finding
from scaling.intervals import check_level
from scaling.units import format_count

_PREDICTORS = ("params", "n_gpus", "seq_len")
_ROUNDED = 1.02  # 124M stands for 124,439,808: a size in three digits is within the range that ends there


@dataclass(frozen=True, repr=False)
class MfuEstimate:
    """Utilisation of a set-up, with its distribution.

    Parameters
    ----------
    distribution : LogitT
        Of the share of the dense peak, palm convention.
    level : float
        Nominal coverage of `low` to `high`.
    kind : {"steady", "run"}
        While training runs, or the mean of a whole run.
    gpu, dtype : str
        Accelerator and dtype of the matrix products.
    n_gpus : int
        Accelerators.
    peak : float
        Dense peak of one, FLOP/s.
    findings : tuple of Finding
        What to know before using it.
    """

    distribution: LogitT
    level: float
    kind: str
    gpu: str
    n_gpus: int
    dtype: str
    peak: float
    findings: tuple[Finding, ...] = field(default=())

    def __post_init__(self) -> None:
        check_level(self.level)

    @property
    def median(self) -> float:
        """The value that half of such set-ups pass."""
        return self.quantile(0.5)

    @property
    def low(self) -> float:
        """Lower end of the interval (P10 at level 0.8)."""
        return self.quantile(0.5 - self.level / 2)

    @property
    def high(self) -> float:
        """Upper end of the interval (P90 at level 0.8)."""
        return self.quantile(0.5 + self.level / 2)

    @property
    def estimate(self) -> Estimate:
        """Median and interval."""
        return Estimate(self.median, self.low, self.high, self.level, "median", "MFU")

    def quantile(self, q: float) -> float:
        """Return a quantile."""
        return self.distribution.quantile(q)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """Return `n` draws, shape (n,)."""
        return self.distribution.sample(rng, n)

    def tokens_per_s(self, flops_per_token: float) -> Estimate:
        """Speed of all accelerators together.

        Parameters
        ----------
        flops_per_token : float
            Palm convention, from `scaling.flops.flops_per_token`.
        """
        scale = self.n_gpus * self.peak / positive("flops_per_token", flops_per_token, "FLOPs per token")
        values = (scale * self.median, scale * self.low, scale * self.high)
        return Estimate(*values, self.level, "median", "speed", "tokens/s")

    def gpu_hours(self, flops: float) -> Estimate:
        """Accelerator hours for the FLOPs of a run, palm convention.

        Parameters
        ----------
        flops : float
            From `scaling.flops.training_flops`.
        """
        hours = positive("flops", flops, "FLOPs") / (self.peak * 3600.0)
        values = (hours / self.median, hours / self.high, hours / self.low)
        return Estimate(*values, self.level, "median", "GPU-hours", "h")

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain types."""
        return {
            **self.estimate.to_dict(),
            "mfu_kind": self.kind,
            "convention": "palm",
            "gpu": self.gpu,
            "n_gpus": self.n_gpus,
            "dtype": self.dtype,
            "peak_flops": self.peak,
            "findings": [f.to_dict() for f in self.findings],
        }

    def __str__(self) -> str:
        return (
            f"MFU {self.median:.1%}, {100 * self.level:g}% [{self.low:.1%}, {self.high:.1%}] "
            f"({self.kind}, {self.n_gpus} x {self.gpu} {self.dtype})"
        )

    __repr__ = __str__


def doublings_beyond(row: Rows, measured: Rows) -> float:
    """Distance from what was measured: doublings (or halvings) outside its range, of all predictors.

    Parameters
    ----------
    row : Rows
        One set-up.
    measured : Rows
        What the model knows.
    """
    total = 0.0
    for name in _PREDICTORS:
        seen, x = getattr(measured, name), float(getattr(row, name)[0])
        total += abs(float(np.log2(x / np.clip(x, seen.min(), seen.max()))))
    return total


def doubts(
    row: Rows, measured: Rows, gpu: str, dtype: str, act_ckpt: bool | None, code_base: str | None
) -> tuple[Finding, ...]:
    """Return what a prediction had to assume.

    Parameters
    ----------
    row, measured : Rows
        The set-up; what the model knows.
    gpu, dtype, act_ckpt, code_base
        As they were asked for.
    """
    found = []
    parts = sorted(set(map(str, measured.labels["gpu"])))
    if gpu not in parts:
        text = f"{gpu} is not among the measured accelerators: the interval includes how they differ."
        found.append(Finding("gpu_not_measured", "warning", text, {"measured": parts}))
    for name in _PREDICTORS:
        seen, x = getattr(measured, name), float(getattr(row, name)[0])
        low, high = float(seen.min()), float(seen.max())
        if not low / _ROUNDED <= x <= high * _ROUNDED:
            measured_from = f"{format_count(low)} to {format_count(high)}"
            text = f"{name} {format_count(x)} lies outside what was measured, {measured_from}."
            found.append(Finding("outside_calibration", "warning", text, {name: x, "low": low, "high": high}))
    if dtype not in ("bf16", "fp16", "fp8"):
        text = f"no throughput in {dtype} was measured: the share of its peak is taken to be that of bf16."
        found.append(Finding("dtype_not_measured", "warning", text, {"dtype": dtype}))
    bases = sorted(set(map(str, measured.code_base)))
    if code_base is not None and code_base not in bases:
        text = f"code base {code_base!r} was not measured (those are {', '.join(bases)}): taken as any."
        found.append(Finding("code_base_not_measured", "info", text, {"code_base": code_base}))
    if act_ckpt is None:
        text = f"activation checkpointing taken to be {'on' if row.act_ckpt[0] else 'off'}."
        found.append(Finding("act_ckpt_assumed", "info", text, {}))
    return tuple(found)


def check_setup(act_ckpt: object, code_base: object) -> None:
    """Raise for activation checkpointing that is neither on nor off, or a code base that is no name."""
    if act_ckpt is not None and not isinstance(act_ckpt, bool):
        raise DataError(f"act_ckpt must be True, False or None, got {shown(act_ckpt)}", column="act_ckpt")
    if code_base is not None and not isinstance(code_base, str):
        raise DataError(f"code_base must be a name, got {shown(code_base)}", column="code_base")
