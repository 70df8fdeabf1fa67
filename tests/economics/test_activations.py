"""What the forward pass keeps: the published formulas, and the tensors torch really saves."""

from __future__ import annotations

import pytest

from economics.activations import (
    Kernels,
    checkpoint_bytes_per_token,
    layer_bytes_per_token,
    logits_bytes_per_token,
)
from scaling.architecture import Arch

PAPER = Kernels(flash=False, dropout=True)  # Korthikanti et al. 2022: dropout, scores stored, 16 bits


def _gpt(layers: int, h: int, a: int) -> Arch:
    return Arch(
        layers=layers, d_model=h, heads=a, d_ff=4 * h, vocab=51200, gated=False, bias=True, norm="layernorm",
        learned_positions=2048,
    )  # fmt: skip


# Their table 3: the 22B, 175B, 530B and 1T models, s = 2048.
MODELS = [_gpt(48, 6144, 64), _gpt(96, 12288, 96), _gpt(105, 20480, 128), _gpt(128, 25600, 160)]


@pytest.mark.parametrize("arch", MODELS)
@pytest.mark.parametrize("t", [1, 8])
def test_korthikanti_table_2(arch, t):
    """Bytes per layer in units of sbh, rows of their table 2; s = 2048."""
    h = arch.d_model
    scores = 5 * arch.heads * 2048 / h

    def per_sbh(kernels: Kernels, **parallel: bool) -> float:
        return layer_bytes_per_token(arch, 2048, kernels, tp=t, **parallel) / h

    assert per_sbh(PAPER) == pytest.approx(10 + 24 / t + scores / t)
    assert per_sbh(PAPER, sequence_parallel=True) == pytest.approx(34 / t + scores / t)
    # Selective recomputation keeps no scores, as flash attention does (and its log-sum-exp of 4a bytes).
    flash = per_sbh(Kernels(dropout=True), sequence_parallel=True)
    assert flash == pytest.approx((34 + 4 * arch.heads / h) / t)
    assert checkpoint_bytes_per_token(arch, PAPER) == 2 * h


def test_korthikanti_savings():
    """ "For GPT-3 and MT-NLG ... 70% and 65%" is what selective recomputation saves, from 5as/h = 80 and 64."""
    for arch, saved in ((MODELS[1], 0.70), (MODELS[2], 0.65)):
        whole = layer_bytes_per_token(arch, 2048, PAPER)
        kept = layer_bytes_per_token(arch, 2048, Kernels(dropout=True))
        assert 1 - kept / whole == pytest.approx(saved, abs=0.006)


def test_logits_of_a_50k_vocabulary():
    """64 x 1024 tokens: 13 GB of logits and as much again for their gradient."""
    arch = Arch(layers=1, d_model=64, heads=1, d_ff=64, vocab=50257)
    whole = 64 * 1024 * logits_bytes_per_token(arch)
    assert whole / 2 == pytest.approx(13.2e9, rel=5e-3)
    assert 64 * 1024 * logits_bytes_per_token(arch, inplace=True) == whole / 2
    assert logits_bytes_per_token(arch, chunks=8, tp=2) == logits_bytes_per_token(arch) / 16


GPT = Arch(
    layers=1, d_model=256, heads=4, d_ff=1024, vocab=10, gated=False, bias=True, norm="layernorm",
    learned_positions=256,
)  # fmt: skip
LLAMA = Arch(layers=1, d_model=256, heads=4, kv_heads=2, d_ff=704, vocab=10)
TOKENS = 2 * 256

#: Bytes of distinct tensors saved by one block for 2 sequences of 256 tokens, less the bf16 weight copies of
#: autocast: torch 2.13.0 on CPU, SDPA with the flash back end, torch.autograd.graph.saved_tensors_hooks.
MEASURED = {
    ("gpt", "eager", "bf16"): 4_206_592,
    ("gpt", "eager", "fp32"): 8_404_992,
    ("gpt", "eager", "autocast"): 6_832_128 - 2 * 786_432,
    ("llama", "eager", "bf16"): 6_631_424,
    ("llama", "eager", "fp32"): 11_153_408,
    ("llama", "eager", "autocast"): 8_892_416 - 2 * 737_280,
    ("gpt", "fused", "bf16"): 4_206_592,
    ("gpt", "fused", "autocast"): 6_045_696 - 2 * 786_432,
    ("llama", "fused", "bf16"): 4_272_128,
    ("llama", "fused", "autocast"): 6_008_832 - 2 * 737_280,
}


def _kernels(mode: str, precision: str) -> Kernels:
    return Kernels(
        element=4 if precision == "fp32" else 2, autocast=precision == "autocast", fused=mode == "fused"
    )


@pytest.mark.parametrize("case", MEASURED)
def test_against_what_torch_saved(case):
    shape, mode, precision = case
    arch = GPT if shape == "gpt" else LLAMA
    predicted = TOKENS * layer_bytes_per_token(arch, 256, _kernels(mode, precision))
    assert -0.013 < predicted / MEASURED[case] - 1 < 0.06


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_against_what_torch_saves_now(precision):
    """The eager Llama block again, measured here (needs the train extra)."""
    torch = pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention, silu

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    linear = {
        name: torch.nn.Linear(i, o, bias=False, dtype=dtype)
        for name, (i, o) in {
            "q": (256, 256), "k": (256, 128), "v": (256, 128), "o": (256, 256),
            "gate": (256, 704), "up": (256, 704), "down": (704, 256),
        }.items()
    }  # fmt: skip
    norms = [torch.nn.RMSNorm(256, dtype=dtype) for _ in range(2)]

    def heads(x):
        return x.view(2, 256, -1, 64).transpose(1, 2)

    def block(x):
        y = norms[0](x)
        q, k, v = (heads(linear[name](y)) for name in "qkv")
        q, k = (z.roll(1, -1) * 1.0 for z in (q, k))  # stands for the rotation: a new tensor, head by head
        mixed = scaled_dot_product_attention(
            q.contiguous(), k.contiguous(), v, is_causal=True, enable_gqa=True
        )
        x = x + linear["o"](mixed.transpose(1, 2).reshape(2, 256, 256))
        y = norms[1](x)
        return x + linear["down"](silu(linear["gate"](y)) * linear["up"](y))

    weights = {p.untyped_storage().data_ptr() for m in (*linear.values(), *norms) for p in m.parameters()}
    saved: dict[int, int] = {}
    alive = []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # so that no address is used twice
        return tensor

    x = torch.randn(2, 256, 256, dtype=dtype, requires_grad=True)
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
        sdpa_kernel([SDPBackend.FLASH_ATTENTION]),
    ):
        block(x)
    predicted = TOKENS * layer_bytes_per_token(LLAMA, 256, _kernels("eager", precision))
    assert predicted == pytest.approx(sum(saved.values()), rel=0.03)
