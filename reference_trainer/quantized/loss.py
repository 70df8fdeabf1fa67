"""What a scheme changes in the loss: on the same windows, so that the change is far more precise than the loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from economics.student_t import t_quantile
from reference_trainer.data.shards import TokenSet
from reference_trainer.quantized.trained import windows_of
from reference_trainer.train import Decoder

LEVEL = 0.95
#: Logits that are held at once (a quarter of a GB in fp32), and windows at most.
_LOGITS, _WINDOWS = 1 << 26, 16


@dataclass(frozen=True)
class Change:
    """Change of a loss against fp32, nats per token, with the t interval over windows.

    Attributes
    ----------
    value, se : float
        Mean over windows of the difference on each, and its standard error.
    low, high : float
        95% interval.
    lag1 : float
        Correlation of the differences of neighbouring windows. Well above zero, the interval is too narrow.
    """

    value: float
    se: float
    low: float
    high: float
    lag1: float


@torch.inference_mode()
def losses_of(model: Decoder, data: TokenSet, seq_len: int, windows: int) -> npt.NDArray[np.float64]:
    """Return the mean loss of each of the first windows, nats per token, shape (windows,)."""
    device, found = model.get_buffer("turn").device, []
    at_once = max(1, min(_WINDOWS, _LOGITS // (seq_len * data.vocab)))
    for first in range(0, windows, at_once):
        tokens, targets = windows_of(data, seq_len, first, min(at_once, windows - first))
        losses, _ = model(tokens.to(device), targets.to(device))
        found.append(losses.double().mean(dim=1).cpu().numpy())
    return np.concatenate(found)


def mean_and_se(losses: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean over windows and its standard error."""
    return float(losses.mean()), float(losses.std(ddof=1) / math.sqrt(losses.size))


def change_of(losses: npt.NDArray[np.float64], base: npt.NDArray[np.float64]) -> Change:
    """Return the paired change of losses on the same windows.

    Examples
    --------
    >>> import numpy as np
    >>> c = change_of(np.array([1.1, 2.1, 3.2]), np.array([1.0, 2.0, 3.0]))
    >>> round(c.value, 4), round(c.se, 4), round(c.low, 4), round(c.high, 4)
    (0.1333, 0.0333, -0.0101, 0.2768)
    """
    rest = losses - base
    mean, se = mean_and_se(rest)
    half = t_quantile(0.5 + LEVEL / 2, rest.size - 1) * se
    around = rest - mean
    power = float(around @ around)
    lag1 = float(around[1:] @ around[:-1]) / power if power else 0.0
    return Change(mean, se, mean - half, mean + half, lag1)
