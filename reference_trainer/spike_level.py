"""What the detector remembers of a loss: its medians, its noise at every scale, and the lowest level it held."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from reference_trainer.spike_alarm import DetectorSettings
from reference_trainer.spike_windows import (
    MEDIAN_SE,
    Blocks,
    Lowest,
    Window,
    centre_and_sd,
    grain,
    jitter,
    plain,
    unplain,
)

#: Rows of the medians that are compared with the level.
SIZES = (8, 16, 64, 256)
#: Rows between two looks at the noise.
REFRESH = 16
#: Rows of (step, loss) kept to date an onset and to follow a run that goes back.
KEPT = 512


class Level:
    """Level and noise of a loss that should fall.

    A healthy loss falls, so that every level it held before bounds the present one from above; the lowest median of
    256 rows within the horizon is therefore the reference, and a loss that falls fast is never an anomaly. What a
    median may exceed it by is measured at the median's own length: `Blocks` sees slow waves in the data that white
    noise would not have.

    Parameters
    ----------
    settings : DetectorSettings
        Thresholds.

    Attributes
    ----------
    value : float
        Lowest level, nats/token; infinite before it is known.
    sd : float
        Noise from one row to the next, nats/token.
    allowed : list of float
        What the medians over `SIZES` rows may rise by, nats/token.
    rows : int
        Rows that went into it.
    """

    NUMBERS = ("value", "sd", "near_sd", "last_lr", "low_lr", "rows", "lr_jump", "warm_until")

    def __init__(self, settings: DetectorSettings) -> None:
        self.settings = settings
        self.windows = [Window(size) for size in SIZES]
        self.near = Window(128)
        self.blocks = [Blocks(16, 160), Blocks(64), Blocks(256)]
        self.lowest = Lowest(settings.horizon)
        self.recent: deque[tuple[int, float]] = deque(maxlen=KEPT)
        self.value = math.inf
        self.sd = self.near_sd = 0.0
        self.allowed = [math.inf] * len(SIZES)
        self.last_lr = self.low_lr = math.inf
        # Rows: seen, of the last sudden rise of the learning rate, and until which it counts as climbing.
        self.rows, self.lr_jump, self.warm_until = 0, -SIZES[-1], 0

    def take(self, step: int, loss: float, frozen: bool) -> None:
        """Remember a finite loss; `frozen` leaves level and noise what they were before an alarm."""
        self.near.push(loss)
        self.recent.append((step, loss))
        for window in self.windows:
            window.push(loss)
        if frozen:
            return
        self.rows += 1
        rows, long = self.rows, self.windows[3]
        # Few rows after a break would give a level that is low by chance; at the start there is nothing better.
        if len(long) >= (128 if rows >= SIZES[-1] else self.settings.least_rows):
            self.value = self.lowest.push(long.median())
        if rows % REFRESH == 0:
            self._refresh(rows)

    def _refresh(self, rows: int) -> None:
        """Measure the noise again, at every scale."""
        for window, blocks in zip(self.windows[1:], self.blocks, strict=True):
            if rows % window.size == 0 and len(window) == window.size:
                m = window.median()
                blocks.add(m, m - self.value)
        long, s = self.windows[3], self.settings
        centre, sd = centre_and_sd(self.near.queue)
        self.near_sd = max(sd, 1e-3 * abs(centre), 1e-9)  # losses may be printed with few digits
        if len(long) < s.least_rows:
            return
        self.sd = max(jitter(long.queue), 1e-4 * abs(centre), 1e-9)
        climbing = rows < self.warm_until
        wider = (1.5 if rows < SIZES[-1] else 1.0) * (2.0 if climbing else 1.0)
        # A median of losses printed with few digits moves by a whole last digit at a time.
        floor = (s.least_rise + (0.05 if climbing else 0.0)) * abs(self.value) + 2.5 * grain(self.near.ranks)
        # Autocorrelated noise differs little from row to row: the blocks of 16 bound the median of 8 as well.
        spread = max(MEDIAN_SE * self.sd / SIZES[0] ** 0.5, 1.3 * self.blocks[0].scatter())
        for i, size in enumerate(SIZES):
            if i:
                # A longer median is calmer by the square root of its length, unless slow waves say otherwise.
                spread = max(spread * (SIZES[i - 1] / size) ** 0.5, self.blocks[i - 1].scatter())
            self.allowed[i] = max(wider * s.shift_z[i] * spread, floor)
            if i:
                # What this log did before, unharmed, is no alarm.
                self.allowed[i] = max(self.allowed[i], s.habit * self.blocks[i - 1].highest())

    def follow_lr(self, lr: float, frozen: bool) -> None:
        """Forget levels of a lower learning rate when it climbs: warm-up and re-warming lift the loss."""
        if lr > 1.5 * self.last_lr and self.rows >= self.settings.least_rows:
            self.lr_jump = self.rows  # no schedule climbs like this: the level stays
        self.last_lr = lr
        if lr > 1.25 * self.low_lr:
            if self.rows - self.lr_jump > SIZES[-1] and not frozen:
                self.lowest.restart()
                self.warm_until = self.rows + SIZES[-1]
                self.low_lr = lr
        elif lr < self.low_lr:
            self.low_lr = lr

    def jumped(self) -> None:
        """Empty the medians: the log left out steps. The level still bounds what comes."""
        for window in self.windows:
            window.fill(())

    def start_again(self) -> None:
        """Fill the long medians with the last rows alone: they still held what an alarm was about."""
        after = [x for _, x in self.recent][-REFRESH:]
        for window in self.windows[2:]:
            window.fill(after)

    def rewind(self, step: int, frozen: bool) -> bool:
        """Forget `step` and what came after it; False when too little is left."""
        kept = [(s, x) for s, x in self.recent if s < step]
        if len(kept) < self.settings.least_rows:
            return False
        self.recent = deque(kept, maxlen=KEPT)
        losses = [x for _, x in kept]
        for window in (*self.windows, self.near):
            window.fill(losses)
        if not frozen:
            self.lowest.restart()  # it may have learned from the steps that are gone
        return True

    def onset(self, rows: int, allowance: float) -> int:
        """Return the step from which losses stayed above the level: where their summed excess was lowest."""
        recent = list(self.recent)[-rows:]
        total, lowest, first = 0.0, 0.0, recent[0][0]
        cap = max(8.0 * self.sd, 4.0 * allowance)
        for (_, x), (after, _) in pairwise(recent):
            total += min(x - self.value - allowance, cap)
            if total <= lowest:
                lowest, first = total, after
        return first

    def state_dict(self) -> dict[str, Any]:
        """Return its memory as plain types."""
        return {
            **{name: plain(getattr(self, name)) for name in self.NUMBERS},
            "windows": [list(window.queue) for window in (*self.windows, self.near)],
            "blocks": [[list(blocks.medians), list(blocks.above)] for blocks in self.blocks],
            "lowest": [self.lowest.seen, [list(c) for c in self.lowest.candidates]],
            "recent": [list(row) for row in self.recent],
            "allowed": [plain(x) for x in self.allowed],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        for name in self.NUMBERS:
            setattr(self, name, unplain(state[name]))
        for window, values in zip((*self.windows, self.near), state["windows"], strict=True):
            window.fill(values)
        for blocks, (medians, above) in zip(self.blocks, state["blocks"], strict=True):
            blocks.medians = deque(medians, maxlen=blocks.medians.maxlen)
            blocks.above = deque(above, maxlen=blocks.above.maxlen)
        self.lowest.seen = state["lowest"][0]
        self.lowest.candidates = deque((int(i), x) for i, x in state["lowest"][1])
        self.recent = deque(((int(s), x) for s, x in state["recent"]), maxlen=KEPT)
        self.allowed = [unplain(x) for x in state["allowed"]]
