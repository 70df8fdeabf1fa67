"""One incident made on purpose, in a real run: a fault, the playbook, a twin without it, a post-mortem."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.x1.ladder import common, run, work_folder
from experiments.x1.profile import Profile
from experiments.x1.stages import write_json
from reference_trainer.postmortem import post_mortem

_SPIKE_KEYS = ("checkpoint_every", "recovery_wait", "recovery_margin")
#: Snapshots in memory, and steps between two, to go back to a state just before the first evidence.
_SNAPSHOTS, _EVERY = 8, 25


def build(profile: Profile, corpus: Mapping[str, Any], out: Path) -> list[Path]:
    """Train the two runs, and write ``incident.json``, ``postmortem.md`` with its data, and the run's interventions.

    Raises
    ------
    experiments.x1.stages.Stopped
        A signal or the cap came first.
    """
    given = profile.spike
    folder = work_folder(profile, corpus, out)
    ends: dict[str, Any] = {}
    for part, changes in (("twin", {}), ("spike", {"inject": given["inject"]})):
        settings = {
            "name": part, "out": str(folder / part), "tokens": [given["tokens"]], "seeds": [0],
            "common": {
                **common({**profile.ladder, "lr": given["lr"]}, corpus), **{key: given[key] for key in _SPIKE_KEYS},
                "recovery": "auto", "snapshots": _SNAPSHOTS, "snapshot_every": _EVERY, "log_every": 10, **changes,
            },
            "size": (dict(zip(("layers", "d_model", "heads"), given["size"], strict=True)),),
        }  # fmt: skip
        plan, result = run(profile, part, settings, folder / f"{part}.toml")
        (only,) = plan.runs
        ends[part] = {"folder": plan.folder(only), "spent_usd": result.spent_usd,
                      **json.loads((plan.folder(only) / "result.json").read_text(encoding="utf-8"))}  # fmt: skip
        ends[part]["steps_planned"] = only.steps
    hurt, twin = ends["spike"], ends["twin"]
    page = post_mortem(hurt["folder"], usd_per_hour=profile.usd_per_hour)
    files = [*page.save(out / "postmortem.md")]
    log = hurt["folder"] / "interventions.jsonl"
    entries = (
        [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    )
    content = {
        "inject": given["inject"], "steps": hurt["steps_planned"], "params_total": hurt.get("params_total"),
        "loss": hurt["loss"], "twin_loss": twin["loss"],
        "gap": None if None in (hurt["loss"], twin["loss"]) else hurt["loss"] - twin["loss"],
        "status": hurt["status"], "twin_entries": _count(twin["folder"] / "interventions.jsonl"),
        "sections": [_section(s) for s in page.sections], "summary": page.summary, "interventions": entries,
        "usd_per_hour": profile.usd_per_hour, "picture": next((f.name for f in files if f.suffix == ".png"), None),
    }  # fmt: skip
    return [write_json(out / "incident.json", content), *files]


def _section(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a post-mortem's section that the report shows."""
    names = (
        "title",
        "kind",
        "confidence",
        "reason",
        "cause_texts",
        "actions",
        "outcome",
        "lessons",
        "unknown",
        "number",
    )
    return {**{name: section[name] for name in names}, "cost": section["cost"]["text"]}


def _count(log: Path) -> int:
    return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
