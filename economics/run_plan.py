"""What a cost is computed from: every input resolved, checked and named, before any number is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from economics.energy_use import EnergyFactors
from economics.hardware import GPU, gpu as find_gpu, read_dtype
from economics.interruptions import (
    AVAILABILITY,
    interruption_rate,
    optimal_interval,
)
from economics.mfu_rows import attention_guess
from economics.overheads import Overheads, read_overheads
from economics.price_quote import PriceQuote
from economics.run_inputs import (
    asks_for_preemption,
    read_energy,
    read_gpus,
    read_price,
    read_size,
    read_spot,
    read_tokens,
)
from economics.run_mfu import RunMfu, run_mfu
from economics.run_numbers import hours, one_of, positive, required, whole
from economics.utilisation import default_dtype
from scaling.architecture import Arch
from scaling.errors import DataError
from scaling.flops import CONVENTIONS, flops_per_token

#: GPUs that are chosen where none are given: the fewest that end within this, at this utilisation.
CHOSEN_DAYS, CHOSEN_MFU = 30.0, 0.3


@dataclass(frozen=True)
class RunPlan:
    """A run with every input resolved. Hours, US dollars, FLOPs; rates per hour.

    Parameters
    ----------
    params, active, tokens : float
        Parameters in memory, parameters a token uses, tokens seen.
    arch : Arch or None
        The shape, where it is known.
    seq_len : float
        Tokens in a sequence.
    part : GPU
        Accelerator; `dtype` of the products and dense `peak` of one, FLOP/s.
    n_gpus, nodes : int
        Accelerators and machines; `n_gpus_chosen` if nobody gave the number.
    mfu : RunMfu
        Utilisation; `flops` of the run are counted in its `convention`.
    price : PriceQuote
        What a GPU-hour costs on `market`.
    preempted : float
        Preemptions per hour of the whole run; 0 on demand.
    faults : float
        Hardware faults per hour; 0 where they are in the utilisation already.
    interval : float or None
        Hours of training between saves; None for none.
    checkpoint_hours, restart_hours, wait_hours : float
        Of one save, one restart (billed), one wait (not billed).
    overheads : Overheads
    energy : EnergyFactors
    draws, seed : int
    """

    params: float
    active: float
    tokens: float
    arch: Arch | None
    seq_len: float
    part: GPU
    dtype: str
    peak: float
    n_gpus: int
    n_gpus_chosen: bool
    nodes: int
    mfu: RunMfu
    convention: str
    flops: float
    price: PriceQuote
    preempted: float
    faults: float
    interval: float | None
    checkpoint_hours: float
    restart_hours: float
    wait_hours: float
    overheads: Overheads
    energy: EnergyFactors
    draws: int
    seed: int
    spot: Mapping[str, Any] = field(default_factory=dict)

    @property
    def market(self) -> str:
        """Kind of market of the price."""
        return self.price.market

    @property
    def interrupted(self) -> bool:
        """Whether interruptions and saves are counted apart."""
        return self.preempted + self.faults > 0

    @property
    def flops_text(self) -> str:
        """FLOPs of the run and how they were counted."""
        how = self.convention
        if CONVENTIONS[how].attention != "none":
            shape = "" if self.arch else ", attention guessed from the size"
            how += f", sequences of {self.seq_len:g}{shape}"
        return f"{self.flops:.3g} ({how})"


def make_plan(asked: Mapping[str, Any]) -> RunPlan:
    """Resolve the arguments of `economics.cost`, whose names are the keys of `asked`."""
    arch, params, active = read_size(asked["N"], asked["N_active"], asked["arch"])
    tokens = read_tokens(asked["D"])
    part = find_gpu(required("gpu", asked["gpu"], "a name such as 'H100 SXM'"))
    dtype = default_dtype(part) if asked["dtype"] is None else read_dtype(asked["dtype"])
    peak = part.peak(dtype)
    seq_len = positive("seq_len", asked["seq_len"], "tokens")
    chosen = asked["n_gpus"] is None
    n_gpus = _choose(6.0 * active * tokens / (peak * CHOSEN_MFU)) if chosen else read_gpus(asked["n_gpus"])
    mfu = run_mfu(
        asked["mfu"], part=part, params=active, n_gpus=n_gpus, seq_len=seq_len, dtype=dtype,
        act_ckpt=asked["act_ckpt"], code_base=asked["code_base"], kind=asked["mfu_kind"],
    )  # fmt: skip
    convention = mfu.convention
    if asked["convention"] is not None:
        convention = one_of("convention", asked["convention"], CONVENTIONS)
    price = read_price(asked, part)
    spot = read_spot(asked["spot"], price.market)
    nodes = math.ceil(n_gpus / whole("gpus_per_node", spot["gpus_per_node"]))
    preempt = price.market == "spot" or asks_for_preemption(asked["spot"])
    preempted = (
        interruption_rate(
            nodes, mean_up_hours=spot["mean_up_hours"], faults_per_gpu_hour=0.0, growth=spot["growth"]
        )
        if preempt
        else 0.0
    )
    faults = interruption_rate(1, n_gpus, mean_up_hours=None, faults_per_gpu_hour=spot["faults_per_gpu_hour"])
    # Published GPU-hours, which whole-run utilisation comes from, hold the faults of their runs already.
    if mfu.whole_run and _optimal(asked["checkpoint_every"]):
        faults = 0.0
    save = hours("checkpoint_hours", spot["checkpoint_hours"])
    interval = _interval(asked["checkpoint_every"], preempted + faults, save)
    wait = spot["wait_hours"]
    if wait is None:
        up = spot["mean_up_hours"]
        wait = up * (1.0 - AVAILABILITY) / AVAILABILITY if preempt and up is not None else 0.0
    extra = read_overheads(asked["overheads"], arch.vocab if arch else None)
    return RunPlan(
        params=params, active=active, tokens=tokens, arch=arch, seq_len=seq_len, part=part, dtype=dtype, peak=peak,
        n_gpus=n_gpus, n_gpus_chosen=chosen, nodes=nodes, mfu=mfu, convention=convention,
        flops=_flops(convention, arch, active, tokens, seq_len), price=price, preempted=preempted, faults=faults,
        interval=interval, checkpoint_hours=save, restart_hours=hours("restart_hours", spot["restart_hours"]),
        wait_hours=hours("wait_hours", wait), overheads=extra,
        energy=read_energy(asked, part), draws=whole("draws", asked["draws"], least=100, most=1e7),
        seed=whole("seed", asked["seed"], least=0), spot=spot,
    )  # fmt: skip


def _flops(convention: str, arch: Arch | None, active: float, tokens: float, seq_len: float) -> float:
    if arch is not None:
        return flops_per_token(arch, convention, seq_len=seq_len) * tokens
    if convention == "matmul":
        raise DataError("convention 'matmul' counts matrices: give arch", column="convention")
    share = {"none": 0.0, "full": 1.0, "causal": 0.5}[CONVENTIONS[convention].attention]
    return (6.0 * active + share * attention_guess(active, seq_len)) * tokens


def _interval(every: Any, rate: float, save: float) -> float | None:
    if every is None:
        return None
    if _optimal(every):
        best = optimal_interval(rate, save)
        # A save that costs nothing is best done all the time: once a minute is as good.
        return None if math.isinf(best) else max(best, 1 / 60)
    return hours("checkpoint_every", every, positive=True)


def _optimal(every: Any) -> bool:
    return isinstance(every, str) and every == "optimal"


def _choose(gpu_seconds: float) -> int:
    """Fewest of 1, 8, 16, 32 ... GPUs that end within `CHOSEN_DAYS` (one GPU within a day)."""
    if gpu_seconds <= 86400.0:
        return 1
    n = 8
    while gpu_seconds / n > CHOSEN_DAYS * 86400.0:
        n *= 2
    return n
