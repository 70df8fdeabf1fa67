"""``report.html``: the question, the answer, what it rests on, the cost, the incident, what is not known, what next."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from experiments.x1.files import Files
from experiments.x1.law import verdict_words
from experiments.x1.stages import ROOT
from experiments.x1.templating import environment
from scaling.report.phrases import count
from scaling.storage import write_atomically

#: What was seen of a GPU or a cloud when this was written; nothing on the page claims more.
NOT_TRIED = (
    "Nothing here was run on a GPU or in a cloud: speeds and prices there are predictions, with intervals."
)


def build(out: Path, about: dict[str, Any]) -> list[Path]:
    """Write the page from the files of the folder, and from nothing else.

    Parameters
    ----------
    out : pathlib.Path
        The folder.
    about : dict
        ``command``, ``profile``, and ``not_trained``: why nothing could be trained, or empty.
    """
    files = Files(out)
    templates = environment(Path(__file__).parent / "templates", ROOT / "scaling" / "templates")
    law, incident, corpus = files.read("law.json"), files.read("incident.json"), files.read("corpus.json")
    context = {
        "n": files.show, "estimate": files.interval, "picture": files.picture, "law": law, "own": law["own"],
        "published": law["published"], "plan": files.read("plan.json"), "incident": incident, "corpus": corpus,
        "points": files.read("points.json"), "size": count(law["params"]), "own_words": verdict_words(law["own"]),
        "unknown": unknown(law, files.read("plan.json"), incident, corpus, about["not_trained"]),
        "files": files.table, "python": platform.python_version(), "pages": _pages(out), **about,
    }  # fmt: skip
    write_atomically(out / "report.html", templates.get_template("x1.html.j2").render(context))
    return [out / "report.html"]


def unknown(
    law: dict[str, Any], plan: dict[str, Any], incident: dict[str, Any] | None, corpus: dict[str, Any] | None,
    not_trained: str,
) -> list[dict[str, str]]:  # fmt: skip
    """Return what is not known, gathered from every part."""
    out = [
        {"what": f"Published points: {s['title']}", "text": s["text"], "from": "law.json"}
        for s in law["published"]["cannot"]
    ]
    if law["own"] is not None:
        out += [
            {"what": f"Own points: {s['title']}", "text": s["text"], "from": "law.json"}
            for s in law["own"]["cannot"]
        ]
    out += [
        {"what": "Cost", "text": f"{text[0].upper()}{text[1:]}", "from": "plan.json"}
        for text in plan["findings"]
    ]
    for section in (incident or {"sections": []})["sections"]:
        out += [
            {"what": section["title"], "text": text, "from": "incident.json"} for text in section["unknown"]
        ]
    if corpus is not None and corpus["missing"]:
        text = f"Only the text that ships was used: {corpus['missing']}."
        out.append({"what": "Text", "text": text, "from": "corpus.json"})
    if not_trained:
        out.append({"what": "Training", "text": not_trained, "from": "points.json"})
    out.append({"what": "Hardware", "text": NOT_TRIED, "from": "plan.json"})
    return out


def _pages(out: Path) -> list[tuple[str, str]]:
    """Return the detailed pages that are there."""
    known = {
        "hoffmann2022.html": "the published points in full",
        "own-runs.html": "the points made here in full",
        "cpu_sweep.html": "a shipped table that does not identify a law, and why",
        "postmortem.md": "the post-mortem of the incident",
    }
    return [(name, what) for name, what in known.items() if (out / name).exists()]
