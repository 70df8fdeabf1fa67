"""The utilisation of a run, from whatever is known of it: the model, a figure, a range, measured first steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from economics.hardware import GPU
from economics.logit_t import LogitT, t_quantile
from economics.mfu import MfuModel, mfu_model
from economics.mfu_estimate import MfuEstimate
from economics.utilisation import check_mfu, parse_mfu
from scaling.errors import DataError
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
        What the model has to say.
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
        Something else that is no utilisation.
    """
    if kind not in (None, "steady", "run"):
        raise DataError(f"mfu_kind must be 'steady' or 'run', got {kind!r}", column="mfu_kind")
    model = given if isinstance(given, MfuModel) else None
    if isinstance(given, tuple | list):
        return _from_range(given, kind)
    if isinstance(given, MfuEstimate):
        if given.gpu != part.name or given.dtype != dtype:
            raise DataError(
                f"mfu is an estimate for {given.gpu} in {given.dtype}, the run is on {part.name} in {dtype}: "
                f"predict again, or pass the model itself.",
                column="mfu",
            )
        whole = (kind or given.kind) == "run"
        return RunMfu(given.distribution, whole, "palm", f"estimate given ({given.kind})", given.findings)
    figure = None if model is not None else parse_mfu(given)
    if figure is not None:
        check_mfu(figure, part, dtype, n_gpus=n_gpus)
        return RunMfu(figure, kind == "run", "6N", "given" + (" for the whole run" if kind == "run" else ""))
    setup = (params, part, n_gpus, seq_len, dtype, act_ckpt, code_base, kind or "run")
    predicted = _shipped(*setup) if model is None else _predict(model, *setup)
    what = "model with your measured steps" if model is not None else "model of measured throughputs"
    over = "whole runs" if (kind or "run") == "run" else "while it runs"
    return RunMfu(
        predicted.distribution, (kind or "run") == "run", "palm", f"{what}, {over}", predicted.findings
    )


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


def _from_range(given: Any, kind: str | None) -> RunMfu:
    ends = [value for value in map(parse_mfu, given) if value is not None]
    if len(given) != 2 or len(ends) != 2 or not ends[0] < ends[1] < 1.0:
        raise DataError(
            f"a range of mfu is its 10th and 90th percentile, such as (0.35, 0.45); got {given!r}",
            column="mfu",
        )
    low, high = (float(np.log(x / (1.0 - x))) for x in ends)
    scale = (high - low) / (2.0 * t_quantile(0.9, _GIVEN_DF))
    return RunMfu(LogitT((low + high) / 2.0, scale, _GIVEN_DF, 1.0), kind == "run", "6N", "range given")
