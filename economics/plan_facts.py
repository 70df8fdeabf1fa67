"""What follows from a plan before anything is judged: shape, accelerator, speed, price, FLOPs per token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from economics.errors import AmbiguousGPU, DtypeError, UnknownGPU
from economics.hardware import GPU, gpu
from economics.mfu import mfu_model
from economics.mfu_estimate import MfuEstimate
from economics.mfu_rows import attention_guess
from economics.plan_schema import Plan
from economics.utilisation import default_dtype
from scaling.architecture import Arch
from scaling.errors import DataError
from scaling.findings import Finding
from scaling.flops import flops_per_token
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.published import published

#: The law that answers what a plan leaves to a law: 240 of the points of Hoffmann et al. 2022, re-fitted.
REFERENCE_LAW = "Besiroglu replication (best of grid)"
_SHAPE = ("layers", "d_model", "heads", "d_ff", "vocab")
_NOT_SHAPE = ("params", "params_kind", "active_params")


@dataclass(frozen=True)
class Facts:
    """A plan and what can be computed from it.

    Parameters
    ----------
    plan : Plan
        What was read.
    arch : Arch or None
        The shape, where layers, d_model, heads, d_ff and vocab are given and fit together.
    part : GPU or None
        The accelerator; of several that a name may mean the fastest, which is the charitable one.
    faults : tuple of Finding
        What is wrong with the shape or the accelerator.
    """

    plan: Plan
    arch: Arch | None
    part: GPU | None
    faults: tuple[Finding, ...]

    def get(self, path: str) -> Any:
        """Return a value of the plan by its path, such as ``run.tokens_per_s``; None where it is not given.

        Besides paths it knows ``a whole shape``, ``a time to save`` and ``a second step rate``, which are what
        they say or None.
        """
        if path in _DERIVED:
            return _DERIVED[path](self) or None
        value: Any = self.plan
        for name in path.split("."):
            value = getattr(value, name, None)
        return None if isinstance(value, list) and not value else value

    @property
    def params(self) -> float | None:
        """Total parameters: of the shape, else as claimed."""
        claimed: float | None = self.get("model.params")
        return float(self.arch.params_total) if self.arch else claimed

    @property
    def active_params(self) -> float | None:
        """Parameters a token uses."""
        if self.arch:
            return float(self.arch.params_active)
        active: float | None = self.get("model.active_params") or self.get("model.params")
        return active

    @property
    def tokens(self) -> float | None:
        """Tokens of the run."""
        tokens: float | None = self.get("data.tokens")
        return tokens

    @property
    def n_gpus(self) -> int | None:
        """Accelerators of the run."""
        n: int | None = self.get("run.n_gpus")
        return n

    @property
    def dtype(self) -> str | None:
        """Dtype of the matrix products."""
        given: str | None = self.get("run.dtype")
        return given or (default_dtype(self.part) if self.part else None)

    @property
    def peak(self) -> float | None:
        """Dense peak of all accelerators together, FLOP/s."""
        if self.part is None or self.n_gpus is None or self.dtype is None:
            return None
        return self.n_gpus * self.part.peak(self.dtype)

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all accelerators together for an hour."""
        price = self.get("run.usd_per_gpu_hour")
        return None if price is None or self.n_gpus is None else price * self.n_gpus

    def flops_per_token(self, convention: str | None = None) -> float | None:
        """FLOPs per token of a training step; without a sequence length or a shape what comes nearest."""
        name = convention or self.get("run.flop_convention") or "palm"
        length = self.get("run.seq_len")
        if self.arch is not None:
            return flops_per_token(self.arch, name if length else "6N", seq_len=length)
        size = self.active_params
        if size is None:
            return None
        attention = {"palm": 1.0, "causal": 0.5, "matmul": 0.5}.get(name, 0.0)
        return 6.0 * size + (attention * attention_guess(size, length) if length else 0.0)

    @property
    def tokens_per_s(self) -> float | None:
        """Speed as stated, else as the stated utilisation amounts to."""
        stated: float | None = self.get("run.tokens_per_s")
        mfu, work, peak = self.get("run.mfu"), self.flops_per_token(), self.peak
        if stated is not None or mfu is None or work is None or peak is None:
            return stated
        return float(mfu * peak / work)

    @property
    def steps_per_s(self) -> float | None:
        """Optimizer steps per second at that speed."""
        speed, batch = self.tokens_per_s, self.get("run.batch_tokens")
        return None if speed is None or batch is None else speed / batch

    def predicted(self, size: float) -> MfuEstimate | None:
        """Predict the utilisation of a model of some size on the plan's machine, from measured throughputs."""
        if self.part is None or self.n_gpus is None or self.dtype is None:
            return None
        length = self.get("run.seq_len") or 2048.0
        return mfu_model().predict(size, self.part, self.n_gpus, length, dtype=self.dtype, level=0.98)

    @cached_property
    def law(self) -> ChinchillaLaw:
        """Return the published law `REFERENCE_LAW`."""
        law = published(REFERENCE_LAW).law
        assert isinstance(law, ChinchillaLaw)
        return law


def _second_rate(known: Facts) -> bool:
    """Tell whether there is anything to compare a step rate with: another one, the speed, or the run's length."""
    checkpoint = known.plan.checkpoint
    timed = [r.span_s for r in known.plan.step_rates if r.span_s is not None]
    timed += [checkpoint.span_s] if checkpoint and checkpoint.steps and checkpoint.span_s is not None else []
    long = known.get("run.batch_tokens") is not None and known.tokens is not None
    return long or len(timed) + (known.steps_per_s is not None) > 1


_DERIVED: Mapping[str, Callable[[Facts], Any]] = {
    "a whole shape": lambda known: known.arch,
    "a time to save": lambda known: known.plan.checkpoint and known.plan.checkpoint.save_minutes,
    "a second step rate": _second_rate,
}


def facts(plan: Plan) -> Facts:
    """Compute what follows from a plan; what contradicts itself becomes a finding."""
    arch, no_shape = _arch(plan)
    part, no_part = _part(plan)
    return Facts(plan, arch, part, (*no_shape, *no_part))


def _arch(plan: Plan) -> tuple[Arch | None, list[Finding]]:
    if plan.model is None:
        return None, []
    fields = {k: v for k, v in plan.model.model_dump().items() if v is not None and k not in _NOT_SHAPE}
    missing = [name for name in _SHAPE if name not in fields]
    if missing:
        if len(missing) == len(_SHAPE) or missing == list(_SHAPE[:-1]):  # a vocabulary alone is no shape
            return None, []
        words = f"the shape is not known: [model] gives {', '.join(fields)} without {', '.join(missing)}."
        return None, [Finding("shape_incomplete", "warning", words, {"missing": missing})]
    try:
        return Arch(**fields), []
    except DataError as error:
        words = f"there is no model of this shape: {error}"
        return None, [Finding("shape_impossible", "error", words, {"column": error.column})]


def _part(plan: Plan) -> tuple[GPU | None, list[Finding]]:
    if plan.run is None or plan.run.gpu is None:
        return None, []
    name = plan.run.gpu
    found: list[Finding] = []
    try:
        part = gpu(name)
    except AmbiguousGPU as error:
        choice = [gpu(s) for s in error.suggestions]
        part = max(choice, key=lambda g: (g.peak(default_dtype(g)), g.memory_gb, g.bandwidth_gbps or 0.0))
        words = (
            f"{name} may be {', '.join(error.suggestions)}: computed with {part.name}, the fastest of them."
        )
        found.append(Finding("gpu_open", "info", words, {"candidates": list(error.suggestions)}))
    except UnknownGPU as error:
        return None, [Finding("gpu_unknown", "error", str(error), {"suggestions": list(error.suggestions)})]
    if plan.run.dtype is not None:
        try:
            part.peak(plan.run.dtype)
        except DtypeError as error:
            found.append(Finding("dtype_unknown", "error", str(error), {"available": list(error.available)}))
            return None, found
    return part, found
