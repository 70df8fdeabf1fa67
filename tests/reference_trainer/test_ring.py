"""Numbers of a step wait on the device, exactly, until they are read."""

from __future__ import annotations

import time

import pytest
import torch

from reference_trainer.errors import RingError
from reference_trainer.ring import Ring


@pytest.fixture(params=["taken at once", "kept in the table"])
def cpu_ring(request):
    """A ring on the CPU, as it is there and as it would be on an accelerator."""

    def make(names: list[str], size: int) -> Ring:
        ring = Ring(names, size, "cpu")
        ring._at_once = request.param == "taken at once"
        return ring

    return make


def test_what_is_read_is_what_was_pushed(cpu_ring):
    ring = cpu_ring(["loss", "norm", "finite", "lr", "a0", "a1", "a2"], size=3)
    loss = torch.tensor(1.0, requires_grad=True) / 3
    layers = torch.tensor([0.5, float("nan"), float("inf")])
    ring.push(7, [loss, torch.tensor([2.0]), torch.tensor(True), 0.1, layers])
    ring.push(
        9, [5.0, torch.tensor(2**20 + 1), False, torch.tensor(0.25, dtype=torch.float64), 1.0, 2.0, 3.0]
    )
    assert len(ring) == 2 and not ring.full
    first, second = ring.read()
    assert first["step"] == 7 and type(first["step"]) is int
    assert first["loss"] == loss.item() and first["lr"] == 0.1  # host numbers keep all their bits
    assert (first["norm"], first["finite"], first["a0"]) == (2.0, 1.0, 0.5)
    assert first["a1"] != first["a1"] and first["a2"] == float("inf")
    assert second == {"step": 9, "loss": 5.0, "norm": 2**20 + 1, "finite": 0.0, "lr": 0.25, "a0": 1.0, "a1": 2.0,
                      "a2": 3.0}  # fmt: skip
    assert ring.read() == [] and len(ring) == 0


def test_a_tensor_that_is_used_again_has_been_copied(cpu_ring):
    """Compiled steps on CUDA hand out the same memory every time."""
    ring, loss = cpu_ring(["loss"], size=3), torch.zeros(())
    for step in range(3):
        ring.push(step, [loss.fill_(step)])
    assert [row["loss"] for row in ring.read()] == [0.0, 1.0, 2.0]


def test_the_ring_is_used_again_and_again(cpu_ring):
    ring = cpu_ring(["x"], size=2)
    seen = []
    for step in range(7):
        ring.push(step, [torch.tensor(float(step))])
        if ring.full:
            seen += ring.read()
    assert [row["x"] for row in seen + ring.read()] == list(range(7))


def test_a_cpu_keeps_all_bits():
    ring = Ring(["a", "b"], size=1, device="cpu")
    ring.push(1, [torch.tensor(2**53 - 1), torch.tensor([0.1], dtype=torch.float64)])
    assert ring.read() == [{"step": 1, "a": 2**53 - 1, "b": 0.1}]


def test_pushing_never_asks_the_device():
    """A meta tensor has no value: whoever asked for one would fail."""
    ring = Ring(["loss", "lr", "norm"], size=2, device="meta")
    ring.push(1, [torch.empty((), device="meta"), 0.1, torch.empty((), device="meta")])
    ring.push(2, [torch.tensor(3.0), 0.1, torch.empty((), device="meta")])  # a host tensor can be read


def test_too_many_and_the_wrong_ones_are_refused():
    ring = Ring(["loss", "lr"], size=1, device="cpu")
    with pytest.raises(RingError, match="1 numbers for 2 names"):
        ring.push(1, [torch.tensor(1.0)])
    with pytest.raises(RingError, match="3 numbers for 2 names"):
        ring.push(1, [torch.ones(2), 1.0])
    with pytest.raises(RingError, match="on meta, the ring on cpu"):
        ring.push(1, [torch.empty((), device="meta"), 1.0])
    ring.push(1, [1.0, 2.0])
    with pytest.raises(RingError, match=r"step 2: 1 steps wait.*call read\(\)"):
        ring.push(2, [1.0, 2.0])
    assert ring.read() == [{"step": 1, "loss": 1.0, "lr": 2.0}]  # nothing was lost over it


@pytest.mark.parametrize("names", [[], ["a", "a"], ["step"]])
def test_names(names):
    with pytest.raises(RingError):
        Ring(names, size=1, device="cpu")


def test_size():
    with pytest.raises(RingError, match="size"):
        Ring(["a"], size=0, device="cpu")


def test_a_step_costs_microseconds(tmp_path):
    """Ring and log together, seven numbers a step: far below 2% of any step worth training (0.25 ms)."""
    from reference_trainer.run_log import RunLog

    names = ("loss", "grad_norm", "param_norm", "v_norm", "update_norm", "lr", "finite")
    values = [*torch.rand(5).unbind(), 3e-4, torch.tensor(True)]
    ring, best = Ring(names, size=10, device="cpu"), float("inf")
    with RunLog(tmp_path / "log.jsonl", 0) as log:
        for _ in range(20):
            begin = time.process_time()
            for step in range(100):
                ring.push(step, values)
                if ring.full:
                    log.extend("step", ring.read())
            best = min(best, (time.process_time() - begin) / 100)
    assert best < 250e-6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NOT TESTED, the ring on CUDA: no such device here")
def test_on_cuda_nothing_waits_until_it_is_read():
    ring, value = Ring(["loss", "lr"], size=4, device="cuda"), torch.tensor(2.5, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        ring.push(1, [value, 0.1])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert ring.read() == [{"step": 1, "loss": 2.5, "lr": 0.1}]
