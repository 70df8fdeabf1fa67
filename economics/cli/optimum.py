"""``economics optimum``: the best run for compute, money, a lifetime of serving, scarce data, a loss or a deadline."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from economics.cli.cost import verdict_code
from economics.cli.optimum_shared import (
    GOAL,
    Flops,
    Law,
    Like,
    Quantile,
    Served,
    Serving,
    Source,
    Unidentified,
    Unique,
    Usd,
    Worth,
    answer,
    checked,
    counts_dollars,
    one_of,
    repetition_of,
    run_of,
    settings_of,
    words_of,
)
from economics.cli.options import Costing
from economics.cli.spelling import as_commands
from scaling.cli.failures import FINE
from scaling.cli.options import Builtin, Json, mapping, takes_groups
from scaling.cli.output import say, say_json
from scaling.errors import DataError

app = typer.Typer(
    help="The best run for compute, money, serving, scarce data, a loss or a deadline, with intervals.",
    invoke_without_command=True,
)


@app.callback()
def _root(context: typer.Context) -> int:
    if context.invoked_subcommand is None:
        say(context.get_help())
    return FINE


@app.command()
@takes_groups
def compute(
    costing: Costing,
    source: Source = None,
    builtin: Builtin = None,
    law: Law = None,
    flops: Flops = None,
    usd: Usd = None,
    quantile: Quantile = "0.5",
    unidentified: Unidentified = "raise",
    as_json: Json = False,
) -> int:
    """Find the parameters and tokens with the lowest loss for compute, or for money."""
    one_of(flops=flops, usd=usd)
    counts_dollars(usd is not None, costing, quantile=quantile)
    how = checked(unidentified)

    def ask(fit: Any) -> Any:
        if usd is None:
            if not hasattr(fit, "predict"):
                raise DataError("a law alone has no runs: --flops takes a FILE or --builtin", column="law")
            return fit.optimal(flops, unidentified=how)
        from economics.decide import best_for_budget

        return best_for_budget(usd, fit, quantile=quantile, unidentified=how, **settings_of(costing))

    return answer(ask, source, builtin, law, as_json)


@app.command()
@takes_groups
def inference(
    costing: Costing,
    source: Source = None,
    builtin: Builtin = None,
    law: Law = None,
    served: Served = None,
    loss: Annotated[float | None, typer.Option(help="Loss to reach.", rich_help_panel=GOAL)] = None,
    like: Like = None,
    flops: Flops = None,
    usd: Usd = None,
    serving: Serving = None,
    quantile: Quantile = "0.5",
    unidentified: Unidentified = "raise",
    as_json: Json = False,
) -> int:
    """Find the run that is cheapest over its life, serving included: in FLOP, or with --gpu in dollars."""
    if served is None:
        raise DataError("give --served, tokens over the life of the model", column="served")
    one_of(loss=loss, like=like, flops=flops, usd=usd)
    goal = run_of(like)
    counts_dollars(costing.gpu is not None or usd is not None, costing, serving=serving, quantile=quantile)
    how = checked(unidentified)

    def ask(fit: Any) -> Any:
        if costing.gpu is None and usd is None:
            from scaling.optima import inference_optimal

            return inference_optimal(fit, served, loss=loss, like=goal, flops=flops, unidentified=how)
        from economics.decide import best_for_budget, cheapest_for_loss

        if flops is not None:
            raise DataError("--flops counts no dollars: leave --gpu out, or give --usd", column="flops")
        shared: dict[str, Any] = {
            "served": served, "serving": mapping("serving", serving or []) or None, "quantile": quantile,
            "unidentified": how, **settings_of(costing),
        }  # fmt: skip
        if usd is not None:
            return best_for_budget(usd, fit, **shared)
        return cheapest_for_loss(fit, loss, like=goal, **shared)

    return answer(ask, source, builtin, law, as_json)


@app.command()
@takes_groups
def data(
    costing: Costing,
    source: Source = None,
    builtin: Builtin = None,
    law: Law = None,
    unique: Unique = None,
    flops: Flops = None,
    usd: Usd = None,
    worth: Worth = 0.5,
    r_d: Annotated[
        float | None, typer.Option("--r-d", help="R_D: a repetition is worth exp(-r/R_D); 15.4 as published.")
    ] = None,
    r_d_range: Annotated[
        str | None, typer.Option("--r-d-range", help="What R_D may as well be; 4,1e6.", metavar="LOW,HIGH")
    ] = None,
    quantile: Quantile = "0.5",
    unidentified: Unidentified = "raise",
    as_json: Json = False,
) -> int:
    """Find the best size and epochs where unique tokens are scarce, for compute or for money."""
    if unique is None:
        raise DataError("give --unique, the distinct tokens there are", column="unique")
    one_of(flops=flops, usd=usd)
    counts_dollars(usd is not None, costing, quantile=quantile)
    how = checked(unidentified)

    def ask(fit: Any) -> Any:
        repetition = repetition_of(r_d, r_d_range)
        if usd is None:
            from scaling.optima import data_limited_optimal

            assert flops is not None
            return data_limited_optimal(
                fit, unique, flops, repetition=repetition, worth_share=worth, unidentified=how
            )
        from economics.decide import best_for_budget

        return best_for_budget(
            usd, fit, unique_tokens=unique, repetition=repetition, worth_share=worth, quantile=quantile,
            unidentified=how, **settings_of(costing),
        )  # fmt: skip

    return answer(ask, source, builtin, law, as_json)


@app.command()
@takes_groups
def loss(
    costing: Costing,
    source: Source = None,
    builtin: Builtin = None,
    law: Law = None,
    loss: Annotated[float | None, typer.Option(help="Loss to reach.", rich_help_panel=GOAL)] = None,
    probability: Annotated[
        float, typer.Option(help="How surely one run is to reach it.", rich_help_panel=GOAL)
    ] = 0.5,
    among: Annotated[
        list[str] | None,
        typer.Option(help="Accelerators to compare, or all. May be repeated.", metavar="GPU"),
    ] = None,
    markets: Annotated[
        list[str] | None,
        typer.Option(
            "--among-markets", help="Markets to compare, or all. May be repeated.", metavar="MARKET"
        ),
    ] = None,
    hours: Annotated[str | None, typer.Option(help="The run has to end within them, such as '3 d'.")] = None,
    quantile: Quantile = "0.5",
    unidentified: Unidentified = "raise",
    as_json: Json = False,
) -> int:
    """Find the cheapest run that reaches a loss: in FLOP, or with --gpu or --among in dollars and on which machines."""
    if loss is None:
        raise DataError("give --loss, the loss to reach", column="loss")
    dollars = costing.gpu is not None or bool(among)
    counts_dollars(dollars, costing, among_markets=markets, hours=hours, quantile=quantile)
    how = checked(unidentified)

    def ask(fit: Any) -> Any:
        if not dollars:
            from scaling.optima import cheapest_for_loss as in_flops

            return in_flops(fit, loss, probability=probability, unidentified=how)
        from economics.decide import cheapest_for_loss

        return cheapest_for_loss(
            fit, loss, probability=probability, gpus=words_of(among), markets=words_of(markets), hours=hours,
            quantile=quantile, unidentified=how, **settings_of(costing),
        )  # fmt: skip

    return answer(ask, source, builtin, law, as_json)


@app.command()
@takes_groups
def deadline(
    costing: Costing,
    source: Source = None,
    builtin: Builtin = None,
    law: Law = None,
    hours: Annotated[
        str | None, typer.Option(help="Time there is, such as 24 or '3 d'.", rich_help_panel=GOAL)
    ] = None,
    up_to: Annotated[
        str | None, typer.Option("--up-to", help="The most GPUs, in place of --n-gpus.", metavar="COUNT")
    ] = None,
    quantile: Quantile = "0.5",
    unidentified: Unidentified = "raise",
    as_json: Json = False,
) -> int:
    """Find the lowest loss within some hours; with --params and --tokens, how many GPUs that run needs."""
    if hours is None:
        raise DataError("give --hours, the time there is", column="hours")
    if costing.params is not None and costing.tokens is not None:
        from economics.decide import gpus_needed

        if source or builtin or law:
            raise DataError("--params and --tokens need no law: leave it out", column="fit")
        settings = {k: v for k, v in costing.keywords().items() if k != "n_gpus" or v is not None}
        run = gpus_needed(settings.pop("N"), settings.pop("D"), hours, quantile=quantile, **settings)
        say_json(run) if as_json else say(as_commands(repr(run)))
        return verdict_code(run.findings)

    how = checked(unidentified)

    def ask(fit: Any) -> Any:
        from economics.decide import best_by_deadline

        return best_by_deadline(
            hours, fit, up_to=up_to, quantile=quantile, unidentified=how, **settings_of(costing)
        )

    return answer(ask, source, builtin, law, as_json)


@app.command()
@takes_groups
def smaller(
    costing: Costing,
    source: Source = None,
    builtin: Builtin = None,
    law: Law = None,
    flops: Flops = None,
    like: Like = None,
    serving: Serving = None,
    unidentified: Unidentified = "raise",
    as_json: Json = False,
) -> int:
    """Hold a model of --params trained for longer against a reference run: what it loses, costs and saves."""
    one_of(flops=flops, like=like)
    params, goal = costing.params, run_of(like)
    if params is None:
        raise DataError("give --params, the size that is held against the reference", column="params")
    counts_dollars(costing.gpu is not None, costing, params=True, serving=serving)
    how = checked(unidentified)

    def ask(fit: Any) -> Any:
        if costing.gpu is None:
            from scaling.optima import overtraining

            return overtraining(fit, params, flops=flops, like=goal, unidentified=how)
        from economics.decide import smaller_model

        settings = settings_of(costing, params=True)
        about = mapping("serving", serving or []) or None
        return smaller_model(fit, params, flops=flops, like=goal, serving=about, unidentified=how, **settings)

    return answer(ask, source, builtin, law, as_json)
