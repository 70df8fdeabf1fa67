"""How fast tokens come, beside how fast they are needed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from reference_trainer.data.order import Batches
from reference_trainer.data.shards import TokenSet
from scaling.units import format_count


def reading_rate(tokens: TokenSet, *, seq_len: int, batch_seqs: int, seconds: float = 1.0) -> float:
    """Measure how fast one process reads batches: shards, order and conversion, as training does.

    Parameters
    ----------
    tokens : TokenSet
        The training tokens.
    seq_len, batch_seqs : int
        As in `Batches`.
    seconds : float
        How long to measure, beyond the first batch.

    Returns
    -------
    float
        Tokens per second. Files that were just written come from memory: a cold disk is slower.
    """
    batches = Batches(tokens, seq_len, batch_seqs, seed=0)
    batches(0)
    began, steps = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds or steps == 0:
        steps += 1
        batches(steps)
    return steps * batch_seqs * seq_len / passed


@dataclass(frozen=True)
class Supply:
    """Measured rates beside the need, tokens per second.

    Parameters
    ----------
    reading : float
        Of batches, by `reading_rate`: what training waits for.
    preparing : float or None
        Of the preparation; None where it was made before.
    needed : float or None
        What the accelerators take; None where that was not said.
    """

    reading: float
    preparing: float | None
    needed: float | None

    @property
    def suffices(self) -> bool:
        """Whether training would not wait for its batches."""
        return self.needed is None or self.reading >= self.needed

    def __str__(self) -> str:
        lines = [f"reading    {self._beside(self.reading)}"]
        if self.preparing is not None:
            # Slower than the need is no fault here: shards are made once, before training.
            lines.append(f"preparing  {self._beside(self.preparing)}")
        if self.needed is not None:
            lines.append(f"needed     {format_count(self.needed)} tokens/s")
        return "\n".join(lines)

    def _beside(self, rate: float) -> str:
        text = f"{format_count(rate)} tokens/s"
        return text if self.needed is None else f"{text}, {rate / self.needed:.3g} times what is needed"
