"""What the runs say: a fit that may be used, or why there is none; and the statements of a report about both."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from economics.next_runs.goal import Goal
from scaling.errors import DataError, NotIdentifiedError
from scaling.estimate import Estimate
from scaling.report.answer import answer, refused
from scaling.report.words import Statement, can_tell, cannot_tell
from scaling.result import ChinchillaFit
from scaling.runs import RunTable
from scaling.summary import HEADLINE_PARAMS


@dataclass(frozen=True, eq=False)
class Basis:
    """What a decision rests on. Made by `read_basis`.

    Parameters
    ----------
    runs : RunTable or None
        The runs at hand.
    fit : ChinchillaFit or None
        Their law; None where no law could be fitted.
    refusal : str
        Why no size may be recommended from them; empty where one may.
    """

    runs: RunTable | None
    fit: ChinchillaFit | None
    refusal: str

    @property
    def verdict(self) -> str:
        """Of the law: "identified", "weak" or "not identified"."""
        return "not identified" if self.fit is None else self.fit.verdict

    @property
    def usable(self) -> bool:
        """Whether a size may be recommended."""
        return not self.refusal

    def size(self) -> float:
        """Return the size in the middle of the runs (geometric mean); 50M where there are none."""
        import numpy as np

        return 5e7 if self.runs is None else float(np.exp(np.log(self.runs.params).mean()))


def read_basis(runs: Any, reading: dict[str, Any]) -> Basis:
    """Read and fit the runs.

    Parameters
    ----------
    runs : path, DataFrame, RunTable, ChinchillaFit or None
        None where there are none yet.
    reading : dict
        Arguments of `load_runs`.

    Raises
    ------
    DataError
        The table cannot be read, or is a fit with a reading.
    """
    from scaling.fit import fit_chinchilla
    from scaling.table import load_runs

    if runs is None:
        return Basis(None, None, "there are no runs yet")
    if isinstance(runs, ChinchillaFit):
        if reading:
            raise DataError(
                f"runs is a fit, which {', '.join(reading)} cannot change: give the table", column="runs"
            )
        fit: ChinchillaFit | None = runs
        table = runs.runs
        refusal = ""
    else:
        table = runs if isinstance(runs, RunTable) else load_runs(runs, **reading)
        fit, refusal = None, ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say stands among the statements
            try:
                fit = fit_chinchilla(table)
            except NotIdentifiedError as error:
                refusal = str(error).replace(" (in .partial, with intervals)", "")
    if fit is not None and fit.verdict == "not identified":
        first = next(f for f in fit.diagnostics.identification if f.severity == "error")
        refusal = first.message
    return Basis(table, fit, refusal)


def statements(basis: Basis, params: float | None) -> tuple[list[Statement], list[Statement]]:
    """Return what the runs tell and what they leave open.

    Parameters
    ----------
    basis : Basis
    params : float or None
        The size that is recommended, whose distance from the runs counts.
    """
    if basis.runs is None:
        return [], [Statement("Everything about the loss", "There are no runs yet.", "error")]
    if basis.fit is None:
        head = refused(NotIdentifiedError(basis.refusal), basis.runs, HEADLINE_PARAMS)
        return [], [Statement("Any law of the loss", head.sentences[0], "error")]
    head = answer(basis.fit, HEADLINE_PARAMS if params is None else params)
    return can_tell(basis.fit, head), cannot_tell(basis.fit, head)


def asked(basis: Basis, goal: Goal) -> Estimate | None:
    """Return the quantity that next runs are to narrow, as the fit answers it; None where it does not."""
    fit, (kind, counts) = basis.fit, goal.at
    if fit is None or not basis.usable:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the distance is said with the answer
        try:
            if kind == "tokens":
                return fit.tokens_at(counts[0], level=goal.level)
            if kind == "params":
                return fit.params_at(counts[0], level=goal.level)
            if kind == "loss":
                return fit.predict(counts[0], counts[1], level=goal.level).mean
            return fit.ci(str(goal.target), goal.level) if isinstance(goal.target, str) else None
        except (NotIdentifiedError, DataError):
            return None
