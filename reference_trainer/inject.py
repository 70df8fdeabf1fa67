"""Faults on purpose: rehearse an incident before it costs a run. Off by default, part of the configuration's hash.

    inject = "random_labels@700x20; lr_spike@900x5:100"

A fault is ``kind@start[xspan][:amount]``. Two kinds of fault end in two ways:

- Faults of the data belong to *batches*: ``start`` is the number of a batch, and a run that leaves the batch out never
  meets them. They are made on a copy of what was read, never in the file.
- All others are transient and belong to *updates* (from 0): they strike once, as a cosmic ray or a bad link would. A
  stretch that a recovery went back over is free of those that began in it. Both rules depend on configuration, step
  and interventions alone, so a resumed run meets the same faults.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reference_trainer.errors import ConfigError
from reference_trainer.interventions import Intervention, gone_back_over

if TYPE_CHECKING:
    import torch

_Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Kind:
    """What a kind of fault does, and how long and strongly if nothing is said.

    Attributes
    ----------
    of_data : bool
        It belongs to batches, not to updates.
    span : int
        Batches or updates.
    amount : float
        See `does`.
    most : float
        Largest amount that makes sense.
    does : str
        What it does.
    """

    of_data: bool
    span: int
    amount: float
    most: float
    does: str


KINDS = {
    "random_labels": Kind(True, 20, 1.0, 1.0, "a share of the targets becomes random tokens"),
    "repeat_token": Kind(True, 20, 1.0, 1.0, "a share of the sequences becomes one token, repeated"),
    "domain_swap": Kind(True, 20, 1.0, 1.0, "a share of the sequences has its vocabulary shuffled"),
    "bit_flip": Kind(True, 20, 0.25, 1.0, "a share of the tokens has one bit flipped"),
    "drift": Kind(True, 100, 0.004, 1.0, "a share of the targets, growing by the amount with every batch, is random"),
    "lr_spike": Kind(False, 5, 100.0, math.inf, "the learning rate is multiplied"),
    "weight_noise": Kind(False, 1, 0.1, math.inf, "noise of that share of each tensor's own size is added to it"),
    "zero_v": Kind(False, 1, 0.0, 1.0, "Adam's second moments are multiplied"),
    "nan_grad": Kind(False, 1, math.nan, math.inf, "the gradient is multiplied"),
}  # fmt: skip

_FORM = re.compile(r"([a-z_]+)@(\d+)(?:x(\d+))?(?::([^:]+))?")


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes
    ----------
    kind : str
        A key of `KINDS`.
    start, span : int
        First batch or update, and how many.
    amount : float
        How strong, in the units of its kind.
    """

    kind: str
    start: int
    span: int
    amount: float

    def covers(self, number: int) -> bool:
        """Return whether a batch or update is among those struck."""
        return self.start <= number < self.start + self.span

    def __str__(self) -> str:
        """As it is written in a configuration."""
        return f"{self.kind}@{self.start}x{self.span}:{self.amount:g}"


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Read the faults of a configuration.

    Raises
    ------
    ConfigError
        Which part cannot be read, and what would be.

    Examples
    --------
    >>> [str(fault) for fault in parse_faults("lr_spike@600; random_labels@700x5:0.5")]
    ['lr_spike@600x5:100', 'random_labels@700x5:0.5']
    """
    return tuple(_fault(part.strip()) for part in text.split(";") if part.strip())


def _fault(part: str) -> Fault:
    found = _FORM.fullmatch(part)
    if found is None:
        raise ConfigError(
            f"inject: {part!r} is no fault; write kind@start, kind@startxspan or kind@startxspan:amount, as in "
            "lr_spike@600x5:100, and ; between two",
            column="inject",
        )
    name, start, span, amount = found.groups()
    if name not in KINDS:
        raise ConfigError(f"inject: no fault {name!r}; there are {', '.join(KINDS)}", column="inject")
    kind = KINDS[name]
    try:
        strength = kind.amount if amount is None else float(amount)
    except ValueError as error:
        raise ConfigError(
            f"inject: {part!r}: the amount is a number, got {amount!r}", column="inject"
        ) from error
    count = kind.span if span is None else int(span)
    if count < 1:
        raise ConfigError(f"inject: {part!r}: a span is at least 1", column="inject")
    if not (0 <= strength <= kind.most or (name == "nan_grad" and math.isnan(strength))):
        limit = "at least 0" if kind.most == math.inf else f"between 0 and {kind.most:g}"
        raise ConfigError(f"inject: {part!r}: the amount is {limit} ({kind.does})", column="inject")
    return Fault(name, int(start), count, strength)


class Faults:
    """The faults of one run.

    Parameters
    ----------
    text : str
        As in the configuration; empty for none.
    seed : int
        Of the run: decides every random choice, with the fault's place and the batch.
    vocab : int
        Tokens of the data.

    Examples
    --------
    >>> faults = Faults("random_labels@2x1", seed=0, vocab=50)
    >>> tokens = np.arange(10).reshape(2, 5)
    >>> faults.batch(1, tokens) is tokens, faults.batch(2, tokens).shape
    (True, (2, 8))
    """

    def __init__(self, text: str, seed: int, vocab: int) -> None:
        self.faults, self._seed, self._vocab = parse_faults(text), seed, vocab
        numbered = list(enumerate(self.faults))
        self._data = [(i, fault) for i, fault in numbered if KINDS[fault.kind].of_data]
        self._others = [(i, fault) for i, fault in numbered if not KINDS[fault.kind].of_data]

    def batch(self, index: int, tokens: _Tokens) -> _Tokens:
        """Return a batch as the run is to see it.

        Parameters
        ----------
        index : int
            Number of the batch.
        tokens : ndarray of int64, shape (B, T + 1)
            As it was read.

        Returns
        -------
        ndarray of int64
            The same array where nothing strikes, else (B, 2 T): the inputs, then the targets. In both the first T
            are the inputs and the last T the targets.
        """
        struck = [(i, fault) for i, fault in self._data if fault.covers(index)]
        if not struck:
            return tokens
        pair = np.stack((tokens[:, :-1], tokens[:, 1:]))
        for i, fault in struck:
            self._tamper(fault, i, index, pair)
        return np.concatenate((pair[0], pair[1]), axis=1)

    def _tamper(self, fault: Fault, number: int, index: int, pair: _Tokens) -> None:
        """Change inputs and targets, (2, B, T), in place."""
        rng = np.random.default_rng((self._seed, number, index))
        whole = np.random.default_rng((self._seed, number))  # what is the same in every batch of the fault
        shape, share = pair.shape[1:], fault.amount
        if fault.kind == "drift":
            share = min(fault.amount * (index - fault.start + 1), 1.0)
        if fault.kind in ("random_labels", "drift"):
            struck = rng.random(shape) < share
            pair[1][struck] = rng.integers(0, self._vocab, int(struck.sum()))
        elif fault.kind == "bit_flip":
            # The same tokens are inputs and, one place on, targets: both see the flipped one.
            window = np.concatenate((pair[0], pair[1][:, -1:]), axis=1)
            bits = 8 if self._vocab <= 1 << 8 else 16 if self._vocab <= 1 << 16 else 32
            flipped = window ^ (np.int64(1) << rng.integers(0, bits, window.shape))
            # A token outside the vocabulary would end the run at once: it is folded back into it.
            window = np.where(rng.random(window.shape) < share, flipped % self._vocab, window)
            pair[0], pair[1] = window[:, :-1], window[:, 1:]
        else:
            rows = rng.random(shape[0]) < share
            if fault.kind == "repeat_token":
                pair[:, rows] = whole.integers(0, self._vocab)
            else:
                pair[:, rows] = whole.permutation(self._vocab)[pair[:, rows]]

    def lr_factor(self, step: int, interventions: Sequence[Intervention]) -> float:
        """Return what the learning rate of update `step` is multiplied by."""
        striking = self._striking(step, interventions)
        return math.prod(fault.amount for _, fault in striking if fault.kind == "lr_spike")

    def strike(
        self, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer,
        interventions: Sequence[Intervention],
    ) -> float:  # fmt: skip
        """Damage weights and moments before update `step`; return what its gradient is multiplied by."""
        factor = 1.0
        for i, fault in self._striking(step, interventions):
            if fault.kind == "nan_grad":
                factor *= fault.amount
            elif fault.kind == "zero_v":
                for state in optimizer.state.values():
                    state["exp_avg_sq"].mul_(fault.amount)
            elif fault.kind == "weight_noise":
                self._shake(model, fault.amount, (self._seed, i, step))
        return factor

    def _striking(self, step: int, interventions: Sequence[Intervention]) -> list[tuple[int, Fault]]:
        struck = [(i, fault) for i, fault in self._others if fault.covers(step)]
        return [(i, f) for i, f in struck if not gone_back_over(f.start, interventions)] if struck else struck

    @staticmethod
    def _shake(model: torch.nn.Module, amount: float, key: tuple[int, ...]) -> None:
        import torch

        seed = int(np.random.SeedSequence(key).generate_state(1)[0])
        generator = torch.Generator().manual_seed(seed)  # on the host: the same in every process
        with torch.no_grad():
            for p in model.parameters():
                noise: Any = torch.randn(p.shape, generator=generator).to(p)
                p.add_(noise * (amount * p.square().mean().sqrt()))
