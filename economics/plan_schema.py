"""What a plan of a training run may say, and clear words for one that cannot be read.

A plan is TOML or a dictionary. Every section and every key may be left out: `economics.plan_check` checks what
is there and says what it could not check. An unknown key is an error, because a misspelt one would otherwise
go unchecked.
"""

from __future__ import annotations

from datetime import date as Date
from typing import Annotated, Literal

from pydantic import Field, model_validator

from economics.plan_sections import (
    CheckpointSection,
    Count,
    DataSection,
    Gpus,
    ModelSection,
    Money,
    Params,
    Positive,
    RunSection,
    Section,
    StepRate,
    Tokens,
)

#: What a line of a budget pays for.
Cost = Literal[
    "compute", "sweep", "evaluation", "rework", "storage", "egress", "debugging", "buffer", "people", "other"
]


class SweepSection(Section):
    """The small runs a scaling law is fitted to.

    Parameters
    ----------
    params : list of count
        Sizes.
    params_kind : str
        Which count they are, as in `ModelSection`.
    tokens, tokens_per_param, flops : list of count, optional
        Token counts, ratios D/N, budgets 6·N·D: every size is trained at every one of them.
    fixed : list of "tokens", "compute", "time"
        What the plan says is the same for all sizes.
    hours_each : float, optional
        Hours of each run where they are cut by time.
    tokens_per_s : list of count, optional
        Measured speed of each size; predicted from measured throughputs if not given.
    target : count, optional
        Size N whose compute-optimal tokens D*(N) the sweep is for.
    noise_nats : float
        Run-to-run standard deviation of a final loss.
    noise_correlation : float
        Correlation of the noise of runs that share a trunk (one size), 0 for independent runs.
    """

    params: Annotated[list[Params], Field(min_length=1)]
    params_kind: Literal["total", "non_embedding", "matmul", "body"] = "total"
    tokens: Annotated[list[Tokens], Field(min_length=1)] | None = None
    tokens_per_param: Annotated[list[Count], Field(min_length=1)] | None = None
    flops: Annotated[list[Count], Field(min_length=1)] | None = None
    fixed: list[Literal["tokens", "compute", "time"]] = Field(default_factory=list)
    hours_each: Positive | None = None
    tokens_per_s: list[Count] | None = None
    target: Params | None = None
    noise_nats: Positive = 0.01
    noise_correlation: Annotated[float, Field(ge=0, le=1)] = 0.0

    @property
    def runs(self) -> list[tuple[float, float]]:
        """The runs that are spelled out: (params, tokens) of each."""
        tokens = {
            n: [
                *(self.tokens or []),
                *(r * n for r in self.tokens_per_param or []),
                *(c / (6 * n) for c in self.flops or []),
            ]
            for n in self.params
        }
        return [(n, d) for n, counts in tokens.items() for d in counts]

    @model_validator(mode="after")
    def _speeds(self) -> SweepSection:
        if self.tokens_per_s is not None and len(self.tokens_per_s) != len(self.params):
            raise ValueError(f"{len(self.tokens_per_s)} tokens_per_s for {len(self.params)} sizes in params")
        return self


class FormulaSection(Section):
    """A formula with its numbers and units, such as ``550 steps × 500k tokens/step ÷ (500k tokens/s)``.

    Parameters
    ----------
    name : str
        What it computes.
    formula : str
        Numbers, units and operators (`economics.plan_formula`), sums included.
    gives : {"usd", "hours"}
        What it is meant to give. Units are converted ("30 min × $1.10/h" is $0.55) unless the formula does so.
    value : float, optional
        The result as stated.
    steps : count, optional
        Steps lost or repeated, for the right form of the cost of steps.
    """

    name: str
    formula: str
    gives: Literal["usd", "hours"] = "usd"
    value: Money | None = None
    steps: Count | None = None


class BudgetLine(Section):
    """A line of the budget.

    Parameters
    ----------
    name : str
        As written.
    usd : float
        Dollars.
    covers : list of str
        What it pays for: compute, sweep, evaluation, rework, storage, egress, debugging, buffer, people, other.
    hours, n_gpus : optional
        Hours it pays for, of how many GPUs (those of the run, if not given).
    """

    name: str
    usd: Money
    covers: list[Cost] = Field(default_factory=list)
    hours: Positive | None = None
    n_gpus: Gpus | None = None


class BudgetSection(Section):
    """The money: the cap, and what it is for."""

    usd: Positive
    lines: list[BudgetLine] = Field(default_factory=list)


class Plan(Section):
    """A plan of a training run; see the sections.

    Parameters
    ----------
    name, note : str
        Free text.
    date : date, optional
        Day for which prices are looked up, by default today.
    tokens_rule : str, optional
        The rule for tokens as written, such as ``"D = 20 N"``.
    """

    name: str = ""
    note: str = ""
    date: Date | None = None
    tokens_rule: str | None = None
    model: ModelSection | None = None
    data: DataSection | None = None
    run: RunSection | None = None
    checkpoint: CheckpointSection | None = None
    step_rates: list[StepRate] = Field(default_factory=list)
    sweep: SweepSection | None = None
    formulas: list[FormulaSection] = Field(default_factory=list)
    budget: BudgetSection | None = None
