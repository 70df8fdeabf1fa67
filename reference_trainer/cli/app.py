"""The command line put together: commands and their help."""

from __future__ import annotations

from reference_trainer.cli import logs, plan, quantize, sweep, train
from scaling.cli.group import Commands, program

_HELP = (
    "Train language models whose points can be trusted: one run, or a ladder of them for a scaling law.\n\n"
    "A ladder is a TOML file of sizes, token budgets and seeds; `plan` says what it takes, `sweep` makes the points."
)
_EPILOG = (
    "Exit codes: 0 fine; 1 a negative verdict (a run failed, a plan does not fit its cap); 2 bad input; 3 a fault of "
    "the program; 75 stopped at the cap, to be started again with a higher one; 130 and 143 stopped by a signal, to be "
    "started again."
)


class Trainer(Commands):
    """The group. Names in messages are keys of files here, and no options."""

    spelling = staticmethod(str)


app = program("reference_trainer", _HELP, _EPILOG, Trainer)

for _command in (plan.plan, sweep.sweep, train.train, quantize.quantize, logs.guide, logs.postmortem):
    app.command()(_command)
