"""What a training run costs: GPU-hours, time, dollars, energy and CO2, each with an interval and its factors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date as Date
from typing import TYPE_CHECKING, Any, Literal

from economics.errors import NoQuoteError
from economics.price_search import fixed_price
from economics.run_plan import make_plan
from economics.run_result import RunCost

if TYPE_CHECKING:
    from economics.hardware import GPU
    from economics.overheads import Overheads
    from economics.price_book import PriceBook
    from economics.price_quote import PriceQuote
    from scaling.architecture import Arch


def cost(
    *,
    N: float | str | None = None,
    D: float | str | None = None,
    gpu: GPU | str | None = None,
    n_gpus: int | str | None = None,
    market: str = "on-demand",
    provider: str | None = None,
    mfu: Any = None,
    price: float | str | PriceQuote | None = None,
    arch: Arch | str | None = None,
    seq_len: float | str = 2048,
    spot: Mapping[str, Any] | bool | None = None,
    checkpoint_every: float | str | None = "optimal",
    region: str | float | None = None,
    overheads: Overheads | Mapping[str, Any] | str | None = None,
    as_of: Date | str | None = None,
    dtype: str | None = None,
    draws: int = 10_000,
    seed: int = 0,
    N_active: float | str | None = None,
    convention: str | None = None,
    mfu_kind: Literal["steady", "run"] | None = None,
    act_ckpt: bool | None = None,
    code_base: str | None = None,
    pue: float | str | None = None,
    energy: Mapping[str, float] | None = None,
    book: PriceBook | str | None = None,
) -> RunCost:
    """Cost of training N parameters on D tokens.

    Parameters
    ----------
    N, D : float or str
        Parameters and tokens: 7e9 or "7B", 2e12 or "2T".
    gpu : GPU or str
        Accelerator.
    n_gpus : int, optional
        How many; if not given, the fewest of 1, 8, 16, 32 ... that end in about a month, and it says so.
    market, provider, as_of, book
        Which price, as in `prices`.
    mfu : float, str, (low, high), MfuModel or MfuEstimate, optional
        Utilisation: by default the calibrated model over whole runs. A figure (0.41, "41%") is taken as what
        logs show while training runs, under 6·N·D; evaluation and faults then come on top.
    price : float, str or PriceQuote, optional
        $ per GPU-hour (not per node).
    arch : Arch or str, optional
        Shape, or the name of a published one; gives exact FLOPs, memory, and the active parameters of a mixture.
    seq_len : float
        Tokens in a sequence.
    spot : mapping, optional
        Of preemptions: mean_up_hours, growth, checkpoint_hours, restart_hours, wait_hours,
        faults_per_gpu_hour, gpus_per_node.
    checkpoint_every : float, str or None
        Hours of training between saves ("30 min"), "optimal", or None for no checkpoints.
    region : str or float, optional
        Where the electricity comes from, as in `grid_intensity`; unknown: all countries.
    overheads : mapping, "none" or None
        Fields of `economics.overheads.Overheads` to replace; its stated defaults if not given.
    dtype : str, optional
        Of the matrix products: bf16 where the part has it, else fp16.
    draws, seed : int
        Of the Monte Carlo.
    N_active : float or str, optional
        Of a mixture of experts: parameters a token uses. N is what memory holds.
    convention : {"6N", "palm", "causal", "matmul"}, optional
        How FLOPs are counted; that of the utilisation, if not given.
    mfu_kind : {"steady", "run"}, optional
        Says of a given figure that lost time is in it ("run").
    act_ckpt, code_base
        As in `MfuModel.predict`.
    pue, energy
        Facility over server energy; ``watts``, ``fraction`` and ``server`` of `energy_factors`.

    Returns
    -------
    RunCost

    Raises
    ------
    DataError
        An argument that is missing or cannot be. UnknownGPU, PriceError, MfuError, UnknownRegion are such. Where the
        price book has no quote, the error (`NoQuoteError`) says the hours and the energy all the same.

    Examples
    --------
    >>> run = cost(N="7B", D="2T", gpu="H100 SXM", n_gpus=512, as_of="2026-10-10")
    >>> run.gpu_hours.low < run.gpu_hours.value < run.gpu_hours.high
    True
    >>> cost(N="1B", D="20B", gpu="A100 SXM 80GB", n_gpus=8, mfu="40%", price=1.79, overheads="none").gpu_hours
    GPU-hours: 267 h, 80% [267, 267]
    """
    asked = dict(locals())
    try:
        return RunCost(make_plan(asked), asked)
    except NoQuoteError as error:
        raise _without_price(error, asked) from None


def _without_price(error: NoQuoteError, asked: dict[str, Any]) -> NoQuoteError:
    """Return the refusal of a run that nothing prices, with what the run takes all the same."""
    unpriced = {
        **asked,
        "price": fixed_price(1.0, market=asked["market"], as_of=asked["as_of"]),
        "provider": None,
    }
    run = RunCost(make_plan(unpriced), unpriced)
    answers = {name: getattr(run, name) for name in ("gpu_hours", "wall_hours", "energy_kwh", "co2_kg")}
    known = {name: answer for name, answer in answers.items() if answer is not None}
    words = "; ".join(
        repr(known[name]) for name in ("gpu_hours", "wall_hours", "energy_kwh") if name in known
    )
    return NoQuoteError(
        f"{error} What is known without a price: {words}.",
        known=known,
        column=error.column,
        source=error.source,
    )
