"""Shapes of published models, by name. Every one reproduces the parameter count its authors publish."""

from __future__ import annotations

from functools import cache
from typing import Any

from scaling.architecture import Arch
from scaling.errors import DataError, shown


class UnknownArchError(DataError):
    """No published shape has this name; `suggestions` are the nearest that exist."""

    def __init__(self, message: str, *, suggestions: tuple[str, ...]) -> None:
        super().__init__(message)
        self.suggestions = suggestions


def arch(name: str, **changes: Any) -> Arch:
    """Return the shape of a published model, with any field changed.

    Shapes are those of the configuration files the authors published with the weights.

    Parameters
    ----------
    name : str
        One of `arch_names`, in any case, with spaces, ``_`` or ``-`` between its parts.
    **changes
        Fields of `Arch` to replace.

    Raises
    ------
    UnknownArchError
        No shape has this name; names the nearest.

    Examples
    --------
    >>> arch("Llama-2-7B").params_total, arch("mixtral-8x7b").params_active
    (6738415616, 12879925248)
    >>> arch("gpt2", vocab=50304).params_total
    124475904
    """
    shapes = _shapes()
    key = _key(name)
    if key not in shapes:
        import difflib

        near = tuple(shapes[k].name for k in difflib.get_close_matches(key, shapes, n=3, cutoff=0.5))
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(arch_names())}."
        raise UnknownArchError(f"no published shape is called {shown(name)}: {hint}", suggestions=near)
    found = shapes[key]
    return found.replace(name=f"{found.name} (changed)", **changes) if changes else found


def arch_names() -> tuple[str, ...]:
    """Names of all published shapes."""
    return tuple(shape.name for shape in _shapes().values())


def _key(name: str) -> str:
    return "".join(c for c in str(name).lower() if c not in " -_")


@cache
def _shapes() -> dict[str, Arch]:
    shapes = (*_gpt_family(), *_llama_family(), *_others(), *_mixtures())
    return {_key(shape.name): shape for shape in shapes}


def _gpt(name: str, layers: int, d_model: int, heads: int, vocab: int, positions: int, **more: Any) -> Arch:
    """LayerNorm, biases, GELU with d_ff = 4 d: the GPT-2 block."""
    fields: dict[str, Any] = {
        "d_ff": 4 * d_model,
        "gated": False,
        "bias": True,
        "norm": "layernorm",
        "learned_positions": positions,
    }
    return Arch(name=name, layers=layers, d_model=d_model, heads=heads, vocab=vocab, **{**fields, **more})


def _llama(
    name: str, layers: int, d_model: int, heads: int, kv_heads: int, d_ff: int, vocab: int, **more: Any
) -> Arch:
    """RMSNorm, SwiGLU, rotary positions, no biases; untied unless said otherwise."""
    fields: dict[str, Any] = {"tied": False, **more}
    return Arch(
        name=name,
        layers=layers,
        d_model=d_model,
        heads=heads,
        kv_heads=kv_heads,
        d_ff=d_ff,
        vocab=vocab,
        **fields,
    )


def _gpt_family() -> tuple[Arch, ...]:
    """GPT-2, OPT, BLOOM, Pythia, and MPT as benchmarked by llm-foundry (positions for T = 2048)."""
    pythia: dict[str, Any] = {"tied": False}  # rotary; the vocabulary is padded, by size in different ways
    return (
        _gpt("gpt2", 12, 768, 12, 50257, 1024),
        _gpt("gpt2-medium", 24, 1024, 16, 50257, 1024),
        _gpt("gpt2-large", 36, 1280, 20, 50257, 1024),
        _gpt("gpt2-xl", 48, 1600, 25, 50257, 1024),
        _gpt("gpt3-175b", 96, 12288, 96, 50257, 2048),
        _gpt("opt-125m", 12, 768, 12, 50272, 2050),
        _gpt("opt-6.7b", 32, 4096, 32, 50272, 2050),
        # BLOOM: ALiBi, and a LayerNorm on the embedding.
        _gpt("bloom-176b", 70, 14336, 112, 250880, 0, extra_params=2 * 14336),
        _gpt("pythia-14m", 6, 128, 4, 50304, 0, **pythia),
        _gpt("pythia-70m", 6, 512, 8, 50304, 0, **pythia),
        _gpt("pythia-160m", 12, 768, 12, 50304, 0, **pythia),
        _gpt("pythia-410m", 24, 1024, 16, 50304, 0, **pythia),
        _gpt("pythia-1b", 16, 2048, 8, 50304, 0, **pythia),
        _gpt("pythia-1.4b", 24, 2048, 16, 50304, 0, **pythia),
        _gpt("pythia-2.8b", 32, 2560, 32, 50304, 0, **pythia),
        _gpt("pythia-6.9b", 32, 4096, 32, 50432, 0, **pythia),
        _gpt("pythia-12b", 36, 5120, 40, 50688, 0, **pythia),
        _gpt("mpt-125m", 12, 768, 12, 50368, 2048),
        _gpt("mpt-350m", 24, 1024, 16, 50368, 2048),
        _gpt("mpt-760m", 24, 1536, 12, 50368, 2048),
        _gpt("mpt-1b", 24, 2048, 16, 50368, 2048),
        _gpt("mpt-3b", 32, 2560, 20, 50368, 2048),
        _gpt("mpt-7b", 32, 4096, 32, 50368, 2048),
        _gpt("mpt-13b", 40, 5120, 40, 50368, 2048),
        _gpt("mpt-30b", 48, 7168, 56, 50368, 2048),
        _gpt("mpt-70b", 80, 8192, 64, 50368, 2048),
    )


def _llama_family() -> tuple[Arch, ...]:
    return (
        _llama("llama-7b", 32, 4096, 32, 32, 11008, 32000),
        _llama("llama-13b", 40, 5120, 40, 40, 13824, 32000),
        _llama("llama-33b", 60, 6656, 52, 52, 17920, 32000),
        _llama("llama-65b", 80, 8192, 64, 64, 22016, 32000),
        _llama("llama-2-7b", 32, 4096, 32, 32, 11008, 32000),
        _llama("llama-2-13b", 40, 5120, 40, 40, 13824, 32000),
        _llama("llama-2-70b", 80, 8192, 64, 8, 28672, 32000),
        _llama("llama-3-8b", 32, 4096, 32, 8, 14336, 128256),
        _llama("llama-3-70b", 80, 8192, 64, 8, 28672, 128256),
        _llama("llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256),
        _llama("llama-3.1-70b", 80, 8192, 64, 8, 28672, 128256),
        _llama("llama-3.1-405b", 126, 16384, 128, 8, 53248, 128256),
        _llama("llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256, tied=True),
        _llama("llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256, tied=True),
        _llama("tinyllama-1.1b", 22, 2048, 32, 4, 5632, 32000),
        _llama("mistral-7b", 32, 4096, 32, 8, 14336, 32000, window=4096),
    )


def _others() -> tuple[Arch, ...]:
    gemma: dict[str, Any] = {"tied": True, "head_dim": 256}
    return (
        _llama("qwen2.5-0.5b", 24, 896, 14, 2, 4864, 151936, tied=True, qkv_bias=True),
        _llama("qwen2.5-7b", 28, 3584, 28, 4, 18944, 152064, qkv_bias=True),
        _llama("qwen3-0.6b", 28, 1024, 16, 8, 3072, 151936, tied=True, head_dim=128, qk_norm="head"),
        _llama("gemma-2b", 18, 2048, 8, 1, 16384, 256000, **gemma),
        _llama("gemma-7b", 28, 3072, 16, 16, 24576, 256000, **gemma),
        # Gemma 2: norms before and after both halves of a block, every other layer with a window.
        _llama(
            "gemma-2-2b", 26, 2304, 8, 4, 9216, 256000, **gemma, norms_per_layer=4, window=4096,
            global_layers=13,
        ),
        _llama("olmo-7b", 32, 4096, 32, 32, 11008, 50304, norm="none"),
        # Falcon: one norm for the parallel halves of a block, one key/value head.
        _gpt("falcon-7b", 32, 4544, 71, 65024, 0, kv_heads=1, bias=False, norms_per_layer=1),
    )  # fmt: skip


def _mixtures() -> tuple[Arch, ...]:
    return (
        _llama("mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, experts=8, experts_per_token=2),
        _llama("mixtral-8x22b", 56, 6144, 48, 8, 16384, 32000, experts=8, experts_per_token=2),
        _llama("olmoe-1b-7b", 16, 2048, 16, 16, 1024, 50304, experts=64, experts_per_token=8, qk_norm="full"),
        _llama(
            "qwen3-30b-a3b", 48, 2048, 32, 4, 768, 151936, experts=128, experts_per_token=8, head_dim=128,
            qk_norm="head",
        ),
    )  # fmt: skip
