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
#: Standard errors by which the lowest of many medians over 16, 64 and 256 rows is low by chance.
CHANCE = (3.0, 2.0, 0.0)
#: Rows between two looks at the noise.
REFRESH = 16
#: Rows of (step, loss) kept to date an onset and to follow a run that goes back.
KEPT = 512


class Level:
    """Level and noise of a loss that should fall.

    A healthy loss falls, so that every level it held before bounds the present one from above; the lowest median
    within the horizon is therefore the reference, and a loss that falls fast is never an anomaly. The median of 256
    rows gives it, and where the loss falls too fast for that, those of 64 and 16, raised by what their minimum is low
    by chance. What a median may exceed it by is measured at the median's own length: `Blocks` sees slow waves in the
    data that white noise would not have.

    Parameters
    ----------
    settings : DetectorSettings
        Thresholds.

    Attributes
    ----------
    bases : list of float
        Lowest level that a median over each of `SIZES` rows is compared with, nats/token, infinite before it is
        known: that of medians as long or longer, since a long median lags behind a fall.
    sd : float
        Noise from one row to the next, nats/token.
    allowed : list of float
        What the medians over `SIZES` rows may rise by, nats/token.
    rows : int
        Rows that went into it.
    """

    NUMBERS = ("sd", "near_sd", "last_lr", "low_lr", "rows", "lr_jump", "warm_until")

    def __init__(self, settings: DetectorSettings) -> None:
        self.settings = settings
        self.windows = [Window(size) for size in SIZES]
        self.near = Window(128)  # of losses less the median of the 16 before them
        self.blocks = [Blocks(16, 160), Blocks(64), Blocks(256)]
        self.lows = [Lowest(settings.horizon) for _ in SIZES[1:]]
        self.recent: deque[tuple[int, float]] = deque(maxlen=KEPT)
        self.bases = [math.inf] * len(SIZES)
        self.sd = self.near_sd = 0.0
        self.allowed = [math.inf] * len(SIZES)
        self.margins = [math.inf] * len(SIZES[1:])
        self.last_lr = self.low_lr = math.inf
        # Rows: seen, of the last sudden rise of the learning rate, and until which it counts as climbing.
        self.rows, self.lr_jump, self.warm_until = 0, -SIZES[-1], 0

    @property
    def value(self) -> float:
        """Lowest level of all, nats/token; infinite before it is known."""
        return self.bases[0]

    def take(self, step: int, loss: float, frozen: bool) -> None:
        """Remember a finite loss; `frozen` leaves level and noise what they were before an alarm."""
        self.recent.append((step, loss))
        windows = self.windows
        if len(windows[1]):
            self.near.push(loss - windows[1].median())
        for window in windows:
            window.push(loss)
        if frozen:
            return
        self.rows += 1
        rows = self.rows
        # Few rows after a break would give a level that is low by chance; at the start there is nothing better.
        least = 128 if rows >= SIZES[-1] else self.settings.least_rows
        if len(windows[3]) >= least:
            value, middle = math.inf, windows[2].median()
            for i in (3, 2, 1):
                window = windows[i]
                if len(window) >= min(window.size, least):
                    low = self.lows[i - 1].push(window.median()) + self.margins[i - 1]
                    if i == 1:  # a few trivial batches pull 16 rows down, and no level
                        fall = 0.5 * max(windows[3].median() - middle, 0.0)
                        low = max(low, min(value, middle) - fall)
                    value = min(value, low)
                    self.bases[i] = value
            self.bases[0] = value
        if rows % REFRESH == 0:
            self._refresh(rows)

    def forget_lows(self) -> None:
        """Learn the level again from the rows to come."""
        for lowest in self.lows:
            lowest.restart()

    def _refresh(self, rows: int) -> None:
        """Measure the noise again, at every scale."""
        for window, blocks in zip(self.windows[1:], self.blocks, strict=True):
            if rows % window.size == 0 and len(window) == window.size:
                m = window.median()
                blocks.add(m, m - self.bases[SIZES.index(blocks.size)])
        long, s = self.windows[3], self.settings
        if len(long) < s.least_rows:
            return
        centre = long.median()
        # Losses may be printed with few digits.
        self.near_sd = max(centre_and_sd(self.near.queue)[1], 1e-3 * abs(centre), 1e-9)
        self.sd = max(jitter(long.queue), 1e-4 * abs(centre), 1e-9)
        climbing = rows < self.warm_until
        wider = (1.5 if rows < SIZES[-1] else 1.0) * (2.0 if climbing else 1.0)
        # A median of losses printed with few digits moves by a whole last digit at a time.
        floor = (s.least_rise + (0.05 if climbing else 0.0)) * abs(self.bases[0]) + 2.5 * grain(long.ranks)
        # Autocorrelated noise differs little from row to row: the blocks of 16 bound the median of 8 as well.
        spread = max(MEDIAN_SE * self.sd / SIZES[0] ** 0.5, 1.3 * self.blocks[0].scatter())
        for i, size in enumerate(SIZES):
            if i:
                # A longer median is calmer by the square root of its length, unless slow waves say otherwise.
                spread = max(spread * (SIZES[i - 1] / size) ** 0.5, self.blocks[i - 1].scatter())
            if i:
                self.margins[i - 1] = CHANCE[i - 1] * spread
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
                self.forget_lows()
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
        for window in self.windows:
            window.fill(losses)
        if not frozen:
            self.forget_lows()  # they may have learned from the steps that are gone
        return True

    def onset(self, rows: int, base: float, allowance: float) -> int:
        """Return the step from which losses stayed above the level: where their summed excess was lowest."""
        recent = list(self.recent)[-rows:]
        total, lowest, first = 0.0, 0.0, recent[0][0]
        cap = max(8.0 * self.sd, 4.0 * allowance)
        for (_, x), (after, _) in pairwise(recent):
            total += min(x - base - allowance, cap)
            if total <= lowest:
                lowest, first = total, after
        return first

    def state_dict(self) -> dict[str, Any]:
        """Return its memory as plain types."""
        return {
            **{name: plain(getattr(self, name)) for name in self.NUMBERS},
            "windows": [list(window.queue) for window in (*self.windows, self.near)],
            "blocks": [[list(blocks.medians), list(blocks.above)] for blocks in self.blocks],
            "lows": [[low.seen, [list(c) for c in low.candidates]] for low in self.lows],
            "recent": [list(row) for row in self.recent],
            "allowed": [plain(x) for x in self.allowed],
            "bases": [plain(x) for x in self.bases],
            "margins": [plain(x) for x in self.margins],
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
        for low, (seen, candidates) in zip(self.lows, state["lows"], strict=True):
            low.seen, low.candidates = seen, deque((int(i), x) for i, x in candidates)
        self.recent = deque(((int(s), x) for s, x in state["recent"]), maxlen=KEPT)
        self.allowed = [unplain(x) for x in state["allowed"]]
        self.bases = [unplain(x) for x in state["bases"]]
        self.margins = [unplain(x) for x in state["margins"]]
