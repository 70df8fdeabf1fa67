"""``economics budget``: the best run that a sum of money buys."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from economics.cli.cost import verdict_code
from economics.cli.options import Costing
from economics.cli.spelling import as_commands
from scaling.cli.failures import FINE, NEGATIVE
from scaling.cli.options import Builtin, Fitting, Json, Reading, takes_groups
from scaling.cli.output import say, say_json, warnings_told
from scaling.errors import DataError, ExtrapolationWarning, IdentificationWarning

_LAW = "What predicts the loss (one)"


@takes_groups
def budget(
    costing: Costing,
    usd: Annotated[str, typer.Argument(help="The money, such as 1M or 50.")],
    fit: Annotated[
        str | None,
        typer.Option(
            help="A table of runs, or a fit that `scaling fit --save` wrote.",
            rich_help_panel=_LAW,
            metavar="FILE",
        ),
    ] = None,
    builtin: Builtin = None,
    law: Annotated[
        str | None,
        typer.Option(
            help="A published law by its name, see `--law list`.", rich_help_panel=_LAW, metavar="NAME"
        ),
    ] = None,
    quantile: Annotated[
        float, typer.Option(help="Which quantile of the cost must equal the money: 0.9 is safe.")
    ] = 0.5,
    as_json: Json = False,
) -> int:
    """Parameters and tokens with the lowest predicted loss for the money, or with --params the tokens alone."""
    if law == "list":
        return _list_laws(as_json)
    from economics.budget_solver import BudgetError, solve_budget
    from economics.errors import StalePriceWarning

    if costing.tokens is not None:
        raise DataError("--tokens are what is looked for: leave them out", column="tokens")
    settings = costing.keywords()
    del settings["D"]
    with warnings_told(IdentificationWarning, ExtrapolationWarning, StalePriceWarning, spelling=as_commands):
        known = prediction(fit, builtin, law)
        try:
            plan = solve_budget(usd, quantile=quantile, **known, **settings)
        except BudgetError as error:
            if as_json:
                say_json({"verdict": "not affordable", "message": str(error), "needed_usd": error.needed_usd})
            else:
                say(f"verdict    not affordable\n{as_commands(str(error))}")
            return NEGATIVE
    if as_json:
        say_json(plan)
    else:
        say(as_commands(repr(plan)))
    return verdict_code(plan.findings)


def prediction(fit: str | None, builtin: str | None, law: str | None) -> dict[str, Any]:
    """Return the ``fit`` or ``law`` that was asked for; none is fine where --params is given."""
    if sum(x is not None for x in (fit, builtin, law)) > 1:
        raise DataError("give one of --fit, --builtin and --law", column="fit")
    if law is not None:
        from scaling.laws.chinchilla import ChinchillaLaw
        from scaling.published import published

        found = published(law).law
        if not isinstance(found, ChinchillaLaw):
            raise DataError(f"{law} has no L(N, D) to predict with: see --law list", column="law")
        return {"law": found}
    if fit is None and builtin is None:
        return {}
    from scaling.cli.source import open_input, read_fit

    return {"fit": read_fit(open_input(fit, builtin), Reading(), Fitting())}


def _list_laws(as_json: bool) -> int:
    import warnings

    from scaling.laws.chinchilla import ChinchillaLaw
    from scaling.published import names, published

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rounded exponents: said where one is used
        laws = {name: published(name) for name in names()}
    usable = {name: found for name, found in laws.items() if isinstance(found.law, ChinchillaLaw)}
    if as_json:
        say_json({name: {"year": f.year, "source": f.source} for name, f in usable.items()})
    else:
        say("\n".join(f"{name}  ({f.year}; {f.source})" for name, f in usable.items()))
    return FINE
