"""The page put together and written: HTML, the written prediction, the fit."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scaling.report.answer as answer
import scaling.report.outlook as outlook
import scaling.report.tables as tables
import scaling.report.words as words
from scaling.errors import DataError, NotIdentifiedError, ScalingError
from scaling.json_parts import as_path
from scaling.report.phrases import count, percent, plural
from scaling.report.remedies import remedies
from scaling.summary import HEADLINE_PARAMS

if TYPE_CHECKING:
    from scaling.datasets import DatasetInfo
    from scaling.result import ChinchillaFit
    from scaling.runs import RunTable

#: What the numbers on the page depend on.
_PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "matplotlib")


@dataclass(frozen=True)
class Origin:
    """Where the runs came from, and how to make the page again.

    Parameters
    ----------
    sha256 : str
        Of the file the runs were read from.
    command : str
        The command line that makes the page.
    dataset : DatasetInfo, optional
        What is known of a table called by name.
    """

    sha256: str = ""
    command: str = ""
    dataset: DatasetInfo | None = None


def beside(path: str | Path) -> tuple[Path, Path, Path]:
    """Return where a page, its written prediction and its fit go."""
    page = as_path(path)
    if not page.name:
        raise DataError(f"{path} is a folder: name a page in it, such as report.html", source=str(path))
    return page, page.with_name(f"{page.stem}.prediction.md"), page.with_name(f"{page.stem}.fit.json")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A report, ready to be written.

    Parameters
    ----------
    html : str
        The page: self-contained, nothing is loaded from elsewhere.
    prediction : str
        The written prediction, in Markdown, without a date: the same runs and seed give the same bytes.
    fit : ChinchillaFit or None
        The fit; None where the runs determine no law.
    head : Answer
        The headline.
    """

    html: str
    prediction: str
    fit: ChinchillaFit | None
    head: answer.Answer

    def files(self, path: str | Path) -> dict[Path, str]:
        """Return the files of the report for a page at `path`, and their text."""
        page, prediction, fit = beside(path)
        out = {page: self.html, prediction: self.prediction}
        if self.fit is not None:
            out[fit] = self.fit.to_json()
        return out

    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write the page, and beside it ``<stem>.prediction.md`` and ``<stem>.fit.json``.

        Raises
        ------
        DataError
            `path` is no path.
        OSError
            The folder is missing or the disk full; each file is written whole or not at all.
        """
        from scaling.storage import write_atomically

        files = self.files(path)
        for target, text in files.items():
            write_atomically(target, text)
        return tuple(files)


def build_report(
    fit: ChinchillaFit | NotIdentifiedError,
    *,
    runs: RunTable | None = None,
    params: float = HEADLINE_PARAMS,
    origin: Origin | None = None,
    spelling: Callable[[str], str] = str,
) -> Report:
    """Make the report of a fit, or of the refusal to fit.

    Parameters
    ----------
    fit : ChinchillaFit or NotIdentifiedError
        The fit, or what `fit_chinchilla` raised.
    runs : RunTable, optional
        The runs; needed for a refusal only.
    params : float
        Size the headline asks about.
    origin : Origin, optional
        Where the runs came from.
    spelling : callable, optional
        Rewrites sentences that name arguments of Python functions, for readers who type commands.

    Returns
    -------
    Report
        The same fit gives the same bytes.

    Raises
    ------
    DataError
        A refusal without its runs, or a fit of another law.
    """
    origin = origin or Origin()
    if isinstance(fit, NotIdentifiedError):
        if runs is None:
            raise DataError("a refusal needs the runs it is about: give runs=", column="runs")
        head = answer.refused(fit, runs, params)
        context: dict[str, Any] = {"partial": _partial(fit), "remedy": fit.remedy or ""}
        law = None
    elif not hasattr(fit, "tokens_at"):
        raise DataError(
            f"a page is made of a fit of the main law (fit_chinchilla), got {getattr(fit, 'name', '')} "
            f"{type(fit).__name__}: print(fit.summary()) shows other fits",
            column="fit",
        )
    else:
        runs, law = fit.runs, fit
        head = answer.answer(fit, params)
        context = _fitted(fit, head)
    context |= {
        "title": answer.title(params),
        "head": head,
        "size": count(params),
        "law": law,
        "runs": runs,
        "isoflop": outlook.isoflop(runs, law),
        "audit": runs.audit,
        "columns": tables.columns(runs.audit),
        "origin": origin,
        "versions": _versions(),
        "plots": _plots(law),
    }
    page = _render("report.html.j2", context, spelling)
    return Report(page, _render("prediction.md.j2", context, spelling), law, head)


def _fitted(fit: ChinchillaFit, head: answer.Answer) -> dict[str, Any]:
    """Return what a page about a fitted law shows."""
    return {
        "can": words.can_tell(fit, head),
        "cannot": words.cannot_tell(fit, head),
        "remedies": remedies(fit, head),
        "coefficients": tables.coefficients(fit),
        "trade_offs": tables.trade_offs(fit),
        "sensitivity": tables.sensitivity(fit),
        "params_spread": outlook.params_spread(fit, head),
        "sizes": tables.sizes(fit, head),
        "budgets": tables.budgets(fit),
        "next_runs": outlook.next_runs(fit, head),
        "foresight": outlook.foresight(fit),
        "how": _how(fit),
        "counted": _counted(fit.runs),
    }


def _partial(error: NotIdentifiedError) -> tables.Table | None:
    """Return the law in one variable x that an unidentified table does determine."""
    partial = error.partial
    if not hasattr(partial, "ci"):
        return None
    from scaling.report.phrases import ends, value

    estimates = [(name, partial.ci(name)) for name in partial.law.COEFFICIENTS]
    rows = tuple((name, value(e, 5), ends(e, 4)) for name, e in estimates)
    x = {"params": "N", "tokens": "D", "flops": "C"}[partial.variables[0]]
    return tables.Table((f"E + A/{x}^alpha", "value", f"{percent(partial.level, 3)} interval"), rows)


def _how(fit: ChinchillaFit) -> str:
    """Say how the law and its intervals were made."""
    s = fit.settings
    objective = (
        f"The law minimises the Huber loss (δ = {s.delta:g}) of log loss over {plural(fit.n_runs, 'run')}, by Newton "
        f"steps from {fit.certificate.n_starts} starting points"
    )
    if s.resample == "none":
        return f"{objective}. There are no intervals: no bootstrap was made."
    unit = {"row": "rows", "groups": "groups of rows", "model_size": "model sizes"}.get(s.cluster_key)
    unit = unit or f"clusters of rows with one {s.cluster_key}"
    drawn = f"{s.n_clusters} resampled {unit}"
    if s.resample == "wild":
        drawn = f"{s.n_clusters} {unit}, their residuals flipped at random"
    extras = [f"{k} held at {v:g}" for k, v in s.fixed.items()]
    extras += ["exponents tied, α = β"] * s.tied + ["rows weighted"] * s.weighted
    extras += ["residuals scaled by each run's noise"] * s.sigma_used
    failed = f" ({fit.n_failed} of them failed)" if fit.n_failed else ""
    tail = f" {', '.join(extras)[0].upper()}{', '.join(extras)[1:]}." if extras else ""
    return (
        f"{objective}; intervals are {percent(s.level, 3)} {s.interval} intervals of {s.n_boot:,} bootstrap "
        f"refits{failed} over {drawn} (seed {s.seed}).{tail}"
    )


def _counted(runs: RunTable) -> str:
    """Say what N, D and L are in this table."""
    n = {
        "total": "all parameters, embeddings included",
        "matmul": "parameters of matrix multiplications, head included",
        "non_embedding": "parameters without embeddings",
        "active": "parameters used per token",
    }.get(runs.params_kind, "parameters as the table counts them (it does not say how)")
    unit = "in the unit of the table (not stated)" if runs.loss_unit == "unstated" else f"in {runs.loss_unit}"
    kind = "" if runs.loss_kind == "unstated" else f", {runs.loss_kind} split"
    return f"N is {n}; D is tokens seen in training; L is the loss {unit}{kind}; C = 6·N·D."


def _plots(fit: ChinchillaFit | None) -> list[dict[str, str]]:
    """Return every plot as SVG with its caption; one that cannot be drawn says why."""
    if fit is None:
        return []
    from scaling.plots import KINDS, svg
    from scaling.report.captions import CAPTIONS

    out = []
    for kind, shows in KINDS.items():
        caption = f"{shows} {CAPTIONS.get(kind, '')}".strip()
        try:
            out.append({"kind": kind, "svg": svg(fit, kind), "caption": caption})
        except ScalingError as error:
            out.append({"kind": kind, "svg": "", "caption": f"{caption} Not drawn: {error}"})
    return out


def _versions() -> list[tuple[str, str]]:
    """Return the versions of what computed the page."""
    import scaling

    found = [("isoflop", scaling.__version__), ("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found


def _render(template: str, context: dict[str, Any], spelling: Callable[[str], str]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
        autoescape=select_autoescape(("html.j2",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["spell"] = spelling
    environment.filters["count"] = count
    return environment.get_template(template).render(context)
