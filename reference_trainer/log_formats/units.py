"""The unit of a loss, where a log gives the perplexity beside it."""

from __future__ import annotations

import numpy as np

from reference_trainer.log_formats.draft import Floats

#: Names of perplexities, without signs.
PERPLEXITY = frozenset({"ppl", "perplexity", "train_ppl", "train_perplexity"})
#: Share by which a perplexity may differ from that of the loss: both are printed rounded.
_NEAR = 0.03


def unit_by_perplexity(loss: Floats | None, perplexity: Floats | None) -> str:
    """Return the unit in which a loss has the perplexity that is printed beside it, empty where none has.

    fairseq and metaseq print losses in bits (``ppl = 2**loss``), most others in nats (``ppl = e**loss``).

    Examples
    --------
    >>> unit_by_perplexity(np.array([3.0, 2.0]), np.array([8.0, 4.0]))
    'bits/token'
    >>> unit_by_perplexity(np.array([3.0, 2.0]), np.array([20.09, 7.39]))
    'nats/token'
    """
    if loss is None or perplexity is None:
        return ""
    good = np.isfinite(loss) & np.isfinite(perplexity) & (perplexity > 1.0) & (loss > 0.1)
    if good.sum() < 2:
        return ""
    ratio = np.log(perplexity[good]) / loss[good]  # nats of a unit of the loss
    for unit, nats in (("nats/token", 1.0), ("bits/token", float(np.log(2.0)))):
        if np.median(np.abs(ratio / nats - 1.0)) < _NEAR:
            return unit
    return ""
