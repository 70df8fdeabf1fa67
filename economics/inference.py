"""What it costs to serve a model: $ per million tokens, per megabyte of text, and over a lifetime.

A roofline of two phases. Prefill computes all prompt tokens at once and is bound by arithmetic; decoding makes
one token of every sequence per step and is bound by reading weights and cached keys and values from memory, or
by arithmetic in large batches (Pope et al. 2022, arXiv 2211.05102, section 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.inference_setup import ServingPlan, serving_plan
from economics.run_draws import sample_factor
from economics.run_estimates import CostEstimate, dollars, estimate_of, plain_number
from economics.run_numbers import positive
from scaling.errors import DataError, shown
from scaling.findings import Finding
from scaling.units import format_count

if TYPE_CHECKING:
    from economics.hardware import GPU
    from economics.price_quote import PriceQuote
    from economics.quantile_draws import Array
    from economics.run_result import RunCost
    from scaling.architecture import Arch


@dataclass(frozen=True, eq=False, repr=False)
class InferenceCost:
    """Cost of serving. Made by `inference_cost`; medians with the 10th and 90th percentile.

    Parameters
    ----------
    plan : ServingPlan
        Every input, resolved.
    """

    plan: ServingPlan

    @cached_property
    def _draws(self) -> dict[str, Array]:
        """Draw seconds of a batch in both phases, its dollars, and what a token costs."""
        p, seed, n = self.plan, self.plan.seed, self.plan.draws
        mfu, mbu, busy = (
            sample_factor(f, seed, 20 + i, n)
            for i, f in enumerate((p.prefill_mfu, p.bandwidth_share, p.busy))
        )
        prefill = p.prefill_flops * p.batch / (p.n_gpus * p.peak * mfu)
        step = np.maximum(
            p.step_bytes / (p.n_gpus * p.bandwidth * mbu), p.step_flops * p.batch / (p.n_gpus * p.peak * mfu)
        )
        decode = step * p.output_tokens
        price = p.price.sample(np.random.default_rng([seed, 1]), n)
        usd_per_s = p.n_gpus * price / 3600.0 / busy
        made = p.batch * p.output_tokens
        return {
            "prefill": prefill,
            "decode": decode,
            "step": step,
            "input": prefill * usd_per_s / (p.batch * p.prompt_tokens) * 1e6,
            "output": decode * usd_per_s / made * 1e6,
            "all": (prefill + decode) * usd_per_s / (p.batch * (p.prompt_tokens + p.output_tokens)) * 1e6,
            "speed": made / (prefill + decode) / p.n_gpus,
        }

    @property
    def token_usd_draws(self) -> Array:
        """Draws of the dollars for one token served, prompt and output in the given proportion."""
        return np.asarray(self._draws["all"] / 1e6)

    @property
    def usd_per_million_tokens(self) -> CostEstimate:
        """$ per million tokens, prompt and output together in the given proportion."""
        return estimate_of(self._draws["all"], "per million tokens", "$")

    @property
    def usd_per_million_input(self) -> CostEstimate:
        """$ per million prompt tokens: the time of prefill."""
        return estimate_of(self._draws["input"], "per million prompt tokens", "$")

    @property
    def usd_per_million_output(self) -> CostEstimate:
        """$ per million tokens made: the time of decoding."""
        return estimate_of(self._draws["output"], "per million output tokens", "$")

    @property
    def usd_per_mb(self) -> CostEstimate | None:
        """$ per megabyte (1e6 bytes) of text, which is what compares models with different tokenizers.

        None where `bytes_per_token` is not given.
        """
        size = self.plan.bytes_per_token
        return None if size is None else estimate_of(self._draws["all"] / size, "per MB of text", "$")

    @property
    def tokens_per_s_per_gpu(self) -> CostEstimate:
        """Output tokens per second and GPU while it is busy, prefill included."""
        return estimate_of(self._draws["speed"], "speed", "tokens/s/GPU")

    @property
    def seconds_per_token(self) -> CostEstimate:
        """Time between two tokens of one sequence: what a reader waits."""
        return estimate_of(self._draws["step"], "time per output token", "s")

    @property
    def decode_bound(self) -> str:
        """What limits a decoding step at the central values: ``"memory"`` or ``"compute"``."""
        p = self.plan
        read = p.step_bytes / (p.bandwidth * p.bandwidth_share.value)
        return "memory" if read >= p.step_flops * p.batch / (p.peak * p.prefill_mfu.value) else "compute"

    def lifetime_usd(self, tokens: float | str, training: RunCost | None = None) -> CostEstimate:
        """Return the cost of serving `tokens` over the life of a model, with that of training it if given.

        Parameters
        ----------
        tokens : float or str
            Prompt and output tokens together ("10T").
        training : RunCost, optional
            From `cost`, with as many draws.
        """
        served = self.token_usd_draws * positive("tokens", tokens, "tokens served, such as 1e12 or '1T'")
        if training is None:
            return estimate_of(served, "lifetime", "$")
        if not hasattr(training, "outcome"):
            raise DataError(f"training must be what cost() returns, got {shown(training)}", column="training")
        trained = training.outcome.total_usd
        if trained.size not in (1, served.size) and served.size != 1:
            raise DataError("training and serving have different numbers of draws", column="training")
        return estimate_of(served + trained, "training and lifetime", "$")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What to know: choices made, memory, the age of prices."""
        return (*self.plan.findings, *self.plan.price.findings)

    def __repr__(self) -> str:
        p = self.plan
        per_mb = self.usd_per_mb
        lines = [
            f"serving {format_count(p.params)} parameters on {p.n_gpus} x {p.part.name} ({p.price.market}), batch "
            f"{p.batch}, {p.prompt_tokens:g} prompt and {p.output_tokens:g} output tokens",
            f"  $ per million tokens  {_usd(self.usd_per_million_tokens)}",
            f"    prompt              {_usd(self.usd_per_million_input)}",
            f"    output              {_usd(self.usd_per_million_output)}",
        ]
        if per_mb is not None:
            lines.append(f"  $ per MB of text      {_usd(per_mb)}")
        lines += [
            f"  speed                 {self.tokens_per_s_per_gpu.format(plain_number)}; "
            f"{1e3 * self.seconds_per_token.value:.3g} ms between tokens, bound by {self.decode_bound}",
            f"  memory per GPU        weights {p.weight_bytes / p.n_gpus / 1e9:.3g} GB, cache "
            f"{p.batch * p.cache_bytes / p.n_gpus / 1e9:.3g} GB of {p.part.memory_gb:g}",
            *(f"  {factor}" for factor in (p.prefill_mfu, p.bandwidth_share, p.busy)),
            f"  price ${p.price.median:.2f} per GPU-hour ({p.price.as_of})",
            *(f"  {f}" for f in self.findings),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from economics.run_text import preformatted

        return preformatted(repr(self))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        p, per_mb = self.plan, self.usd_per_mb
        numbers = ("usd_per_million_tokens", "usd_per_million_input", "usd_per_million_output")
        return {
            **{name: getattr(self, name).to_dict() for name in (*numbers, "tokens_per_s_per_gpu", "seconds_per_token")},
            "usd_per_mb": None if per_mb is None else per_mb.to_dict(),
            "decode_bound": self.decode_bound,
            "params": p.params,
            "gpu": p.part.name,
            "n_gpus": p.n_gpus,
            "batch": p.batch,
            "factors": [f.to_dict() for f in (p.prefill_mfu, p.bandwidth_share, p.busy)],
            "findings": [f.to_dict() for f in self.findings],
        }  # fmt: skip


def inference_cost(
    N: float | str | None = None,
    *,
    gpu: GPU | str | None = None,
    arch: Arch | str | None = None,
    N_active: float | str | None = None,
    n_gpus: int | None = None,
    batch: int | None = None,
    prompt_tokens: float = 1024,
    output_tokens: float = 256,
    weight_bits: int = 16,
    cache_bits: int = 16,
    dtype: str | None = None,
    bytes_per_token: float | None = None,
    prefill_mfu: Any = None,
    bandwidth_share: Any = None,
    busy: Any = None,
    price: float | str | PriceQuote | None = None,
    market: str = "on-demand",
    provider: str | None = None,
    as_of: Any = None,
    book: Any = None,
    draws: int = 10_000,
    seed: int = 0,
) -> InferenceCost:
    """Cost of serving a model.

    Parameters
    ----------
    N, arch, N_active
        As in `cost`; without a shape a usual dense one is assumed for the cache.
    gpu : GPU or str
        Accelerator; `price`, `market`, `provider`, `as_of`, `book` as in `cost`.
    n_gpus : int, optional
        GPUs that share one copy; the fewest of 1, 2, 4, 8 ... that hold the weights and a cache.
    batch : int, optional
        Sequences decoded together; the most that fit, up to 256.
    prompt_tokens, output_tokens : float
        Of one request.
    weight_bits, cache_bits : int
        Of a weight and of a cached number: 16, 8 or 4.
    dtype : str, optional
        Of the products.
    bytes_per_token : float, optional
        Of the tokenizer on your text; gives $ per MB.
    prefill_mfu, bandwidth_share, busy : float or (low, high), optional
        Utilisation of arithmetic; share of memory bandwidth reached while decoding; share of the time that there
        are requests. Defaults are stated ranges.
    draws, seed : int
        Of the Monte Carlo.

    Returns
    -------
    InferenceCost

    Raises
    ------
    DataError
        It does not fit, an argument is missing or cannot be; UnknownGPU and PriceError are such.

    Examples
    --------
    >>> served = inference_cost(arch="llama-3-8b", gpu="H100 SXM", price=2.50, bytes_per_token=4.4)
    >>> served.decode_bound
    'memory'
    >>> served.usd_per_million_input.value < served.usd_per_million_output.value
    True
    """
    asked: Mapping[str, Any] = dict(locals())
    return InferenceCost(serving_plan(asked))


def _usd(e: CostEstimate) -> str:
    if e.value >= 0.1:
        return e.format(dollars).replace(" $,", ",")
    return f"${e.value:.4f}, 80% [${e.low:.4f}, ${e.high:.4f}]"
