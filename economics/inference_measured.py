"""What it costs to serve a model at speeds that were measured, as `inference_cost` says it of a roofline.

The same draws of the share of time with requests are used for the same seed, so that the two stand side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.inference_setup import BUSY, share
from economics.power import Factor
from economics.run_draws import sample_factor
from economics.run_estimates import CostEstimate, estimate_of
from economics.run_numbers import positive, whole
from scaling.errors import DataError

if TYPE_CHECKING:
    from economics.quantile_draws import Array


@dataclass(frozen=True)
class MeasuredServing:
    """Cost of serving at measured speeds. Made by `measured_serving`; medians with the 10th and 90th percentile.

    Attributes
    ----------
    read_s, write_s : tuple of float
        Seconds of a prompt token and of an output token, one pair for each trial.
    prompt_tokens, output_tokens : float
        Of one request.
    usd_per_hour : float
        Of what ran in the trials.
    busy : Factor
        Share of the time with requests.
    bytes_per_token : float or None
    draws, seed : int
    """

    read_s: tuple[float, ...]
    write_s: tuple[float, ...]
    prompt_tokens: float
    output_tokens: float
    usd_per_hour: float
    busy: Factor
    bytes_per_token: float | None
    draws: int
    seed: int

    @cached_property
    def _draws(self) -> dict[str, Array]:
        """Draw trials, one for both phases, and busy shares; return dollars per million tokens."""
        busy = sample_factor(self.busy, self.seed, 22, self.draws)  # the stream of `inference_cost`
        trial = np.random.default_rng([self.seed, 30]).integers(0, len(self.read_s), self.draws)
        read, write = np.array(self.read_s)[trial], np.array(self.write_s)[trial]
        usd = self.usd_per_hour / 3600.0 / busy * 1e6
        asked = self.prompt_tokens * read + self.output_tokens * write
        both = asked / (self.prompt_tokens + self.output_tokens)
        return {"input": read * usd, "output": write * usd, "all": both * usd}

    @property
    def usd_per_million_tokens(self) -> CostEstimate:
        """$ per million tokens, prompt and output together in the given proportion."""
        return estimate_of(self._draws["all"], "per million tokens", "$")

    @property
    def usd_per_million_input(self) -> CostEstimate:
        """$ per million prompt tokens."""
        return estimate_of(self._draws["input"], "per million prompt tokens", "$")

    @property
    def usd_per_million_output(self) -> CostEstimate:
        """$ per million tokens made."""
        return estimate_of(self._draws["output"], "per million output tokens", "$")

    @property
    def usd_per_mb(self) -> CostEstimate | None:
        """$ per megabyte (1e6 bytes) of text; None where `bytes_per_token` is not given."""
        size = self.bytes_per_token
        return None if size is None else estimate_of(self._draws["all"] / size, "per MB of text", "$")


def measured_serving(
    *,
    read_tokens_per_s: Sequence[float],
    write_tokens_per_s: Sequence[float],
    usd_per_hour: float | str,
    prompt_tokens: float = 1024,
    output_tokens: float = 256,
    bytes_per_token: float | None = None,
    busy: Any = None,
    draws: int = 10_000,
    seed: int = 0,
) -> MeasuredServing:
    """Cost of serving at measured speeds.

    Parameters
    ----------
    read_tokens_per_s, write_tokens_per_s : sequence of float
        Prompt tokens read, and tokens made, per second, over all sequences that are served at once; one number for
        each trial, in the same order.
    usd_per_hour : float or str
        Price of what ran: of a share of a machine, where it runs several such processes.
    prompt_tokens, output_tokens, bytes_per_token, busy, draws, seed
        As in `economics.inference_cost`.

    Raises
    ------
    DataError
        A speed or price is not above zero, or the two have different numbers of trials.

    Examples
    --------
    >>> one = measured_serving(read_tokens_per_s=[1000], write_tokens_per_s=[100], usd_per_hour=3.6, busy=1.0)
    >>> round(one.usd_per_million_input.value, 9), round(one.usd_per_million_output.value, 9)
    (1.0, 10.0)
    >>> round(one.usd_per_million_tokens.value, 9)  # of 1,280 tokens, 256 are made
    2.8
    """
    speeds = {"read_tokens_per_s": read_tokens_per_s, "write_tokens_per_s": write_tokens_per_s}
    seconds = {
        name: tuple(1.0 / positive(name, x, "tokens per second") for x in given)
        for name, given in speeds.items()
    }
    read, write = seconds.values()
    if not read or len(read) != len(write):
        raise DataError(
            f"{len(read)} trials of reading and {len(write)} of writing: give one of each for every trial",
            column="read_tokens_per_s",
        )
    return MeasuredServing(
        read, write, positive("prompt_tokens", prompt_tokens, "tokens of a prompt"),
        positive("output_tokens", output_tokens, "tokens of an answer"),
        positive("usd_per_hour", usd_per_hour, "dollars per hour of what ran"), share("busy", busy, BUSY),
        None if bytes_per_token is None else positive("bytes_per_token", bytes_per_token, "bytes of text in a token"),
        whole("draws", draws, least=100, most=1e7), whole("seed", seed, least=0),
    )  # fmt: skip
