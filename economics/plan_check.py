"""Whether a plan of a training run agrees with itself, and with what is known of machines and prices.

A plan names one thing in several ways: tokens, hours and speed; a size and a shape; steps and minutes; lines
and their sum. `check_plan` computes each from the others, and every disagreement becomes a finding with its
arithmetic. Nothing is looked up about any particular plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from economics import (
    plan_formula_check,
    plan_limits,
    plan_money,
    plan_preemptions,
    plan_size,
    plan_speed,
    plan_sweep,
)
from economics.plan_facts import Facts, facts
from economics.plan_reading import read_plan
from economics.plan_schema import Plan
from scaling.findings import Finding

_ORDER = {"error": 0, "warning": 1, "info": 2}
_MARK = {"error": "x", "warning": "!", "info": "-"}


@dataclass(frozen=True)
class _Check:
    """A check: what it is about, the keys it needs ("a|b": one of them), and the function.

    One that looks at a value `alone` compares nothing: it counts as made where it finds something.
    """

    name: str
    needs: tuple[str, ...]
    function: Callable[[Facts], Iterator[Finding]]
    alone: bool = False


#: Ways to say what the runs of a sweep are.
_SWEEP = "sweep.tokens|sweep.tokens_per_param|sweep.flops|sweep.hours_each"

_CHECKS = (
    _Check("parameters against the shape", ("model.params", "a whole shape"), plan_size.check_params),
    _Check("active parameters", ("model.active_params", "model.params|a whole shape"), plan_limits.check_active),
    _Check("positions", ("run.seq_len", "model.learned_positions"), plan_limits.check_positions),
    _Check("size of a step", ("run.batch_tokens", "run.seq_len|data.tokens"), plan_limits.check_batch),
    _Check(
        "checkpoints",
        (
            "checkpoint.seconds|checkpoint.minutes|checkpoint.hours|checkpoint.steps",
            "run.hours|run.tokens_per_s|run.mfu|a time to save",
        ),
        plan_limits.check_checkpoints,
    ),
    _Check("FLOPs in the hours", ("run.flops", "run.hours", "run.gpu", "run.n_gpus"), plan_limits.check_work),
    _Check("date", ("date",), plan_limits.check_date, alone=True),
    _Check("share of embeddings", ("a whole shape",), plan_size.check_embeddings),
    _Check("rule for tokens", ("tokens_rule",), plan_size.check_rule),
    _Check("size of the stored tokens", ("data.tokens", "data.stored_gb"), plan_size.check_stored),
    _Check("epochs", ("data.tokens", "data.unique_tokens"), plan_size.check_epochs),
    _Check(
        "tokens, speed and hours", ("data.tokens", "run.tokens_per_s|run.mfu", "run.hours"), plan_speed.check_time
    ),
    _Check(
        "speed against the peak",
        ("run.gpu", "run.n_gpus", "model.params|a whole shape", "run.tokens_per_s|run.mfu|run.hours"),
        plan_speed.check_speed,
    ),
    _Check(
        "FLOPs", ("run.flops", "data.tokens", "model.params|a whole shape|model.active_params"), plan_speed.check_flops
    ),
    _Check("step rates", ("step_rates|checkpoint.steps", "a second step rate"), plan_speed.check_steps),
    _Check("memory", ("run.gpu", "run.n_gpus", "a whole shape"), plan_speed.check_memory),
    _Check("lines of the budget", ("budget.lines",), plan_money.check_lines),
    _Check("hours of the budget", ("budget.lines", "run.hours"), plan_money.check_hours),
    _Check("sum of the budget", ("budget.lines",), plan_money.check_sum),
    _Check(
        "cost of the run", ("budget", "run.hours", "run.n_gpus", "run.usd_per_gpu_hour"), plan_money.check_run_cost
    ),
    _Check("fallback on demand", ("run.on_demand_usd_per_gpu_hour", "run.market"), plan_money.check_on_demand),
    _Check(
        "preemptions", ("run.market", "run.n_gpus", "run.hours|budget.lines"), plan_preemptions.check_preemptions
    ),
    _Check(
        "amount of the price", ("run.usd_per_gpu_hour|run.on_demand_usd_per_gpu_hour",), plan_money.check_amount,
        alone=True,
    ),
    _Check(
        "price against the price book", ("run.usd_per_gpu_hour", "run.gpu", "run.market"), plan_money.check_price
    ),
    _Check("formulas", ("formulas",), plan_formula_check.check_formulas),
    _Check("sizes of the sweep", ("sweep.params", "model.vocab"), plan_sweep.check_sizes),
    _Check("what the sweep holds fixed", ("sweep.params", "sweep.fixed|sweep.hours_each"), plan_sweep.check_fixed),
    _Check(
        "what the sweep determines", ("sweep.params", _SWEEP + "|sweep.fixed"),
        plan_sweep.check_identified,
    ),
    _Check(
        "cost of the sweep",
        ("sweep.params", _SWEEP, "run.usd_per_gpu_hour", "run.n_gpus"),
        plan_sweep.check_sweep_cost,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class PlanCheck:
    """What `check_plan` found; iterates over its findings, worst first.

    Parameters
    ----------
    name : str
        The plan's own name, or its file.
    findings : tuple of Finding
        Errors contradict, warnings doubt, infos show the arithmetic of what agrees.
    checked : tuple of str
        Checks that compared something, or found something.
    not_checked : mapping of str to tuple of str
        Checks that could not be made, and the keys the plan lacks for them.
    """

    name: str
    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    not_checked: Mapping[str, tuple[str, ...]]

    @property
    def verdict(self) -> Literal["agrees with itself", "contradicts itself", "nothing checked"]:
        """What became of the plan. One that says nothing which could be compared neither agrees nor contradicts."""
        if self.errors:
            return "contradicts itself"
        return "agrees with itself" if self.checked else "nothing checked"

    @property
    def passed(self) -> bool:
        """Something could be checked, and no error is among the findings."""
        return self.verdict == "agrees with itself"

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that contradict."""
        return tuple(f for f in self.findings if f.severity == "error")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        count = {s: sum(f.severity == s for f in self.findings) for s in _ORDER}
        head = (
            f"{self.name or 'plan'}: {self.verdict} "
            f"({count['error']} errors, {count['warning']} warnings, {len(self.checked)} checks)"
        )
        lines = [f"  {_MARK[f.severity]} {f.code}: {f.message}" for f in self.findings]
        if self.not_checked:
            lines.append("not checked, for want of")
            lines += [f"  {name}: {', '.join(keys)}" for name, keys in self.not_checked.items()]
        return "\n".join((head, *lines))

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain types."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "passed": self.passed,
            "findings": [f.to_dict() for f in self.findings],
            "checked": list(self.checked),
            "not_checked": {name: list(keys) for name, keys in self.not_checked.items()},
        }


def check_plan(plan: str | Path | Mapping[str, Any] | Plan) -> PlanCheck:
    """Check a plan of a training run.

    Parameters
    ----------
    plan : str, Path, mapping or Plan
        Path of a TOML file, or its content; `economics.plan_schema.Plan` has the keys. All are optional: what
        is there is checked, and what could not be is listed.

    Returns
    -------
    PlanCheck

    Raises
    ------
    PlanError
        There is no such file, it is no TOML, or has an unknown key or a value that is none.

    Examples
    --------
    >>> check_plan({"data": {"tokens": "5B"}, "run": {"tokens_per_s": "500k", "hours": 24}}).errors[0].message
    '5B tokens at 500K tokens/s take 2.78 h, not 24 h; in 24 h they are 57,870 tokens/s, 8.64 times slower.'
    """
    read = read_plan(plan)
    known = facts(read)
    found: list[Finding] = [*known.faults]
    checked, missing = [], {}
    for check in _CHECKS:
        lacking = tuple(
            need.replace("|", " or ")
            for need in check.needs
            if all(known.get(k) is None for k in need.split("|"))
        )
        if lacking:
            missing[check.name] = lacking
            continue
        seen = list(check.function(known))
        found += seen
        if seen or not check.alone:
            checked.append(check.name)
    if not checked:
        words = "nothing in the plan could be compared with anything else in it: that is no agreement."
        found.append(Finding("nothing_checked", "warning", words))
    name = read.name or ("" if isinstance(plan, Mapping | Plan) else str(plan))
    found.sort(key=lambda f: _ORDER[f.severity])
    return PlanCheck(name, tuple(found), tuple(checked), missing)
