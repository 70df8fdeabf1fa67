"""The small ladder: trunks with cooldown branches, through `reference_trainer.sweep`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.x1 import money
from experiments.x1.profile import Profile
from experiments.x1.stages import Stopped, write_json
from reference_trainer.errors import TrainerError
from reference_trainer.ladder import Plan, read_ladder
from reference_trainer.lr_choice import at_edge
from reference_trainer.points import TIMES
from reference_trainer.sweep import SweepResult, sweep
from scaling.errors import DataError
from scaling.storage import write_atomically
from scaling.units import format_count

_COMMON = ("seq_len", "batch_seqs", "warmup_tokens", "eval_tokens", "checkpoint_every", "mup_base_width")


def toml(settings: Mapping[str, Any]) -> str:
    """Write a ladder file: plain keys, ``[common]``, ``[[size]]`` and further sections."""
    lines = [
        f"{key} = {json.dumps(value)}"
        for key, value in settings.items()
        if not isinstance(value, dict | tuple)
    ]
    for key, value in settings.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *(f"{name} = {json.dumps(x)}" for name, x in value.items())]
        elif isinstance(value, tuple):
            for section in value:
                lines += ["", f"[[{key}]]", *(f"{name} = {json.dumps(x)}" for name, x in section.items())]
    return "\n".join(lines) + "\n"


def settings(profile: Profile, corpus: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the ladder of a profile on a text.

    Budgets above so many epochs of the text as `corpus.EPOCHS` says are left out.

    Raises
    ------
    DataError
        None is left.
    """
    given = profile.ladder
    most = corpus["most_epochs"] * corpus["train"]["tokens"]
    budgets = [tokens for tokens in profile.budgets if tokens <= most]
    if not budgets:
        raise DataError(
            f"{format_count(corpus['train']['tokens'])} tokens of text are too few for the smallest budget of profile "
            f"{profile.name}, {format_count(profile.budgets[0])}, in {corpus['most_epochs']} passes: give a larger "
            "text, X1_CORPUS=HuggingFaceFW/fineweb-edu:sample-10BT or the file that experiments.x1.large_corpus makes",
            column="X1_CORPUS",
        )
    grid = given["lr_grid"]
    shape = ("layers", "d_model", "heads")
    sizes = tuple(
        dict(zip(shape, s, strict=True)) | ({"lr_grid": grid} if grid else {}) for s in given["sizes"]
    )
    out: dict[str, Any] = {
        "name": "x1", "out": str(folder / "ladder"), "tokens": budgets, "seeds": given["seeds"],
        "common": common(profile, corpus, **{k: given[k] for k in ("lr",) if k in given}), "size": sizes,
    }  # fmt: skip
    if grid:
        out["lr_check"] = {"tokens": given["lr_check_tokens"]}
    return out


def common(profile: Profile, corpus: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the section ``[common]``: what the profile gives, the data, and more."""
    given = profile.ladder
    data = Path(corpus["folder"])
    out: dict[str, Any] = {
        "train_data": str(data / "train"),
        "val_data": str(data / "val"),
        "device": profile.device,
    }
    out |= {key: given[key] for key in _COMMON if key in given}
    out["eval_tokens"] = min(
        given["eval_tokens"], (corpus["val"]["tokens"] - 1) // given["seq_len"] * given["seq_len"]
    )
    if "mup_base_width" in given:
        out["mup"] = True
    return out | more


def build(profile: Profile, corpus: Mapping[str, Any], out: Path) -> list[Path]:
    """Make the points; return ``points.csv``, ``points.json`` and the ladder file.

    Raises
    ------
    Stopped
        A signal or the cap came first. The same call goes on.
    """
    folder = work_folder(profile, "ladder", corpus, out)
    plan, result = _run(profile, settings(profile, corpus, folder), folder / "ladder.toml")
    table = Path(result.points).read_bytes()
    write_atomically(out / "points.csv", table)
    most = corpus["most_epochs"] * corpus["train"]["tokens"]
    about = {
        "command": "python -m experiments.x1", "profile": profile.name, "points": result.ok, "failed": result.failed,
        "sizes": [
            {"name": s.name, "params_total": s.arch.params_total, "lr": result.rates.get(s.name)} for s in plan.sizes
        ],
        "seeds": plan.file.seeds, "step_tokens": plan.step_tokens, "trunks": sum(r.kind == "trunk" for r in plan.runs),
        "tokens_paid": plan.tokens_paid, "tokens_separate": plan.tokens_separate, "tokens_checks": plan.tokens_checks,
        "share_of_separate": plan.tokens_paid / plan.tokens_separate, "versions": result.versions,
        "budgets_left_out": [format_count(t) for t in profile.budgets if t > most],
        "times": list(TIMES), "spent_usd": money.spent(plan.out / "budget.json"),
        "cap_usd": plan.file.budget and plan.file.budget.cap_usd,
        "usd_per_hour": profile.usd_per_hour, "findings": [*(f.message for f in plan.findings), *_edges(plan, result)],
    }  # fmt: skip
    return [out / "points.csv", write_json(out / "points.json", about)]


def _edges(plan: Plan, result: SweepResult) -> list[str]:
    """Say where the best rate that was tried is the last one that was."""
    at = [
        s.name for s in plan.sizes if s.lr_grid and at_edge(result.rates.get(s.name, s.lr_grid[0]), s.lr_grid)
    ]
    return [
        f"{', '.join(at)}: the best learning rate is at the edge of those tried; a better one may lie beyond"
    ] * bool(at)


def work_folder(profile: Profile, part: str, corpus: Mapping[str, Any], out: Path) -> Path:
    """Return where the runs of a part, ``ladder`` or ``spike``, are kept: other settings or text are another folder."""
    given = json.dumps([getattr(profile, part), corpus["train"]["sha256"], corpus["val"]["sha256"]])
    return out / "work" / f"{part}-{profile.name}-{hashlib.sha256(given.encode()).hexdigest()[:10]}"


def _run(profile: Profile, content: Mapping[str, Any], path: Path) -> tuple[Plan, SweepResult]:
    """Run a ladder under its share of the cap.

    Raises
    ------
    Stopped
        It was stopped before its end.
    TrainerError
        No run of it gave a point.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, toml({**content, "budget": money.budget(profile, "ladder")}))
    plan = read_ladder(path)
    clock = money.clock(profile, plan.out / "budget.json")
    result = sweep(plan, jobs=money.cores(profile), clock=clock)
    if result.ended_by != "done":
        more = " Raise it with X1_CAP_USD." if result.ended_by == "budget" else ""
        raise Stopped(
            f"stopped by {result.ended_by}: {result.left} runs are left; the same command goes on.{more}"
        )
    if not result.ok:
        why = "; ".join(result.errors.values()) or "see its folder"
        raise TrainerError(f"{plan.out}: no run gave a point: {why[:500]}")
    return plan, result
