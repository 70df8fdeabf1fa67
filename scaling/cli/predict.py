"""``scaling predict``: answers of a fitted law about a size, a token count, a budget or a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from scaling.cli.failures import NEGATIVE
from scaling.cli.fit import Source, verdict_code
from scaling.cli.options import Builtin, Fitting, Json, Reading, takes_groups
from scaling.cli.output import note, say, say_json, warnings_told
from scaling.cli.source import open_input, read_fit
from scaling.errors import DataError, IdentificationWarning

if TYPE_CHECKING:
    from scaling.guard import Unidentified
    from scaling.result import ChinchillaFit

_ASK = "What to ask (one, or --params with --tokens or --flops)"


@takes_groups
def predict(
    reading: Reading,
    fitting: Fitting,
    source: Source = None,
    builtin: Builtin = None,
    params: Annotated[
        str | None, typer.Option(help="Size N, such as 1B: its compute-optimal tokens.", rich_help_panel=_ASK)
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            help="Tokens D: the size they are optimal for, or with --params the loss.", rich_help_panel=_ASK
        ),
    ] = None,
    flops: Annotated[
        str | None,
        typer.Option(
            help="Budget C = 6ND: the best run for it, or with --params its loss.", rich_help_panel=_ASK
        ),
    ] = None,
    unidentified: Annotated[
        str, typer.Option(help="What to do when the runs do not determine the answer: raise or return.")
    ] = "raise",
    as_json: Json = False,
) -> int:
    """Ask a law for compute-optimal sizes, tokens and losses, with intervals."""
    question = _question(params, tokens, flops)
    with warnings_told(*(() if as_json else (IdentificationWarning,))):
        fit = read_fit(open_input(source, builtin), reading, fitting)
        answers, refused = _answers(fit, question, unidentified)
    if as_json:
        say_json({"verdict": fit.verdict, "question": question, "refused": refused, **answers})
    else:
        say("\n".join(_lines(answers)))
        if refused:
            note(f"not to be planned with: {refused}", "red")
        elif fit.verdict != "identified":
            note(f"the law as a whole is {_WORDS[fit.verdict]}: `scaling fit` says why", "yellow")
    return NEGATIVE if refused else verdict_code(fit)


_WORDS = {"weak": "weakly identified", "not identified": "not identified"}
_LABELS = {
    "tokens": "D*  compute-optimal tokens",
    "params": "N*  compute-optimal size  ",
    "tokens_per_param": "D*/N                      ",
}


def _question(params: str | None, tokens: str | None, flops: str | None) -> dict[str, float]:
    """Read and check what is asked."""
    from scaling.arguments import positive_count

    asked = {"params": params, "tokens": tokens, "flops": flops}
    question = {name: positive_count(name, text) for name, text in asked.items() if text is not None}
    if not question:
        raise DataError("nothing asked: give --params, --tokens, --flops, or --params with one of the others")
    if "flops" in question and "tokens" in question:
        raise DataError(
            "--flops and --tokens are two questions: ask one, or --params with one", column="flops"
        )
    return question


def _answers(fit: ChinchillaFit, question: dict[str, float], unidentified: str) -> tuple[dict[str, Any], str]:
    """Return the answers by name, and in words why they must not be used where that is so."""
    how: Unidentified = unidentified  # type: ignore[assignment]  # the library checks it, with its own words
    n, d, c = (question.get(name) for name in ("params", "tokens", "flops"))
    if n is None:
        if c is not None:
            found = {"optimum": fit.optimal(c, unidentified=how), **_open(fit, "optimal", c)}
            return found, _refusal(fit, "optimal", c)
        assert d is not None
        found = {"params": fit.params_at(d, unidentified=how), **_open(fit, "params_at", d)}
        return found, _refusal(fit, "params_at", d)
    if d is None and c is None:
        answers = {
            "tokens": fit.tokens_at(n, unidentified=how),
            "tokens_per_param": fit.tokens_per_param(n, unidentified=how),
            **_open(fit, "tokens_at", n),
        }
        return answers, _refusal(fit, "tokens_at", n)
    from scaling.laws.chinchilla import FLOPS_PER_PARAM_TOKEN

    d = d if d is not None else question["flops"] / (FLOPS_PER_PARAM_TOKEN * n)
    return _loss(fit, n, d)


def _open(fit: ChinchillaFit, method: str, at: float) -> dict[str, Any]:
    """Return the same answer with the form of the law left open, where the runs reject that form."""
    if fit.diagnostics.finding("form_rejected") is None:
        return {}
    return {"open_form": getattr(fit.open_form, method)(at, unidentified="return")}


def _loss(fit: ChinchillaFit, n: float, d: float) -> tuple[dict[str, Any], str]:
    """Predict one run; far outside the data the number is shown with the refusal beside it."""
    from scaling.errors import NotIdentifiedError
    from scaling.guard import REFUSE_DECADES

    prediction = fit.predict(n, d)
    answers: dict[str, Any] = {"loss": prediction}
    refused = ""
    if prediction.decades_outside > REFUSE_DECADES:
        away = prediction.decades_outside
        refused = f"this run lies {away:.1f} decades of compute beyond the runs fitted"
    try:
        answers["regime"] = fit.regime(n, d)
    except NotIdentifiedError as error:
        answers["regime"] = None
        refused = refused or str(error)
    return answers, refused


def _refusal(fit: ChinchillaFit, method: str, at: float) -> str:
    """Return why an answer was refused, or empty words where it was not."""
    import warnings

    from scaling.errors import NotIdentifiedError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(fit, method)(at)
    except NotIdentifiedError as error:
        return str(error).partition(" (unidentified=")[0]
    return ""


def _lines(answers: dict[str, Any]) -> list[str]:
    out = []
    for name, answer in answers.items():
        if name in _LABELS:
            out.append(f"{_LABELS[name]}  {answer}")
        elif name == "open_form":
            out.append(f"the runs reject the form of the law (`scaling fit`); with it left open:\n{answer!r}")
        elif answer is not None:
            out.append(repr(answer))
    return out
