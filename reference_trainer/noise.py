"""The run-to-run standard deviation of a point, from the seeds that were trained at it and at the others."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

#: Fewest points with seeds from which it can be told whether their noise differs.
_LEAST_POINTS = 8


def run_to_run(losses: Mapping[Key, Sequence[float]]) -> dict[Key, float]:
    """Return the standard deviation between seeds at each point, in the unit of the losses.

    Two or three seeds tell a variance to a factor of several, which is no weight for a fit. So the variances of the
    log loss are drawn together: with fewer than 8 points they are pooled; with more, each is moderated towards the
    common one by as much as their scatter says is chance (Smyth 2004, doi 10.2202/1544-6115.1027, section 6.2, by
    moments). A point with one seed gets the common one.

    Parameters
    ----------
    losses : mapping of point to sequence of float
        Final losses of the seeds at each point (a size and a token budget).

    Returns
    -------
    dict of point to float
        Empty where no point has two seeds.

    Examples
    --------
    >>> run_to_run({"a": [2.0, 2.02], "b": [4.0]})["b"]
    0.0281...
    """
    import numpy as np

    from scaling.isoflop.noise import moderated_variances

    known = {point: values for point, values in losses.items() if values}
    freedom = np.array([len(values) - 1 for values in known.values()], dtype=float)
    logs = [np.log(np.asarray(values, dtype=float)) for values in known.values()]
    variances = np.array([np.var(x, ddof=1) if len(x) > 1 else 0.0 for x in logs])
    if not freedom.sum():
        return {}
    if np.count_nonzero(freedom) < _LEAST_POINTS:
        variances = np.full_like(variances, variances @ freedom / freedom.sum())
    else:
        variances, _ = moderated_variances(variances, freedom)
    means = [float(np.mean(np.asarray(values, dtype=float))) for values in known.values()]
    return {point: float(np.sqrt(v)) * m for point, v, m in zip(known, variances, means, strict=True)}
