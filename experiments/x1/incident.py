"""One incident made on purpose, in a real run: a fault, the playbook, a twin without it, a post-mortem."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.x1 import money
from experiments.x1.ladder import common, work_folder
from experiments.x1.profile import Profile
from experiments.x1.single import train_all
from experiments.x1.stages import write_json
from reference_trainer.incidents.replayed import replay_spikes
from reference_trainer.postmortem import post_mortem
from reference_trainer.train import Config
from reference_trainer.training_log import read_training_log
from scaling.units import parse_count

_SPIKE_KEYS = ("checkpoint_every", "recovery_wait", "recovery_margin")
#: Snapshots in memory, and steps between two, to go back to a state just before the first evidence.
_SNAPSHOTS, _EVERY = 8, 25
#: Checkpoints kept, so that the batches of an incident can be read again from before it.
_KEEP = 12


def build(profile: Profile, corpus: Mapping[str, Any], out: Path, say: Callable[[str], None]) -> list[Path]:
    """Train the two runs, and write ``incident.json`` and ``postmortem.md`` with its data.

    Raises
    ------
    experiments.x1.stages.Stopped
        A signal or the cap came first.
    """
    given = profile.spike
    folder = work_folder(profile, "spike", corpus, out)
    twin = _config(profile, corpus, folder / "twin")
    configs = {"twin": twin, "hurt": replace(twin, run_dir=str(folder / "hurt"), inject=given["inject"])}
    results = train_all(configs, folder, profile, "incident", say)
    hurt, calm = results["hurt"], results["twin"]
    source = read_training_log(folder / "hurt")
    page = post_mortem(source, usd_per_hour=profile.usd_per_hour, evidence=replay_spikes(source))
    files = [*page.save(out / "postmortem.md")]
    log = folder / "hurt" / "interventions.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    content = {
        "inject": given["inject"], "steps": round(twin.tokens / twin.step_tokens),
        "params_total": hurt["params_total"],
        "loss": hurt["loss"], "twin_loss": calm["loss"],
        "gap": None if None in (hurt["loss"], calm["loss"]) else hurt["loss"] - calm["loss"],
        "status": hurt["status"], "twin_entries": _count(folder / "twin" / "interventions.jsonl"),
        "sections": [_section(s) for s in page.sections], "summary": page.summary,
        "interventions": [json.loads(line) for line in lines], "usd_per_hour": profile.usd_per_hour,
        "spent_usd": money.spent(folder / "budget.json"),
        "picture": next((f.name for f in files if f.suffix == ".png"), None),
    }  # fmt: skip
    return [write_json(out / "incident.json", content), *files]


def _config(profile: Profile, corpus: Mapping[str, Any], run_dir: Path) -> Config:
    """Return the run that nothing strikes, watched by the playbook."""
    given = profile.spike
    layers, width, heads = given["size"]
    return Config(
        **common(profile, corpus, lr=given["lr"]) | {key: given[key] for key in _SPIKE_KEYS},
        layers=layers, d_model=width, heads=heads, tokens=parse_count(given["tokens"]), run_dir=str(run_dir),
        recovery="auto", keep=_KEEP, snapshots=_SNAPSHOTS, snapshot_every=_EVERY, mlflow="",
        usd_per_hour=profile.usd_per_hour,
    )  # fmt: skip


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
        "replay_text",
        "number",
    )
    return {**{name: section[name] for name in names}, "cost": section["cost"]["text"]}


def _count(log: Path) -> int:
    return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
