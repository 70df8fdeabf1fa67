"""From a ladder file to the runs it asks for: trunks, the branches that leave them, exact steps, what is saved.

A size and a seed are one trunk, trained to the largest token budget. Every smaller budget is a branch: it goes on
from the trunk's checkpoint at the step where its own cooldown begins, and is, bit for bit, the run made from
scratch. Pure but for reading the ladder file and the headers of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference_trainer.ladder_file import LadderFile, read_ladder_file
from scaling.architecture import Arch
from scaling.findings import Finding

if TYPE_CHECKING:
    from reference_trainer.ladder_data import Data


@dataclass(frozen=True)
class Size:
    """One model size.

    Parameters
    ----------
    name : str
        Part of the runs' names.
    settings : mapping
        Keys of a training configuration that are this size's own: its shape, and ``mup``.
    arch : Arch
        The shape, with its counts.
    steps : tuple of int
        Updates of each budget, ascending; the last is the trunk's.
    lr : float or None
        The learning rate; None where `lr_grid` decides.
    lr_grid : tuple of float
        Rates to choose from.
    lr_rule : str
        Where the rate comes from, in words for the points table.
    """

    name: str
    settings: Mapping[str, Any]
    arch: Arch
    steps: tuple[int, ...]
    lr: float | None
    lr_grid: tuple[float, ...]
    lr_rule: str


@dataclass(frozen=True)
class Run:
    """One run of a ladder: a trunk, a branch of one, or a short run that tries a learning rate.

    Parameters
    ----------
    run_id, trunk_id : str
        Its name, and that of its size and seed.
    kind : {"trunk", "branch", "check"}
        What it is.
    size : str
        Name of its size.
    seed : int
        Of initial weights, data order and dropout.
    steps : int
        Updates of the whole run.
    began : int
        Step at which its own work begins: 0, or where a branch leaves its trunk.
    tokens : int
        Training tokens of the whole run, exact.
    flops : float
        6·N·tokens of the whole run, N total.
    parent : str
        Run id of a branch's trunk.
    leaves : tuple of int
        Steps at which branches leave this trunk.
    lr : float or None
        The rate that a check tries.
    """

    run_id: str
    trunk_id: str
    kind: str
    size: str
    seed: int
    steps: int
    began: int
    tokens: int
    flops: float
    parent: str = ""
    leaves: tuple[int, ...] = ()
    lr: float | None = None

    @property
    def share(self) -> float:
        """Part of the run that is its own work."""
        return (self.steps - self.began) / self.steps


@dataclass(frozen=True)
class Plan:
    """A ladder put into runs.

    Parameters
    ----------
    path : Path
        The ladder file.
    file : LadderFile
        What it says.
    out : Path
        Folder of the runs and of ``points.csv``.
    common : mapping
        Settings of all runs, read.
    step_tokens : int
        Tokens of a step.
    sizes : tuple of Size
    runs : tuple of Run
        Trunks and branches in the order of the points table: size, seed, tokens.
    checks : tuple of Run
        Short runs that choose learning rates.
    data : Data
        What is known of the data.
    findings : tuple of Finding
        What to know before the money is spent.
    """

    path: Path
    file: LadderFile
    out: Path
    common: Mapping[str, Any]
    step_tokens: int
    sizes: tuple[Size, ...]
    runs: tuple[Run, ...]
    checks: tuple[Run, ...]
    data: Data
    findings: tuple[Finding, ...] = field(default=())

    @cached_property
    def size(self) -> dict[str, Size]:
        """Sizes by name."""
        return {size.name: size for size in self.sizes}

    @cached_property
    def run(self) -> dict[str, Run]:
        """All runs by their id, checks included."""
        return {run.run_id: run for run in (*self.checks, *self.runs)}

    @property
    def steps_paid(self) -> int:
        """Updates that are made, over all runs and checks."""
        return sum(run.steps - run.began for run in (*self.checks, *self.runs))

    @property
    def tokens_paid(self) -> int:
        """Tokens that trunks and branches are trained on, what they share counted once."""
        return sum((run.steps - run.began) * self.step_tokens for run in self.runs)

    @property
    def tokens_separate(self) -> int:
        """Tokens of the same points made one by one."""
        return sum(run.tokens for run in self.runs)

    @property
    def tokens_checks(self) -> int:
        """Tokens of the short runs that choose learning rates."""
        return sum(run.tokens for run in self.checks)

    @property
    def flops_paid(self) -> float:
        """6·N·D of all that is trained, checks included."""
        return sum(run.flops * run.share for run in (*self.checks, *self.runs))

    @property
    def flops_separate(self) -> float:
        """6·N·D of the points made one by one."""
        return sum(run.flops for run in self.runs)

    def tokens_of(self, size: str) -> int:
        """Return the tokens that a size is trained on, over its seeds and checks."""
        return sum(
            (run.steps - run.began) * self.step_tokens
            for run in (*self.checks, *self.runs)
            if run.size == size
        )

    def folder(self, run: Run) -> Path:
        """Return the folder of a run."""
        return self.out / ("lr_checks" if run.kind == "check" else "runs") / run.run_id

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain types."""
        return {
            "name": self.file.name, "out": str(self.out), "step_tokens": self.step_tokens,
            "sizes": [
                {"name": s.name, **{f"params_{c}": s.arch.params(c) for c in ("total", "non_embedding", "matmul")},
                 "shape": dict(s.settings), "lr": s.lr, "lr_grid": list(s.lr_grid), "lr_rule": s.lr_rule,
                 "tokens_paid": self.tokens_of(s.name)}
                for s in self.sizes
            ],
            "runs": [asdict(r) for r in self.runs], "checks": [asdict(r) for r in self.checks],
            "steps_paid": self.steps_paid, "tokens_paid": self.tokens_paid, "tokens_checks": self.tokens_checks,
            "tokens_separate": self.tokens_separate, "share_of_separate": self.tokens_paid / self.tokens_separate,
            "flops_paid": self.flops_paid, "flops_separate": self.flops_separate,
            "findings": [f.to_dict() for f in self.findings],
        }  # fmt: skip


def read_ladder(path: str | Path, *overrides: str, out: str | Path | None = None) -> Plan:
    """Read a ladder file and put it into runs.

    Parameters
    ----------
    path : str or Path
        The file.
    *overrides : str
        ``key=value`` of ``[common]``; paths in them are relative to the current directory.
    out : path, optional
        Folder in place of the file's, relative to the current directory.

    Returns
    -------
    Plan

    Raises
    ------
    ConfigError
        The file cannot be read, or contradicts itself: two budgets that are the same number of steps, a branch
        that would leave inside the warm-up, a rate from nowhere, two sizes of one shape.
    """
    from reference_trainer.ladder_checks import findings
    from reference_trainer.ladder_data import read_data
    from reference_trainer.ladder_settings import read_common, read_out, read_sizes

    path = Path(path)
    file = read_ladder_file(path)
    common = read_common(file, path, overrides)
    data = read_data(common, str(path))
    step_tokens = common["batch_seqs"] * common["seq_len"]
    sizes = read_sizes(file, path, common, data.vocab, step_tokens)
    plan = Plan(path, file, read_out(file, path, out), common, step_tokens, sizes, (), (), data)
    plan = replace(plan, runs=_runs(plan), checks=_checks(plan))
    return replace(plan, findings=findings(plan))


def leaves_at(steps: int, cooldown: float) -> int:
    """Return the step at which the cooldown of a run of so many steps begins (`train.cooldown_start`)."""
    return steps - round(cooldown * steps)


def to_steps(tokens: float, step_tokens: int) -> int:
    """Return the updates of a run of so many tokens (`train.total_steps`)."""
    return max(1, round(tokens / step_tokens))


def _flops(size: Size, tokens: int) -> float:
    return 6.0 * size.arch.params_total * tokens


def _runs(plan: Plan) -> tuple[Run, ...]:
    """Return trunks and branches: size by size, seed by seed, budget by budget."""
    out: list[Run] = []
    for size in plan.sizes:
        for seed in plan.file.seeds:
            trunk_id = f"{size.name}-seed{seed}"
            ids = [f"{trunk_id}-{steps * plan.step_tokens}" for steps in size.steps]
            leaves = [leaves_at(steps, plan.file.cooldown) for steps in size.steps]
            for run_id, steps, began in zip(ids, size.steps, leaves, strict=True):
                tokens = steps * plan.step_tokens
                shared = Run(
                    run_id, trunk_id, "trunk", size.name, seed, steps, 0, tokens, _flops(size, tokens)
                )
                if steps == size.steps[-1]:
                    out.append(replace(shared, leaves=tuple(sorted(set(leaves[:-1])))))
                else:
                    out.append(replace(shared, kind="branch", began=began, parent=ids[-1]))
    return tuple(out)


def _checks(plan: Plan) -> tuple[Run, ...]:
    """Return the short runs that choose learning rates: with the first seed."""
    if plan.file.lr_check is None:
        return ()
    steps = to_steps(plan.file.lr_check.tokens, plan.step_tokens)
    tokens, seed = steps * plan.step_tokens, plan.file.seeds[0]
    return tuple(
        Run(f"{size.name}-lr{lr!r}", f"{size.name}-lr-check", "check", size.name, seed, steps, 0, tokens,
            _flops(size, tokens), lr=lr)
        for size in plan.sizes
        for lr in size.lr_grid
    )  # fmt: skip
