"""What a serving cost is computed from: model, machine, batch, bytes and FLOPs of each phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from economics.hardware import GPU, gpu as find_gpu, read_dtype
from economics.memory import kv_cache_bytes
from economics.power import Factor
from economics.price_quote import PriceQuote
from economics.run_findings import usual_shape
from economics.run_inputs import read_price, read_size
from economics.run_numbers import positive, required, whole
from economics.utilisation import default_dtype, parse_mfu
from scaling.architecture import Arch
from scaling.errors import DataError, shown
from scaling.findings import Finding
from scaling.flops import attention_flops_per_token
from scaling.units import format_count

#: Batch where none is given: as many sequences as fit, but no more than this.
MAX_BATCH = 256
#: Sequences that must have room where the number of GPUs is chosen: smaller batches waste the machine.
LEAST_BATCH = 32
#: Share of the memory that weights and cache may take; the rest is for activations and the runtime (vLLM's
#: default ``gpu_memory_utilization``).
USABLE = 0.9

PREFILL_MFU = Factor(
    "MFU of prefill and of large batches", 0.5, 0.3, 0.65,
    "assumed around the 50% of Sardana et al. 2023 (arXiv 2401.00448, section 4)", (0.01, 1.0),
)  # fmt: skip
BANDWIDTH_SHARE = Factor(
    "share of memory bandwidth while decoding", 0.65, 0.4, 0.85,
    "assumed; serving stacks are reported at 60 to 85%", (0.01, 1.0),
)  # fmt: skip
BUSY = Factor(
    "share of the time with requests", 0.5, 0.2, 0.9, "assumed: machines wait for users, and are paid for it",
    (0.01, 1.0),
)  # fmt: skip


@dataclass(frozen=True)
class ServingPlan:
    """A served model with every input resolved. Bytes, FLOPs, seconds, dollars.

    Parameters
    ----------
    params, active : float
        Parameters in memory, parameters a token uses.
    arch : Arch
        Shape, given or usual for the size.
    part, dtype, peak, bandwidth
        Accelerator; dense peak (FLOP/s) and memory bandwidth (bytes/s) of one.
    n_gpus, batch : int
    prompt_tokens, output_tokens : float
    weight_bytes, cache_bytes : float
        Of all weights; of the keys and values of one sequence at its end.
    prefill_flops : float
        Of one prompt.
    step_flops, step_bytes : float
        Of one sequence, and read by the whole batch, in one decoding step half way through the output.
    prefill_mfu, bandwidth_share, busy : Factor
    price : PriceQuote
    bytes_per_token : float or None
    draws, seed : int
    findings : tuple of Finding
    """

    params: float
    active: float
    arch: Arch
    part: GPU
    dtype: str
    peak: float
    bandwidth: float
    n_gpus: int
    batch: int
    prompt_tokens: float
    output_tokens: float
    weight_bytes: float
    cache_bytes: float
    prefill_flops: float
    step_flops: float
    step_bytes: float
    prefill_mfu: Factor
    bandwidth_share: Factor
    busy: Factor
    price: PriceQuote
    bytes_per_token: float | None
    draws: int
    seed: int
    findings: tuple[Finding, ...] = field(default=())


def serving_plan(asked: Mapping[str, Any]) -> ServingPlan:
    """Resolve the arguments of `economics.inference_cost`, whose names are the keys of `asked`."""
    given, params, active = read_size(asked["N"], asked["N_active"], asked["arch"])
    part = find_gpu(required("gpu", asked["gpu"], "a name such as 'H100 SXM'"))
    if part.bandwidth_gbps is None:
        raise DataError(
            f"the memory bandwidth of {part.name} is not known: gpu(name, bandwidth_gbps=...)", column="gpu"
        )
    dtype = default_dtype(part) if asked["dtype"] is None else read_dtype(asked["dtype"])
    prompt = positive("prompt_tokens", asked["prompt_tokens"], "tokens of a prompt")
    output = positive("output_tokens", asked["output_tokens"], "tokens of an answer")
    found: list[Finding] = []
    shape = given or usual_shape(params)
    if shape is None:
        raise DataError(
            f"no usual shape has {format_count(params)} parameters: give arch, for its cache", column="arch"
        )
    if given is None:
        words = f"the cache is that of a usual shape ({shape.layers} x {shape.d_model}, no grouped heads): give arch."
        found.append(Finding("shape_assumed", "warning", words, {}))
    weight = params * _bits("weight_bits", asked["weight_bits"]) / 8.0
    element = _bits("cache_bits", asked["cache_bits"]) / 8.0
    cache = kv_cache_bytes(shape, int(prompt + output), element=element)
    n_gpus, batch = _fit(asked, part, weight, cache, found)
    middle = prompt + output / 2.0
    held = kv_cache_bytes(shape, int(middle), element=element)
    attention = attention_flops_per_token(shape, middle, attention="full", passes="forward")
    size = asked["bytes_per_token"]
    return ServingPlan(
        params=params, active=active, arch=shape, part=part, dtype=dtype, peak=part.peak(dtype),
        bandwidth=part.bandwidth_gbps * 1e9, n_gpus=n_gpus, batch=batch, prompt_tokens=prompt, output_tokens=output,
        weight_bytes=weight, cache_bytes=cache,
        prefill_flops=prompt
        * (2.0 * active + attention_flops_per_token(shape, prompt, attention="causal", passes="forward")),
        step_flops=2.0 * active + attention,
        step_bytes=weight * _read_share(params, active, given, batch) + batch * held,
        prefill_mfu=share("prefill_mfu", asked["prefill_mfu"], PREFILL_MFU),
        bandwidth_share=share("bandwidth_share", asked["bandwidth_share"], BANDWIDTH_SHARE),
        busy=share("busy", asked["busy"], BUSY), price=read_price(asked, part),
        bytes_per_token=None if size is None else positive("bytes_per_token", size, "bytes of text in a token"),
        draws=whole("draws", asked["draws"], least=100, most=1e7), seed=whole("seed", asked["seed"], least=0),
        findings=tuple(found),
    )  # fmt: skip


def _read_share(params: float, active: float, arch: Arch | None, batch: int) -> float:
    """Share of the weights that a decoding step reads: of a mixture, the experts that some sequence asks for.

    With routing at random a sequence leaves an expert out with probability 1 - k/E, all of a batch of B with its
    B-th power.
    """
    if active == params:
        return 1.0
    routed = arch.experts_per_token / arch.experts if arch is not None and arch.experts else active / params
    # active = always + routed · expert weights, params = always + expert weights
    always = max(active - routed * (params - active) / max(1.0 - routed, 1e-9), 0.0)
    return (always + (params - always) * (1.0 - (1.0 - routed) ** batch)) / params


def _fit(
    asked: Mapping[str, Any], part: GPU, weight: float, cache: float, found: list[Finding]
) -> tuple[int, int]:
    """Return GPUs and batch: those asked for, checked, or the fewest GPUs and the largest batch."""
    usable = part.memory_gb * 1e9 * USABLE
    wanted = None if asked["batch"] is None else whole("batch", asked["batch"])
    needed = wanted or (1 if asked["n_gpus"] is not None else LEAST_BATCH)
    least = 1
    while least * usable < weight + cache * needed:
        least *= 2
        if least > 1024:
            raise DataError(
                f"{weight / 1e9:,.3g} GB of weights and {cache * needed / 1e9:,.3g} GB of cache, {needed} sequences of "
                f"{cache / 1e9:,.3g} GB, do not fit into 1,024 {part.name}: "
                + (
                    "fewer or shorter sequences would."
                    if weight < 512 * usable
                    else "fewer weight_bits might."
                ),
                column="batch" if weight < 512 * usable else "gpu",
            )
    if asked["n_gpus"] is None:
        n_gpus = least
        words = (
            f"{n_gpus} GPUs were chosen: the fewest of 1, 2, 4 ... that hold weights and {needed} sequences."
        )
        found.append(Finding("n_gpus_chosen", "info", words, {"n_gpus": n_gpus}))
    else:
        n_gpus = whole("n_gpus", asked["n_gpus"])
    room = int((n_gpus * usable - weight) / cache)
    if room < (wanted or 1):
        raise DataError(
            f"{weight / 1e9:.3g} GB of weights and {(wanted or 1) * cache / 1e9:.3g} GB of cache do not fit into "
            f"{n_gpus} x {part.name} ({USABLE:.0%} of {n_gpus * part.memory_gb:g} GB): "
            + (f"batch={room} would, or " if room >= 1 else "")
            + f"n_gpus={least}, or fewer weight_bits.",
            column="n_gpus",
        )
    if wanted is None:
        wanted = min(room, MAX_BATCH)
        words = (
            f"a batch of {wanted} was chosen: {'as many as fit' if wanted == room else 'more gains little'}."
        )
        found.append(Finding("batch_chosen", "info", words, {"batch": wanted, "room": room}))
    return n_gpus, wanted


def share(name: str, given: Any, default: Factor) -> Factor:
    """Return a share of one as a factor: that of the default, a number, or a range (low, high).

    Raises
    ------
    DataError
        It is no share, or no range of shares.
    """
    if given is None or isinstance(given, Factor):
        return given or default
    ends = [parse_mfu(x, column=name) for x in (given if isinstance(given, tuple | list) else (given, given))]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or not 0.0 < ends[0] <= ends[1]:
        raise DataError(
            f"{name} must be a share such as 0.5, or a range (0.4, 0.6); got {shown(given)}", column=name
        )
    # Costs go with one over a share: a tail that reached zero would make some of them infinite.
    least = 0.5 * ends[0]
    return Factor(default.name, (ends[0] + ends[1]) / 2.0, ends[0], ends[1], "given", (least, 1.0))


def _bits(name: str, value: Any) -> int:
    bits = whole(name, value)
    if bits not in (4, 8, 16, 32):
        raise DataError(f"{name} must be 4, 8, 16 or 32, got {shown(value)}", column=name)
    return bits
