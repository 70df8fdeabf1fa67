"""Tokens per second, of reading a prompt and of writing token by token, as ratios to fp32 within one run.

A machine's speed drifts, and others work on it: one thread is timed by its CPU seconds (`clock_of`), and every round
times all schemes once, in another order each. A ratio is taken within a round; medians over rounds are given with the
10th and 90th percentile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from reference_trainer.data.shards import TokenSet
from reference_trainer.errors import QuantizeError
from reference_trainer.quantized.generate import Cache, read
from reference_trainer.quantized.trained import windows_of
from reference_trainer.train import Decoder

#: Fewer rounds say nothing of a spread.
LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Speed:
    """Tokens per second of one work under one scheme.

    Attributes
    ----------
    tokens_per_s, low, high : float
        Median over rounds, 10th and 90th percentile.
    ratio, ratio_low, ratio_high : float
        To fp32 in the same round.
    rounds : tuple of float
        Tokens per second of each round.
    """

    tokens_per_s: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    rounds: tuple[float, ...]


@dataclass(frozen=True)
class Work:
    """What is timed.

    Attributes
    ----------
    name : str
        ``"prefill"``, or ``"decode-16"``: 16 sequences, one new token of each at a time.
    batch, prompt, output : int
        Sequences; tokens read of each in one go; tokens then made of each.
    """

    name: str
    batch: int
    prompt: int
    output: int


def works(seq_len: int, batches: Sequence[int]) -> tuple[Work, ...]:
    """Return what is timed: reading a full context up to the next token, and writing for each number of sequences.

    Four tokens of prompt to one that is made, which is also the default of `economics.inference_cost`.

    Raises
    ------
    QuantizeError
        A batch is not above zero, or the context is too short to write in.
    """
    made = seq_len // 5
    if made < 1:
        raise QuantizeError(f"a context of {seq_len} tokens is too short to time writing in", column="data")
    if not batches or any(b < 1 for b in batches):
        raise QuantizeError(f"batches must be 1 or more, got {list(batches)}", column="batches")
    decode = (Work(f"decode-{b}", b, 4 * made, made) for b in dict.fromkeys(batches))
    return (Work("prefill", 1, seq_len, 0), *decode)


def speeds_of(
    models: Mapping[str, Decoder], base: str, data: TokenSet, seq_len: int, *, batches: Sequence[int], rounds: int,
    tell: Callable[[int, int], None] | None = None,
) -> dict[str, dict[str, Speed]]:  # fmt: skip
    """Time every model at every work.

    Parameters
    ----------
    models : mapping of name to Decoder
    base : str
        The one that ratios are taken to.
    data : TokenSet
        Where prompts are read.
    seq_len : int
    batches : sequence of int
        Sequences written at once.
    rounds : int
    tell : callable, optional
        Told how many rounds of how many are done.

    Returns
    -------
    dict of name to dict of work to Speed

    Raises
    ------
    QuantizeError
        Too few rounds, more sequences than the memory holds, or see `works`.
    """
    check_rounds(rounds)
    todo, names = works(seq_len, batches), list(models)
    prompts: dict[str, torch.Tensor] = {}
    for w in todo:
        with _fitting(w):
            prompts[w.name] = _prompt(data, seq_len, w)
    rates: dict[tuple[str, str], list[float]] = {(n, w.name): [] for n in names for w in todo}
    for at in range(-1, rounds):  # the first warms up
        for shift in range(len(names)):
            name = names[(at + shift) % len(names)]
            for w in todo:
                with _fitting(w):
                    rate = _timed(models[name], prompts[w.name], w)
                if at >= 0:
                    rates[name, w.name].append(rate)
        if tell is not None and at >= 0:
            tell(at + 1, rounds)
    return {n: {w.name: _speed(rates[n, w.name], rates[base, w.name]) for w in todo} for n in names}


def check_rounds(rounds: int) -> None:
    """Refuse less than `LEAST_ROUNDS`."""
    if rounds < LEAST_ROUNDS:
        raise QuantizeError(f"rounds = {rounds}: a spread takes {LEAST_ROUNDS} at least", column="rounds")


@contextmanager
def _fitting(work: Work) -> Iterator[None]:
    """Say that a batch is too large where the memory does not hold it; on a CPU torch has no error of its own."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error).lower():
            raise
        raise QuantizeError(
            f"batch = {work.batch:,}: so many sequences at once do not fit into memory. Give fewer.",
            column="batch",
        ) from error


def _prompt(data: TokenSet, seq_len: int, work: Work) -> torch.Tensor:
    """Return prompts, (batch, prompt): the windows of the data, again and again where there are too few."""
    have = min(work.batch, (data.tokens - 1) // seq_len)
    tokens = windows_of(data, seq_len, 0, have)[0][:, : work.prompt]
    return tokens.repeat(-(-work.batch // have), 1)[: work.batch]


@torch.inference_mode()
def _timed(model: Decoder, prompt: torch.Tensor, work: Work) -> float:
    """Return tokens per second: of reading where nothing is made, else of making alone."""
    device = model.get_buffer("turn").device
    prompt = prompt.to(device)
    cache = Cache(model, work.batch)
    if not work.output:
        begin = _now(device)
        read(model, prompt, cache, last=True)
        return work.batch * work.prompt / (_now(device) - begin)
    token = read(model, prompt, cache, last=True).argmax(-1)
    begin = _now(device)
    for _ in range(work.output):
        token = read(model, token, cache).argmax(-1)
    return work.batch * work.output / (_now(device) - begin)


def clock_of(device: torch.device) -> str:
    """Say by which clock a device is timed: one thread by its CPU time, which others on the machine do not stretch."""
    return "CPU seconds" if device.type == "cpu" and torch.get_num_threads() == 1 else "seconds"


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.process_time() if clock_of(device) == "CPU seconds" else time.perf_counter()


def _speed(mine: list[float], base: list[float]) -> Speed:
    low, middle, high = (float(x) for x in np.quantile(mine, (0.1, 0.5, 0.9)))
    ratios = np.quantile(np.divide(mine, base), (0.1, 0.5, 0.9))
    return Speed(middle, low, high, float(ratios[1]), float(ratios[0]), float(ratios[2]), tuple(mine))
