"""Streaming spike detector: three tiers over the loss and the norms, bounded memory, exact state.

point : one value far above the last 16, by the scatter of the last 128: log it, it is one strange batch.
shift : the median of the last 8, 16, 64 or 256 values is above the lowest level the run has held.
norm : gradient, update, weights or Adam's second moment left their own range, often before the loss does.

Values that are not finite make a fourth kind of alarm and never enter the memory of the others.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from reference_trainer.errors import DetectorError
from reference_trainer.spike_alarm import Alarm, DetectorSettings, Tier
from reference_trainer.spike_level import SIZES, Level
from reference_trainer.spike_norms import Finding, NormWatch

__all__ = ["Alarm", "Detector", "DetectorSettings", "Tier"]

#: Finite rows that close an alarm about values that were not.
CALM = 16


class Detector:
    """Watches a run step by step, in some 20 microseconds a step and a fixed amount of memory.

    A step that goes back forgets what came after it; a jump ahead empties the medians and keeps the level.

    Parameters
    ----------
    settings : DetectorSettings, optional
        Thresholds.

    Examples
    --------
    >>> detector = Detector()
    >>> for step in range(300):
    ...     loss = 3 + 0.02 * (-1) ** step + (0.5 if step >= 200 else 0.0)
    ...     if alarm := detector.observe(step, {"loss": loss}):
    ...         print(alarm.tier, alarm.step, alarm.first_step)
    point 200 200
    shift 203 200
    >>> detector.open_alarm
    200
    """

    def __init__(self, settings: DetectorSettings | None = None) -> None:
        self.settings = settings or DetectorSettings()
        self._reset()

    def _reset(self) -> None:
        s = self.settings
        self._level = Level(s)
        self._norms = NormWatch(s.norm_z, s.least_rows)
        self._leads: deque[int] = deque(maxlen=s.lead)  # steps whose gradient or loss stood out
        self._open: dict[str, int] = {}  # tier -> first step
        self._shift_rows = self._shift_by = 0  # rows since the open shift was raised, which median raised it
        self._bad = 0  # rows until an alarm about values that were not finite closes
        self._last_step: int | None = None
        self._gap = 1  # steps between two rows

    @property
    def open_alarm(self) -> int | None:
        """First step of the oldest open alarm: checkpoints before it must be kept."""
        return min(self._open.values(), default=None)

    @property
    def open_tiers(self) -> dict[str, int]:
        """Open alarms: tier and first step."""
        return dict(self._open)

    @property
    def level(self) -> float:
        """Lowest level that the loss held, nats/token; infinite before it is known."""
        return self._level.value

    @property
    def noise(self) -> float:
        """Noise of the loss from one row to the next, nats/token."""
        return self._level.sd

    def observe(self, step: int, signals: Mapping[str, float]) -> Alarm | None:
        """Look at one step.

        Parameters
        ----------
        step : int
            Its number. Steps rise; one that does not means that the run went back.
        signals : mapping of str to float
            ``loss`` (nats/token) and any of ``grad_norm``, ``update_norm``, ``param_norm``, ``v_norm``, ``lr``,
            ``finite``; others are left alone.

        Returns
        -------
        Alarm or None
            The gravest alarm that opened at this step.

        Raises
        ------
        DetectorError
            There is no loss.
        """
        loss = signals.get("loss")
        if loss is None:
            raise DetectorError(
                f"step {step}: the detector needs the loss of every step, and got only "
                f"{', '.join(sorted(signals)) or 'nothing'}",
                column="loss",
            )
        loss = float(loss)  # a numpy scalar would be three times as slow, and no plain type in the state
        self._move_to(step)
        findings = self._norms.check(step, signals)
        lr = signals.get("lr")
        if lr is not None and 0 < lr < math.inf:
            self._level.follow_lr(lr, "shift" in self._open)
        broken = self._broken(step, signals)
        if not math.isfinite(loss):
            return broken
        point = self._point(step, loss)
        self._level.take(step, loss, "shift" in self._open)
        shift = self._shift(step)
        norm = self._norm(step, findings)
        return broken or shift or norm or point

    def _broken(self, step: int, signals: Mapping[str, float]) -> Alarm | None:
        """Count what is not finite; the alarm closes after `CALM` finite rows."""
        names = [name for name in USED if not math.isfinite(signals.get(name, 0.0))]
        if signals.get("finite", 1.0) == 0:
            names.append("finite")
        if not names:
            self._bad -= self._bad > 0
            if not self._bad:
                self._open.pop("nonfinite", None)
            return None
        self._bad = CALM
        if "nonfinite" in self._open:
            return None
        first = self._open["nonfinite"] = self._since(step)
        says = tuple(
            "the update was withheld because something in it was not finite"
            if name == "finite"
            else f"{name} is {signals[name]}"
            for name in names
        )
        value = signals[names[0]]
        return Alarm("nonfinite", step, first, names[0], value, self._level.value, math.inf, says)

    def _point(self, step: int, loss: float) -> Alarm | None:
        """Judge one loss by the 128 before it, each less the median of the 16 before it."""
        near, limit = self._level.near, self.settings.point_z
        if not self._level.near_sd:
            return None
        last = self._level.windows[1]
        centre = (last.median() if len(last) else self._level.value) + near.median()
        score = (loss - centre) / self._level.near_sd
        if score <= 0.5 * limit:
            self._open.pop("point", None)
            return None
        self._leads.append(step)
        if score <= limit or "point" in self._open or "shift" in self._open:
            return None
        first = self._open["point"] = self._since(step)
        says = (
            f"loss {loss:.4g} is {score:.1f} standard deviations above {centre:.4g}, the median of the last "
            f"{len(last)}",
        )
        return Alarm("point", step, first, "loss", loss, centre, score, says)

    def _norm(self, step: int, findings: list[Finding]) -> Alarm | None:
        """Make an alarm of what the norms showed."""
        if (findings or self._norms.elevated) and (not self._leads or self._leads[-1] != step):
            self._leads.append(step)
        if not findings:
            if not self._norms.open:
                self._open.pop("norm", None)
            return None
        if "norm" in self._open:
            return None
        first = self._open["norm"] = self._since(step)
        worst = max(findings, key=lambda f: f.score)
        says = tuple(f.says for f in findings)
        return Alarm("norm", step, first, worst.signal, worst.value, worst.baseline, worst.score, says)

    def _shift(self, step: int) -> Alarm | None:
        """Compare the medians with the level."""
        level = self._level
        if "shift" in self._open:
            self._shift_rows += 1
            late = self._shift_rows >= self.settings.accept_after
            if late or self._is_back():
                del self._open["shift"]
                level.start_again()
                if late:
                    level.forget_lows()
            return None
        bases, allowed = level.bases, level.allowed
        for i, window in enumerate(level.windows):
            if len(window) == window.size and window.median() - bases[i] > allowed[i]:
                return self._raise_shift(step, i)
        return None

    def _is_back(self) -> bool:
        """Whether the median that raised the alarm, and those over 8 and 16 rows, are halfway down again."""
        level = self._level
        return all(
            window.median() - level.bases[i] <= 0.5 * level.allowed[i]
            for i, window in enumerate(level.windows[: max(self._shift_by, 1) + 1])
        )

    def _raise_shift(self, step: int, i: int) -> Alarm:
        level = self._level
        value, allowed, size = level.windows[i].median(), level.allowed[i], SIZES[i]
        base = level.bases[i]
        rise = value - base
        first = self._open["shift"] = self._since(level.onset(4 * size, base, 0.5 * allowed))
        self._shift_rows, self._shift_by = 0, i
        self._open.pop("point", None)
        says = (
            f"the median of the last {size} losses, {value:.4g}, is {rise:.3g} above the lowest level "
            f"{base:.4g}, where {allowed:.2g} is allowed",
            f"the noise from row to row is {level.sd:.2g}; the rise began at step {first}",
        )
        score = self.settings.shift_z[i] * rise / allowed
        return Alarm("shift", step, first, "loss", value, base, score, says)

    def _move_to(self, step: int) -> None:
        """Follow steps that go back or jump ahead."""
        last, self._last_step = self._last_step, step
        if last is None:
            return
        if step <= last:
            if self._level.rewind(step, self._open.get("shift", step) < step):
                self._open = {tier: first for tier, first in self._open.items() if first < step}
                self._leads = deque((s for s in self._leads if s < step), maxlen=self._leads.maxlen)
            else:
                self._reset()
                self._last_step = step
            return
        if step - last > 16 * self._gap:
            self._level.jumped()
        self._gap = step - last

    def _since(self, step: int) -> int:
        """Return the first of the steps that stood out, one after the other, right before this one."""
        reach = 4 * self._gap
        for lead in reversed(self._leads):
            if lead < step - reach:
                break
            step = min(step, lead)
        return step

    def state_dict(self) -> dict[str, Any]:
        """Return what a restart needs, as plain types that JSON keeps exactly."""
        return {
            "level": self._level.state_dict(),
            "norms": self._norms.state_dict(),
            "leads": list(self._leads),
            "open": dict(self._open),
            **{name: getattr(self, "_" + name) for name in COUNTERS},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`: the answers are those of a detector that never stopped.

        Raises
        ------
        DetectorError
            The state misses a part: another version wrote it.
        """
        self._reset()
        try:
            self._level.load_state_dict(state["level"])
            self._norms.load_state_dict(state["norms"])
            self._leads.extend(state["leads"])
            self._open = dict(state["open"])
            for name in COUNTERS:
                setattr(self, "_" + name, state[name])
        except KeyError as error:
            self._reset()
            raise DetectorError(
                f"the detector's state has no {error}: another version wrote it; begin with a fresh Detector, "
                "which watches again after its first rows",
                column=str(error.args[0]),
            ) from error


USED = ("loss", "grad_norm", "update_norm", "param_norm", "v_norm")
COUNTERS = ("shift_rows", "shift_by", "bad", "last_step", "gap")
