"""How precisely a set of runs determines a quantity, and which runs to add."""

from scaling.design.candidates import COOLDOWN, Candidates, grid_candidates
from scaling.design.moments import Known, Moments, moments
from scaling.design.plan import DesignedRuns, design_runs, single_laws
from scaling.design.predicted import Suggestion, predicted_se, suggest_runs
from scaling.design.prior import SPREAD, Belief, believe
from scaling.design.search import Chosen, Search

__all__ = [
    "COOLDOWN",
    "SPREAD",
    "Belief",
    "Candidates",
    "Chosen",
    "DesignedRuns",
    "Known",
    "Moments",
    "Search",
    "Suggestion",
    "believe",
    "design_runs",
    "grid_candidates",
    "moments",
    "predicted_se",
    "single_laws",
    "suggest_runs",
]
