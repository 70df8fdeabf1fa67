"""How fast a model will train: utilisation with an interval, from measured throughputs.

`mfu_model` knows the 332 throughputs of ``known_throughput.csv`` (13 code bases) as a mixed model of
logit(MFU / ceiling): effects of size, sequence length, accelerators and activation checkpointing; deviations
of accelerators, of code bases on them, of fp8 implementations and of single model sizes. The ceiling is the
best matrix product measured on the part: no prediction passes it.

Two questions are kept apart. ``kind="steady"``: the speed while training runs, which is what benchmarks
report. ``kind="run"``: the mean over a whole run, which is what is paid for, with restarts, evaluation, slow
phases and code that is not at its best. The gap comes from the 26 published runs of ``calibration_runs.csv``.
Once the user's own first steps are in (`MfuModel.update`), only lost time remains of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Literal

import numpy as np

from economics.gpu_names import read_table
from economics.hardware import GPU, gpu as find_gpu, read_dtype
from economics.logit_t import LogitT
from economics.mfu_estimate import MfuEstimate, check_setup, doublings_beyond, doubts
from economics.mfu_mixed import Posterior, Spread, fit
from economics.mfu_own import own_doubts, pooled_noise, read_speeds
from economics.mfu_rows import GROUPS, Rows, attention_guess, calibration, make_row
from economics.run_numbers import one_of, positive
from economics.utilisation import default_dtype, measured_mfu
from scaling.findings import Finding

Kind = Literal["steady", "run"]

#: Name of the code base that the user's own measurements belong to.
YOURS = "yours"
#: Shift and spread, in logit units, from a steady speed that was measured to the mean of the run: 93% of the
#: time productive, 80 to 98% as a 90% range. Llama 3 reports more than 90% (arXiv 2407.21783, 3.3.4), ByteRobust
#: 97% (arXiv 2509.16293), an unprotected run on 100,000 GPUs 44 to 80% (arXiv 2510.20171).
PRODUCTIVE = (-0.15, 0.15)
#: Spread of one measurement of a speed that was reported as a single number, logit units.
_ONE_MEASUREMENT = 0.04
#: Beyond the range of what was measured every doubling adds a quarter of the row-to-row spread: the regression
#: knows how well its coefficients are determined, not whether they hold there.
_BEYOND = 0.25


@dataclass(frozen=True)
class MfuModel:
    """Predicts utilisation; `mfu_model` returns the one that ships inside.

    Parameters
    ----------
    rows : Rows
        Measured set-ups.
    spread : Spread
        Standard deviations between groups and rows.
    df : int
        Degrees of freedom of the prediction: independent code bases less one.
    gap : tuple of float
        Mean and standard deviation, logit units, of whole published runs against the steady prediction.
    gap_df : int
        Its degrees of freedom: organisations less one.
    own : tuple of float
        Spread of each measurement of the user's, which are the last rows.
    findings : tuple of Finding
        Doubts about the user's measurements; every prediction from them carries these.
    """

    rows: Rows
    spread: Spread
    df: int
    gap: tuple[float, float]
    gap_df: int
    own: tuple[float, ...] = field(default=())
    findings: tuple[Finding, ...] = field(default=())

    @cached_property
    def posterior(self) -> Posterior:
        """Effects given all rows."""
        noise = np.full(len(self.rows), self.spread.row)
        if self.own:
            noise[-len(self.own) :] = self.own
        return fit(self.rows, self.spread, noise)

    @property
    def code_bases(self) -> tuple[str, ...]:
        """Code bases that were measured."""
        return tuple(sorted(set(map(str, self.rows.code_base))))

    def predict(
        self,
        params: float | str,
        gpu: GPU | str,
        n_gpus: int | str,
        seq_len: float = 2048,
        *,
        dtype: str | None = None,
        act_ckpt: bool | None = None,
        code_base: str | None = None,
        kind: Kind = "steady",
        level: float = 0.8,
    ) -> MfuEstimate:
        """Predict the utilisation of a set-up.

        Parameters
        ----------
        params : float or str
            Parameters a token uses ("7B"); of a mixture of experts the active ones.
        gpu : GPU or str
            Accelerator. One that is not among the measured ones gets a wider interval, by the spread between
            accelerators.
        n_gpus : int
            Accelerators of the run.
        seq_len : float
            Tokens in a training sequence.
        dtype : str, optional
            Dtype of the matrix products; bf16 where the part has it, else fp16.
        act_ckpt : bool, optional
            Activation checkpointing; taken to be on from 5B parameters if not given.
        code_base : str, optional
            One of `code_bases`; any, if not given: the spread between code bases is then in the interval.
        kind : {"steady", "run"}
            While training runs, or over a whole run with its lost time.
        level : float
            Nominal coverage of the interval.

        Returns
        -------
        MfuEstimate
            In the palm convention (6N + 12·L·d·T), against the dense peak.

        Raises
        ------
        UnknownGPU, DtypeError, DataError
            No such part, no such dtype on it, or an argument that is not positive.

        Examples
        --------
        >>> mfu_model().predict("7B", "H100 SXM", 64, 4096)
        MFU 42.4%, 80% [32.7%, 51.8%] (steady, 64 x H100-80GB-SXM bf16)
        """
        one_of("kind", kind, ("steady", "run"))
        check_setup(act_ckpt, code_base)
        part = find_gpu(gpu)
        kind_of_product = default_dtype(part) if dtype is None else read_dtype(dtype)
        peak = part.peak(kind_of_product)
        base = YOURS if self.own and code_base is None else code_base
        row = self._row(part, params, n_gpus, seq_len, act_ckpt, kind_of_product, base)
        return MfuEstimate(
            distribution=self.law(row, kind),
            level=level, kind=kind, gpu=part.name, n_gpus=int(row.n_gpus[0]), dtype=kind_of_product, peak=peak,
            findings=(
                *doubts(row, self.rows, part.name, kind_of_product, act_ckpt, code_base),
                *(self.findings if base == YOURS else ()),
            ),
        )  # fmt: skip

    def law(self, row: Rows, kind: Kind = "steady") -> LogitT:
        """Return the distribution of one set-up given as `Rows`; `predict` is the door to it.

        Parameters
        ----------
        row : Rows
            One row.
        kind : {"steady", "run"}
            As in `predict`.
        """
        own = bool(self.own) and row.code_base[0] == YOURS
        # What whole runs differ by already holds what code bases and their model sizes differ by.
        skip = ("setup", "size") if kind == "run" and not own else ()
        mean, sd = (float(x[0]) for x in self.posterior.predict(row, skip=skip))
        df = self.df
        if kind == "run" and own:
            mean, sd = mean + PRODUCTIVE[0], math.hypot(sd, PRODUCTIVE[1])
        elif kind == "run":
            without_row = math.sqrt(max(sd**2 - self.spread.row**2, 0.0))
            mean, sd, df = mean + self.gap[0], math.hypot(without_row, self.gap[1]), self.gap_df
        sd = math.hypot(sd, _BEYOND * self.spread.row * doublings_beyond(row, self.rows))
        return LogitT(mean, sd, df, float(row.ceiling[0]))

    def update(
        self,
        measured_tokens_per_s: float | str | Sequence[float],
        *,
        params: float | str,
        gpu: GPU | str,
        n_gpus: int | str,
        seq_len: float = 2048,
        flops_per_token: float | None = None,
        dtype: str | None = None,
        act_ckpt: bool | None = None,
    ) -> MfuModel:
        """Return the model with the user's own first steps in it.

        The measured set-up is then known up to the noise of the measurement; what it says about the code
        base and the part narrows predictions for other sizes and numbers of GPUs as well.

        Parameters
        ----------
        measured_tokens_per_s : float, str or sequence of float
            Of all GPUs together. Of several steps the median is taken and their scatter used; leave out the
            first ones, which compile.
        params, gpu, n_gpus, seq_len, dtype, act_ckpt
            What was measured, as in `predict`.
        flops_per_token : float, optional
            Palm convention, from `scaling.flops.flops_per_token(arch, "palm", seq_len=...)`; from the size
            alone if not given.

        Returns
        -------
        MfuModel

        Raises
        ------
        MfuError
            The speed amounts to more than the peak, or to next to nothing; the message has the likely causes.
        DataError
            A speed that is not positive.

        Warns
        -----
        MfuWarning
            The speed is far below what such set-ups reach; it is a finding of every prediction as well.

        Examples
        --------
        >>> mine = mfu_model().update([660e3, 655e3, 662e3], params="7B", gpu="H100 SXM", n_gpus=64, seq_len=4096)
        >>> mine.predict("7B", "H100 SXM", 64, 4096)
        MFU 50.8%, 80% [50.5%, 51.0%] (steady, 64 x H100-80GB-SXM bf16)
        """
        check_setup(act_ckpt, None)
        part = find_gpu(gpu)
        kind_of_product = default_dtype(part) if dtype is None else read_dtype(dtype)
        row = self._row(part, params, n_gpus, seq_len, act_ckpt, kind_of_product, YOURS)
        size, length, number = (float(x[0]) for x in (row.params, row.seq_len, row.n_gpus))
        speeds = read_speeds(measured_tokens_per_s)
        per_token = 6.0 * size + attention_guess(size, length)
        if flops_per_token is not None:
            per_token = positive("flops_per_token", flops_per_token, "FLOPs of a training step per token")
        mfu = measured_mfu(float(np.median(speeds)), per_token, part, int(number), dtype=kind_of_product)
        row = replace(row, mfu=np.array([mfu]))
        noise = _ONE_MEASUREMENT
        if speeds.size > 1:
            share = min(mfu / float(row.ceiling[0]), 0.99)
            noise = max(float(np.std(np.log(speeds), ddof=1)) / (speeds.size**0.5 * (1 - share)), 0.01)
        expected = self.law(self._row(part, params, n_gpus, seq_len, act_ckpt, kind_of_product, None))
        found = own_doubts(mfu, expected, int(number))
        rows = self.rows.join(row)
        return replace(
            self, rows=rows, own=pooled_noise(rows, (*self.own, noise)), findings=(*self.findings, *found)
        )

    def _row(
        self, part: GPU, params: object, n_gpus: object, seq_len: object, act_ckpt: bool | None, dtype: str,
        base: str | None,
    ) -> Rows:  # fmt: skip
        numbers = {"params": params, "n_gpus": n_gpus, "seq_len": seq_len}
        given = {name: positive(name, value, "a count such as 8 or '7B'") for name, value in numbers.items()}
        known = base if base in self.code_bases or base == YOURS else ""
        return make_row(
            part,
            **given,
            act_ckpt=act_ckpt,
            fp8=dtype == "fp8",
            code_base=known or "",
            model=f"{given['params']:.3e}",
            config="|".join([part.name, dtype, str(act_ckpt), *(f"{v:.6g}" for v in given.values())]),
        )


@cache
def mfu_model() -> MfuModel:
    """Return the model of the measured throughputs that ship inside.

    The standard deviations come from ``mfu_components.csv``, which
    ``python experiments/benchmarks/mfu_calibration.py --write`` regenerates; the effects are solved for here, in
    a few milliseconds of numpy, so that they cannot disagree with the table of throughputs.

    Examples
    --------
    >>> len(mfu_model().rows), mfu_model().df
    (332, 12)
    """
    value = {row["name"]: float(row["value"]) for row in read_table("mfu_components.csv")}
    spread = Spread({g: value[f"sd_{g}"] for g in GROUPS}, value["sd_row"])
    return MfuModel(
        calibration(),
        spread,
        int(value["df"]),
        (value["run_gap"], value["run_gap_sd"]),
        int(value["run_gap_df"]),
    )
