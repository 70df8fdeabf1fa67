"""Optima that people need, each with an interval: for a loss, a lifetime of serving, scarce data, a smaller model.

All in FLOPs and tokens; `economics.decide` joins them with money and time.
"""

from scaling.answers import Optimum
from scaling.optima.data_limited import RepeatingLaw, data_limited_optimal
from scaling.optima.overtrained import Overtraining, overtraining
from scaling.optima.repetition import MUENNIGHOFF, Repetition
from scaling.optima.served import inference_optimal
from scaling.optima.target import cheapest_for_loss

__all__ = [
    "MUENNIGHOFF",
    "Optimum",
    "Overtraining",
    "RepeatingLaw",
    "Repetition",
    "cheapest_for_loss",
    "data_limited_optimal",
    "inference_optimal",
    "overtraining",
]
