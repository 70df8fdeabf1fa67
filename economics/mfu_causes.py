"""What makes a utilisation above 1, the likeliest first."""

from __future__ import annotations

import math

from economics.hardware import GPU, gpu as find_gpu

#: A utilisation that most working set-ups come near; used to guess what went wrong with an impossible one.
_TYPICAL = 0.4


def likely_causes(value: float, part: GPU, dtype: str, n_gpus: int = 1) -> tuple[str, ...]:
    """Return what makes a utilisation above 1, the likeliest first.

    Examples
    --------
    >>> likely_causes(3.38, find_gpu("A100 SXM 80GB"), "bf16")[0]
    'did you forget n_gpus=8 (that is 42%)'
    """
    causes: list[tuple[float, str]] = []
    factor = _gpus_forgotten(value)
    causes.append((0.0, f"did you forget n_gpus={n_gpus * factor} (that is {value / factor:.0%})"))
    if value > 10:
        causes.append((-1.0, f"was {value:g}% meant (that is mfu={value / 100:g})"))
    for other in ("H100-80GB-SXM", "A100-80GB-SXM", "B200-180GB-SXM"):
        peak = find_gpu(other).peak("bf16")
        if peak > 1.2 * part.peak(dtype) and value * part.peak(dtype) / peak <= 0.65:
            causes.append((1.0, f"was it a faster part ({other}: {value * part.peak(dtype) / peak:.0%})"))
            break
    if "fp8" in part.dtypes and dtype != "fp8" and value / 2 <= 0.65:
        causes.append(
            (2.0, f"were the products fp8 (dtype='fp8': {value * part.peak(dtype) / part.peak('fp8'):.0%})")
        )
    causes.append(
        (3.0, "is the peak a halved one (dense figures are not halved again; only sparse ones are)")
    )
    causes.append(
        (4.0, "do the FLOPs per token count all experts, or was the step timed without synchronising")
    )
    return tuple(text for _, text in sorted(causes, key=lambda c: c[0]))


def _gpus_forgotten(value: float) -> int:
    """Return the power of two GPUs that would make an impossible utilisation an ordinary one."""
    # Eight to a node is so common that it wins over its neighbours wherever it makes sense at all.
    if 0.2 <= value / 8 <= 0.65:
        return 8
    powers: list[int] = [1 << k for k in range(1, 15)]
    return min(powers, key=lambda f: abs(math.log(value / f / _TYPICAL)))


def impossible(value: float) -> tuple[str, ...]:
    """Return what makes a utilisation above 1 where the part is not known; see `likely_causes` for where it is."""
    factor = _gpus_forgotten(value)
    return (
        f"did you forget to divide by the number of GPUs ({factor}: that is {value / factor:.0%})",
        "is it of the peak of a slower part or a wider dtype",
        "do the FLOPs per token count all experts",
    )
