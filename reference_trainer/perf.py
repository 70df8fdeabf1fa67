"""The pace of a run: tokens a second, MFU, waiting, dollars, goodput, what is left, and when it drops."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import Any

#: Readings that a drop is judged against, how many there must be, and the share of their median that is one.
WINDOW, _LEAST, DROP = 20, 5, 0.7


class Perf:
    """Measure from one reading to the next, with evaluations and saves taken out of the pace.

    Call `begin`, wrap waiting for data in `waiting` and all that is no training in `aside`, and `read` right
    after the ring was read: that sync is what makes the clock of the host tell the truth about the device.

    Parameters
    ----------
    step_tokens : int
        Tokens of a step, over all processes.
    flops_per_token : mapping of str to float
        Convention -> FLOPs of one token, forward and backward (``"6N"``, ``"palm"``; `scaling.flops`).
    peak_flops : float, optional
        Dense FLOP/s of all devices together. Without it no MFU is given.
    usd_per_hour : float
        Price of the whole machine.
    machine : callable, optional
        Returns facts about the device at each reading (`reference_trainer.nvml.gpu_reader`).
    clock : callable
        Seconds that never run back; tests inject one.

    Attributes
    ----------
    alarm : str or None
        Set by the reading at which tokens/s fell below 0.7 of the median of the 20 before it; once for
        each drop.

    Examples
    --------
    >>> now = [0.0]
    >>> perf = Perf(step_tokens=1000, flops_per_token={"6N": 6e6}, peak_flops=1e11, clock=lambda: now[0])
    >>> perf.begin(0)
    >>> now[0] = 2.0
    >>> row = perf.read(step=10, total=100)
    >>> row["tokens_per_s"], row["mfu_6N"], row["eta_s"]
    (5000.0, 0.3, 18.0)
    """

    def __init__(
        self,
        *,
        step_tokens: int,
        flops_per_token: Mapping[str, float],
        peak_flops: float | None = None,
        usd_per_hour: float = 0.0,
        machine: Callable[[], Mapping[str, float]] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._step_tokens, self._usd_per_hour, self._clock = step_tokens, usd_per_hour, clock
        self._mfu = (
            {f"mfu_{name}": f / peak_flops for name, f in flops_per_token.items()} if peak_flops else {}
        )
        self._machine = machine or dict
        self.alarm: str | None = None
        self._useful_before = self._wall_before = 0.0  # seconds, up to the last reading; of earlier sessions
        self._began = self._mark = clock()
        self._step = 0
        self._waited = self._aside = 0.0
        self._rates: deque[float] = deque(maxlen=WINDOW)
        self._step_s: deque[float] = deque(maxlen=WINDOW)
        self._low = False
        self._trained_here = self._wall_here = 0.0  # of this session after its first reading, for the ETA

    def begin(self, step: int) -> None:
        """Start the clock at a step: of a session, or after going back to an earlier step."""
        self._step, self._mark = step, self._clock()
        self._waited = self._aside = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time spent in here is waiting for data: part of the step, and reported."""
        begin = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - begin

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Time spent in here is no training: evaluation, saving. It does not lower tokens/s, only goodput."""
        begin = self._clock()
        try:
            yield
        finally:
            self._aside += self._clock() - begin

    @property
    def wall_s(self) -> float:
        """Seconds the run has been up, over all sessions."""
        return self._wall_before + self._clock() - self._began

    def read(self, step: int, *, total: float | None = None, usd: float | None = None) -> dict[str, float]:
        """Return the numbers since the last reading.

        Parameters
        ----------
        step : int
            Steps done by now.
        total : float, optional
            Steps of the whole run; without it, or if it is infinite, there is no ETA.
        usd : float, optional
            Dollars spent so far, from whoever keeps the bill; else price times hours.

        Returns
        -------
        dict of str to float
            ``tokens_per_s``, ``step_ms`` and ``data_wait_ms`` (means of a step), ``mfu_*`` by convention,
            ``wall_s`` (all sessions), ``usd``, ``goodput`` (share of that wall time spent in steps that count:
            not those lost with a killed process, not evaluation and saving), ``eta_s`` and ``usd_projected`` at
            the median pace of the last 20 readings, and what the machine says of itself. A number that cannot be
            known yet is left out.
        """
        now = self._clock()
        steps, wall, trained = step - self._step, now - self._mark, self._training_s(now)
        out: dict[str, float] = {}
        self.alarm = None
        if steps > 0 and trained > 0:
            rate = steps * self._step_tokens / trained
            out = {"tokens_per_s": rate, "step_ms": 1e3 * trained / steps}
            out["data_wait_ms"] = 1e3 * self._waited / steps
            out |= {name: rate * each for name, each in self._mfu.items()}
            self._judge(step, rate)
            if self._step_s:  # the first reading of a session pays for compilation
                self._trained_here, self._wall_here = self._trained_here + trained, self._wall_here + wall
            self._step_s.append(trained / steps)
        self._useful_before += trained
        self.begin(step)
        spent = self._usd_per_hour * self.wall_s / 3600.0 if usd is None else usd
        out |= {"wall_s": self.wall_s, "usd": spent}
        if self.wall_s > 0:
            out["goodput"] = self._useful_before / self.wall_s
        if total is not None and total < float("inf") and self._step_s:
            share = self._trained_here / self._wall_here if self._wall_here else 1.0
            out["eta_s"] = max(total - step, 0.0) * median(self._step_s) / share
            out["usd_projected"] = spent + self._usd_per_hour * out["eta_s"] / 3600.0
        return out | dict(self._machine())

    def state_dict(self) -> dict[str, Any]:
        """Return what the next session counts on from, with the steps up to now taken for done."""
        return {"useful_s": self._useful_before + self._training_s(self._clock()), "wall_s": self.wall_s}

    def load_state_dict(self, state: Mapping[str, Any], *, wall_s: float = 0.0) -> None:
        """Go on from a checkpoint; what was trained after it does not count any more, its time does.

        Parameters
        ----------
        state : mapping
            From `state_dict`, of the checkpoint that is resumed or gone back to.
        wall_s : float
            The last ``wall_s`` in the log of times, where the process died after the checkpoint.
        """
        self._useful_before = float(state["useful_s"])
        self._wall_before += max(float(state["wall_s"]), wall_s, self.wall_s) - self.wall_s
        self.begin(self._step)

    def _training_s(self, now: float) -> float:
        return max(now - self._mark - self._aside, 0.0)

    def _judge(self, step: int, rate: float) -> None:
        usual = median(self._rates) if len(self._rates) >= _LEAST else 0.0
        low = rate < DROP * usual
        if low and not self._low:
            self.alarm = (
                f"step {step}: {rate:,.0f} tokens/s, {rate / usual:.0%} of the {usual:,.0f} usual here: look at "
                "the clock, temperature and power of the device, the wait for data, and who else is on the machine"
            )
        self._low = low
        self._rates.append(rate)
