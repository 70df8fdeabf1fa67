"""The post-mortem of the spikes in a log: what was seen, what it was, what was done, what it cost, what it teaches.

Works from the folder of our own run, from an mlflow run, or from any log that `reference_trainer.training_log` reads.
What the log does not tell and the caller does not say is called unknown; nothing is filled in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from reference_trainer.guide.feature import Feature
from reference_trainer.guide.restarts import read_restarts
from reference_trainer.guide.spikes import found_spikes
from reference_trainer.incidents.account import actions, advice_text, lessons, outcome, treated, unknown
from reference_trainer.incidents.cost import Given, cost_of
from reference_trainer.incidents.facts import facts_of
from reference_trainer.incidents.short import MEANING, TIERS, in_short
from reference_trainer.log_guide import read_guide
from reference_trainer.training_log import TrainingLog, read_training_log
from scaling.errors import DataError

#: Data outliers that have sections where nothing else has one: healthy logs have dozens.
_FEW = 5
#: Kinds of features that may explain a spike that comes after them within so many steps.
_AROUND, _REACH = (
    ("learning rate jump", "restart", "stop", "gap", "batch ramp", "repeated data", "drift"),
    200,
)


class Replay(Protocol):
    """What a replay of the suspected batches found, for one spike."""

    def markdown(self) -> str:
        """Return it as Markdown, without headings above the fourth level."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""


@dataclass(frozen=True, repr=False)
class PostMortem:
    """A post-mortem, ready to be written.

    Parameters
    ----------
    log : TrainingLog
        The log.
    sections : tuple of dict
        One for each spike: everything that the page says, as plain types.
    spikes : tuple of reference_trainer.spike_events.Spike
        The spikes of the sections.
    summary : str
        One sentence about the log.
    left_out : str
        Which spikes have no section, or empty.
    sha256 : str
        Of the file that the lines are of, or empty.
    """

    log: TrainingLog
    sections: tuple[dict[str, Any], ...]
    spikes: tuple[Any, ...]
    summary: str
    left_out: str = ""
    sha256: str = ""

    def __repr__(self) -> str:
        titles = "; ".join(f"{s['title']}: {s['kind']}, {s['cost']['text']}" for s in self.sections)
        return f"PostMortem({self.log.source}: {titles or 'no spike'})"

    @property
    def _name(self) -> str:
        """The file, or of a folder, which many runs call alike, the one above it too."""
        path = Path(self.log.source)
        return "/".join(path.parts[-2:]) if path.is_dir() else path.name

    def to_dict(self) -> dict[str, Any]:
        """Return the post-mortem as plain types that JSON holds; an infinite loss is the text ``"Infinity"``."""
        return {
            "source": self.log.source, "format": self.log.format, "sha256": self.sha256 or None,
            "run_uri": self.log.facts.get("run_uri"), "summary": self.summary, "left_out": self.left_out or None,
            "spikes": [dict(section) for section in self.sections],
            "findings": [finding.to_dict() for finding in self.log.findings],
        }  # fmt: skip

    def markdown(self, pictures: Sequence[str] = ()) -> str:
        """Return the page.

        Parameters
        ----------
        pictures : sequence of str
            Name of the picture of each section.
        """
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "templates"), undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,  # it is Markdown
        )  # fmt: skip
        named = [*pictures, *[""] * (len(self.sections) - len(pictures))]
        sections = [
            {**s, "picture": p, "replay": (s["replay_text"] or "")}
            for s, p in zip(self.sections, named, strict=True)
        ]
        page: str = environment.get_template("postmortem.md.j2").render(
            {**self.to_dict(), "name": self._name, "sections": sections, "infinity": float("inf"),
             "left_out": self.left_out, "findings": [str(finding) for finding in self.log.findings]}
        )  # fmt: skip
        return page

    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write the page, beside it ``<stem>.json``, and for each spike ``<stem>-N.png`` with its numbers as CSV.

        Raises
        ------
        DataError
            A file would replace the log itself, or the page has no name or no folder to be in.
        OSError
            A file cannot be written; each is written whole or not at all.
        """
        from reference_trainer.incidents.picture import save_picture
        from scaling.cli.output import plain
        from scaling.storage import refuse_overlap, write_atomically

        page = _page(path)
        data = page.with_suffix(".json")
        pictures = [page.with_name(f"{page.stem}-{s['number']}.png") for s in self.sections]
        tables = [picture.with_suffix(".csv") for picture in pictures]
        refuse_overlap((page, data, *pictures, *tables), (self.log.source, self.log.steps.source))
        for spike, section, picture in zip(self.spikes, self.sections, pictures, strict=True):
            save_picture(self.log, spike, picture, section["title"])
        write_atomically(data, json.dumps(plain(self.to_dict()), indent=1, allow_nan=False) + "\n")
        write_atomically(page, self.markdown([picture.name for picture in pictures]))
        return page, data, *pictures, *tables


def post_mortem(
    source: TrainingLog | str | Path,
    *,
    only: int | None = None,
    outliers: bool = False,
    step_tokens: float | None = None,
    tokens_per_s: float | None = None,
    usd_per_hour: float | None = None,
    restart_s: float | None = None,
    started: datetime | None = None,
    actions_taken: Sequence[str] = (),
    lessons_learned: Sequence[str] = (),
    evidence: Mapping[int, Replay] | None = None,
    **how: Any,
) -> PostMortem:
    """Write up the spikes of a log.

    Parameters
    ----------
    source : TrainingLog or path
        A run's folder, an mlflow store, or any log; a path is read by `read_training_log`.
    only : int, optional
        Number of the one spike to write up.
    outliers : bool
        Give data outliers, which are gone at once, sections too. Up to five have one where there is nothing else.
    step_tokens, tokens_per_s, usd_per_hour, restart_s : float, optional
        For the cost, where the log does not tell or tells otherwise.
    started : datetime, optional
        When the run began, with its time zone, for logs whose clock counts from there.
    actions_taken, lessons_learned : sequence of str
        What people did and learned; only with one section, so that it is clear which is meant.
    evidence : mapping of int to Replay, optional
        Number of a spike -> what a replay of its batches found.
    **how
        Arguments of `read_training_log`, for a path.

    Returns
    -------
    PostMortem

    Raises
    ------
    DataError
        The log cannot be read, there is no spike of this number, or it is not clear which spike is meant.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> loss = 3 + 0.02 * np.sin(1e4 * np.arange(900.0) ** 2)
    >>> loss[400:] += 0.5
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.csv"
    ...     _ = path.write_text("step,loss" + "".join(f"{chr(10)}{i},{x:.4f}" for i, x in enumerate(loss)))
    ...     page = post_mortem(path, step_tokens=5e5, tokens_per_s=1e6, usd_per_hour=20)
    >>> page.sections[0]["title"], page.sections[0]["kind"]
    ('Spike #1 - date unknown', 'persistent')
    >>> page.sections[0]["cost"]["text"]
    '500 steps x 500,000 tokens / 1,000,000 tokens/s / 3600 x $20.00/h = at least $1.39'
    """
    log = source if isinstance(source, TrainingLog) else read_training_log(source, **how)
    if started is not None and started.tzinfo is None:
        raise DataError(
            f"started has no time zone: {started.isoformat()}; add one, such as +00:00", column="started"
        )
    given = Given(step_tokens, tokens_per_s, usd_per_hour, restart_s)
    numbered = list(enumerate(found_spikes(log), start=1))
    chosen, left_out = _choose(log, numbered, only, outliers)
    if (actions_taken or lessons_learned) and len(chosen) != 1:
        raise DataError(
            f"{log.source}: {len(chosen)} spikes would have sections, so it is not clear which the actions and lessons "
            "belong to: choose one with only=",
            column="only",
        )
    guide = read_guide(log)
    restarts, _ = read_restarts(log)
    sections = tuple(
        _section(log, number, spike, diagnosis, guide.features, restarts, given, started, actions_taken,
                 lessons_learned, (evidence or {}).get(number))
        for number, (spike, diagnosis) in chosen
    )  # fmt: skip
    return PostMortem(
        log, sections, tuple(spike for _, (spike, _) in chosen), guide.summary, left_out, _digest(log)
    )


def _choose(log: TrainingLog, numbered: list[Any], only: int | None, outliers: bool) -> tuple[list[Any], str]:
    if only is not None:
        chosen = [(n, found) for n, found in numbered if n == only]
        if not chosen:
            raise DataError(f"{log.source} has no spike #{only}: there are {len(numbered)}", column="only")
        return chosen, ""
    hurt = [(n, found) for n, found in numbered if found[1].kind != "data outlier"]
    if outliers or (not hurt and len(numbered) <= _FEW):
        return numbered, ""
    rest = [
        f"#{n} at step {found[0].peak_step:,}" for n, found in numbered if found[1].kind == "data outlier"
    ]
    shown = ", ".join(rest[:10]) + (f", ... ({len(rest)} in all)" if len(rest) > 10 else "")
    return hurt, f"Data outliers, gone at once, have no section of their own: {shown}." if rest else ""


def _section(
    log: TrainingLog, number: int, spike: Any, diagnosis: Any, features: Sequence[Feature], restarts: list[Feature],
    given: Given, started: datetime | None, told: Sequence[str], learned: Sequence[str], replay: Replay | None,
) -> dict[str, Any]:  # fmt: skip
    facts, entries = facts_of(log, spike, number, started), treated(log, spike)
    cost = cost_of(log, spike, restarts, given)
    done = actions(log, spike, restarts, entries, told)
    near = [
        f"{f.kind} ({f.where}): {f.what}." for f in features
        if f.kind in _AROUND and f.numbers.get("passes") is None
        and f.first_step <= spike.peak_step and f.last_step >= spike.first_step - _REACH
    ]  # fmt: skip
    return {
        **asdict(facts), "title": f"Spike #{number} - {facts.date}", "kind": diagnosis.kind,
        "confidence": diagnosis.confidence, "reason": diagnosis.reason, "advice": diagnosis.advice,
        "meaning": MEANING[diagnosis.kind],
        "short": in_short(facts, diagnosis.kind, diagnosis.causes, entries, cost),
        "tiers": "; ".join(f"{tier}: {TIERS[tier]}" for tier in dict.fromkeys(a.tier for a in spike.alarms)),
        "advice_text": advice_text(log, diagnosis.advice), "causes": [asdict(cause) for cause in diagnosis.causes],
        "cause_texts": [f"{c.cause} ({c.confidence} confidence): {c.evidence}" for c in diagnosis.causes],
        "around": near, "actions": done, "outcome": outcome(log, spike, entries), "cost": cost.to_dict(),
        "lessons": lessons(spike, entries, learned), "interventions": entries,
        "unknown": unknown(log, facts, cost, done, replay is not None),
        "replay": None if replay is None else replay.to_dict(),
        "replay_text": None if replay is None else replay.markdown(),
    }  # fmt: skip


def _page(path: str | Path) -> Path:
    """Return where a page goes, if it can go there: what is beside it is written first."""
    page = Path(path)
    if not page.name or page.is_dir():
        raise DataError(
            f"out = {str(path)!r} is no file: give the name of the page, such as postmortem.md", column="out"
        )
    if not page.parent.is_dir():
        raise DataError(
            f"out = {str(path)!r}: there is no folder {page.parent}; make it, or choose another", column="out"
        )
    return page


def _digest(log: TrainingLog) -> str:
    """Return the sha256 of the file that the lines are of."""
    path = Path(log.steps.source.removeprefix("sqlite:///"))
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
