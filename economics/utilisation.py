"""Model FLOPs utilisation: computed from a measured speed, read as people write it, and doubted.

MFU = FLOPs per token · tokens per second / (GPUs · dense peak), with the FLOPs of a forward and backward pass
whatever is recomputed. Two figures compare only under one FLOP convention and one peak: here ``palm``
(6N + 12·L·d·T, full attention, `scaling.flops`) and the dense peak of the named GPU in the named dtype.
Hardware utilisation (HFU) counts recomputation too.
"""

from __future__ import annotations

import math
import re
import warnings
from numbers import Real
from typing import Literal

from economics.errors import EconomicsError, EconomicsWarning
from economics.hardware import GPU, gpu as find_gpu, read_dtype
from economics.mfu_causes import impossible, likely_causes as likely_causes
from economics.run_numbers import one_of, plain, positive
from scaling.errors import DataError, shown

#: From here on a bare number is a percentage without its sign, and no wrong count of GPUs.
_PERCENT_FROM = 5.0
#: HFU / MFU: recomputation repeats all of the forward pass, or nothing.
_RECOMPUTE = {"none": 1.0, "full": 4.0 / 3.0}
_WRITTEN = re.compile(
    r"(?:m?h?fu\s*[:=]?\s*)?(?P<number>[+-]?\d*\.?\d+(?:e[+-]?\d+)?)\s*(?P<percent>%|percent)?", re.I
)
#: What logs write where there is no figure yet (nanoGPT prints -100%).
_SENTINELS = (-1.0, -100.0)


class MfuError(EconomicsError, DataError):
    """A utilisation that cannot be; `value` is what was seen and `causes` the likely ones, best first."""

    def __init__(
        self, message: str, *, value: float, causes: tuple[str, ...] = (), column: str = "mfu"
    ) -> None:
        super().__init__(message, column=column)
        self.value = value
        self.causes = causes


class MfuWarning(EconomicsWarning):
    """A utilisation that is possible and not plausible; `value` is what was seen."""

    def __init__(self, message: str, *, value: float) -> None:
        super().__init__(message)
        self.value = value


def parse_mfu(value: object, *, column: str = "mfu") -> float | None:
    """Read a utilisation as people and logs write it.

    Parameters
    ----------
    value : float, str or None
        A fraction (0.41), a percentage with its sign ("41%", "mfu: 41 %"), or a mark for "no figure":
        None, nan, "", -1, -100%.
    column : str
        Name of the argument, for messages.

    Returns
    -------
    float or None
        Above 0 and at most 1; None for no figure.

    Raises
    ------
    MfuError
        A number above 1 without a percent sign (40 would be read as 4000%), 0, or a negative one.

    Examples
    --------
    >>> parse_mfu(0.41), parse_mfu("41%"), parse_mfu("mfu: 41 %"), parse_mfu(-1), parse_mfu("-100.00%")
    (0.41, 0.41, 0.41, None, None)
    """
    if value is None or (
        isinstance(value, str) and value.strip().casefold() in ("", "nan", "none", "n/a", "-")
    ):
        return None
    if isinstance(value, bool):
        raise DataError(f"{column} must be a number such as 0.41 or '41%', got {shown(value)}", column=column)
    percent = False
    if isinstance(value, str):
        match = _WRITTEN.fullmatch(value.strip())
        if match is None:
            raise DataError(
                f"{column} must be a number such as 0.41 or '41%', got {shown(value)}", column=column
            )
        number, percent = float(match["number"]), match["percent"] is not None
    else:
        number = plain(value)
        if math.isnan(number) and not isinstance(value, Real):
            raise DataError(
                f"{column} must be a number such as 0.41 or '41%', got {shown(value)}", column=column
            )
    if math.isnan(number) or number in _SENTINELS:
        return None
    if not percent and 1.0 < number <= 100.0:
        percent_meant = "percent read as a fraction"
        # 40 can only be a percentage; 1.08 and 3.4 are what a wrong count of GPUs gives.
        causes = (percent_meant,) if number >= _PERCENT_FROM else (*impossible(number), percent_meant)
        doubt = "" if number >= _PERCENT_FROM else f", which cannot be: {'; or '.join(causes[:-1])}? Else"
        raise MfuError(
            f"{column}={number:g} is read as a fraction, {100 * number:g}%{doubt or ':'} for {number:g}% write "
            f"{number / 100:g} or '{number:g}%'.",
            value=number,
            causes=causes,
            column=column,
        )
    fraction = number / 100.0 if percent else number
    if 1.0 < fraction <= 100.0:
        causes = impossible(fraction)
        raise MfuError(
            f"{column}={value!r} is above all a GPU can do: {'; or '.join(causes)}?",
            value=fraction,
            causes=causes,
            column=column,
        )
    if not 0.0 < fraction <= 1.0:
        raise MfuError(
            f"{column} must lie above 0 and at most at 1, got {shown(value)}", value=fraction, column=column
        )
    if percent and fraction < 0.01:
        warnings.warn(
            MfuWarning(f"{column} {value} is below 1%: is that {number * 100:g}%?", value=fraction),
            stacklevel=2,
        )
    return fraction


def measured_mfu(
    tokens_per_s: float | str,
    flops_per_token: float,
    gpu: GPU | str,
    n_gpus: int = 1,
    *,
    dtype: str | None = None,
) -> float:
    """Utilisation that a measured speed amounts to.

    Parameters
    ----------
    tokens_per_s : float or str
        Of all `n_gpus` together ("177.9k").
    flops_per_token : float
        Of a training step, from `scaling.flops.flops_per_token`; the convention is the caller's.
    gpu : GPU or str
        The peak is that of this part: none is ever assumed.
    n_gpus : int
        Accelerators the speed belongs to.
    dtype : str, optional
        Dtype of the matrix products; bf16 where the part has it, else fp16.

    Returns
    -------
    float
        Fraction of the dense peak.

    Warns
    -----
    MfuWarning
        Above the best matrix product ever measured on the part.

    Raises
    ------
    MfuError
        Above 1; `causes` has the likely ones.

    Examples
    --------
    >>> round(measured_mfu(177_900, 7.44e8, "A100 SXM 80GB"), 3)
    0.424
    """
    part = find_gpu(gpu)
    kind = default_dtype(part) if dtype is None else read_dtype(dtype)
    speed = positive("tokens_per_s", tokens_per_s, "tokens per second of all GPUs")
    work = positive("flops_per_token", flops_per_token, "FLOPs of a training step per token")
    number = positive("n_gpus", n_gpus, "GPUs the speed belongs to")
    value = speed * work / (number * part.peak(kind))
    check_mfu(value, part, kind, n_gpus=math.ceil(number))
    return value


def check_mfu(value: float, part: GPU, dtype: str, *, n_gpus: int = 1) -> None:
    """Raise for a utilisation above 1, warn for one above what the part can do.

    Parameters
    ----------
    value : float
        Fraction of the dense peak.
    part : GPU
        The accelerator.
    dtype : str
        Dtype of the matrix products.
    n_gpus : int
        Accelerators it was computed for.

    Raises
    ------
    MfuError
        Above 1.
    """
    if value > 1.0:
        causes = likely_causes(value, part, dtype, n_gpus)
        raise MfuError(
            f"{value:.0%} of the dense {dtype} peak of {n_gpus} x {part.name} "
            f"({part.peak(dtype) / 1e12:g} TFLOP/s each) cannot be: {'; or '.join(causes)}?",
            value=value,
            causes=causes,
        )
    doubt = above_ceiling(value, part, dtype)
    if doubt:
        warnings.warn(MfuWarning(doubt, value=value), stacklevel=3)


def above_ceiling(value: float, part: GPU, dtype: str) -> str | None:
    """Say that a utilisation is above the best matrix product measured on the part; None if it is not.

    Examples
    --------
    >>> above_ceiling(0.9, find_gpu("A100 SXM 80GB"), "bf16")[:64]
    '90.0% is above 86.9%, the best matrix product measured on A100-8'
    """
    limit = part.ceiling(dtype)
    if limit is None or value <= limit / part.peak(dtype):
        return None
    return (
        f"{value:.1%} is above {limit / part.peak(dtype):.1%}, the best matrix product measured on {part.name} "
        f"({limit / 1e12:g} of {part.peak(dtype) / 1e12:g} TFLOP/s): check the FLOPs per token, the clock and "
        f"n_gpus."
    )


def hfu(mfu: float | str, recompute: Literal["none", "full"] = "full") -> float:
    """Hardware utilisation that an MFU amounts to: 4/3 of it when every activation is computed twice.

    Examples
    --------
    >>> round(hfu(0.4125), 4)
    0.55
    """
    factor = _RECOMPUTE[one_of("recompute", recompute, _RECOMPUTE)]
    share = parse_mfu(mfu)
    if share is None:
        raise DataError(f"mfu must be a number such as 0.41 or '41%', got {shown(mfu)}", column="mfu")
    return share * factor


def default_dtype(part: GPU) -> str:
    """Return the dtype a run on the part is taken to use: bf16 where it exists, else fp16, tf32, fp32 or fp8.

    Examples
    --------
    >>> default_dtype(find_gpu("V100 SXM2 32GB")), default_dtype(GPU("mine", 24, {"fp32": 12.0}))
    ('fp16', 'fp32')
    """
    return part.dtypes[0]
