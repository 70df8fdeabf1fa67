"""FLOPs by named convention: what each counts, how far apart they are, and published runs they explain."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scaling.architecture import Arch
from scaling.datasets import builtin
from scaling.errors import DataError
from scaling.flops import (
    CONVENTIONS,
    attention_flops_per_token,
    compare_conventions,
    flops_per_token,
    hardware_flops_per_token,
    training_flops,
)
from scaling.published_archs import arch


def test_u07_lookup_is_free_and_the_head_is_counted_once():
    """V = 50257, d = 768, 12 layers, tied: with and without the head differ by exactly 6·V·d."""
    gpt2 = arch("gpt2")
    head = 6 * 50257 * 768
    assert head == pytest.approx(2.316e8, rel=1e-4)
    matmul, body = (flops_per_token(gpt2, count=c) for c in ("matmul", "body"))
    assert matmul - body == head
    # Untied, the lookup table is in the total and in no multiplication; the head is there once as before.
    untied = gpt2.replace(tied=False)
    assert flops_per_token(untied, count="matmul") == matmul
    assert flops_per_token(untied) - flops_per_token(gpt2) == head


def test_u40_a_mixture_computes_with_its_active_parameters():
    assert training_flops(131e9, 1.02e12, active_params=16e9) == pytest.approx(9.8e22, rel=2e-3)
    assert training_flops(131e9, 1.02e12) == pytest.approx(8.0e23, rel=3e-3)
    mixtral = arch("mixtral-8x7b")
    assert flops_per_token(mixtral) == 6 * mixtral.params_active < 2 * mixtral.params_total
    with pytest.raises(DataError, match="swapped"):
        training_flops(16e9, 1.02e12, active_params=131e9)
    with pytest.raises(DataError, match="needs both"):
        mixtral.replace(experts_per_token=0)


def test_u46_attention_conventions_are_named_and_half_apart():
    """T = 8192: 12·L·H·Q·T against 6·L·H·Q·T, and how much that is of the whole."""
    llama = arch("llama-3-8b")
    full, causal, none = (
        attention_flops_per_token(llama, 8192, attention=a) for a in ("full", "causal", "none")
    )
    assert full == 12 * 32 * 4096 * 8192
    assert (full / causal, none) == (2.0, 0.0)
    flops = compare_conventions(llama, 8192)
    assert list(flops) == ["6N", "palm", "causal", "matmul"]
    assert flops["palm"] - flops["6N"] == full
    assert flops["palm"] - flops["causal"] == causal
    # 6N counts the lookup of an untied model, matmul does not: 6·V·d, and the norms.
    assert flops["causal"] - flops["matmul"] == 6 * (128256 * 4096 + (2 * 32 + 1) * 4096)
    with pytest.raises(DataError, match="one of 6N, palm, causal, matmul"):
        flops_per_token(llama, "12LHQT", seq_len=8192)
    with pytest.raises(DataError, match="attention must be one of none, full, causal"):
        flops_per_token(llama, attention="half", seq_len=8192)


def test_u46_hfu_is_apart_from_mfu():
    llama = arch("llama-2-7b")
    step = flops_per_token(llama, "palm", seq_len=4096)
    assert hardware_flops_per_token(llama, "palm", seq_len=4096) == pytest.approx(step * 4 / 3)
    assert hardware_flops_per_token(llama, "palm", seq_len=4096, recompute="none") == step
    again = hardware_flops_per_token(llama, "palm", seq_len=4096, recompute="selective") - step
    assert again == 4 * 32 * 4096 * 4096
    assert step == flops_per_token(llama, "palm", seq_len=4096, passes="train")


def test_u47_passes_are_explicit():
    """37B active, 14.8T tokens, 2.79M hours of 1513 TFLOP/s: 21.6%, and 7.2% with the forward pass alone."""
    seconds_times_peak = 2.79e6 * 3600 * 1.513e15
    used = {
        p: training_flops(37e9, 14.8e12, passes=p) / seconds_times_peak
        for p in ("forward", "train", "train+recompute")
    }
    assert used["train"] == pytest.approx(0.216, abs=5e-4)
    assert used["forward"] == pytest.approx(0.072, abs=5e-4)
    assert used["train+recompute"] / used["train"] == pytest.approx(8 / 6)
    # "5.34 h for 1B parameters and 1B tokens" takes 6ND at an MFU of 1 of the fp16 peak of 312 TFLOP/s.
    assert training_flops("1B", "1B") / 312e12 / 3600 == pytest.approx(5.34, abs=5e-3)
    with pytest.raises(DataError, match="forward, train"):
        training_flops(37e9, 14.8e12, passes="6")


def test_megatron_flops_of_gpt3_style_models():
    """Korthikanti et al. 2022, eq. 7: 72·B·s·L·h^2·(1 + s/6h + V/12hL) for GPT-3 shapes, s = 2048, V = 51200.

    They count full attention and the head once: the convention ``matmul`` with ``attention="full"``.
    """
    for layers, h, heads in ((48, 6144, 64), (96, 12288, 96), (105, 20480, 128), (128, 25600, 160)):
        s, v = 2048, 51200
        shape = Arch(layers=layers, d_model=h, heads=heads, d_ff=4 * h, vocab=v, gated=False)
        theirs = 72 * layers * h**2 * (1 + s / (6 * h) + v / (12 * h * layers))
        assert flops_per_token(shape, "matmul", seq_len=s, attention="full") == pytest.approx(theirs)


@pytest.mark.parametrize(("table", "vocab", "length"), [("cpu_sweep", 256, 256), ("cpu_markov", 64, 128)])
def test_flops_of_the_embedded_tables(table, vocab, length):
    """flops_exact is 6·(matrices incl. the tied head) + 6·L·T·d a token: the convention ``matmul``."""
    with builtin(table).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        layers, width = int(row["layers"]), int(row["width"])
        attended = 6 * layers * length * width
        weights = float(row["flops_exact"]) / float(row["tokens"]) - attended
        body = weights / 6 - vocab * width
        # Norms are in the table's non-embedding count and in no matrix.
        assert 0 <= float(row["params_non_embedding"]) - body <= (4 * layers + 1) * width


def test_figures_of_a_plan():
    """500k tokens/s on an A100, T = 1024: palm 54.5% and 279%, 6N 46% and 231%."""
    real = Arch(layers=8, d_model=512, heads=8, kv_heads=2, d_ff=1408, vocab=50257)
    written = Arch(layers=32, d_model=768, heads=12, kv_heads=4, d_ff=2048, vocab=50257)
    used = [
        round(flops_per_token(shape, name, seq_len=1024) * 5e5 / 312e12, 3)
        for shape, name in itertools.product((real, written), ("palm", "6N"))
    ]
    assert used == [0.545, 0.464, 2.791, 2.307]


def test_sliding_windows_cap_the_context():
    mistral = arch("mistral-7b")
    everywhere = mistral.replace(window=None)
    ratio = attention_flops_per_token(everywhere, 32768) / attention_flops_per_token(mistral, 32768)
    assert ratio == 8.0  # 32768 / 4096
    # Causal: the first 4096 tokens see fewer, W - W^2/2T on average.
    seen = attention_flops_per_token(mistral, 32768, attention="causal") / (12 * 32 * 4096)
    assert seen == 4096 - 4096**2 / (2 * 32768)
    half = mistral.replace(global_layers=16)
    both = attention_flops_per_token(everywhere, 32768) + attention_flops_per_token(mistral, 32768)
    assert attention_flops_per_token(half, 32768) == both / 2


def test_causal_windows_against_counting():
    """The continuous W - W^2/2T against a count of the pairs, which has half a token more."""
    length, window = 512, 100
    pairs = sum(min(i, window) for i in range(1, length + 1)) / length
    shape = Arch(layers=1, d_model=64, heads=1, d_ff=1, vocab=1, window=window)
    seen = attention_flops_per_token(shape, length, attention="causal") / (12 * 64)
    assert seen == pytest.approx(pairs - 0.5 * window / length)


def test_head_width_beside_d_model():
    """Gemma-7B has 16 heads of 256 on a width of 3072: H·Q = 4096 counts, not d."""
    assert attention_flops_per_token(arch("gemma-7b"), 8192) == 12 * 28 * 4096 * 8192


def test_no_integer_overflow():
    params, tokens = np.array([405_853_388_800]), np.array([15_600_000_000_000])
    assert training_flops(params, tokens)[0] == pytest.approx(3.8e25, rel=1e-2)
    assert training_flops(405_853_388_800, 15_600_000_000_000) == training_flops(params, tokens)[0]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: training_flops("7B", "2T", convention="palm"), "needs the shape"),
        (lambda: training_flops(arch("gpt2"), 1e9, convention="palm"), "give seq_len"),
        (lambda: training_flops(arch("gpt2"), 1e9, active_params=1e6), "follow from the shape"),
        (lambda: training_flops(-7e9, 1e9), "params must be positive"),
        (lambda: training_flops(7e9, float("nan")), "tokens must be positive"),
        (lambda: training_flops("8x7B", 1e9), "mixture"),
        (lambda: flops_per_token(arch("gpt2"), "palm", seq_len=0), "seq_len must be positive"),
        (lambda: hardware_flops_per_token(arch("gpt2"), seq_len=1, recompute="some"), "selective"),
    ],
)
def test_bad_input_is_refused(call, match):
    with pytest.raises(DataError, match=match):
        call()


@settings(max_examples=50, deadline=None)
@given(
    layers=st.integers(1, 100),
    heads=st.integers(1, 64),
    vocab=st.integers(1, 200_000),
    length=st.integers(1, 100_000),
    tied=st.booleans(),
)
def test_conventions_differ_by_exactly_their_terms(layers, heads, vocab, length, tied):
    shape = Arch(
        layers=layers, d_model=64 * heads, heads=heads, d_ff=128 * heads, vocab=vocab, tied=tied, norm="none"
    )
    flops = compare_conventions(shape, length)
    attended = layers * 64 * heads * length
    assert flops["palm"] - flops["6N"] == pytest.approx(12 * attended, rel=1e-9)
    assert flops["causal"] - flops["6N"] == pytest.approx(6 * attended, rel=1e-9)
    lookup = 0 if tied else 6 * vocab * 64 * heads
    assert flops["causal"] - flops["matmul"] == pytest.approx(lookup, rel=1e-9, abs=1e-3)
    for name in CONVENTIONS:
        passes = [
            flops_per_token(shape, name, seq_len=length, passes=p)
            for p in ("forward", "train", "train+recompute")
        ]
        assert passes[1] == pytest.approx(3 * passes[0])
        assert passes[2] == pytest.approx(4 * passes[0])


def test_against_what_torch_counts():
    """FlopCounterMode over one step of a small model: the convention matmul with full attention, exactly.

    On the meta device and with attention spelled out, as the counter sees nothing inside a fused one.
    """
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    shape = Arch(layers=2, d_model=64, heads=4, kv_heads=2, d_ff=160, vocab=100, tied=False)
    batch, length = 3, 32
    with torch.device("meta"):
        width = shape.kv_heads * shape.head_dim
        sizes = {"q": 64, "k": width, "v": width, "o": 64, "gate": 160, "up": 160}
        blocks = [
            {
                **{n: torch.nn.Linear(64, o, bias=False) for n, o in sizes.items()},
                "down": torch.nn.Linear(160, 64),
            }
            for _ in range(shape.layers)
        ]
        table, head = torch.nn.Embedding(100, 64), torch.nn.Linear(64, 100, bias=False)
        ids = torch.zeros(batch, length, dtype=torch.long)

        def heads(x):
            split = x.view(batch, length, -1, 16).transpose(1, 2)
            return split.repeat_interleave(shape.heads // split.shape[1], dim=1)

        with FlopCounterMode(display=False) as counter:
            x = table(ids)
            for block in blocks:
                q, k, v = (heads(block[name](x)) for name in "qkv")
                mixed = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
                x = x + block["o"](mixed.transpose(1, 2).reshape(batch, length, 64))
                x = x + block["down"](torch.nn.functional.silu(block["gate"](x)) * block["up"](x))
            head(x).sum().backward()
    expected = flops_per_token(shape, "matmul", seq_len=length, attention="full") * batch * length
    assert counter.get_total_flops() == expected
