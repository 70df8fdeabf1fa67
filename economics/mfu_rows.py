"""Measured throughputs as the rows of a regression: what is predicted, from what, and which rows share what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from economics.gpu_names import read_table
from economics.hardware import GPU, gpu as find_gpu
from scaling.errors import DataError

Array = NDArray[np.float64]

#: Cap on the utilisation of a part whose matrix-product ceiling nobody measured: above every measured one.
UNMEASURED_CEILING = 0.9
#: Without a word about activation checkpointing it is taken to be on from this size: so it is in 67 of the 77
#: llm-foundry rows at or above, and off in 127 of the 139 below.
CHECKPOINTING_FROM = 5e9
#: Sequence length and GPUs of a run that does not state them.
DEFAULT_SEQ_LEN, DEFAULT_GPUS = 2048.0, 64.0
#: Groups of rows that share a deviation, in the order of the variance components.
GROUPS = ("gpu", "setup", "fp8", "size", "config")
#: Names of the fixed effects, in the order of `design`.
FIXED = (
    "one",
    "ln_params",
    "ln_params^2",
    "log2_gpus/8",
    "log2_seq/2048",
    "act_ckpt",
    "ln_params*log2_seq",
    "fp8",
)


@dataclass(frozen=True)
class Rows:
    """Set-ups, and where they were measured their utilisation.

    Parameters
    ----------
    params, n_gpus, seq_len : array, shape (n,)
        Parameters a token uses, accelerators, tokens in a sequence.
    act_ckpt, fp8 : array of bool, shape (n,)
        Whether activations are recomputed; whether the matrix products are fp8.
    ceiling : array, shape (n,)
        Highest utilisation the part reaches in a matrix product.
    mfu : array, shape (n,)
        Measured, in the palm convention against the dense peak; nan where it is to be predicted.
    labels : dict of str to object array, shape (n,)
        For each of `GROUPS` the name of the group a row belongs to; "" for none.
    code_base, model : object array, shape (n,)
        Who measured, and what.
    """

    params: Array
    n_gpus: Array
    seq_len: Array
    act_ckpt: NDArray[np.bool_]
    fp8: NDArray[np.bool_]
    ceiling: Array
    mfu: Array
    labels: Mapping[str, NDArray[Any]]
    code_base: NDArray[Any]
    model: NDArray[Any]

    def __len__(self) -> int:
        return int(self.params.size)

    @property
    def logit(self) -> Array:
        """ln(u / (1 - u)) of u = MFU / ceiling: what the regression predicts."""
        share = np.clip(self.mfu / self.ceiling, 1e-4, 0.999)
        return np.asarray(np.log(share / (1.0 - share)))

    def select(self, mask: NDArray[np.bool_]) -> Rows:
        """Return the rows where `mask` is true."""
        picked = {f.name: getattr(self, f.name)[mask] for f in fields(self) if f.name != "labels"}
        return Rows(**picked, labels={k: v[mask] for k, v in self.labels.items()})

    def join(self, other: Rows) -> Rows:
        """Return these rows followed by the others."""
        both = {
            f.name: np.concatenate([getattr(self, f.name), getattr(other, f.name)])
            for f in fields(self)
            if f.name != "labels"
        }
        labels = {k: np.concatenate([v, other.labels[k]]) for k, v in self.labels.items()}
        return Rows(**both, labels=labels)


def design(rows: Rows) -> Array:
    """Return the fixed effects of the regression, shape (n, len(FIXED))."""
    size = np.log(rows.params / 1e9)
    length = np.log2(rows.seq_len / 2048.0)
    columns = (
        np.ones(len(rows)), size, size**2, np.log2(rows.n_gpus / 8.0), length,
        rows.act_ckpt.astype(float), size * length, rows.fp8.astype(float),
    )  # fmt: skip
    return np.column_stack(columns)


def make_row(
    part: GPU,
    *,
    params: float,
    n_gpus: float,
    seq_len: float,
    act_ckpt: bool | None = None,
    fp8: bool = False,
    mfu: float = float("nan"),
    code_base: str = "",
    model: str = "",
    config: str = "",
) -> Rows:
    """Return one set-up as `Rows`; an empty `code_base` or `model` is one that no other row shares."""
    recompute = params >= CHECKPOINTING_FROM if act_ckpt is None else act_ckpt
    labels = {
        "gpu": part.name,
        "setup": f"{code_base}|{part.name}" if code_base else "?",
        "fp8": (code_base or "?") if fp8 else "",
        "size": f"{code_base}|{model}" if code_base and model else "?",
        "config": config,
    }
    one = np.ones(1)
    return Rows(
        params=params * one, n_gpus=n_gpus * one, seq_len=seq_len * one,
        act_ckpt=np.array([recompute]), fp8=np.array([fp8]), ceiling=ceiling_of(part) * one, mfu=mfu * one,
        labels={k: np.array([v], dtype=object) for k, v in labels.items()},
        code_base=np.array([code_base], dtype=object), model=np.array([model], dtype=object),
    )  # fmt: skip


def stack(rows: Sequence[Rows]) -> Rows:
    """Return several `Rows` as one."""
    first, *rest = rows
    if not rest:
        return first
    both = {
        f.name: np.concatenate([getattr(r, f.name) for r in rows])
        for f in fields(first)
        if f.name != "labels"
    }
    labels = {k: np.concatenate([r.labels[k] for r in rows]) for k in first.labels}
    return replace(first, **both, labels=labels)


@cache
def _arch_ceilings() -> dict[str, float]:
    """Highest measured ceiling of each architecture, as a share of the dense peak."""
    from economics.hardware import gpus

    best: dict[str, float] = {}
    for name in gpus():
        part = find_gpu(name)
        if part.matmul_ceiling_tflops and "bf16" in part.dtypes:
            best[part.arch] = max(
                best.get(part.arch, 0.0), part.matmul_ceiling_tflops * 1e12 / part.peak("bf16")
            )
    return best


def ceiling_of(part: GPU) -> float:
    """Highest utilisation of a part in a matrix product: measured on it, on its architecture, or assumed.

    Measured in bf16 and used for the other dtypes too. `UNMEASURED_CEILING` where nothing was measured.

    Examples
    --------
    >>> [round(ceiling_of(find_gpu(n)), 3) for n in ("H100 SXM", "H800-80GB-SXM", "TPU-v4")]
    [0.803, 0.803, 0.9]
    """
    if part.matmul_ceiling_tflops and "bf16" in part.dtypes:
        return part.matmul_ceiling_tflops * 1e12 / part.peak("bf16")
    return _arch_ceilings().get(part.arch, UNMEASURED_CEILING)


def palm_flops_per_token(params: float, layers: float, d_model: float, seq_len: float) -> float:
    """6N + 12·L·d·T: the palm convention from the numbers a table of published runs has.

    `scaling.flops.flops_per_token` computes it from a whole shape. Heads wider together than d_model, and
    windows, are beyond such a table.
    """
    return 6.0 * params + 12.0 * layers * d_model * seq_len


@cache
def calibration() -> Rows:
    """Return the measured throughputs that ship inside (``known_throughput.csv``)."""
    return stack([_throughput_row(row) for row in read_table("known_throughput.csv")])


def _throughput_row(row: Mapping[str, str]) -> Rows:
    part = find_gpu(row["gpu"])
    fp8 = "fp8" in row["precision"]
    params, seq_len = float(row["n_params"]), float(row["seq_len"])
    if row["tok_per_s_per_gpu"] and row["layers"]:
        flops = palm_flops_per_token(params, float(row["layers"]), float(row["d_model"]), seq_len)
        dtype = "fp8" if fp8 else "bf16"
        mfu = float(row["tok_per_s_per_gpu"]) * flops / part.peak(dtype)
    else:
        mfu = float(row["mfu_pct"]) / 100.0
    return make_row(
        part,
        params=params,
        n_gpus=float(row["n_gpus"]),
        seq_len=seq_len,
        act_ckpt={"True": True, "False": False}.get(row["act_ckpt"]),
        fp8=fp8,
        mfu=mfu,
        code_base=row["code_base"],
        model=row["model"],
    )


def run_rows(table: str, *, only_usable: bool = True) -> tuple[Rows, Array, Array]:
    """Whole published runs with the utilisation their GPU-hours amount to.

    Parameters
    ----------
    table : {"calibration_runs.csv", "known_runs.csv"}
        Those the whole-run gap is estimated from, or those it is tested on. No run is in both.
    only_usable : bool
        Leave out the rows the table marks as not usable.

    Returns
    -------
    rows : Rows
        ``code_base`` is the organisation.
    gpu_hours, flops : array, shape (n,)
        As published; FLOPs of the run in the palm convention.
    """
    found, hours, flops = [], [], []
    for row in read_table(table):
        if row.get("usable", "yes") == "no" and only_usable:
            continue
        part = find_gpu(row.get("gpu_spec") or row["gpu"])
        params = float(row["n_active"])
        tokens = float(row.get("tokens") or row["d_tokens"])
        seq_len = float(row.get("seq_len") or DEFAULT_SEQ_LEN)
        if row.get("layers"):
            per_token = palm_flops_per_token(params, float(row["layers"]), float(row["d_model"]), seq_len)
        else:
            per_token = 6.0 * params + attention_guess(params, seq_len)
        total, spent = per_token * tokens, float(row["gpu_hours"])
        peak = part.peak("bf16" if "bf16" in part.dtypes else "fp16")
        found.append(
            make_row(
                part, params=params, n_gpus=float(row["n_gpus"] or DEFAULT_GPUS), seq_len=seq_len,
                mfu=total / (spent * 3600.0 * peak), code_base=row.get("org") or "?", model=row["model"],
            )
        )  # fmt: skip
        hours.append(spent)
        flops.append(total)
    if not found:
        raise DataError(f"{table} has no usable row", source=table)
    return stack(found), np.array(hours), np.array(flops)


def attention_guess(params: float, seq_len: float) -> float:
    """12·L·d·T for a model of which only the size is known: L·d grows as params^0.67.

    Through GPT-2 124M (12 x 768) and Llama 405B (126 x 16384); in between within 10%.
    """
    return 12.0 * 9216.0 * float((params / 124.4e6) ** 0.6690) * seq_len
