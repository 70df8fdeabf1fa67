"""Matrices in 8 and 4 bits: whole numbers times a step, chosen so that no weight moves by more than half a step.

Zero stays zero, so there is no offset. int8 has one step for an output channel, largest weight / 127; int4 has one for
every group of inputs, largest weight / 7.5, and two numbers from -8 to 7 in a byte: the largest weight is half a step
off, and all others have a step that is a fifteenth smaller than with -7 to 7. This is round-to-nearest as in Dettmers
and Zettlemoyer 2022 (arXiv 2212.09720, section 2); nothing is calibrated on data.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_trainer.errors import NonFiniteError, QuantizeError

#: Steps in the largest weight.
INT8_MOST, INT4_MOST = 127.0, 7.5
#: Inputs that share a step of int4. Even, so that no byte belongs to two groups.
GROUPS = (32, 64, 128)


class Int8Matrix(nn.Module):
    """A matrix (out, in) as int8, one fp32 step for each row.

    Parameters
    ----------
    values : Tensor
        Whole numbers from -127 to 127, int8, (out, in).
    step : Tensor
        fp32, (out, 1).
    """

    values: Tensor
    step: Tensor

    def __init__(self, values: Tensor, step: Tensor) -> None:
        super().__init__()
        self.register_buffer("values", values)
        self.register_buffer("step", step)

    @classmethod
    def of(cls, weight: Tensor, name: str = "the matrix") -> Int8Matrix:
        """Round a matrix.

        Raises
        ------
        NonFiniteError, QuantizeError
            It holds NaN or infinities; it is no matrix.
        """
        weight = _checked(weight, name)
        step = _step(weight.abs().amax(dim=1, keepdim=True), INT8_MOST)
        return cls(_rounded(weight, step, -127, 127), step)

    def dense(self) -> Tensor:
        """Return the matrix in fp32, (out, in)."""
        return self.values.float() * self.step

    def rows(self, index: Tensor) -> Tensor:
        """Return some rows in fp32, (..., in): what an embedding does."""
        return self.values[index].float() * self.step[index]

    def product(self, x: Tensor) -> Tensor:
        """Return x times the transpose; the step of a row comes after, once for an output."""
        return F.linear(x, self.values.to(x.dtype)) * self.step.flatten()

    def steps(self) -> Tensor:
        """Return the step of every weight, (out, in)."""
        return self.step.expand(self.values.shape)


class Int4Matrix(nn.Module):
    """A matrix (out, in) as int4, two in a byte, one bf16 step for each group of inputs of a row.

    Low halves of the bytes of a row hold its first inputs, high halves the rest, each number with 8 added: put one
    behind the other they are the row, which takes half as long as neighbours in a byte. bf16 has the range of fp32, so
    no step is lost; it is rounded up, so that the largest weight stays in reach, and numbers are rounded with it as it
    is stored. The last group may be short.

    Parameters
    ----------
    packed : Tensor
        uint8, (out, ceil(in / 2)).
    step : Tensor
        bf16, (out, groups).
    inputs, group : int
        Inputs of the matrix, and of a group.
    """

    packed: Tensor
    step: Tensor

    def __init__(self, packed: Tensor, step: Tensor, inputs: int, group: int) -> None:
        super().__init__()
        self.inputs, self.group = inputs, group
        self.register_buffer("packed", packed)
        self.register_buffer("step", step)

    @classmethod
    def of(cls, weight: Tensor, group: int, name: str = "the matrix") -> Int4Matrix:
        """Round a matrix.

        Raises
        ------
        NonFiniteError, QuantizeError
            It holds NaN or infinities; it is no matrix, or the group is none of `GROUPS`.
        """
        if group not in GROUPS:
            raise QuantizeError(
                f"group = {group}: int4 has a step for {', '.join(map(str, GROUPS))} inputs", column="group"
            )
        weight = _checked(weight, name)
        inputs = weight.shape[1]
        grouped = F.pad(weight.abs(), (0, -inputs % group)).view(len(weight), -1, group)
        step = _up(_step(grouped.amax(dim=2), INT4_MOST))
        each = step.float().repeat_interleave(group, dim=1)[:, :inputs]
        shifted = (_rounded(weight, each, -8, 7) + 8).to(torch.uint8)
        shifted = F.pad(shifted, (0, inputs % 2), value=8)
        low, high = shifted.chunk(2, dim=1)
        return cls(low | (high << 4), step, inputs, group)

    def dense(self) -> Tensor:
        """Return the matrix in fp32, (out, in)."""
        numbers = torch.cat((self.packed & 15, self.packed >> 4), dim=1).float().sub_(8.0)
        step, whole = self.step.float(), self.inputs - self.inputs % self.group
        numbers[:, :whole].view(len(numbers), -1, self.group).mul_(step[:, : whole // self.group, None])
        numbers[:, whole:].mul_(step[:, -1:])
        return numbers[:, : self.inputs]

    def product(self, x: Tensor) -> Tensor:
        """Return x times the transpose, by way of the matrix in full."""
        return F.linear(x, self.dense().to(x.dtype))

    def steps(self) -> Tensor:
        """Return the step of every weight, (out, in)."""
        return self.step.float().repeat_interleave(self.group, dim=1)[:, : self.inputs]


def _checked(weight: Tensor, name: str) -> Tensor:
    """Return a matrix in fp32, if it is one and every number is finite."""
    if weight.dim() != 2 or not weight.numel():
        raise QuantizeError(f"{name} has the shape {tuple(weight.shape)}: a matrix is quantized, (out, in)")
    weight = weight.detach().float()
    bad = int((~torch.isfinite(weight)).sum())
    if bad:
        raise NonFiniteError(
            f"{bad:,} of the {weight.numel():,} numbers of {name} are NaN or infinite: nothing was quantized. Take "
            "an earlier checkpoint.",
            tensor=name,
            bad=bad,
        )
    return weight


def _step(largest: Tensor, most: float) -> Tensor:
    """Return the step of which the largest weight has so many."""
    # Where all weights are zero, or so small that their step would be none, any step will do: they become zero.
    return (largest / most).clamp_(min=torch.finfo(torch.float32).tiny)


def _up(step: Tensor) -> Tensor:
    """Return a positive fp32 step as bf16, rounded up: bf16 is the upper half of the bits."""
    return ((step.view(torch.int32) + 0xFFFF) & ~0xFFFF).view(torch.float32).bfloat16()


def _rounded(weight: Tensor, step: Tensor, least: int, most: int) -> Tensor:
    return (weight / step).round_().clamp_(least, most).to(torch.int8)
