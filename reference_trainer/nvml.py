"""Clock, temperature and power of an NVIDIA GPU, where its driver library can be asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

#: NVML answers in about a millisecond; asking more often than this tells nothing new. Seconds.
_EVERY_S = 1.0


def gpu_reader(device: Any, clock: Callable[[], float] = time.monotonic) -> Callable[[], dict[str, float]]:
    """Return a function that reads the device, at most once a second.

    It returns ``gpu_clock_mhz``, ``gpu_temp_c`` and ``gpu_power_w``, and nothing at all for a CPU, without
    ``pynvml`` (package ``nvidia-ml-py``), or where the driver does not answer: a run never fails for that.

    Parameters
    ----------
    device : torch.device
        The device of this process.
    clock : callable
        Seconds that never run back; tests inject one.
    """
    handle = _handle(device) if device.type == "cuda" else None
    if handle is None:
        return dict
    held: tuple[float, dict[str, float]] | None = None

    def read() -> dict[str, float]:
        nonlocal held
        now = clock()
        if held is None or now - held[0] >= _EVERY_S:
            held = (now, _read(*handle))
        return held[1]

    return read


def _handle(device: Any) -> tuple[Any, Any] | None:
    """Return NVML and its handle of the device, by UUID: NVML counts what CUDA_VISIBLE_DEVICES hides, too."""
    try:
        import torch

        nvml = import_module("pynvml")
        nvml.nvmlInit()
        name = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        return nvml, nvml.nvmlDeviceGetHandleByUUID(name)
    except Exception:  # no package, no library, no such device, a MIG slice, an old torch
        return None


def _read(nvml: Any, handle: Any) -> dict[str, float]:
    out: dict[str, float] = {}
    questions: tuple[tuple[str, Callable[[], float]], ...] = (
        ("gpu_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        ("gpu_temp_c", lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        ("gpu_power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
    )
    for name, ask in questions:
        try:
            out[name] = float(ask())
        except Exception:  # this part of the device cannot say; others may
            continue
    return out
