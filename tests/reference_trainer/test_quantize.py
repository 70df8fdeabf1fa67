"""Matrices in 8 and 4 bits: no weight moves by more than half a step, and packing loses nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

from reference_trainer.errors import NonFiniteError, QuantizeError
from reference_trainer.quantized.model import PackedLinear
from reference_trainer.quantized.packing import GROUPS, Int4Matrix, Int8Matrix
from reference_trainer.quantized.scheme import SCHEMES, schemes

#: Anything an fp32 matrix may hold, subnormals and zeros included; widths that no group and no byte divides.
MATRICES = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 4), st.integers(1, 150)),
    elements=st.floats(-(2.0**100), 2.0**100, width=32),
    fill=st.floats(-2, 2, width=32),
)
#: Rounding a product to fp32 moves it by 2^-24 of itself, which is at most 127 steps.
ROUNDING = 0.5 + 127 * 2.0**-24


@settings(max_examples=150, deadline=None)
@given(MATRICES, st.sampled_from(GROUPS))
def test_no_weight_moves_by_more_than_half_a_step(array, group):
    weight = torch.from_numpy(array)
    for packed in (Int8Matrix.of(weight), Int4Matrix.of(weight, group)):
        off = (packed.dense().double() - weight.double()).abs()
        assert packed.dense().shape == weight.shape
        assert (off <= ROUNDING * packed.steps().double()).all()


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 130), st.sampled_from(GROUPS))
def test_numbers_of_four_bits_come_back_as_they_went_in(data, inputs, group):
    """Weights that are whole numbers of steps are exact: every value from -7 to 7, at every place of a byte."""
    whole = torch.tensor(data.draw(st.lists(st.integers(-7, 7), min_size=inputs, max_size=inputs))).float()
    largest = data.draw(st.sampled_from((-7.5, 7.5)))
    whole[::group] = largest  # every group has it, so the step is known
    packed = Int4Matrix.of((whole * 0.25)[None], group)
    whole[::group] = -8 if largest < 0 else 7  # which is half a step off, on the side where there is room
    assert torch.equal(packed.dense(), (whole * 0.25)[None])
    assert packed.packed.shape == (1, math.ceil(inputs / 2)) and packed.packed.dtype == torch.uint8
    assert packed.step.shape == (1, math.ceil(inputs / group)) and packed.step.dtype == torch.bfloat16


def test_the_step_by_hand():
    """Row 0: largest 127, step 1. Row 1: largest 2.54, step 0.02; 0.031 is 1.55 steps, so 2. Row 2 is nothing."""
    packed = Int8Matrix.of(torch.tensor([[127.0, -3.2], [2.54, 0.031], [0.0, 0.0]]))
    assert packed.values.tolist() == [[127, -3], [127, 2], [0, 0]]
    assert packed.step[:2].flatten().tolist() == pytest.approx([1.0, 0.02])
    assert packed.dense()[2].tolist() == [0.0, 0.0]


def test_low_halves_hold_the_first_inputs():
    """The row 7, -7 | 1, nothing: with 8 added, and one behind the other in the halves of two bytes."""
    packed = Int4Matrix.of(torch.tensor([[7.5, -7.0, 1.0]]), 32)
    assert packed.packed.tolist() == [[15 | 9 << 4, 1 | 8 << 4]]


def test_a_step_is_rounded_up():
    """1 + 2^-9 lies between two bf16 numbers, 1 and 1 + 2^-7; a power of two is one."""
    packed = Int4Matrix.of(torch.tensor([[7.5 * (1 + 2.0**-9)], [7.5 * 0.25]]), 32)
    assert packed.step.flatten().tolist() == [1 + 2.0**-7, 0.25]


@pytest.mark.parametrize("inputs", [1, 33, 96, 160])
@pytest.mark.parametrize("name", ["int8", "int4-g32", "int4-g64", "int4-g128"])
def test_the_product_is_that_of_the_matrix_in_full(name, inputs):
    torch.manual_seed(0)
    weight, x = torch.randn(24, inputs), torch.randn(5, 3, inputs)
    scheme = SCHEMES[name]
    packed = Int8Matrix.of(weight) if scheme.bits == 8 else Int4Matrix.of(weight, scheme.group)
    reference = (x.double() @ packed.dense().double().T).float()
    torch.testing.assert_close(PackedLinear(packed)(x), reference, rtol=1e-5, atol=1e-5)
    assert not list(nn.Module.parameters(packed))  # nothing that an optimizer could take


def test_an_embedding_reads_rows():
    table = Int8Matrix.of(torch.randn(10, 6))
    index = torch.tensor([[3, 3], [0, 9]])
    assert torch.equal(table.rows(index), table.dense()[index])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_by_name(bad):
    weight = torch.ones(3, 4)
    weight[1, 2] = bad
    for make in (lambda: Int8Matrix.of(weight, "blocks.0.q.weight"), lambda: Int4Matrix.of(weight, 32, "x")):
        with pytest.raises(NonFiniteError, match="1 of the 12") as caught:
            make()
        assert caught.value.bad == 1
    assert caught.value.tensor == "x"


@pytest.mark.parametrize("group", [0, 16, 31, 256])
def test_other_groups_are_refused(group):
    with pytest.raises(QuantizeError, match="32, 64, 128"):
        Int4Matrix.of(torch.ones(2, 64), group)


@pytest.mark.parametrize("shape", [(4,), (2, 2, 2), (0, 4)])
def test_only_matrices(shape):
    with pytest.raises(QuantizeError, match="a matrix is quantized"):
        Int8Matrix.of(torch.ones(shape))


def test_schemes_by_name():
    assert [s.name for s in schemes()] == ["fp32", "bf16", "int8", "int4-g128", "int4-g64", "int4-g32"]
    assert [s.name for s in schemes([" INT8", "fp32"])] == ["fp32", "int8"]
    with pytest.raises(QuantizeError, match=r"'int2' is no scheme.*int4-g64"):
        schemes(["int2"])
    with pytest.raises(QuantizeError, match="twice"):
        schemes(["int8", "INT8"])
    assert all(str(s.group or s.bits) in s.what or s.bits > 8 for s in schemes())
