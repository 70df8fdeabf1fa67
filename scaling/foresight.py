"""Would these points have predicted their own largest runs? Fits below a cut of compute, scored above it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scaling.arguments import as_table
from scaling.errors import DataError, ScalingError
from scaling.intervals import check_level
from scaling.laws.base import Array, Mask
from scaling.open_form.single_run import single_run
from scaling.runs import RunTable

if TYPE_CHECKING:
    from scaling.result import ChinchillaFit

#: Shares of the runs, in order of compute, that predict the rest.
SHARES = (0.4, 0.5, 0.6, 0.7, 0.8)
#: Refits of each cut: enough for the ends of a 95% interval.
N_BOOT = 200
#: Coverage below which a nominal 95% is said to have failed: what half of the misses allowed twice leave.
_POOR = 0.85


@dataclass(frozen=True)
class Cut:
    """What the runs below a cut of compute made of those above.

    Parameters
    ----------
    share : float
        Share of the runs below.
    flops : float
        Compute of the largest run below.
    n_below, n_above : int
        Runs on either side.
    decades : float
        From the cut to the largest run.
    verdict : str
        Of the fit below; ``"refused"`` where there is none, and `refusal` why.
    error : float
        Median of log loss less its prediction, above the cut; positive where runs came out worse.
    absolute_error : float
        Mean of its size.
    coverage : float
        Share of the runs above inside the interval of a single run.
    width : float
        Median of the ends' difference in log loss: 0.05 is 5% of the loss.
    score : float
        Mean interval score of log losses (`interval_score`).
    refusal : str
        See `verdict`.
    """

    share: float
    flops: float
    n_below: int
    n_above: int
    decades: float
    verdict: str
    error: float = float("nan")
    absolute_error: float = float("nan")
    coverage: float = float("nan")
    width: float = float("nan")
    score: float = float("nan")
    refusal: str = ""


@dataclass(frozen=True)
class Foresight:
    """Cuts of a table by compute, from `leave_future_out`.

    Parameters
    ----------
    cuts : tuple of Cut
        In order of compute.
    level : float
        Nominal coverage of the intervals.
    """

    cuts: tuple[Cut, ...]
    level: float

    @property
    def fitted(self) -> tuple[Cut, ...]:
        """The cuts below which a law could be fitted."""
        return tuple(c for c in self.cuts if c.verdict != "refused")

    def sentence(self) -> str:
        """Answer in words whether these points would have predicted their own largest runs."""
        if not self.fitted:
            why = f": {self.cuts[0].refusal}" if self.cuts else ""
            return f"No part of these runs determines a law that could be scored on the rest{why}"
        weights = [c.n_above for c in self.fitted]
        covered = float(np.average([c.coverage for c in self.fitted], weights=weights))
        error = float(np.average([c.absolute_error for c in self.fitted], weights=weights))
        said = "Yes, within what was said" if covered >= _POOR else "Not within what was said"
        side = float(np.average([c.error for c in self.fitted], weights=weights))
        lean = ""
        if abs(side) > error / 2:
            lean = ", mostly below" if side < 0 else ", mostly above"
        return (
            f"{said}: of the larger runs, {100 * covered:.0f}% came out inside the {100 * self.level:g}% intervals "
            f"predicted from the smaller ones, {100 * error:.2g}% off the law on average{lean}"
        )

    def __repr__(self) -> str:
        head = f"{'below':>6} {'above':>6} {'up to FLOP':>11} {'decades':>8} {'verdict':>15} {'error':>8} "
        lines = [f"{self.sentence()}.", f"{head}{'|error|':>8} {'covered':>8} {'width':>7}"]
        for c in self.cuts:
            start = f"{c.n_below:>6} {c.n_above:>6} {c.flops:>11.2g} {c.decades:>8.1f} {c.verdict:>15}"
            tail = (
                f" {100 * c.error:>+7.2f}% {100 * c.absolute_error:>7.2f}% {100 * c.coverage:>7.0f}% "
                f"{100 * c.width:>6.1f}%"
            )
            lines.append(start + (f"  {c.refusal}" if c.refusal else tail))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the cuts as plain types."""
        return {"sentence": self.sentence(), "level": self.level, "cuts": [asdict(c) for c in self.cuts]}


def leave_future_out(
    runs: RunTable | ChinchillaFit | Any,
    *,
    shares: Sequence[float] = SHARES,
    n_boot: int = N_BOOT,
    level: float = 0.95,
    seed: int = 0,
    **options: Any,
) -> Foresight:
    """Fit the law to the runs below each of several cuts of compute and score it on the runs above.

    Parameters
    ----------
    runs : path, DataFrame, RunTable or ChinchillaFit
        The runs; a fit brings its weights, noise levels, clusters and held coefficients with it.
    shares : sequence of float
        Shares of the runs, in order of compute, that predict the rest.
    n_boot, level, seed, **options
        As in `fit_chinchilla`; options given per row are cut like the runs.

    Returns
    -------
    Foresight
        One row for every cut. No run above a cut is used in any way below it.

    Raises
    ------
    DataError
        A share is not between 0 and 1, or the runs cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> N, D = (a.ravel() for a in np.meshgrid(np.geomspace(2e7, 2e9, 6), np.geomspace(1e9, 1e11, 5)))
    >>> loss = (1.8 + 480 / N**0.35 + 2100 / D**0.37) * np.exp(np.random.default_rng(0).normal(0, 0.003, 30))
    >>> seen = leave_future_out(RunTable.from_arrays(params=N, tokens=D, loss=loss), shares=[0.6])
    >>> seen.cuts[0].n_below, seen.cuts[0].n_above, seen.cuts[0].coverage
    (18, 12, 1.0)
    """
    from scaling.fit import fit_chinchilla

    check_level(level)
    table, options = _with_options(runs, options)
    out = []
    for share, below, above in cuts_at(table, shares):
        decade = np.log10(table.compute)
        start = (
            float(share),
            float(table.compute[below].max()),
            int(below.sum()),
            int(above.sum()),
            float(decade.max() - decade[below].max()),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit = fit_chinchilla(
                    table.select(below),
                    n_boot=n_boot,
                    level=level,
                    seed=seed,
                    **{k: rows(v, below) for k, v in options.items()},
                )
            except ScalingError as error:
                out.append(Cut(*start, "refused", refusal=str(error).partition(". ")[0]))
                continue
            out.append(_scored(fit, table.select(above), start))
    return Foresight(tuple(out), float(level))


def cuts_at(table: RunTable, shares: Sequence[float]) -> list[tuple[float, Mask, Mask]]:
    """Return the runs below and above each cut of compute; cuts that give the same runs are given once.

    Raises
    ------
    DataError
        A share is not between 0 and 1.
    """
    out: list[tuple[float, Mask, Mask]] = []
    for share in shares:
        if not 0 < share < 1:
            raise DataError(f"a share lies between 0 and 1, got {share!r}", column="shares")
        below = table.compute <= np.quantile(table.compute, share)
        if below.all() or (out and below.sum() == out[-1][1].sum()):
            continue
        out.append((share, below, ~below))
    return out


def rows(value: Any, mask: Mask) -> Any:
    """Return an option for some of the rows: what holds one value per row is cut like them."""
    return np.asarray(value)[mask] if not isinstance(value, str) and np.shape(value) == mask.shape else value


def interval_score(low: Array, high: Array, value: Array, level: float) -> Array:
    """Return the interval score, smaller is better: width, and 2/(1 - level) times any miss.

    Source: Gneiting & Raftery 2007 (J. Am. Stat. Assoc. 102, 359-378), eq. 43.
    """
    miss = np.maximum(low - value, 0.0) + np.maximum(value - high, 0.0)
    return np.asarray(high - low + 2 / (1 - level) * miss)


def _scored(fit: ChinchillaFit, above: RunTable, start: tuple[float, float, int, int, float]) -> Cut:
    """Score a fit on the runs above its cut."""
    truth = np.log(above.loss)
    error = truth - np.log(fit.law.loss(above.params, above.tokens))
    low, _, high = single_run(fit.calibration, above.params, above.tokens, fit.settings.level)
    return Cut(
        *start,
        fit.verdict,
        error=float(np.median(error)),
        absolute_error=float(np.mean(np.abs(error))),
        coverage=float(np.mean((truth >= low) & (truth <= high))),
        width=float(np.median(high - low)),
        score=float(np.mean(interval_score(low, high, truth, fit.settings.level))),
    )


def _with_options(runs: Any, options: dict[str, Any]) -> tuple[RunTable, dict[str, Any]]:
    """Return the table, and the options of a fit where one was given."""
    settings = getattr(runs, "settings", None)
    if settings is None:
        import inspect

        from scaling.table import load_runs

        asked = set(inspect.signature(load_runs).parameters) & set(options)
        reading = {name: options.pop(name) for name in asked}
        return as_table(runs, None, None, None, reading), options
    given: dict[str, Any] = {
        "delta": settings.delta, "fixed": settings.fixed, "tied": settings.tied, "interval": settings.interval
    }  # fmt: skip
    if settings.weighted:
        given["weights"] = runs.weights
    if settings.sigma_used:
        # Residuals were scaled by sigma0/sigma_i of relative noise: any sigma0 gives the same scales.
        given["sigma"] = runs.runs.loss / runs.scale
    if settings.n_clusters < len(runs.runs):
        given["groups"] = runs.cluster
    if settings.resample == "wild":
        given["resample"] = "wild"
    return runs.runs, {**given, **options}
