"""Accelerators: dense rates per dtype, memory, power, interconnect, each with its source.

Rates are what the vendor states WITHOUT sparsity and with fp32 accumulation. The figure with sparsity is
kept apart and never used: it is what most wrong utilisations are divided by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from economics.errors import DtypeError
from economics.gpu_names import canonical_names, read_table, resolve
from economics.run_numbers import name_of, numeric
from scaling.errors import DataError, shown

#: Names a dtype goes by -> the name used here.
_DTYPES = {
    "bf16": "bf16", "bfloat16": "bf16",
    "fp16": "fp16", "float16": "fp16", "half": "fp16",
    "tf32": "tf32",
    "fp32": "fp32", "float32": "fp32", "float": "fp32",
    "fp8": "fp8", "float8": "fp8", "e4m3": "fp8",
}  # fmt: skip
DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp8")
_WORDS = ("vendor", "arch", "form_factor", "interconnect", "accumulate", "verified", "source", "note")
_NUMBERS = ("memory_gb", "bandwidth_gbps", "tdp_w", "measured_power_w", "interconnect_gbps")


@dataclass(frozen=True)
class GPU:
    """One accelerator: what its vendor states, and what was measured.

    Build one for a part that the table lacks; `gpu` returns those it has.

    Parameters
    ----------
    name : str
    memory_gb : float
        Memory in GB as the vendor prints it.
    dense_tflops : mapping of str to float
        TFLOP/s without sparsity for each dtype it has (``bf16, fp16, tf32, fp32, fp8``).
    sparse_tflops : mapping of str to float
        The figures with sparsity, to recognise them; nothing is computed from them.
    bandwidth_gbps : float, optional
        Memory bandwidth, GB/s.
    matmul_ceiling_tflops : float, optional
        Highest bf16 matrix product measured, TFLOP/s.
    tdp_w : float, optional
        Rated power in watts; None where it is not published.
    measured_power_w : float, optional
        Mean power that the vendor measured, where that is published instead.
    interconnect_gbps : float, optional
        Bandwidth to its peers, both directions together, GB/s.
    vendor, arch, form_factor, interconnect : str
    year : int, optional
    accumulate : str
        Type in which products are summed at these rates.
    verified : {"two_sources", "one_source", "disagree", "user"}
        How far the row was checked; the note of a ``disagree`` row says what differs.
    source, note : str
    """

    name: str
    memory_gb: float
    dense_tflops: Mapping[str, float] = field(hash=False)
    sparse_tflops: Mapping[str, float] = field(default_factory=dict, hash=False)
    bandwidth_gbps: float | None = None
    matmul_ceiling_tflops: float | None = None
    tdp_w: float | None = None
    measured_power_w: float | None = None
    interconnect_gbps: float | None = None
    vendor: str = ""
    arch: str = ""
    form_factor: str = ""
    interconnect: str = ""
    year: int | None = None
    accumulate: str = "fp32"
    verified: str = "user"
    source: str = "given by the user"
    note: str = ""

    def __post_init__(self) -> None:
        name_of("name", self.name)
        object.__setattr__(self, "dense_tflops", _rates(self.dense_tflops, "dense_tflops"))
        object.__setattr__(self, "sparse_tflops", _rates(self.sparse_tflops, "sparse_tflops"))
        if not self.dense_tflops:
            raise DataError(
                f"{self.name}: dense_tflops is empty, give at least one rate", column="dense_tflops"
            )
        for name in _WORDS:
            if not isinstance(getattr(self, name), str):
                raise DataError(f"{name} must be text, got {shown(getattr(self, name))}", column=name)
        for name in (*_NUMBERS, "matmul_ceiling_tflops"):
            value = getattr(self, name)
            if (value is not None or name == "memory_gb") and not 0 < numeric(value) < math.inf:
                raise DataError(
                    f"{name} of {self.name} must be a positive number, got {shown(value)}", column=name
                )
        ceiling, fastest = self.matmul_ceiling_tflops, max(self.dense_tflops.values())
        if ceiling is not None and ceiling > fastest:
            raise DataError(
                f"{self.name}: matmul_ceiling_tflops={ceiling:g} is above its fastest dense rate, {fastest:g}",
                column="matmul_ceiling_tflops",
            )
        if self.memory_gb > 2048:
            mib = f"{self.memory_gb:g} MiB are {self.memory_gb / 1024:g} GB"
            raise DataError(
                f"{self.name}: {self.memory_gb:g} GB of memory; is that MiB? {mib}.", column="memory_gb"
            )

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes it has a dense rate for."""
        return tuple(d for d in DTYPES if d in self.dense_tflops)

    def peak(self, dtype: str) -> float:
        """Return the dense peak in FLOP/s (not TFLOP/s).

        Raises
        ------
        DtypeError
            The part has no such rate (V100 and T4 have no bf16), or no dtype is called that.

        Examples
        --------
        >>> gpu("H100 SXM").peak("bf16") / 1e12
        989.4
        """
        known = read_dtype(dtype)
        if known not in self.dense_tflops:
            has = ", ".join(f"{d} {self.dense_tflops[d]:g} TFLOP/s" for d in self.dtypes)
            raise DtypeError(
                f"{self.name} has no {known} rate{': ' + self.note if self.note else ''}. It has {has}.",
                available=self.dtypes,
                column="dtype",
            )
        return self.dense_tflops[known] * 1e12

    def ceiling(self, dtype: str = "bf16") -> float | None:
        """Return the highest matrix-product rate measured, FLOP/s, or None where none was.

        Measured in bf16 only: for fp16 at the same dense rate it holds too, for other dtypes it is None.
        """
        if self.matmul_ceiling_tflops is None or self.peak(dtype) != self.peak("bf16"):
            return None
        return self.matmul_ceiling_tflops * 1e12

    def to_dict(self) -> dict[str, Any]:
        """Return the accelerator as plain types."""
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in out.items()}

    def __str__(self) -> str:
        rates = ", ".join(f"{d} {self.dense_tflops[d]:g}" for d in self.dtypes)
        power = f"{self.tdp_w:g} W" if self.tdp_w else "power not published"
        return f"{self.name}: {rates} TFLOP/s dense, {self.memory_gb:g} GB, {power}"


def gpu(name: str | GPU, **overrides: Any) -> GPU:
    """Return an accelerator by name, with some of its figures replaced if wanted.

    Parameters
    ----------
    name : str or GPU
        A name of `gpus`, an alias ("H100 SXM"), what a driver reports ("NVIDIA A100-SXM4-80GB"), or a `GPU`.
    **overrides
        Fields of `GPU`. ``dense_tflops`` is merged into the rates of the table.

    Returns
    -------
    GPU

    Raises
    ------
    UnknownGPU, AmbiguousGPU
        No part has this name, or several share it; `suggestions` has the candidates.
    DataError
        An override is no field, or a rate is the one with sparsity (or half the dense one).

    Examples
    --------
    >>> print(gpu("NVIDIA A100-SXM4-80GB"))
    A100-80GB-SXM: bf16 312, fp16 312, tf32 156, fp32 19.5 TFLOP/s dense, 80 GB, 400 W
    >>> gpu("H100 PCIe", tdp_w=310).tdp_w
    310
    """
    found = name if isinstance(name, GPU) else _from_row(resolve(name))
    if not overrides:
        return found
    unknown = set(overrides) - {f.name for f in fields(GPU)}
    if unknown:
        raise DataError(
            f"gpu() has no field {', '.join(sorted(unknown))}: it has {', '.join(f.name for f in fields(GPU))}",
            column=min(unknown),
        )
    if "dense_tflops" in overrides:
        given = _rates(overrides["dense_tflops"], "dense_tflops")
        _refuse_sparse(found, given)
        overrides["dense_tflops"] = {**found.dense_tflops, **given}
    overrides.setdefault("verified", "user")
    overrides.setdefault("source", f"{found.source}; given by the user: {', '.join(sorted(overrides))}")
    return replace(found, **overrides)


def gpus() -> tuple[str, ...]:
    """Return the names of all accelerators in the table.

    Examples
    --------
    >>> "H100-80GB-SXM" in gpus(), len(gpus())
    (True, 48)
    """
    return canonical_names()


def read_dtype(dtype: str) -> str:
    """Return the name used here for a dtype: "FP8", "float8" and "torch.float8" are fp8.

    Raises
    ------
    DtypeError
        No dtype is called that.
    """
    known = _DTYPES.get(str(dtype).casefold().removeprefix("torch."))
    if known is None:
        raise DtypeError(
            f"no dtype is called {shown(dtype)}: use {', '.join(DTYPES)}", available=DTYPES, column="dtype"
        )
    return known


def _rates(given: Mapping[str, float], column: str) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise DataError(f"{column} must name a dtype, {{'bf16': 312}}; got {shown(given)}", column=column)
    rates = {}
    for dtype, value in given.items():
        if not (isinstance(value, int | float) and 0 < value < 1e6):
            hint = (
                f"; {value:g} FLOP/s are {value / 1e12:g}"
                if isinstance(value, int | float) and value >= 1e6
                else ""
            )
            raise DataError(f"{column}[{dtype!r}] must be TFLOP/s, got {shown(value)}{hint}", column=column)
        rates[read_dtype(dtype)] = float(value)
    return rates


def _refuse_sparse(part: GPU, given: Mapping[str, float]) -> None:
    """Raise for a peak that is the sparse one, or the dense one halved once more."""
    for dtype, value in given.items():
        dense, sparse = part.dense_tflops.get(dtype), part.sparse_tflops.get(dtype)
        if sparse is not None and math.isclose(value, sparse, rel_tol=0.015) and sparse != dense:
            seen = "the figure WITH sparsity"
        elif dense is not None and math.isclose(value, dense / 2, rel_tol=0.015):
            seen = "half the dense figure (the table is dense already: do not halve it)"
        else:
            continue
        raise DataError(
            f"{value:g} TFLOP/s {dtype} is {seen} of {part.name}; its dense rate is {dense:g}. "
            "For another part build GPU(...) instead of overriding this one.",
            column="dense_tflops",
        )


@cache
def _rows() -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in read_table("gpu_specs.csv")}


def _from_row(name: str) -> GPU:
    row = _rows()[name]
    numbers = {key: float(row[key]) if row[key] else None for key in (*_NUMBERS, "matmul_ceiling_tflops")}
    dense = {d: float(row[f"{d}_tflops"]) for d in DTYPES if row[f"{d}_tflops"]}
    sparse = {"bf16": float(row["sparse_bf16_tflops"])} if row["sparse_bf16_tflops"] else {}
    if sparse and dense.get("fp16") == dense["bf16"]:
        sparse["fp16"] = sparse["bf16"]
    return GPU(
        name=name,
        memory_gb=float(row["memory_gb"]),
        dense_tflops=dense,
        sparse_tflops=sparse,
        bandwidth_gbps=numbers["bandwidth_gbps"],
        matmul_ceiling_tflops=numbers["matmul_ceiling_tflops"],
        tdp_w=numbers["tdp_w"],
        measured_power_w=numbers["measured_power_w"],
        interconnect_gbps=numbers["interconnect_gbps"],
        vendor=row["vendor"],
        arch=row["arch"],
        form_factor=row["form_factor"],
        interconnect=row["interconnect"],
        year=int(row["year"]),
        accumulate=row["accumulate"],
        verified=row["verified"],
        source=row["source"],
        note=row["note"],
    )
