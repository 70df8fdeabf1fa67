"""Options and answers that the commands of ``economics optimum`` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from economics.cli.budget import prediction
from economics.cli.cost import verdict_code
from economics.cli.options import Costing
from economics.cli.spelling import as_commands
from scaling.cli.failures import NEGATIVE
from scaling.cli.options import given
from scaling.cli.output import say, say_json, warnings_told
from scaling.errors import DataError, ExtrapolationWarning, IdentificationWarning, shown

_LAW = "What predicts the loss (one)"
GOAL = "What is wanted"

Source = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="A table of runs, or a fit that `scaling fit --save` wrote."),
]
Law = Annotated[
    str | None, typer.Option(help="A published law by its name.", rich_help_panel=_LAW, metavar="NAME")
]
Flops = Annotated[str | None, typer.Option(help="Compute, C = 6ND.", rich_help_panel=GOAL, metavar="FLOP")]
Usd = Annotated[
    str | None,
    typer.Option(help="Money, such as 1M or 50; --gpu says on what.", rich_help_panel=GOAL, metavar="USD"),
]
Like = Annotated[
    str | None,
    typer.Option(help="A run whose loss to reach, as N,D: 1B,20B.", rich_help_panel=GOAL, metavar="N,D"),
]
Served = Annotated[
    str | None,
    typer.Option(help="Tokens served over the life of the model, such as 1T.", rich_help_panel=GOAL),
]
Serving = Annotated[
    list[str] | None,
    typer.Option(
        help="About serving, such as gpu='L40S', busy=0.5 or prompt_tokens=2000. May be repeated.",
        rich_help_panel=GOAL,
        metavar="NAME=VALUE",
    ),
]
Unique = Annotated[
    str | None,
    typer.Option(
        "--unique",
        "--unique-tokens",
        help="Distinct tokens there are.",
        rich_help_panel=GOAL,
        metavar="TOKENS",
    ),
]
Worth = Annotated[
    float,
    typer.Option(
        "--worth",
        "--worth-share",
        help="A repetition pays while its token is worth this share of a new one.",
    ),
]
Unidentified = Annotated[
    str, typer.Option(help="What to do when the runs do not determine the answer: raise or return.")
]
Quantile = Annotated[str, typer.Option(help="Which quantile of the dollars or hours counts: 0.9 is safe.")]


def answer(
    ask: Callable[[Any], Any], source: str | None, builtin: str | None, law: str | None, as_json: bool
) -> int:
    """Ask, and say the answer; the exit code is that of its findings."""
    from economics.decide import NoMachineError
    from economics.errors import StalePriceWarning
    from economics.run_search import BudgetError

    with warnings_told(IdentificationWarning, ExtrapolationWarning, StalePriceWarning, spelling=as_commands):
        known = prediction(source, builtin, law)
        if not known:
            raise DataError("give a FILE, --builtin or --law: what predicts the loss", column="fit")
        try:
            found = ask(next(iter(known.values())))
        except (BudgetError, NoMachineError) as error:
            if as_json:
                say_json({"verdict": "not affordable", "message": str(error)})
            else:
                say(f"verdict    not affordable\n{as_commands(str(error))}")
            return NEGATIVE
    if as_json:
        say_json(found)
    else:
        say(as_commands(repr(found)))
    return verdict_code(getattr(found, "findings", ()))


def checked(unidentified: str) -> Any:
    """Return what to do with an answer that the runs do not determine, or refuse the word."""
    from scaling.guard import check_unidentified

    check_unidentified(unidentified)
    return unidentified


def one_of(**options: Any) -> None:
    """Refuse more or fewer than one of some options."""
    if sum(value is not None for value in options.values()) != 1:
        raise DataError(
            f"give one of {', '.join(f'--{name}' for name in options)}", column=next(iter(options))
        )


def counts_dollars(dollars: bool, costing: Costing, *, params: bool = False, **others: Any) -> None:
    """Refuse options about money, time and machines where a question counts nothing but FLOP.

    Parameters
    ----------
    dollars : bool
        Whether the question counts dollars: then nothing is refused.
    costing : Costing
    params : bool
        Whether --params has a use all the same.
    **others
        Further such options, None where not given; the quantile is "0.5" where not given.
    """
    if dollars:
        return
    idle = [name for name in given(costing) if not (params and name == "params")]
    idle += [name for name, value in others.items() if value and (name, value) != ("quantile", "0.5")]
    if idle:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise DataError(
            f"{flags}: no use in a question that is answered in FLOP. Ask in dollars and hours (--gpu with what is "
            "wanted, or --usd), or leave out what has no use",
            column=idle[0],
        )


def settings_of(costing: Costing, *, params: bool = False) -> dict[str, Any]:
    """Return the settings of `cost`; parameters and tokens are what is looked for."""
    for name in ("params", "tokens"):
        if getattr(costing, name) is not None and not (params and name == "params"):
            raise DataError(f"--{name} is what is looked for: leave it out", column=name)
    settings = {k: v for k, v in costing.keywords().items() if k not in ("N", "D")}
    if costing.draws == Costing().draws:
        del settings["draws"]  # a search has fewer by itself
    return settings


def run_of(text: str | None) -> tuple[str, str] | None:
    """Read a run given as N,D."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2:
        raise DataError(f"--like is N,D such as 1B,20B, got {shown(text)}", column="like")
    return parts[0], parts[1]


def words_of(names: list[str] | None) -> Any:
    """Return names to compare; None for the one given elsewhere."""
    return None if not names else "all" if names == ["all"] else names


def repetition_of(r_d: float | None, limits: str | None) -> Any:
    """Return what a repetition is worth: the published constants, or those given."""
    from dataclasses import replace

    from scaling.optima import MUENNIGHOFF, Repetition

    if r_d is None and limits is None:
        return MUENNIGHOFF
    ends: Any = MUENNIGHOFF.R_D_range if r_d is None else (r_d, r_d)
    if limits is not None:
        try:
            low, high = (float(part) for part in limits.split(","))
        except ValueError:
            raise DataError(
                f"--r-d-range is two numbers such as 4,100, got {shown(limits)}", column="r_d_range"
            ) from None
        ends = (low, high)
    if r_d is None:
        return replace(MUENNIGHOFF, R_D_range=ends)
    return Repetition(r_d, MUENNIGHOFF.R_N, ends, MUENNIGHOFF.R_N_range if limits else None)
