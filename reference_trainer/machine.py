"""Where a run happens: the processes, the device, the precision, and what that device could do at best."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor, nn

from reference_trainer.errors import ConfigError


@dataclass(frozen=True)
class Place:
    """The device of this process, its place among the others, and what was chosen for it.

    Attributes
    ----------
    device : torch.device
    rank, world : int
        This process among all of them.
    bf16, compile, flash : bool
        Autocast to bf16; torch.compile; the flash-attn package rather than torch's own attention.
    name : str
        Name of the device, as its driver has it.
    """

    device: torch.device
    rank: int
    world: int
    bf16: bool
    compile: bool
    flash: bool
    name: str

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass: matrix products in bf16, where that was chosen."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model compiled and, with more than one process, averaging gradients."""
        wrapped: Any = torch.compile(model) if self.compile else model
        if self.world > 1:
            ids = [self.device.index] if self.device.type == "cuda" else None
            return nn.parallel.DistributedDataParallel(wrapped, device_ids=ids)
        return wrapped  # type: ignore[no-any-return]

    def no_sync(self, model: nn.Module) -> AbstractContextManager[Any]:
        """Return the context of a micro-batch that is not the last: gradients are not averaged yet."""
        return model.no_sync() if isinstance(model, nn.parallel.DistributedDataParallel) else nullcontext()

    def seed(self, number: int) -> None:
        """Seed the generator that dropout draws from (the device's alone: `torch.manual_seed` takes longer)."""
        on_cuda = self.device.type == "cuda"
        generator = torch.cuda.default_generators[self.device.index] if on_cuda else torch.default_generator
        generator.manual_seed(number)

    def put(self, array: npt.NDArray[Any]) -> Tensor:
        """Return an array on the device; from pinned memory, so that the host need not wait for the copy."""
        tensor = torch.from_numpy(array)
        return (
            tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor
        )

    def agree(self, value: Any) -> Any:
        """Return what the first process holds, in all of them."""
        if self.world == 1:
            return value
        held = [value]
        dist.broadcast_object_list(held, src=0)
        return held[0]

    def describe(self) -> str:
        """Return one line: what runs where, and how."""
        parts = [self.name, "bf16 autocast, fp32 weights" if self.bf16 else "fp32"]
        parts.append("compiled" if self.compile else "not compiled")
        parts.append("flash-attn" if self.flash else "torch attention (SDPA)")
        return ", ".join(parts) + (f", {self.world} processes" if self.world > 1 else "")


def join(device: str, precision: str, compile: str, attention: str) -> Place:
    """Choose the device of this process and join the others that torchrun started.

    Parameters
    ----------
    device, precision, compile, attention : str
        As in the configuration; ``"auto"`` takes CUDA where it is, bf16 and torch.compile there, and flash-attn
        where the package is, else fp32, no compilation (on CPUs it gains a tenth) and torch's attention.

    Raises
    ------
    ConfigError
        What is asked for is not there.
    """
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available()
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device = {device!r}: give auto, cpu or cuda", column="device")
    if device == "cuda" and not cuda:
        raise ConfigError("device = 'cuda', but torch sees no CUDA device", column="device")
    place = (
        torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if cuda and device != "cpu"
        else torch.device("cpu")
    )
    on_cuda = place.type == "cuda"
    if world > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if on_cuda else "gloo")
    if on_cuda:
        torch.cuda.set_device(place)
    bf16 = precision == "bf16" or (precision == "auto" and on_cuda)
    if bf16 and on_cuda and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise ConfigError(
            f"{torch.cuda.get_device_name(place)} has no bf16: set precision = 'fp32'", column="precision"
        )
    package = on_cuda and bf16 and importlib.util.find_spec("flash_attn") is not None
    if attention == "flash" and not package:
        raise ConfigError(
            "attention = 'flash' needs CUDA, bf16 and the flash-attn package: install isoflop[flash], or leave "
            "attention = 'auto'",
            column="attention",
        )
    name = torch.cuda.get_device_name(place) if on_cuda else _cpu_name()
    return Place(
        place, rank, world, bf16, compile == "on" or (compile == "auto" and on_cuda),
        package and attention != "sdpa", name,
    )  # fmt: skip


def leave(place: Place) -> None:
    """Leave the other processes, at the end of a run."""
    if place.world > 1 and dist.is_initialized():
        dist.destroy_process_group()


def peak_flops(place: Place, given_tflops: float) -> tuple[float | None, str]:
    """Return the rate that MFU is counted against, FLOP/s of one device, and where it comes from.

    That is what was given, or the dense rate of the named GPU, or on a CPU a matrix product measured here
    (the best of a few of 768 x 768, with the threads the run has). None for a GPU that nobody knows.
    """
    if given_tflops:
        return given_tflops * 1e12, "given"
    if place.device.type == "cpu":
        return _measured(place), "matrix product of 768 x 768 measured here"
    from economics.errors import EconomicsError
    from economics.hardware import gpu

    try:
        known = gpu(place.name)
        return known.peak("bf16" if place.bf16 else "fp32"), f"dense rate of {known.name}"
    except EconomicsError:
        return None, f"unknown: {place.name!r} is not in the table; give peak_tflops"


def versions() -> dict[str, str]:
    """Return what the numbers depend on besides the configuration: versions and the commit."""
    import numpy

    found = {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__}
    found["threads"] = str(torch.get_num_threads())
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    ) if _has_git() else None  # fmt: skip
    found["git"] = git.stdout.strip() if git is not None and git.returncode == 0 else ""
    return found


def _has_git() -> bool:
    from shutil import which

    return which("git") is not None


def _measured(place: Place) -> float:
    dtype = torch.bfloat16 if place.bf16 else torch.float32
    a = torch.full((768, 768), 0.5, dtype=dtype)
    best = float("inf")
    for _ in range(8):
        begin = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - begin)
    return 2 * 768**3 / best


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"CPU {line.split(':', 1)[1].strip()}"
    except OSError:
        pass
    return f"CPU {platform.processor() or platform.machine()}"
