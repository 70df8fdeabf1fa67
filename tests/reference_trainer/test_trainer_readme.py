"""What the trainer's README promises: its configuration reads, its steps add up, its files are those of a run."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

from typer.testing import CliRunner

from reference_trainer.cli.app import app
from reference_trainer.cli.launch import BAD_INPUT, EXIT, FAILED
from reference_trainer.quantized.packing import GROUPS
from reference_trainer.train import Config, cooldown_start, train
from tests.reference_trainer.tiny_runs import tiny, write_data

README = Path(__file__).parents[2] / "reference_trainer" / "README.md"
TEXT = README.read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)[number]


def test_the_configuration_and_its_branches(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(block("toml"))
    assert set(tomllib.loads(block("toml"))) >= {"run_dir", "train_data", "val_data", "tokens"}
    commands = [line.split("run.toml ")[1].split() for line in block("sh").strip().splitlines()]
    trunk, branch = (Config.read(path, *overrides) for overrides in commands)
    assert trunk.step_tokens == 524_288
    leaves = [cooldown_start(round(tokens / trunk.step_tokens), trunk) for tokens in (1e9, 2e9)]
    assert list(trunk.checkpoint_at) == leaves and cooldown_start(1907, branch) == leaves[0]
    assert branch.start_from.endswith(f"step_{leaves[0]:08d}")
    same = {"hash", *("run_dir", "tokens", "start_from", "checkpoint_at")}
    assert all(getattr(trunk, f) == getattr(branch, f) for f in trunk.__dataclass_fields__ if f not in same)
    for word in re.findall(r"`([a-z_]+)=", TEXT):
        assert word in Config.__dataclass_fields__, word


def test_the_exit_statuses_are_those_of_the_trainer():
    told = {
        int(n) for row in re.findall(r"^\| ([\d, ]+) \|", TEXT, flags=re.MULTILINE) for n in row.split(",")
    }
    assert told == {*EXIT.values(), FAILED, BAD_INPUT}


def test_the_files_are_those_of_a_run(tmp_path):
    """Every file that a run with everything on leaves is in the table, and all of the table's are left."""
    config = tiny(
        tmp_path / "runs" / "run", write_data(tmp_path), cap_usd=50.0, usd_per_hour=1.0, mlflow="sqlite",
        checkpoint_at=(32,), recovery="auto",
    )  # fmt: skip
    train(config)
    table = re.findall(r"^\| `([^`]+)` \|", TEXT.split("## Files of a run")[1], flags=re.MULTILINE)
    told = {"checkpoints" if name.startswith("checkpoints/") else name for name in table}
    left = {p.name for p in Path(config.run_dir).iterdir() if "lock" not in p.name}
    optional = {"interventions.jsonl"}  # only where something was done
    assert left - optional == told - {"../mlflow.db"} - optional
    assert (Path(config.run_dir).parent / "mlflow.db").is_file()
    saved = {p.name for p in (Path(config.run_dir) / "checkpoints" / "step_00000032").iterdir()}
    assert saved == {"model.safetensors", "optimizer.safetensors", "manifest.json"}
    assert len(TEXT.splitlines()) <= 120


def test_the_quantized_model_is_left(tmp_path):
    """The command of the section, on a tiny run: a model for each scheme that the table names, and the tables."""
    (tmp_path / "out" / "data" / "val").mkdir(parents=True)
    train(tiny(tmp_path / "out" / "run", write_data(tmp_path / "out"), eval_every=0))
    (tmp_path / "out" / "val.tokens").rename(tmp_path / "out" / "data" / "val" / "0.tokens")
    (command,) = block("sh", 1).strip().splitlines()
    words = [str(tmp_path / word) if word.startswith("out/") else word for word in shlex.split(command)]
    done = CliRunner().invoke(app, [*words[1:], "--rounds", "3"])
    assert words[0] == "reference_trainer" and done.exit_code == 0, done.output
    left = {p.name for p in (tmp_path / "out" / "quantized").iterdir()}
    assert left == {"int8", "int4-g32", "int4-g64", "int4-g128", "comparison.json", "comparison.csv"}
    table = TEXT.split("## Fewer bits")[1].split("## Files")[0]
    assert all(f"-g{group}" in table for group in GROUPS)
