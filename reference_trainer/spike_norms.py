"""The norm tier: what gradient, update, weights and Adam's second moment show before the loss does."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reference_trainer.spike_windows import centre_and_sd, plain, unplain


@dataclass(frozen=True)
class Finding:
    """One signal that left its own range: the parts an alarm is made of."""

    signal: str
    value: float
    baseline: float
    score: float
    says: str


class Ratio:
    """Watches one positive signal against the median of its recent past, in logarithms.

    Parameters
    ----------
    name : str
        What it is called in the evidence.
    factor : float
        It must exceed the median by this factor,
    z : float
        and by so many standard deviations (1.4826 MAD) of its logarithm.
    window, least, refresh : int
        Rows remembered, rows before it judges, rows between two looks at the median.
    """

    NUMBERS = ("rows", "centre", "sd", "high", "raised", "open")

    def __init__(
        self, name: str, factor: float, z: float, window: int = 128, least: int = 32, refresh: int = 16
    ) -> None:
        self.name, self.factor, self.z = name, factor, z
        self.least, self.refresh = least, refresh
        self.logs: deque[float] = deque(maxlen=window)
        self.rows = 0
        self.centre = self.sd = 0.0
        self.high = self.raised = math.inf  # of the value itself: an alarm, and worth remembering
        self.open = False

    def check(self, x: float) -> Finding | None:
        """Judge a value by those before it, then remember it; return a finding when an alarm opens."""
        found = None
        if x > self.high:
            if not self.open:
                self.open = True
                base = math.exp(self.centre)
                found = Finding(
                    self.name,
                    x,
                    base,
                    (math.log(x) - self.centre) / self.sd,
                    f"{self.name} {x:.4g} is {x / base:.3g}x its median {base:.4g} of the last "
                    f"{len(self.logs)} rows",
                )
        elif self.open and x < self.raised:
            self.open = False
        if x > 0:
            self.logs.append(math.log(x))
            self.rows += 1
            if self.rows % self.refresh == 0 and len(self.logs) >= self.least:
                self.centre, sd = centre_and_sd(self.logs)
                self.sd = max(sd, 0.02)
                reach = max(self.z * self.sd, math.log(self.factor))
                # A signal of hundreds of standard deviations would overflow, and is no use.
                self.high = math.exp(min(self.centre + reach, 700.0))
                self.raised = math.exp(min(self.centre + 0.5 * reach, 700.0))
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return its memory as plain types."""
        return {"logs": list(self.logs), **{name: plain(getattr(self, name)) for name in self.NUMBERS}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.logs = deque(state["logs"], maxlen=self.logs.maxlen)
        for name in self.NUMBERS:
            setattr(self, name, unplain(state[name]))


class NormWatch:
    """All signals beside the loss; each is used when it is there.

    Thresholds: update norm over learning rate above 2x its median and gradient norm above 4x, both more than 8
    standard deviations of their logarithm; measured on public logs. Two findings need no statistics: the norm of
    the weights cannot move by more than the norm of the update, and Adam's second moment cannot fall in one step
    to less than beta2 times itself (half of it is asked for here).

    Parameters
    ----------
    z : float
        Standard deviations that a norm must exceed its median by.
    least : int
        Rows before anything is judged.
    """

    def __init__(self, z: float = 8.0, least: int = 32) -> None:
        self.ratios = {
            "grad_norm": Ratio("grad_norm", 4.0, z, least=least),
            "update_norm": Ratio("update_norm", 4.0, z, least=least),
            "update_norm/lr": Ratio("update_norm/lr", 2.0, z, least=least),
            "v_norm": Ratio("v_norm", 4.0, z, least=least),
        }
        self.last: dict[str, float] = {}

    @property
    def open(self) -> bool:
        """Whether a signal is still out of its range."""
        return any(ratio.open for ratio in self.ratios.values())

    @property
    def elevated(self) -> bool:
        """Whether the gradient of the last row was higher than half of an alarm: it may lead the loss."""
        return self.last.get("grad_norm", 0.0) > self.ratios["grad_norm"].raised

    def check(self, step: int, signals: Mapping[str, float]) -> list[Finding]:
        """Judge one row; return what was found new in it."""
        found = []
        row: dict[str, float] = {"step": step}
        get = signals.get
        for name in ("grad_norm", "update_norm", "v_norm", "param_norm", "lr"):
            x = get(name)
            if x is not None and math.isfinite(x):
                row[name] = x = float(x)
                ratio = self.ratios.get(name)
                if ratio is not None and (finding := ratio.check(x)):
                    found.append(finding)
        lr = row.get("lr", 0.0)
        if (
            lr > 0
            and "update_norm" in row
            and (finding := self.ratios["update_norm/lr"].check(row["update_norm"] / lr))
        ):
            found.append(finding)
        if self.last and step == self.last["step"] + 1:
            found += impossible(self.last, row)
        self.last = row
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return its memory as plain types."""
        return {"last": dict(self.last), **{name: ratio.state_dict() for name, ratio in self.ratios.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.last = dict(state["last"])
        for name, ratio in self.ratios.items():
            ratio.load_state_dict(state[name])


def impossible(last: Mapping[str, float], row: Mapping[str, float]) -> list[Finding]:
    """Return what no step of an optimizer can have done between two consecutive rows.

    Parameters
    ----------
    last, row : mapping
        Finite signals after each of the steps.

    Examples
    --------
    >>> before, after = {"param_norm": 50.0}, {"param_norm": 58.0, "update_norm": 0.3}
    >>> impossible(before, after)[0].says
    'the norm of the weights moved from 50 to 58, by 8, in an update of norm 0.3: something else changed them'
    """
    found = []
    old, new, update = last.get("param_norm"), row.get("param_norm"), row.get("update_norm")
    # Logs round to 4-5 digits.
    if old is not None and new is not None and update is not None and old > 0:
        moved = abs(new - old)
        if moved > 1.02 * update + 1e-3 * old:
            found.append(
                Finding(
                    "param_norm",
                    new,
                    old,
                    moved / max(update, 1e-12),
                    f"the norm of the weights moved from {old:.4g} to {new:.4g}, by {moved:.3g}, in an update of "
                    f"norm {update:.3g}: something else changed them",
                )
            )
    old, new = last.get("v_norm"), row.get("v_norm")
    if old is not None and new is not None and new < 0.5 * old:
        found.append(
            Finding(
                "v_norm",
                new,
                old,
                old / max(new, 1e-12),
                f"Adam's second moment fell from {old:.4g} to {new:.4g} in one step, faster than beta2 can let it: "
                "it was reset",
            )
        )
    return found
