"""Checkpoints come back to the bit, and what is not whole is refused by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from reference_trainer import checkpoint
from reference_trainer.errors import CheckpointError, CheckpointWarning, NonFiniteError

FILES = ("model.safetensors", "optimizer.safetensors", "manifest.json")


class Tied(nn.Module):
    """The smallest module with everything: tied weights, a vector, a buffer, bf16."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(11, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 11, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.randn(6, 4).bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.embed(x)))


def trained(seed: int = 0, steps: int = 3, **options: bool) -> tuple[Tied, torch.optim.AdamW]:
    model = Tied(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **options)
    train(model, optimizer, steps)
    return model, optimizer


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        model(torch.arange(11)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def save(folder: Path, step: int, seed: int = 0, **manifest: object) -> Path:
    model, optimizer = trained(seed)
    return checkpoint.save(
        folder,
        step,
        model=model.state_dict(),
        optimizer=checkpoint.optimizer_tensors(model, optimizer),
        manifest=manifest,
    )


def flip(file: Path, where: float) -> None:
    """Turn one bit of a file."""
    data = bytearray(file.read_bytes())
    data[int(where * (len(data) - 1))] ^= 0x10
    file.write_bytes(data)


@pytest.mark.parametrize("fused", [False, True])
def test_what_is_loaded_trains_on_as_if_nothing_had_happened(tmp_path, fused):
    model, optimizer = trained(fused=fused)
    state = {"loss": 0.1 + 0.2, "seen": [1, 2], "last": float("nan"), "deep": {"tokens": 2**60}}
    path = checkpoint.save(
        tmp_path, 3, model=model.state_dict(), optimizer=checkpoint.optimizer_tensors(model, optimizer),
        manifest=state,
    )  # fmt: skip
    assert path == tmp_path / "step_00000003" and sorted(p.name for p in path.iterdir()) == sorted(FILES)
    loaded = checkpoint.load(path)
    assert loaded.step == loaded.manifest["step"] == 3
    assert {k: loaded.manifest[k] for k in ("loss", "seen", "deep")} == {
        k: state[k] for k in ("loss", "seen", "deep")
    }
    assert loaded.manifest["last"] != loaded.manifest["last"]

    other, other_optimizer = trained(seed=1, steps=1, fused=fused)
    checkpoint.restore_model(other, loaded.model)
    checkpoint.restore_optimizer(other, other_optimizer, loaded.optimizer)
    assert other.head.weight is other.embed.weight
    train(model, optimizer, 5)
    train(other, other_optimizer, 5)
    for (name, a), b in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b) and a.dtype == b.dtype, name
    assert loaded.optimizer["embed.weight/step"] == 3  # what was read is not what trains


def test_tied_weights_are_on_the_disk_once(tmp_path):
    from safetensors import safe_open

    path = save(tmp_path, 1)
    with safe_open(path / "model.safetensors", "pt") as file:
        assert sorted(file.keys()) == ["embed.weight", "norm.bias", "norm.weight", "table"]
    assert set(checkpoint.load(path).model) == set(Tied().state_dict())


def test_views_and_transposes_are_saved_as_what_they_show(tmp_path):
    whole = torch.arange(24.0).view(4, 6)
    given = {"a": whole[:2], "b": whole[2:], "t": whole.t(), "scalar": whole[1, 1], "none": whole[:0]}
    path = checkpoint.save(tmp_path, 0, model=given, optimizer={}, manifest={})
    assert all(torch.equal(checkpoint.load(path).model[name], t) for name, t in given.items())
    assert (path / "model.safetensors").stat().st_size < 2 * 24 * 4 + 600


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flip at the start", "flip inside", "truncate", "empty", "remove"])
def test_damage_is_refused_and_the_one_before_is_used(tmp_path, name, damage):
    """Whatever happens to one of the files, the file is named, nothing is deleted, the older one is found."""
    older, newer = save(tmp_path, 10), save(tmp_path, 20)
    file = newer / name
    if damage.startswith("flip"):
        flip(file, 0.02 if damage.endswith("start") else 0.6)
    elif damage == "remove":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: 0 if damage == "empty" else -3])
    with pytest.raises(CheckpointError, match=name) as caught:
        checkpoint.load(newer)
    assert caught.value.path == file
    with pytest.warns(CheckpointWarning, match=f"step_00000020/{name}") as warned:
        assert checkpoint.latest(tmp_path) == older
    assert [w.message.path for w in warned] == [newer]
    assert newer.is_dir()
    # The run that goes on from the older one saves that step again, and the damaged one gives way.
    assert save(tmp_path, 20) == newer
    assert checkpoint.latest(tmp_path) == newer


def test_every_bit_of_the_manifest_matters(tmp_path):
    """No flipped bit goes unseen, unless the manifest still says the same."""
    path = save(tmp_path, 7, note="x" * 20, usd=1.25)
    file = path / "manifest.json"
    good = file.read_bytes()
    before = json.loads(good)
    for position in range(0, len(good), 3):
        file.write_bytes(good[:position] + bytes([good[position] ^ 1 << position % 8]) + good[position + 1 :])
        try:
            assert checkpoint.verify(path) == before
        except CheckpointError:
            continue
    file.write_bytes(good)
    assert checkpoint.verify(path) == before


def test_a_renamed_folder_is_no_other_step(tmp_path):
    save(tmp_path, 7).rename(tmp_path / "step_00000009")
    with pytest.raises(CheckpointError, match="step 7"):
        checkpoint.load(tmp_path / "step_00000009")


def test_a_newer_format_is_not_guessed_at(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    path = save(tmp_path, 1)
    with pytest.raises(CheckpointError, match=r"format 2.*up to 1"):
        checkpoint.load(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", ["model", "optimizer"])
def test_nothing_that_is_not_finite_is_saved(tmp_path, place, value):
    tensors = {"model": {"w": torch.ones(3, 4)}, "optimizer": {"w/exp_avg": torch.ones(3, 4)}}
    save(tmp_path, 1)
    name, tensor = next(iter(tensors[place].items()))
    tensor[1, 2] = value
    with pytest.raises(NonFiniteError, match=rf"1 of the 12 numbers of {name}") as caught:
        checkpoint.save(tmp_path, 2, **tensors, manifest={})
    assert (caught.value.tensor, caught.value.bad) == (name, 1)
    assert [p.name for p in tmp_path.iterdir()] == ["step_00000001"]


def test_other_tensors_at_the_same_step_are_another_run(tmp_path):
    """Saving again is harmless when it is the same state, and refused when it is not."""
    path = save(tmp_path, 5)
    inode = path.stat().st_ino
    assert save(tmp_path, 5, dollars=2.0) == path and path.stat().st_ino == inode
    with pytest.raises(CheckpointError, match=r"abandon\(folder, after=step\)"):
        save(tmp_path, 5, seed=1)
    assert path.stat().st_ino == inode and [p.name for p in tmp_path.iterdir()] == [path.name]
    (aside,) = checkpoint.abandon(tmp_path, after=4)
    assert checkpoint.latest(tmp_path) is None and aside.is_dir()
    assert checkpoint.latest(save(tmp_path, 5, seed=1).parent) == path


def test_questions_about_folders(tmp_path):
    assert checkpoint.latest(tmp_path / "nowhere") is None and checkpoint.steps(tmp_path / "nowhere") == []
    save(tmp_path, 100), save(tmp_path, 200)
    for stranger in ("step_7", "step_00000300.bak", ".writing-step_00000400-x", "notes"):
        (tmp_path / stranger).mkdir()
    assert checkpoint.steps(tmp_path) == [100, 200]
    assert checkpoint.at(tmp_path, 100) == tmp_path / "step_00000100"
    with pytest.raises(CheckpointError, match="no checkpoint of step 150; the nearest are at 100, 200"):
        checkpoint.at(tmp_path, 150)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"tensor": torch.ones(2)}, "Tensor"),
        ({"files": {}}, "files"),
        ({"step": 4}, "step"),
    ],
)
def test_manifests_that_would_not_come_back_are_refused(tmp_path, manifest, words):
    with pytest.raises(CheckpointError, match=words):
        save_manifest(tmp_path, manifest)
    assert not list(tmp_path.iterdir())


def save_manifest(folder: Path, manifest: dict) -> None:
    checkpoint.save(folder, 3, model={"w": torch.ones(2)}, optimizer={}, manifest=manifest)


def test_state_of_another_model_is_refused_and_changes_nothing():
    model, optimizer = trained()
    tensors = checkpoint.optimizer_tensors(model, optimizer)
    other, fresh = trained(seed=1)
    before = {k: v.clone() for k, v in checkpoint.optimizer_tensors(other, fresh).items()}
    with pytest.raises(CheckpointError, match=r"'tail.weight'.*'exp_avg'"):
        checkpoint.restore_optimizer(other, fresh, tensors | {"tail.weight/exp_avg": torch.ones(2)})
    with pytest.raises(
        CheckpointError, match=r"embed.weight/exp_avg has shape \(2, 4\), the parameter \(11, 4\)"
    ):
        checkpoint.restore_optimizer(other, fresh, tensors | {"embed.weight/exp_avg": torch.ones(2, 4)})
    after = checkpoint.optimizer_tensors(other, fresh)
    assert all(torch.equal(before[k], after[k]) for k in before)
    with pytest.raises(CheckpointError, match="another model"):
        checkpoint.restore_model(other, {"embed.weight": torch.ones(11, 4)})
    with pytest.raises(CheckpointError, match="none of the model"):
        checkpoint.optimizer_tensors(Tied(), optimizer)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="NOT TESTED, order of fsync: no /proc here")
def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """A loss of power keeps what fsync has returned for: the three files, then their folder, then the new name."""
    done: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def recorded_fsync(handle: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        fsync(handle)

    def recorded_rename(self: Path, target: Path) -> Path:
        done.append(f"{self.name} -> {target.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "rename", recorded_rename)
    save(tmp_path / "new", 1)
    parent, *files, folder, named, last = done
    assert parent == tmp_path.name and sorted(files) == sorted(FILES)
    assert folder.startswith(".writing-") and named == f"{folder} -> step_00000001" and last == "new"
