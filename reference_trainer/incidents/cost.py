"""What a spike cost: steps that were made for nothing, as dollars, each factor with where it comes from.

dollars = steps x tokens/step / (tokens/s) / 3600 x $/h, and the restart: its hours x $/h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from economics.billing import amount
from economics.run_estimates import dollars
from reference_trainer.guide.feature import Feature
from reference_trainer.training_log import TrainingLog


@dataclass(frozen=True)
class Given:
    """What the caller knows about the money and the pace; None is what is left to the log.

    Parameters
    ----------
    step_tokens, tokens_per_s : float, optional
    usd_per_hour : float, optional
        Price of all devices together.
    restart_s : float, optional
        Seconds that a restart took, with the machines paid for.

    Raises
    ------
    DataError
        One of them is no finite number, is negative, or is 0 where that makes no sense.
    """

    step_tokens: float | None = None
    tokens_per_s: float | None = None
    usd_per_hour: float | None = None
    restart_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what would make a cost of nothing."""
        for name, value in vars(self).items():
            if value is not None:
                amount(name, value, positive=name in ("step_tokens", "tokens_per_s"))


@dataclass(frozen=True)
class Factor:
    """One factor: its value, None if it is not known, and where it comes from."""

    name: str
    value: float | None
    unit: str
    source: str


@dataclass(frozen=True)
class Cost:
    """The cost of an incident.

    Parameters
    ----------
    factors : tuple of Factor
        Steps, tokens a step, tokens/s, dollars an hour, seconds of the restart.
    hours : float or None
        Of the steps.
    usd : float or None
        Of the steps and, where it is known, the restart; None where a factor of the steps is not known.
    restart_usd : float or None
        Of the restart alone.
    at_least : bool
        The loss was not back when the log ended, or the restart is not in it.
    text : str
        The sum, written out.
    """

    factors: tuple[Factor, ...]
    hours: float | None
    usd: float | None
    restart_usd: float | None
    at_least: bool
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the cost as plain types."""
        text = None if self.usd is None else _money(self.usd)
        return {**vars(self), "usd_text": text, "factors": [vars(factor) for factor in self.factors]}


def _money(usd: float) -> str:
    """Write dollars; less than a cent, as small runs cost, is not nothing."""
    return f"${usd:.2g}" if 0.0 < usd < 0.01 else dollars(usd)


def cost_of(log: TrainingLog, spike: Any, restarts: list[Feature], given: Given) -> Cost:
    """Add up what a spike cost.

    Where the run went back, the steps that it had to make again are lost; else those from the first evidence until the
    loss was back, which taught the model nothing that stayed.

    Parameters
    ----------
    log : TrainingLog
    spike : reference_trainer.spike_events.Spike
    restarts : list of Feature
        Restarts of the log.
    given : Given
        What the caller knows; it goes before what the log says.
    """
    back = _restart_after(log, spike, restarts)
    steps, open_end = _steps(spike, back, _last_step(log, spike))
    tokens = _step_tokens(log, spike, given)
    pace = _pace(log, spike, tokens.value, given)
    price = Factor("price", given.usd_per_hour, "$/h", "given")
    if price.value is None:
        known = log.facts.get("usd_per_hour")
        price = Factor(
            "price", known, "$/h", "the run's configuration" if known else "unknown: give usd_per_hour"
        )
    restart = _restart_time(log, spike, back, given)
    hours = usd = restart_usd = None
    if None not in (steps.value, tokens.value, pace.value) and pace.value:
        hours = float(steps.value or 0.0) * float(tokens.value or 0.0) / pace.value / 3600.0
        usd = None if price.value is None else hours * price.value
    if restart.value is not None and price.value is not None:
        restart_usd = restart.value / 3600.0 * price.value
    at_least = open_end or (back is not None and restart.value is None)
    factors = (steps, tokens, pace, price, restart)
    total = None if usd is None else usd + (restart_usd or 0.0)
    return Cost(factors, hours, total, restart_usd, at_least, _text(factors, total, restart_usd, at_least))


def _restart_after(log: TrainingLog, spike: Any, restarts: list[Feature]) -> Feature | None:
    """Return the restart that ended the spike: the run went back from within it to before or into it."""
    if not spike.shape.went_back:
        return None
    for feature in restarts:
        if (
            feature.kind == "restart"
            and feature.numbers["from"] >= spike.first_step
            and (feature.numbers["to"] <= max(spike.peak_step, spike.first_step))
        ):
            return feature
    return None


def _last_step(log: TrainingLog, spike: Any) -> float:
    """Return the last step of the attempt that a spike belongs to; other pieces of an excerpt are no part of it."""
    step = log.history()["step"]
    if spike.shape.short:
        return float(step[spike.shape.last_row - 1])
    step = step[spike.row :]
    back = np.flatnonzero(np.diff(step) <= 0)
    return float(step[back[0]] if len(back) else step[-1])


def _steps(spike: Any, back: Feature | None, last: float) -> tuple[Factor, bool]:
    if back is not None:
        lost = float(back.numbers["lost"])
        here, there = (f"step {back.numbers[key]:,.0f}" for key in ("from", "to"))
        source = f"the run went back from {here} to {there} ({back.where})"
        return Factor("steps", lost, "steps", source), False
    if spike.end_step is not None:
        lost = float(max(spike.end_step - spike.first_step, 1))
        return Factor("steps", lost, "steps", "from the first evidence until the loss was back"), False
    lost = float(max(last - spike.first_step + 1, 1))
    end = "this attempt" if spike.shape.went_back or spike.shape.short else "the log"
    source = f"from the first evidence to the end of {end}: the loss was not back"
    return Factor("steps", lost, "steps", source), True


def _step_tokens(log: TrainingLog, spike: Any, given: Given) -> Factor:
    if given.step_tokens is not None:
        return Factor("tokens a step", given.step_tokens, "tokens", "given")
    if log.step_tokens is not None:
        return Factor("tokens a step", log.step_tokens, "tokens", "the log or its configuration")
    batch = log.batch()
    if batch is not None and len(batch):
        at = int(np.argmin(np.abs(batch.step - spike.first_step)))
        return Factor(
            "tokens a step", float(batch.value[at]), "tokens", f"the log at step {batch.step[at]:,.0f}"
        )
    return Factor("tokens a step", None, "tokens", "unknown: give step_tokens")


def _pace(log: TrainingLog, spike: Any, step_tokens: float | None, given: Given) -> Factor:
    if given.tokens_per_s is not None:
        return Factor("tokens a second", given.tokens_per_s, "tokens/s", "given")
    near = f"the log's median near step {spike.first_step:,}"
    if (value := _near(log, "tokens_per_s", spike)) is not None:
        return Factor("tokens a second", value, "tokens/s", near)
    seconds = _near(log, "step_s", spike)
    if seconds and step_tokens:
        return Factor(
            "tokens a second",
            step_tokens / seconds,
            "tokens/s",
            f"tokens a step over {near} of seconds a step",
        )
    return Factor("tokens a second", None, "tokens/s", "unknown: give tokens_per_s")


def _near(log: TrainingLog, name: str, spike: Any) -> float | None:
    series = log.series(name)
    if series is None:
        return None
    good = np.isfinite(series.value)
    step, value = series.step[good], series.value[good]
    if len(step) == 0:
        return None
    nearest = np.argsort(np.abs(step - spike.first_step), kind="stable")[:21]
    return float(np.median(value[nearest]))


def _restart_time(log: TrainingLog, spike: Any, back: Feature | None, given: Given) -> Factor:
    if given.restart_s is not None:
        return Factor("restart", given.restart_s, "s", "given")
    if back is None and spike.shape.went_back:
        return Factor("restart", None, "s", "unknown: give restart_s")
    if back is None:
        return Factor("restart", 0.0, "s", "the run did not go back")
    pause = back.numbers.get("pause_s")
    if pause is not None:
        return Factor("restart", float(pause), "s", f"the time between the rows of {back.where}")
    if (seconds := _clock(log, back)) is not None:
        return Factor("restart", seconds, "s", "the clock of perf.jsonl, less the steps made meanwhile")
    return Factor("restart", None, "s", "unknown: give restart_s")


def _clock(log: TrainingLog, back: Feature) -> float | None:
    """Return the seconds between the last reading of the clock before a run went back and the first after it.

    The usual seconds of the steps that were made in between are taken off.
    """
    rows = log.side.get("pace")
    if rows is None or not rows.has("wall_s") or not rows.has("step_s"):
        return None
    step, wall = rows.columns["step"], rows.columns["wall_s"]
    for i in (np.flatnonzero(np.diff(step) <= 0) + 1).tolist():
        made = (back.numbers["from"] - step[i - 1]) + (step[i] - back.numbers["to"] + 1)
        if back.numbers["to"] <= step[i] and step[i - 1] <= back.numbers["from"] and made >= 0:
            usual = float(np.nanmedian(rows.columns["step_s"]))
            return max(float(wall[i] - wall[i - 1]) - float(made) * usual, 0.0)
    return None


def _text(factors: tuple[Factor, ...], usd: float | None, restart_usd: float | None, at_least: bool) -> str:
    steps, tokens, pace, price, restart = factors
    if usd is None:
        missing = [factor.name for factor in (steps, tokens, pace, price) if factor.value is None]
        return f"unknown: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not known"
    text = f"{steps.value:,.0f} steps x {tokens.value:,.0f} tokens / {pace.value:,.0f} tokens/s / 3600"
    text += f" x ${price.value:,.2f}/h"
    if restart_usd is None:
        text += " (the restart is not in it)"
    elif restart.value:
        text += f" + {restart.value:,.3g} s of restart / 3600 x ${price.value:,.2f}/h"
    return f"{text} = {'at least ' if at_least else ''}{_money(usd)}"
