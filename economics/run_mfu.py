"""The utilisation of a run, from whatever is known of it: the model, a figure, a range, measured first steps."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from economics.hardware import GPU
from economics.logit_t import LogitT
from economics.mfu import MfuModel, mfu_model
from economics.mfu_estimate import MfuEstimate, check_setup
from economics.run_numbers import one_of
from economics.student_t import t_quantile
from economics.utilisation import MfuError, MfuWarning, above_ceiling, check_mfu, parse_mfu
from scaling.errors import DataError, shown
from scaling.findings import Finding

#: Degrees of freedom of a range that a user gives: as good as normal.
_GIVEN_DF = 200


@dataclass(frozen=True)
class RunMfu:
    """Utilisation behind a cost.

    Parameters
    ----------
    value : float or LogitT
        A figure that was given, or a distribution.
    whole_run : bool
        Whether lost time (faults, evaluation, slow phases) is in it already.
    convention : str
        FLOP convention it is meant in ("6N" for a figure of the user's, "palm" for the model).
    text : str
        Where it comes from.
    findings : tuple of Finding
        What the model has to say; ``mfu_above_ceiling`` of a figure or range, ``mfu_no_figure`` of a mark
        for none (nan, -1), for which the model stands in.
    """

    value: float | LogitT
    whole_run: bool
    convention: str
    text: str
    findings: tuple[Finding, ...] = field(default=())

    def quantile(self, q: float) -> float:
        """Return a quantile."""
        return self.value.quantile(q) if isinstance(self.value, LogitT) else self.value


def run_mfu(
    given: Any,
    *,
    part: GPU,
    params: float,
    n_gpus: int,
    seq_len: float,
    dtype: str,
    act_ckpt: bool | None = None,
    code_base: str | None = None,
    kind: Literal["steady", "run"] | None = None,
) -> RunMfu:
    """Return the utilisation of a run.

    Parameters
    ----------
    given : None, float, str, (low, high), MfuModel or MfuEstimate
        Nothing: the model over whole runs. A figure (0.41, "41%"): what logs show while training runs, in the
        6N convention; evaluation and faults then come on top. Two figures: the 10th and 90th percentile.
        A model with your own first steps, or one of its estimates.
    part, params, n_gpus, seq_len, dtype, act_ckpt, code_base
        The set-up, as in `MfuModel.predict`.
    kind : {"steady", "run"}, optional
        Says that a given figure is a mean over the whole run, or that the model's is not.

    Raises
    ------
    MfuError
        A figure above 1, or 40 where 40% was meant.
    DataError
        Something else that is no utilisation, or activation checkpointing that is neither on nor off.
    """
    check_setup(act_ckpt, code_base)
    if kind is not None:
        one_of("mfu_kind", kind, ("steady", "run"))
    model = given if isinstance(given, MfuModel) else None
    if isinstance(given, tuple | list):
        return _from_range(given, kind, part, dtype, n_gpus)
    if isinstance(given, MfuEstimate):
        if given.gpu != part.name or given.dtype != dtype:
            raise DataError(
                f"mfu is an estimate for {given.gpu} in {given.dtype}, the run is on {part.name} in {dtype}: "
                f"predict again, or pass the model itself.",
                column="mfu",
            )
        whole = (kind or given.kind) == "run"
        return RunMfu(given.distribution, whole, "palm", f"estimate given ({given.kind})", given.findings)
    figure = None if model is not None else _figure(given, part, dtype, n_gpus)
    if figure is not None:
        found = _doubts(figure, part, dtype)
        for finding in found:  # seen by the caller of `cost` who never looks at findings, too
            warnings.warn(MfuWarning(finding.message, value=figure), stacklevel=4)
        text = "given" + (" for the whole run" if kind == "run" else "")
        return RunMfu(figure, kind == "run", "6N", text, found)
    setup = (params, part, n_gpus, seq_len, dtype, act_ckpt, code_base, kind or "run")
    predicted = _shipped(*setup) if model is None else _predict(model, *setup)
    what = "model with your measured steps" if model is not None else "model of measured throughputs"
    over = "whole runs" if (kind or "run") == "run" else "while it runs"
    found = predicted.findings
    if given is not None and model is None:
        words = f"mfu={given!r} is a mark for no figure: the model of measured throughputs is used instead."
        found = (*found, Finding("mfu_no_figure", "warning", words, {"given": str(given)}))
    return RunMfu(predicted.distribution, (kind or "run") == "run", "palm", f"{what}, {over}", found)


def _predict(
    model: MfuModel, params: float, part: GPU, n_gpus: int, seq_len: float, dtype: str,
    act_ckpt: bool | None, code_base: str | None, kind: Literal["steady", "run"],
) -> MfuEstimate:  # fmt: skip
    return model.predict(
        params, part, n_gpus, seq_len, dtype=dtype, act_ckpt=act_ckpt, code_base=code_base, kind=kind
    )


@lru_cache(maxsize=256)
def _shipped(
    params: float, part: GPU, n_gpus: int, seq_len: float, dtype: str,
    act_ckpt: bool | None, code_base: str | None, kind: Literal["steady", "run"],
) -> MfuEstimate:  # fmt: skip
    return _predict(mfu_model(), params, part, n_gpus, seq_len, dtype, act_ckpt, code_base, kind)


def _figure(given: Any, part: GPU, dtype: str, n_gpus: int) -> float | None:
    """Read a figure; for an impossible one the causes are those of this part and number of GPUs."""
    try:
        return parse_mfu(given)
    except MfuError as error:
        if error.value > 1.0 and len(error.causes) > 1:  # not only a percent sign that was left out
            check_mfu(error.value, part, dtype, n_gpus=n_gpus)
        raise


def _doubts(figure: float, part: GPU, dtype: str) -> tuple[Finding, ...]:
    words = above_ceiling(figure, part, dtype)
    return () if words is None else (Finding("mfu_above_ceiling", "warning", words, {"mfu": figure}),)


def _from_range(given: Any, kind: str | None, part: GPU, dtype: str, n_gpus: int) -> RunMfu:
    ends = [value for value in (_figure(x, part, dtype, n_gpus) for x in given) if value is not None]
    if len(given) != 2 or len(ends) != 2 or not ends[0] < ends[1] < 1.0:
        raise DataError(
            f"a range of mfu is its 10th and 90th percentile, such as (0.35, 0.45); got {shown(given)}",
            column="mfu",
        )
    low, high = (float(np.log(x / (1.0 - x))) for x in ends)
    scale = (high - low) / (2.0 * t_quantile(0.9, _GIVEN_DF))
    value = LogitT((low + high) / 2.0, scale, _GIVEN_DF, 1.0)
    return RunMfu(value, kind == "run", "6N", "range given", _doubts(ends[1], part, dtype))
