"""IsoFLOP analysis: the compute-optimal size of each budget, the frontier, and what a parabola costs."""

from scaling.isoflop.bias import CurveBias, parabola_bias
from scaling.isoflop.checks import QualityRules
from scaling.isoflop.curves import CurveFit, CurvePrediction
from scaling.isoflop.fit import fit_isoflop
from scaling.isoflop.frontier import Frontier, FrontierPoint, PowerLaw
from scaling.isoflop.loss_frontier import LossFrontier
from scaling.isoflop.result import Budget, IsoflopFit

__all__ = [
    "Budget",
    "CurveBias",
    "CurveFit",
    "CurvePrediction",
    "Frontier",
    "FrontierPoint",
    "IsoflopFit",
    "LossFrontier",
    "PowerLaw",
    "QualityRules",
    "fit_isoflop",
    "parabola_bias",
]
