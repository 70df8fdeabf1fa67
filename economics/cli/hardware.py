"""``economics gpus`` and ``economics energy``: accelerators, and what their hours draw."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from scaling.cli.failures import FINE
from scaling.cli.options import Json
from scaling.cli.output import say, say_json


def gpus(
    name: Annotated[str | None, typer.Argument(metavar="GPU", help="One of them, in full.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Only those with a rate for this dtype.")] = None,
    as_json: Json = False,
) -> int:
    """Accelerators: dense rates, memory, power, each with its source."""
    from economics.hardware import gpu, gpus as names

    if name is not None:
        part = gpu(name)
        if dtype is not None:
            part.peak(dtype)
        if as_json:
            say_json(part)
        else:
            say("\n".join(_details(part)))
        return FINE
    parts = [gpu(n) for n in names()]
    if dtype is not None:
        parts = [part for part in parts if _has(part, dtype)]
    if as_json:
        say_json(parts)
    else:
        say("\n".join(str(part) for part in parts))
    return FINE


def _has(part: Any, dtype: str) -> bool:
    from economics.errors import DtypeError

    try:
        part.peak(dtype)
    except DtypeError as error:
        if error.available == part.dtypes:
            return False
        raise  # no dtype is called that
    return True


def _details(part: Any) -> list[str]:
    ceiling = part.matmul_ceiling_tflops
    rows = {
        "memory": f"{part.memory_gb:g} GB"
        + (f" at {part.bandwidth_gbps:g} GB/s" if part.bandwidth_gbps else ""),
        "best matmul": f"{ceiling:g} TFLOP/s measured in bf16" if ceiling else "not measured",
        "between GPUs": f"{part.interconnect} {part.interconnect_gbps or 0:g} GB/s"
        if part.interconnect
        else "",
        "form factor": part.form_factor,
        "year": part.year,
        "sums in": part.accumulate,
        "checked": part.verified.replace("_", " "),
        "source": part.source,
        "note": part.note,
    }
    return [str(part), *(f"  {label:<14}{value}" for label, value in rows.items() if value)]


def energy(
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="Accelerator.")],
    gpu_hours: Annotated[str, typer.Argument(help="Hours times GPUs, such as 1M.")],
    region: Annotated[
        str | None, typer.Option(help="Country, state of the USA, cloud region, or g/kWh, for the CO2.")
    ] = None,
    pue: Annotated[str | None, typer.Option(help="Facility over server energy, or an operator.")] = None,
    watts: Annotated[str | None, typer.Option(help="Rated power of one GPU; that of the table.")] = None,
    fraction: Annotated[str | None, typer.Option(help="Share of the rated power that is drawn.")] = None,
    server: Annotated[str | None, typer.Option(help="Server over GPU power.")] = None,
    as_json: Json = False,
) -> int:
    """Energy and CO2 of GPU-hours: boards, servers and facility apart."""
    from economics.cli.options import as_number
    from economics.energy_use import energy as compute

    found = compute(
        gpu_hours,
        gpu,
        region=as_number(region),
        pue=as_number(pue),
        watts=watts,
        fraction=fraction,
        server=server,
    )
    if as_json:
        say_json(found)
    else:
        say(str(found))
    return FINE
