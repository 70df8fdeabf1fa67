"""``reference_trainer sweep``: make the points of a ladder, or go on with it."""

from __future__ import annotations

from reference_trainer.cli.arguments import Jobs, Ladder, Out, Overrides
from reference_trainer.cli.launch import EXIT
from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.options import Json
from scaling.cli.output import note, say, say_json, warnings_told

#: How a sweep ended -> exit code; others are by what failed.
_STOPPED = {name: EXIT[name] for name in ("budget", "SIGTERM", "SIGINT")}


def sweep(
    ladder: Ladder, overrides: Overrides = None, jobs: Jobs = 1, out: Out = None, as_json: Json = False
) -> int:
    """Train what a ladder asks for and write points.csv; started again, it goes on where it was stopped."""
    from economics.budget import BudgetExceeded
    from economics.run_estimates import dollars
    from reference_trainer.ladder import read_ladder
    from reference_trainer.lr_choice import at_edge
    from reference_trainer.sweep import sweep as run

    with warnings_told():
        plan = read_ladder(ladder, *(overrides or []), out=out)
        for finding in plan.findings:
            note(str(finding), "yellow" if finding.severity == "warning" else "")
        try:
            result = run(plan, jobs=jobs)
        except BudgetExceeded as error:
            if as_json:
                say_json(
                    {"ended_by": "budget", "message": str(error), "points": str(plan.out / "points.csv")}
                )
            note(f"error: {error}\nRaise cap_usd in [budget] of {ladder} and start the sweep again.", "red")
            return EXIT["budget"]
    if as_json:
        say_json(result)
    else:
        spent = "" if result.spent_usd is None else f"; {dollars(result.spent_usd)} spent"
        say(f"{result.ok} points in {result.points}; {result.failed} failed, {result.left} left{spent}")
        for run_id, why in result.errors.items():
            note(f"{run_id}: {why}", "red")
        for size in plan.sizes:
            lr = result.rates.get(size.name)
            if lr is not None and size.lr_grid and at_edge(lr, size.lr_grid):
                note(
                    f"[warning] {size.name}: {lr:g} is at the edge of its lr_grid: the best may lie beyond it",
                    "yellow",
                )
        if len(result.versions) > 1:
            versions = ", ".join(result.versions)
            note(f"[warning] the points come from several versions of the code: {versions}", "yellow")
        if result.ended_by == "budget":
            note(
                f"Stopped at the cap: raise cap_usd in [budget] of {ladder} and start the sweep again.", "red"
            )
        elif result.ended_by != "done":
            note(f"Stopped by {result.ended_by}: start the sweep again to go on.", "yellow")
    return _STOPPED.get(result.ended_by, NEGATIVE if result.failed or result.errors else FINE)
