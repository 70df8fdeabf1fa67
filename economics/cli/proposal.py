"""``economics plan``: one page for a decision on a sum of money."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from economics.cli.optimum_shared import settings_of
from economics.cli.options import Costing
from economics.cli.spelling import as_commands
from economics.cli.suggest import known_runs
from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.files import outputs
from scaling.cli.options import Builtin, Json, Reading, as_arguments, mapping, takes_groups
from scaling.cli.output import note, say, say_json, warnings_told
from scaling.errors import DataError, ExtrapolationWarning, IdentificationWarning

_MONEY = "The money"
_ASKED = "What else is asked"
_NEXT = "Next runs"


def _option(panel: str, help_: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help_, rich_help_panel=panel, metavar=metavar)


@dataclass(frozen=True)
class Machines(Costing):
    """Options of `cost`, for several kinds of machine."""

    gpu: Annotated[
        list[str] | None,
        _option(
            "The run", "Accelerators to choose from; all with a price if none is named. May be repeated."
        ),
    ] = None  # type: ignore[assignment]
    market: Annotated[
        list[str] | None,
        _option(
            "Price", "Markets to choose from, or all; on-demand and spot if none is named. May be repeated."
        ),
    ] = None  # type: ignore[assignment]


@takes_groups
def plan(
    machines: Machines,
    reading: Reading,
    runs: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE|FIT]", help="Runs at hand, a saved fit, or '-'; none plans from nothing."
        ),
    ] = None,
    builtin: Builtin = None,
    budget: Annotated[str | None, _option(_MONEY, "Dollars there are, such as 50.", metavar="USD")] = None,
    quantile: Annotated[
        str, _option(_MONEY, "Which quantile of the cost equals them for the recommended run.")
    ] = "0.5",
    risk: Annotated[
        str, _option(_MONEY, "Probability of breaking the cap that the safe run may have.")
    ] = "0.1",
    deadline_hours: Annotated[
        str | None, _option(_ASKED, "The run has to end within them, such as 36 or '3 d'.", metavar="TIME")
    ] = None,
    serve_tokens: Annotated[
        str | None, _option(_ASKED, "Tokens served over the life of the model.", metavar="TOKENS")
    ] = None,
    serving: Annotated[
        list[str] | None,
        _option(
            _ASKED, "About serving, such as gpu='L40S' or busy=0.5. May be repeated.", metavar="NAME=VALUE"
        ),
    ] = None,
    unique_tokens: Annotated[
        str | None, _option(_ASKED, "Distinct tokens there are.", metavar="TOKENS")
    ] = None,
    loss: Annotated[float | None, _option(_ASKED, "A loss that is wanted.")] = None,
    prior: Annotated[
        str | None,
        _option(
            _ASKED,
            "A published law (`economics budget --law list`) or hoffmann2022, asked as such.",
            metavar="NAME",
        ),
    ] = None,
    target: Annotated[
        str,
        _option(
            _NEXT, "What they are to narrow: tokens@1B, params@20B, loss@1B,20B, a ...", metavar="QUANTITY"
        ),
    ] = "tokens@1B",
    vocab: Annotated[str | None, _option(_NEXT, "Vocabulary of their shapes.", metavar="COUNT")] = None,
    sizes: Annotated[
        str | None, _option(_NEXT, "Smallest and largest N to look at, such as 10M,1B.", metavar="N,N")
    ] = None,
    token_counts: Annotated[
        str | None, _option(_NEXT, "Smallest and largest D, such as 100M,10B.", metavar="D,D")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the page here, and every number of it beside as JSON.", metavar="HTML"),
    ] = None,
    as_json: Json = False,
) -> int:
    """Say what to do with a sum of money; exit code 1 if the runs recommend no run, or the money buys nothing."""
    from economics.decide import NoMachineError
    from economics.errors import StalePriceWarning
    from economics.proposal.making import plan as compute
    from economics.proposal.page import beside
    from economics.run_search import BudgetError

    if budget is None:
        raise DataError("give --budget, the dollars there are", column="budget")
    for name in ("arch", "active_params"):
        if getattr(machines, name) is not None:
            raise DataError(f"--{name.replace('_', '-')} is what is looked for: leave it out", column=name)
    if out is not None:
        outputs([out, beside(out)], runs)
    settings = {
        k: v for k, v in settings_of(machines).items() if k not in ("gpu", "market", "arch", "N_active")
    }
    own: dict[str, Any] = {
        "quantile": quantile, "risk": risk, "deadline_hours": deadline_hours, "serve_tokens": serve_tokens,
        "unique_tokens": unique_tokens, "loss": loss, "prior": prior, "target": target, "vocab": vocab,
        "sizes": sizes, "token_counts": token_counts,
    }  # fmt: skip
    with warnings_told(IdentificationWarning, ExtrapolationWarning, StalePriceWarning, spelling=as_commands):
        try:
            found = compute(
                known_runs(runs, builtin, reading), budget, gpu=machines.gpu, markets=_markets(machines.market),
                serving=mapping("serving", serving or []) or None, **own, **settings,
            )  # fmt: skip
        except (BudgetError, NoMachineError) as error:
            if as_json:
                say_json({"verdict": "not affordable", "message": str(error)})
            else:
                say(f"verdict    not affordable\n{as_commands(str(error))}")
            return NEGATIVE
    if out is not None:
        words = [*([] if runs is None else [runs]), *([] if builtin is None else ["--builtin", builtin])]
        given = [
            w for k, v in own.items() if v is not None and v != _DEFAULTS.get(k) for w in (_flag(k), str(v))
        ]
        given += [w for v in serving or [] for w in ("--serving", v)]
        command = ["economics", "plan", *words, "--budget", budget, *as_arguments(machines, reading), *given]
        for path in found.save(out, command=shlex.join([*command, "--out", out.name]), spelling=as_commands):
            note(f"saved {path}")
    if as_json:
        say_json(found)
    else:
        say(as_commands(repr(found)))
    return FINE if found.usable else NEGATIVE


#: Of the options above that always have a value.
_DEFAULTS = {"quantile": "0.5", "risk": "0.1", "target": "tokens@1B"}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _markets(given: list[str] | None) -> Any:
    return None if not given else "all" if given == ["all"] else given
