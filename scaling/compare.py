"""Laws ranked by how well they foresee larger runs, not by how well they fit the runs at hand."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import numpy as np

from scaling.arguments import as_table, check_whole
from scaling.errors import DataError, ScalingError, TooFewRunsError
from scaling.foresight import cuts_at, interval_score
from scaling.intervals import stretch
from scaling.law_fit import column
from scaling.laws.base import Array, Mask, quiet
from scaling.open_form.posterior import design_effect
from scaling.residuals import noise_sd
from scaling.runs import RunTable

#: Shares of the runs, in order of compute, that predict the rest.
SHARES = (0.5, 0.65, 0.8)
#: The main law with alpha = beta is compared under this name, beside those of `scaling.law_names.LAWS`.
TIED = "chinchilla, tied"
LEVEL = 0.95
#: Correlation of departures from a law, and degrees of freedom of its intervals: laws of any form fitted to the
#: smaller runs of public tables miss the larger ones by 1 standard error of their draws with 15 rows, 2 with 45
#: and 3 with 100.
_RHO, _DOF = 0.10, 12.0

Fitter = Callable[..., Any]


@dataclass(frozen=True)
class LawScore:
    """What a law fitted below cuts of compute made of the runs above.

    Parameters
    ----------
    name : str
        The law.
    error : float
        Mean absolute error of log loss above the cuts, each cut counting alike: 0.01 is 1% of the loss. nan
        where no cut could be fitted.
    bias : float
        Mean over cuts of the median error; positive where runs came out worse than foreseen.
    score : float
        Mean interval score of log losses for intervals of 95%; nan without draws.
    coverage : float
        Share of the runs above inside those intervals.
    rms : float
        Root mean square residual of the law fitted to all runs: fit, not foresight.
    n_cuts : int
        Cuts that could be fitted.
    refusal : str
        Why some could not.
    """

    name: str
    error: float
    bias: float
    score: float
    coverage: float
    rms: float
    n_cuts: int
    refusal: str = ""


@dataclass(frozen=True)
class Comparison:
    """Laws in order of their errors on larger runs, from `compare_laws`.

    Parameters
    ----------
    laws : tuple of LawScore
        The best first; those that failed at some cut after those that did not.
    n_below, n_above : tuple of int
        Runs on either side of every cut.
    """

    laws: tuple[LawScore, ...]
    n_below: tuple[int, ...]
    n_above: tuple[int, ...]

    def __repr__(self) -> str:
        width = max(len(law.name) for law in self.laws)
        cuts = ", ".join(f"{b} predict {a}" for b, a in zip(self.n_below, self.n_above, strict=True))
        head = f"{'law':<{width}}  {'error':>7} {'bias':>7} {'score':>7} {'covered':>8} {'fit, rms':>9}"
        lines = [f"laws by their error on larger runs (log loss; {cuts})", head]
        for law in self.laws:
            cells = (
                f"{_percent(law.error, '.2f'):>7} {_percent(law.bias, '+.2f'):>7} {_percent(law.score, '.1f'):>7} "
                f"{_percent(law.coverage, '.0f'):>8} {_percent(law.rms, '.2f'):>9}"
            )
            short = f"  {law.n_cuts} of {len(self.n_below)} cuts: {law.refusal}" if law.refusal else ""
            lines.append(f"{law.name:<{width}}  {cells}{short}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain types."""
        return {
            "laws": [asdict(law) for law in self.laws],
            "n_below": list(self.n_below),
            "n_above": list(self.n_above),
        }


def compare_laws(
    runs: RunTable | Any,
    laws: Sequence[str] | Mapping[str, Fitter] | None = None,
    *,
    shares: Sequence[float] = SHARES,
    n_boot: int = 0,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """Rank laws by the error of their predictions of larger runs.

    Parameters
    ----------
    runs : path, DataFrame or RunTable
        The runs.
    laws : sequence of str, or mapping of str to callable, optional
        Names (those of `scaling.law_names.LAWS`, and ``"chinchilla, tied"``), or functions ``fit(runs,
        n_boot=, seed=, **options)`` that return what `fit_chinchilla` or `fit_kaplan` do. All named laws by
        default; those that need a column the table lacks are listed with that reason.
    shares : sequence of float
        Shares of the runs, in order of compute, that predict the rest.
    n_boot : int
        Refits of every law at every cut, for interval scores; 0 for none. A refit of a law with extra
        coefficients takes 0.1 s.
    seed, **options
        As in `fit_chinchilla`; passed to every law.

    Returns
    -------
    Comparison

    Raises
    ------
    DataError
        No law has a name given, an option is out of range, or the runs cannot be read or cut.

    Notes
    -----
    The interval of a run is made alike for every law: Student's t about the law, of its draws' standard error
    times the factor kappa and of its residuals. kappa^2 = (1 + (n - 1) rho) (n - p - 1) / n, at least 1, for n units
    and p coefficients: shared departures (`design_effect` of `scaling.open_form.posterior`), less what resampled rows
    scatter more than new ones would (the mean of an inverted Wishart matrix).

    Examples
    --------
    >>> import numpy as np
    >>> N, D = (a.ravel() for a in np.meshgrid(np.geomspace(2e7, 2e9, 6), np.geomspace(1e9, 1e11, 5)))
    >>> table = RunTable.from_arrays(params=N, tokens=D, loss=1.8 + 480 / N**0.35 + 2100 / D**0.37)
    >>> ranked = compare_laws(table, ["kaplan", "chinchilla", "power"])
    >>> [law.name for law in ranked.laws]
    ['chinchilla', 'kaplan', 'power']
    """
    table = as_table(runs, None, None, None, {})
    check_whole("n_boot", n_boot)  # here: a law that refuses them would only be listed as refusing
    check_whole("seed", seed)
    fitters = _fitters(laws)
    cuts = [(below, above) for _, below, above in cuts_at(table, shares)]
    if not cuts:
        _refuse_cuts(table, shares)
    given = {"n_boot": n_boot, "seed": seed, **options}
    found = [_score(name, fit, table, cuts, given) for name, fit in fitters.items()]
    worst = (math.inf, math.inf)
    found.sort(key=lambda law: worst if math.isnan(law.error) else (len(cuts) - law.n_cuts, law.error))
    return Comparison(
        tuple(found), tuple(int(b.sum()) for b, _ in cuts), tuple(int(a.sum()) for _, a in cuts)
    )


def _refuse_cuts(table: RunTable, shares: Sequence[float]) -> NoReturn:
    """Raise for runs that no share cuts in two, and say why."""
    budgets = len(np.unique(table.compute))
    if budgets > 1:
        told = f"shares {', '.join(f'{s:g}' for s in shares)} leave no run above: give smaller ones"
        raise DataError(
            f"no share cuts the {len(table)} runs of {table.source} in two: {told}", column="shares"
        )
    rows = "1 run" if len(table) == 1 else f"{len(table)} runs of one compute, {table.compute[0]:.3g} FLOP"
    raise TooFewRunsError(
        f"{table.source} holds {rows}: laws are compared by fitting them to the smaller runs and foretelling the "
        "larger, so runs of different compute are needed, 12 and more for most laws",
        n_runs=len(table),
        needed=12,
        quantities=("error",),
    )


def _fitters(laws: Sequence[str] | Mapping[str, Fitter] | None) -> dict[str, Fitter]:
    """Return what fits every law, by name."""
    from scaling.law_names import LAWS, fit_law, named_law

    if isinstance(laws, Mapping):
        bad = [name for name, fit in laws.items() if not callable(fit)]
        if bad:
            raise DataError(
                f"laws[{bad[0]!r}] is no function that fits runs: {laws[bad[0]]!r}", column="laws"
            )
        return {str(name): fit for name, fit in laws.items()}
    if isinstance(laws, str):
        laws = [laws]

    def by_name(name: str) -> Fitter:
        law, more = ("chinchilla", {"tied": True}) if name == TIED else (named_law(name).name, {})
        return lambda runs, **options: fit_law(law, runs, **{**options, **more})

    names = [*LAWS, TIED] if laws is None else list(laws)
    if not names:
        raise DataError(f"no law to compare: there are {', '.join([*LAWS, TIED])}", column="laws")
    return {name: by_name(name) for name in names}


def _score(
    name: str,
    fit: Fitter,
    table: RunTable,
    cuts: list[tuple[Mask, Mask]],
    options: dict[str, Any],
) -> LawScore:
    errors, biases, scores, covers, refusals = [], [], [], [], []
    rms = math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Residuals need no draws.
            whole = fit(table, **{**options, "n_boot": 0})
            rms = float(
                np.sqrt(np.mean((np.log(table.loss) - np.log(_losses(whole.law, whole, table))) ** 2))
            )
        except ScalingError as refused:
            refusals.append(_first_words(refused))
        for below, above in cuts:
            larger = table.select(above)
            try:
                found = fit(table.select(below), **options)
                away = np.log(larger.loss) - np.log(_losses(found.law, found, larger))
            except ScalingError as refused:
                refusals.append(_first_words(refused))
                continue
            errors.append(float(np.mean(np.abs(away))))
            biases.append(float(np.median(away)))
            reach = _reach(found, larger)
            scores.append(float(np.mean(interval_score(-reach, reach, away, LEVEL))))
            covers.append(float(np.mean(np.abs(away) <= reach)) if np.isfinite(reach).all() else math.nan)
    error, bias, score, cover = (
        float(np.mean(v)) if v else math.nan for v in (errors, biases, scores, covers)
    )
    return LawScore(name, error, bias, score, cover, rms, len(errors), refusals[0] if refusals else "")


def _losses(law: Any, fit: Any, runs: RunTable) -> Array:
    """Return the losses of a fit's law, or of its draws laid out along a first axis, at every run."""
    variables = getattr(fit, "variables", ("params", "tokens"))
    return np.asarray(law.loss(*(column(runs, name) for name in variables)))


@quiet
def _reach(fit: Any, runs: RunTable) -> Array:
    """Return half the width of the interval of a single run in log loss; nan without draws."""
    from scipy.special import ndtri, stdtrit

    tail, fields = (1 + LEVEL) / 2, vars(fit.draws)
    n_draws = min(np.size(v) for v in fields.values())
    if not n_draws:
        return np.full(len(runs), np.nan)
    draws = type(fit.draws)(**{name: np.asarray(v)[:, None] for name, v in fields.items()})
    low, high = np.quantile(np.log(_losses(draws, fit, runs)), [1 - tail, tail], axis=0)
    n_units = fit.n_units if hasattr(fit, "n_units") else fit.settings.n_clusters
    error = (high - low) / 2 / float(ndtri(tail)) * stretch(n_units, LEVEL)
    kappa = math.sqrt(max(design_effect(n_units, _RHO) * (n_units - len(fields) - 1) / n_units, 1.0))
    noise = noise_sd(fit.residuals, len(fields))
    return np.asarray(float(stdtrit(_DOF, tail)) * np.hypot(kappa * error, noise))


def _first_words(error: ScalingError) -> str:
    """Return what went wrong, without what to do about it; of too few runs also how many are needed."""
    return re.split(r"[.] " if isinstance(error, TooFewRunsError) else r"[.:] ", str(error))[0]


def _percent(share: float, digits: str) -> str:
    return "–" if math.isnan(share) else f"{100 * share:{digits}}%"
