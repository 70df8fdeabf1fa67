"""The laws by name: what fits each to a table, with one interface for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.coupled import fit_coupled
from scaling.data_constrained import fit_data_constrained, fit_repetition_penalty
from scaling.errors import DataError
from scaling.fit import fit_chinchilla
from scaling.law_fit import column
from scaling.laws.coupled import CoupledLaw, attach_coupled
from scaling.laws.data_constrained import DataConstrainedLaw, attach_data_constrained
from scaling.laws.kaplan import KaplanLaw
from scaling.laws.overtraining import OvertrainingLaw, attach_overtraining
from scaling.laws.penalty import RepetitionPenaltyLaw, attach_penalty
from scaling.laws.power import PowerLaw, attach_power
from scaling.other_laws import fit_kaplan, fit_power_law
from scaling.overtraining import fit_overtraining
from scaling.runs import RunTable

if TYPE_CHECKING:
    from scaling.law_fit import LawFit
    from scaling.result import ChinchillaFit


@dataclass(frozen=True)
class NamedLaw:
    """A law under its name.

    Parameters
    ----------
    name : str
        As in ``scaling fit --law NAME``.
    formula : str
        In words that fit on a line.
    law : type
        Its class, with ``COEFFICIENTS`` and ``loss``.
    fit : callable
        ``fit(runs, **options)``; the options of `fit_chinchilla` that the law knows.
    attach : callable or None
        ``attach(runs, variables, held, tied)``: the law tied to runs with coefficients held; None for the main
        law, which has a profile of its own (`scaling.profile`), and for one without coefficients to hold.
    """

    name: str
    formula: str
    law: type
    fit: Callable[..., Any]
    attach: Callable[[RunTable, tuple[str, ...], Mapping[str, float], bool], Any] | None


def _chinchilla(runs: RunTable, **options: Any) -> ChinchillaFit:
    """Fit the main law through the same door."""
    return fit_chinchilla(runs, **options)


def _laws() -> tuple[NamedLaw, ...]:
    from scaling.laws.chinchilla import ChinchillaLaw

    return (
        NamedLaw("chinchilla", "E + A/N^alpha + B/D^beta", ChinchillaLaw, _chinchilla, None),
        NamedLaw(
            "coupled",
            "E + (A/N^alpha + B/D^beta)^k",
            CoupledLaw,
            fit_coupled,
            lambda r, v, held, tied: attach_coupled(r.params, r.tokens, np.log(r.loss), held, tied),
        ),
        NamedLaw(
            "data-constrained",
            "E + A/N'^alpha + B/D'^beta, with effective parameters and tokens",
            DataConstrainedLaw,
            fit_data_constrained,
            lambda r, v, held, tied: attach_data_constrained(
                r.params, r.tokens, column(r, "unique_tokens"), np.log(r.loss), held, tied
            ),
        ),
        NamedLaw(
            "kaplan",
            "[(Nc/N)^(aN/aD) + Dc/D]^aD",
            KaplanLaw,
            fit_kaplan,
            None,
        ),
        NamedLaw(
            "overtraining",
            "E + (a M^eta + b/M^eta) C^-eta, M = D/N",
            OvertrainingLaw,
            fit_overtraining,
            lambda r, v, held, tied: attach_overtraining(r.params, r.tokens, np.log(r.loss), held),
        ),
        NamedLaw(
            "repetition-penalty",
            "E + A/N^alpha + B/D^beta + P ((D/U - 1) N/U)^kappa",
            RepetitionPenaltyLaw,
            fit_repetition_penalty,
            lambda r, v, held, tied: attach_penalty(
                r.params, r.tokens, column(r, "unique_tokens"), np.log(r.loss), held, tied
            ),
        ),
        NamedLaw(
            "power",
            "E + A/C^alpha, in one variable",
            PowerLaw,
            fit_power_law,
            lambda r, v, held, tied: attach_power(column(r, v[0]), np.log(r.loss), held),
        ),
    )


#: Every law by its name.
LAWS: dict[str, NamedLaw] = {law.name: law for law in _laws()}


def named_law(name: str) -> NamedLaw:
    """Return a law by its name.

    Raises
    ------
    DataError
        No law has this name; the message lists them.

    Examples
    --------
    >>> named_law("kaplan").formula
    '[(Nc/N)^(aN/aD) + Dc/D]^aD'
    """
    if not isinstance(name, str) or name not in LAWS:
        raise DataError(f"no law is called {name!r}: there are {', '.join(LAWS)}", column="law")
    return LAWS[name]


def fit_law(name: str, runs: RunTable, **options: Any) -> LawFit | ChinchillaFit:
    """Fit a law by its name.

    Parameters
    ----------
    name : str
        One of `LAWS`.
    runs : RunTable
        The runs.
    **options
        Of that law's own function.

    Returns
    -------
    LawFit or ChinchillaFit
        Both have ``law.loss(params, tokens)``, ``ci``, ``predict``, ``verdict``, ``objective``, ``residuals``.

    Raises
    ------
    DataError
        No law has this name, or an option does not belong to it; and what its function raises.
    """
    law = named_law(name)
    try:
        return law.fit(runs, **options)  # type: ignore[no-any-return]
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        option = str(error).rsplit("'", 2)[-2]
        raise DataError(f"the law {name!r} has no option {option}", column=option) from error
