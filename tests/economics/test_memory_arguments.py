"""Memory asked of shapes by name, and of GPUs that are none."""

from __future__ import annotations

import math

import pytest

from economics.hardware import GPU, gpu
from economics.memory import memory_fit
from economics.power import rated_power
from scaling.architecture import Arch
from scaling.errors import DataError
from scaling.published_archs import arch


def test_a_published_shape_goes_by_its_name():
    by_name = memory_fit("llama-2-7b", 80, micro_batch=1, seq_len=4096, n_gpus=8, zero=3)
    assert (
        by_name.total_gb
        == memory_fit(arch("llama-2-7b"), 80, micro_batch=1, seq_len=4096, n_gpus=8, zero=3).total_gb
    )


@pytest.mark.parametrize("part", [math.inf, math.nan, 0, -1, True])
def test_what_is_no_gpu_is_refused(part):
    with pytest.raises(DataError, match=r"(?i)gpu"):
        memory_fit("llama-2-7b", part)


@pytest.mark.parametrize("shape", ["no-such-model", 7e9, None])
def test_what_is_no_shape_is_refused(shape):
    with pytest.raises(DataError):
        memory_fit(shape, 80)


@pytest.mark.parametrize("layers", [math.nan, math.inf, -math.inf, 1.5, "2", True])
def test_layers_are_a_whole_number(layers):
    with pytest.raises(DataError, match="layers must be a whole number"):
        Arch(layers=layers, d_model=64, heads=4, d_ff=256, vocab=100)


def test_power_that_nobody_published_is_none_until_it_is_given():
    mine = GPU("mine", 24, {"fp32": 12.0})
    assert rated_power(mine) == rated_power(gpu("TPU v5e")) == (None, False)
    assert rated_power(gpu(mine, tdp_w=200)) == rated_power(mine, 200) == (200.0, False)
