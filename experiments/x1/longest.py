"""The longest single run: trained from its configuration, then put down beside it.

    python -m experiments.x1.longest            # goes on where it was stopped; a finished run is only put down again

Writes into ``experiments/X1-pretraining/run-cloud/``: ``manifest.json`` (what ran, where, at what price, what came of
it), ``loss-curve.png`` with the numbers it shows, and the weights, where they are under 5 MB.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from experiments.x1.stages import ROOT, file_hash, write_json
from reference_trainer.checkpoint_files import seal
from reference_trainer.run_log import read_log
from scaling.storage import write_atomically

HOME = ROOT / "experiments" / "X1-pretraining" / "run-cloud"
CONFIG = HOME / "cpu.toml"
#: Weights that are larger are not put into the repository.
LARGEST = 5_000_000
#: Points of the curve: each is the mean of as many steps as that takes.
_POINTS = 400


def run_folder(config: Path = CONFIG) -> Path:
    """Return the folder that a configuration names, relative to the file."""
    given = tomllib.loads(config.read_text(encoding="utf-8"))
    return _normal(config.parent / str(given["run_dir"]))


def curve(log: list[dict[str, Any]], step_tokens: int) -> list[dict[str, float]]:
    """Return the training loss, averaged over stretches of steps, and the loss on the validation block.

    Parameters
    ----------
    log : list of dict
        Rows of ``log.jsonl``.
    step_tokens : int
        Tokens of a step.

    Returns
    -------
    list of dict
        ``tokens``, ``loss``, ``validation``: the last is empty where nothing was evaluated in a stretch.
    """
    steps = [row for row in log if row["kind"] == "step"]
    measured = {row["step"]: row["loss"] for row in log if row["kind"] == "eval"}
    out: list[dict[str, Any]] = []
    for part in np.array_split(np.arange(len(steps)), min(_POINTS, len(steps))):
        inside = [steps[i] for i in part]
        last = int(inside[-1]["step"])
        found = [loss for step, loss in measured.items() if inside[0]["step"] <= step <= last]
        out.append({"tokens": last * step_tokens, "loss": float(np.mean([row["loss"] for row in inside])),
                    "validation": found[-1] if found else ""})  # fmt: skip
    return out


def manifest(folder: Path) -> dict[str, Any]:
    """Return what a finished run was: seed, versions, configuration, machine, dollars, speed, result.

    Raises
    ------
    ValueError
        It did not end well.
    """
    begun, result = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("run", "result")
    )
    if result["status"] != "ok":
        raise ValueError(f"{folder}: the run is {result['status']}: no result to put down")
    perf = [row for row in read_log(folder / "perf.jsonl") if row.get("kind") == "perf"]
    speed: dict[str, dict[str, float]] = {}
    for name in ("tokens_per_s", "mfu_6N", "mfu_palm", "data_wait_ms", "step_ms"):
        found = np.quantile([row[name] for row in perf], (0.1, 0.5, 0.9))
        speed[name] = dict(zip(("p10", "median", "p90"), map(float, found), strict=True))
    config = {name: _inside(value) for name, value in begun.pop("config").items()}
    return {
        "command": "python -m experiments.x1.longest", "seed": config["seed"], "config": config,
        **{name: _inside(value) for name, value in begun.items()}, "speed": speed,
        "goodput": perf[-1]["goodput"], "usd": result["usd"], "usd_per_hour": config["usd_per_hour"],
        "mlflow": "sqlite:///out/x1-longest/mlflow.db",
        "result": {name: _inside(value) for name, value in result.items()},
    }  # fmt: skip


def _normal(path: Path) -> Path:
    """Return a path without ``..``; links stay what they are."""
    return Path(os.path.normpath(path))


def _inside(value: Any) -> Any:
    """Return a path inside the repository relative to it, any other by its name, anything else as it is."""
    if isinstance(value, str) and value.startswith("/"):
        path = _normal(Path(value))
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    return value


def put_down(folder: Path, home: Path = HOME) -> list[Path]:
    """Write manifest, curve and weights of a finished run; return the files."""
    content = manifest(folder)
    newest = max((folder / "checkpoints").glob("step_*"))
    weights = newest / "model.safetensors"
    size = weights.stat().st_size
    content["checkpoint"] = {"file": "model.safetensors" if size < LARGEST else "", "bytes": size,
                             "sha256": file_hash(weights), "step": int(newest.name.rpartition("_")[2])}  # fmt: skip
    files = [write_json(home / "manifest.json", content)]
    if size < LARGEST:
        (home / "checkpoint").mkdir(exist_ok=True)
        shutil.copyfile(weights, home / "checkpoint" / weights.name)
        saved = json.loads((newest / "manifest.json").read_text(encoding="utf-8"))
        # What only going on needs is left out, as the optimizer is; paths are made those of the repository.
        kept = {name: value for name, value in saved.items() if name not in ("observer", "sha256")}
        kept["config"] = {name: _inside(value) for name, value in saved["config"].items()}
        write_atomically(home / "checkpoint" / "manifest.json", json.dumps(seal(kept), indent=1) + "\n")
        files += [home / "checkpoint" / name for name in (weights.name, "manifest.json")]
    points = curve(
        list(read_log(folder / "log.jsonl")), content["config"]["seq_len"] * content["config"]["batch_seqs"]
    )
    text = io.StringIO()
    writer = csv.DictWriter(text, points[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(points)
    write_atomically(home / "loss-curve.csv", text.getvalue())
    return [*files, home / "loss-curve.csv", draw(points, home / "loss-curve.png")]


def draw(points: list[dict[str, Any]], path: Path) -> Path:
    """Draw the curve."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from scaling.plots.style import BLUE, GREY, SIZE, STYLE

    with matplotlib.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=SIZE)
        tokens = [p["tokens"] / 1e6 for p in points]
        ax.plot(tokens, [p["loss"] for p in points], color=GREY, lw=1.0, label="training, mean of 20 steps")
        measured = [
            (x, p["validation"]) for x, p in zip(tokens, points, strict=True) if p["validation"] != ""
        ]
        ax.plot(*zip(*measured, strict=True), "o-", color=BLUE, label="validation block")
        ax.set(xlabel="tokens, million", ylabel="loss, nats per byte", yscale="log")
        ax.legend()
        figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
        plt.close(figure)
    return path


def main() -> int:
    """Train and put down; return the exit status of the training, if that is not fine."""
    folder = run_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    here = [sys.executable, "-m", "reference_trainer.train", str(CONFIG)]
    settings = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    paths = [f"{key}={_normal(HOME / settings[key])}" for key in ("run_dir", "train_data", "val_data")]
    status = subprocess.run([*here, *paths], check=False).returncode
    if status:
        return status
    for path in put_down(folder):
        print(f"written: {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
