"""The command line put together: commands and their help."""

from __future__ import annotations

from economics.cli import budget, cost, hardware, optimum, plan, prices, proposal, suggest
from economics.cli.spelling import as_commands
from scaling.cli.group import Commands, program

_HELP = (
    "What a training run costs, with an interval, from dated prices and measured throughputs.\n\n"
    "Counts are written as people write them: 7B, 2T, 500k; utilisations with their sign: 41%."
)
_EPILOG = (
    'Every command takes --json; there, null is no number and "Infinity" an open end. '
    "Exit codes: 0 fine; 1 a negative verdict (a plan that contradicts itself or says nothing that could be checked, a "
    "run that does not fit or does not pay, money that buys nothing), shown in full; 2 bad input; 3 a fault of the "
    "program."
)


class Economics(Commands):
    """The group, which writes Python names in messages as options of this program."""

    spelling = staticmethod(as_commands)


app = program("economics", _HELP, _EPILOG, Economics)

for _command in (
    cost.cost,
    cost.compare,
    budget.budget,
    suggest.suggest,
    proposal.plan,
    hardware.gpus,
    hardware.energy,
):
    app.command()(_command)
app.command("check-plan")(plan.check_plan)
app.add_typer(optimum.app, name="optimum")
app.add_typer(prices.app, name="prices")
