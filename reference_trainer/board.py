"""What of a ladder is finished, what may start now, and what never can: read off the disk, and nothing else kept."""

from __future__ import annotations

from reference_trainer.branch import leaves_from
from reference_trainer.checkpoint_files import MANIFEST, steps
from reference_trainer.errors import ConfigError
from reference_trainer.ladder import Plan, Run
from reference_trainer.lr_choice import best_of
from reference_trainer.points import result_of, rows, with_sigma, write_table

#: Statuses of a run that is over. A truncated one goes on where it was stopped.
_OVER = ("ok", "failed")


class Board:
    """Where a ladder stands.

    Parameters
    ----------
    plan : Plan

    Attributes
    ----------
    results : dict of run id to result
        Runs that are over, with what their ``result.json`` says.
    errors : dict of run id to str
        Runs that cannot go on in this sweep, and why. The next one tries them again.
    rates : dict of size to float
        Learning rates that are known by now.
    running : set of run ids
        Under way.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.results: dict[str, dict[str, object]] = {}
        self.errors: dict[str, str] = {}
        self.rates = {size.name: size.lr for size in plan.sizes if size.lr is not None}
        self.running: set[str] = set()

    def settled(self, run_id: str) -> bool:
        """Tell whether nothing more happens to a run in this sweep."""
        return run_id in self.results or run_id in self.errors

    @property
    def waiting(self) -> list[Run]:
        """Runs that are neither over nor under way."""
        return [run for run in self.plan.run.values() if self._waits(run)]

    def _waits(self, run: Run) -> bool:
        return not self.settled(run.run_id) and run.run_id not in self.running

    def look(self, *, strict: bool = False) -> list[Run]:
        """Read what is new on the disk; return the runs that may start now, in the order of the plan.

        Parameters
        ----------
        strict : bool
            Refuse the ladder where a folder holds another run; else that run alone is given up. A rate that was
            just chosen can bring that to light while others are under way.

        Raises
        ------
        ConfigError
            A folder holds a run that the ladder no longer asks for.
        """
        for runs in (
            self.plan.checks,
            self.plan.runs,
        ):  # checks first: the rates of the others come from them
            for run in filter(self._waits, runs):
                try:
                    self._take(run)
                except ConfigError as error:
                    if strict:
                        raise
                    self.errors[run.run_id] = str(error)
            for size in self.plan.sizes:
                self._choose(size.name)
        return [run for run in self.waiting if self._may_start(run)]

    def rate(self, run: Run) -> float | None:
        """Return the learning rate of a run, None where it is not known yet."""
        return run.lr if run.lr is not None else self.rates.get(run.size)

    def newest_step(self, run: Run) -> int:
        """Return the step a run would go on from."""
        found = steps(self.plan.folder(run) / "checkpoints")
        return found[-1] if found else run.began

    def write(self) -> None:
        """Write ``points.csv``, and ``lr_checks.csv`` where rates are tried."""
        plan = self.plan
        table = rows(plan, plan.runs, self.results, self.errors, self.rates)
        write_table(plan.out / "points.csv", with_sigma(table))
        if plan.checks:
            tried = rows(plan, plan.checks, self.results, self.errors, self.rates)
            chosen = [{**row, "chosen": row["lr"] == self.rates.get(row["size_name"])} for row in tried]
            write_table(plan.out / "lr_checks.csv", chosen)

    def _take(self, run: Run) -> None:
        """Take the result of a run that is over."""
        lr = self.rate(run)
        result = None if lr is None else result_of(self.plan, run, lr)
        if result is not None and result["status"] in _OVER:
            self.results[run.run_id] = result

    def _choose(self, size: str) -> None:
        """Take the rate with the lowest loss, once all of a size are tried."""
        tried = [run for run in self.plan.checks if run.size == size]
        if size in self.rates or not all(self.settled(run.run_id) for run in tried):
            return
        losses = {}
        for run in tried:
            result = self.results.get(run.run_id, {})
            loss = result.get("loss") if result.get("status") == "ok" else None
            losses[run.lr or 0.0] = float(loss) if isinstance(loss, float) else None
        best = best_of(losses)
        if best is not None:
            self.rates[size] = best
            return
        for run in self.plan.runs:
            if run.size == size:
                why = f"none of the {len(tried)} rates tried for {size} ended with a finite loss"
                self.errors.setdefault(run.run_id, why)

    def _may_start(self, run: Run) -> bool:
        if self.rate(run) is None:
            return False
        if run.kind != "branch" or steps(self.plan.folder(run) / "checkpoints"):
            return True
        if (leaves_from(self.plan, run) / MANIFEST).exists():
            return True
        if self.settled(run.parent):
            over = self.errors.get(run.parent) or "it is over"
            self.errors[run.run_id] = f"{run.parent} left no checkpoint at step {run.began} ({over})"
        return False
