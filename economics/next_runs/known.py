"""What is known before the next runs: laws held possible, runs at hand, the noise; and where each comes from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from economics.run_numbers import share
from scaling.design import Known, believe, single_laws
from scaling.errors import DataError, NotIdentifiedError, shown
from scaling.findings import Finding
from scaling.jacobian import gradient
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.published import published

if TYPE_CHECKING:
    from collections.abc import Callable

    from scaling.result import ChinchillaFit
    from scaling.runs import RunTable

#: Noise of a log loss, and its correlation among branches of a trunk, where nothing says them.
ASSUMED_SIGMA, ASSUMED_RHO = 0.01, 0.5
#: The law that stands in where the runs at hand identify none.
PRIOR = "hoffmann2022"
#: Short names of published laws: the points of Hoffmann et al. 2022 as Besiroglu et al. 2024 fitted them.
_SHORT = {"hoffmann2022": "Besiroglu replication (best of grid)"}
_N_BOOT = 200
#: Residuals say the noise from so many runs on: five coefficients pass through five.
_ENOUGH = 8


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What is known before the next runs.

    Parameters
    ----------
    law : ChinchillaLaw
        The most likely law, and `laws` others held possible.
    runs : RunTable or None
        Runs at hand; `known` is what of them counts here.
    sigma, rho : float
        Noise of a log loss, and its correlation within a trunk.
    delta, fixed, tied
        How the law will be fitted.
    basis : str
        Where the laws come from, in words.
    noise : str
        Where sigma and rho come from.
    findings : tuple of Finding
        What to know about it.
    """

    law: ChinchillaLaw
    laws: tuple[ChinchillaLaw, ...]
    runs: RunTable | None
    known: Known
    sigma: float
    rho: float
    delta: float
    fixed: dict[str, float]
    tied: bool
    basis: str
    noise: str
    findings: tuple[Finding, ...] = field(default=())


def read_reading(reading: Any) -> dict[str, Any]:
    """Return arguments of `scaling.load_runs`, refused where it has none of that name."""
    import inspect

    from scaling.table import load_runs

    if reading is not None and not isinstance(reading, Mapping):
        raise DataError(
            f"reading must be a mapping of arguments of load_runs, got {shown(reading)}", column="reading"
        )
    known = [name for name in inspect.signature(load_runs).parameters][1:]
    for name in sorted(map(str, set(reading or {}) - set(known))):
        raise DataError(f"reading has no {name!r}: it takes {', '.join(known)}", column="reading")
    return dict(reading or {})


def read_runs(runs: Any, reading: dict[str, Any]) -> tuple[RunTable | None, ChinchillaFit | None, str]:
    """Return the table, the fit of it, and why there is no fit that identifies the law ("" where there is)."""
    from scaling.fit import fit_chinchilla
    from scaling.result import ChinchillaFit
    from scaling.runs import RunTable
    from scaling.table import load_runs

    if runs is None:
        return None, None, "there are no runs yet"
    fit: ChinchillaFit | None = runs if isinstance(runs, ChinchillaFit) else None
    if fit is None:
        table = runs if isinstance(runs, RunTable) else load_runs(runs, **reading)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say is a finding here
            try:
                fit = fit_chinchilla(table, n_boot=_N_BOOT)
            except NotIdentifiedError as error:
                return table, None, str(error).split(":")[0].split(". ")[0].rstrip(".")
    elif reading:
        raise DataError(
            f"runs is a fit, which {', '.join(reading)} cannot change: give the table", column="runs"
        )
    if fit.verdict == "not identified":
        first = next(f for f in fit.diagnostics.identification if f.severity == "error")
        return fit.runs, fit, first.message.split(". ")[0].rstrip(".")
    return fit.runs, fit, "" if fit.draws.E.size >= 2 else "the fit has no bootstrap draws"


def gather(
    runs: Any,
    prior: str | ChinchillaLaw | None,
    sigma: Any,
    rho: Any,
    *,
    function: Callable[[ChinchillaLaw], float],
    centre: tuple[float, float] | None,
    n_laws: int,
    seed: int,
    reading: dict[str, Any],
) -> Knowledge:
    """Return what runs, a prior and given numbers say together.

    Parameters
    ----------
    runs : path, DataFrame, RunTable, ChinchillaFit or None
        Runs at hand. Where they identify the law, the bootstrap draws of its fit are the laws possible.
    prior : str or ChinchillaLaw, optional
        A published law that is to speak besides; also used, and said, where the runs identify none.
    sigma, rho : float, optional
        As given; else measured, else assumed, and it is said which.
    function : callable
        The quantity wanted: laws at which it has no derivative are left out.
    centre : (float, float), optional
        Parameters and tokens in the middle of the runs to come; that of the runs at hand if not given.
    n_laws, seed : int
        How many laws, and the seed of those drawn.
    reading : dict
        Arguments of `load_runs`.
    """
    table, fit, open_ = read_runs(runs, reading)
    s, s_words, found = _sigma(sigma, table, fit)
    r, r_words, more = _rho(rho)
    found += more
    known = Known.nothing()
    if table is not None:
        known = Known(table.params, table.tokens, _clusters(table, fit))
    if fit is not None and not open_ and prior is None:
        law, laws = fit.law, tuple(single_laws(fit.draws, n_laws))
        basis = f"{len(table or ())} runs, whose fit identifies the law ({fit.verdict}): {n_laws} bootstrap draws of it"
    else:
        start, name = published_prior(PRIOR if prior is None else prior)
        middle = centre or (5e7, 1e9)
        if table is not None:
            middle = (float(np.exp(np.log(table.params).mean())), float(np.exp(np.log(table.tokens).mean())))
        belief = believe(
            start, middle, known, None if table is None else table.loss, sigma=s, rho=r, n=n_laws, seed=seed
        )
        law, laws = belief.law, belief.laws
        own = "no runs of your own" if table is None else f"{len(table)} runs of your own"
        basis = f"{own} and the law of {name}, with the spread of published laws: {n_laws} draws"
        if table is not None and open_:
            words = (
                f"the runs at hand do not identify the law ({open_}); its shape where they are silent is taken from "
                f"{name}, moved to their level."
            )
            found.append(Finding("prior_used", "warning", words, {"prior": name, "scale": belief.scale}))
    usable = tuple(one for one in laws if np.isfinite(gradient(function, one)).all())
    if not usable:
        raise DataError("the target has no finite derivative at any law held possible", column="target")
    held = {} if fit is None else dict(fit.settings.fixed)
    return Knowledge(
        law, usable, table, known, s, r, 1e-3 if fit is None else fit.settings.delta, held,
        False if fit is None else fit.settings.tied, basis, f"{s_words}; {r_words}", tuple(found),
    )  # fmt: skip


def published_prior(prior: str | ChinchillaLaw) -> tuple[ChinchillaLaw, str]:
    """Return a published law by its name, or the one given, and what to call it.

    Raises
    ------
    DataError
        No law is called that, or it predicts no loss of a size and tokens.
    """
    if isinstance(prior, ChinchillaLaw):
        return prior, "the law given"
    if not isinstance(prior, str):
        raise DataError(
            f"prior must be a published law's name or a ChinchillaLaw, got {shown(prior)}", column="prior"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rounded exponents: the spread is far wider
        try:
            found = published(_SHORT.get(prior, prior))
        except DataError as error:
            raise DataError(f"prior: {error}", column="prior") from error
    if not isinstance(found.law, ChinchillaLaw):
        raise DataError(f"{prior} has no L(N, D) to plan with: give another prior", column="prior")
    return found.law, prior if prior not in _SHORT else f"{prior} ({found.name})"


def _clusters(table: RunTable, fit: ChinchillaFit | None) -> Any:
    from scaling.resample import plan

    if fit is not None:
        return fit.cluster
    try:
        return plan(table, "auto", None).cluster
    except DataError:  # all rows on one trunk
        return np.zeros(len(table), dtype=np.int64)


def _sigma(given: Any, table: RunTable | None, fit: ChinchillaFit | None) -> tuple[float, str, list[Finding]]:
    """Return the noise of a log loss: given, of seeds, of residuals, or assumed."""
    from scaling.residuals import noise_sd

    if given is not None:
        value = share("sigma", given)
        if not value > 0:
            raise DataError(
                f"sigma, the noise of a log loss, must be positive, got {shown(given)}", column="sigma"
            )
        return value, f"{value:.2%} of the loss (given)", []
    if table is not None and table.sigma is not None and np.isfinite(table.sigma).any():
        value = float(np.nanmedian(table.sigma / table.loss))
        return value, f"{value:.2%} of the loss (of the seeds at hand)", []
    if fit is not None and fit.n_runs >= _ENOUGH:
        value = noise_sd(fit.residuals, 5 - len(fit.settings.fixed) - fit.settings.tied)
        if value > 1e-5:
            return value, f"{value:.2%} of the loss (of the fit's residuals)", []
    words = (
        f"nothing at hand measures the noise between runs: {ASSUMED_SIGMA:.0%} of the loss is assumed, and every width "
        "is in proportion to it. Two seeds of one size measure it; sigma= says it."
    )
    finding = Finding("noise_assumed", "warning", words, {"sigma": ASSUMED_SIGMA})
    return ASSUMED_SIGMA, f"{ASSUMED_SIGMA:.0%} of the loss (assumed)", [finding]


def _rho(given: Any) -> tuple[float, str, list[Finding]]:
    if given is not None:
        value = share("rho", given)
        return value, f"correlation {value:g} within a trunk (given)", []
    words = (
        f"branches of one trunk share noise: a correlation of {ASSUMED_RHO:g} is assumed. Branches of several seeds "
        "measure it; rho= says it."
    )
    finding = Finding("correlation_assumed", "info", words, {"rho": ASSUMED_RHO})
    return ASSUMED_RHO, f"correlation {ASSUMED_RHO:g} within a trunk (assumed)", [finding]
