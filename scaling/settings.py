"""What a fit was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from scaling.intervals import IntervalMethod


@dataclass(frozen=True)
class Settings:
    """What a fit was asked for; together with the runs it reproduces the fit bit for bit.

    Parameters
    ----------
    delta : float
        Huber threshold in log loss.
    resample : {"pairs", "cluster", "wild", "none"}
        Bootstrap used, and `cluster_key` what its clusters are; "none" where there are no draws.
    n_boot, n_clusters, seed : int
        Replicates, independent units resampled, seed.
    level : float
        Default coverage of intervals.
    interval : {"percentile", "bias-corrected"}
        How intervals are made of draws.
    fixed : mapping of str to float
        Coefficients held at a value.
    tied : bool
        Whether alpha = beta was imposed.
    weighted, sigma_used : bool
        Whether rows had weights, or noise levels.
    """

    delta: float
    resample: str
    cluster_key: str
    n_clusters: int
    n_boot: int
    seed: int
    level: float
    interval: IntervalMethod
    fixed: dict[str, float]
    tied: bool
    weighted: bool
    sigma_used: bool
