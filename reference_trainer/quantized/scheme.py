"""Which numbers a model is kept in, by name: fp32, bf16, int8, int4-g32, int4-g64, int4-g128."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reference_trainer.errors import QuantizeError
from reference_trainer.quantized.packing import GROUPS


@dataclass(frozen=True)
class Scheme:
    """How the weights are kept.

    Attributes
    ----------
    name : str
    bits : int
        Of a weight in a matrix of a block: 32, 16, 8 or 4.
    group : int
        Inputs that share a step, of int4; 0 elsewhere.
    """

    name: str
    bits: int
    group: int = 0

    @property
    def what(self) -> str:
        """What is kept in how many bits, in words."""
        if self.bits == 32:
            return "everything fp32"
        if self.bits == 16:
            return "everything bf16, products in bf16"
        step = "for each output" if self.bits == 8 else f"for {self.group} inputs"
        return f"blocks int{self.bits} with a step {step}, embedding and head int8, norms and products fp32"


SCHEMES: dict[str, Scheme] = {
    s.name: s
    for s in (
        Scheme("fp32", 32), Scheme("bf16", 16), Scheme("int8", 8),
        *(Scheme(f"int4-g{g}", 4, g) for g in sorted(GROUPS, reverse=True)),
    )
}  # fmt: skip
#: What everything is compared with.
BASE = SCHEMES["fp32"]


def schemes(names: Sequence[str] | None = None) -> tuple[Scheme, ...]:
    """Return schemes by name, fp32 always first; all of them without names.

    Raises
    ------
    QuantizeError
        A name is unknown or given twice.

    Examples
    --------
    >>> [s.name for s in schemes(["int8", "int4-g64"])]
    ['fp32', 'int8', 'int4-g64']
    """
    chosen = [name.strip().lower() for name in (SCHEMES if names is None else names)]
    for name in chosen:
        if name not in SCHEMES:
            raise QuantizeError(f"{name!r} is no scheme: choose of {', '.join(SCHEMES)}", column="schemes")
    if len({*chosen}) < len(chosen):
        raise QuantizeError(f"a scheme is given twice: {', '.join(chosen)}", column="schemes")
    return (BASE, *(SCHEMES[name] for name in chosen if name != BASE.name))
