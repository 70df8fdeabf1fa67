"""Parameter counts against the numbers published with the weights, and how the four counts relate."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from scaling.architecture import Arch
from scaling.errors import DataError
from scaling.published_archs import UnknownArchError, arch, arch_names

# Totals as the authors' weights have them (sum over tensors; model cards and configuration files).
PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "opt-125m": 125_239_296,
    "opt-6.7b": 6_658_473_984,
    "bloom-176b": 176_247_271_424,
    "pythia-70m": 70_426_624,
    "pythia-160m": 162_322_944,
    "pythia-410m": 405_334_016,
    "pythia-1b": 1_011_781_632,
    "pythia-1.4b": 1_414_647_808,
    "pythia-2.8b": 2_775_208_960,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-33b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "tinyllama-1.1b": 1_100_048_384,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-30b-a3b": 30_532_122_624,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-2-2b": 2_614_341_888,
    "olmo-7b": 6_888_095_744,
    "olmoe-1b-7b": 6_919_161_856,
    "falcon-7b": 6_921_720_704,
    # llm-foundry scripts/train/benchmarking, NumParams at sequence length 2048.
    "mpt-125m": 125_311_488,
    "mpt-350m": 355_985_408,
    "mpt-760m": 760_470_528,
    "mpt-1b": 1_315_950_592,
    "mpt-3b": 2_651_837_440,
    "mpt-7b": 6_658_859_008,
    "mpt-13b": 12_853_954_560,
    "mpt-30b": 29_975_214_080,
    "mpt-70b": 64_862_437_376,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_totals_are_exact(name):
    assert arch(name).params_total == PUBLISHED[name]


# The table of Biderman et al. 2023 (arXiv 2304.01373): embedding and head both left out.
@pytest.mark.parametrize(
    ("name", "non_embedding"),
    [
        ("pythia-70m", 18_915_328),
        ("pythia-160m", 85_056_000),
        ("pythia-410m", 302_311_424),
        ("pythia-1b", 805_736_448),
        ("pythia-1.4b", 1_208_602_624),
        ("pythia-2.8b", 2_517_652_480),
        ("pythia-6.9b", 6_444_163_072),
        ("pythia-12b", 11_327_027_200),
    ],
)
def test_published_non_embedding_counts_are_exact(name, non_embedding):
    assert arch(name).params_non_embedding == non_embedding


def test_active_parameters_of_mixtures():
    assert arch("mixtral-8x7b").params_active == 12_879_925_248
    # "1.3B active" and "3.3B active" of the model cards.
    assert arch("olmoe-1b-7b").params_active == pytest.approx(1.3e9, rel=0.02)
    assert arch("qwen3-30b-a3b").params_active == pytest.approx(3.3e9, rel=0.02)
    assert arch("llama-2-7b").params_active == arch("llama-2-7b").params_total


def test_the_shape_called_50m_in_a_plan_is_240m():
    """32 x 768 with SwiGLU 2048 is 240.0M (299.9M with Llama-3's vocabulary); a real 50M is 8 x 512."""
    written = Arch(layers=32, d_model=768, heads=12, kv_heads=4, d_ff=2048, vocab=50257)
    assert round(written.params_total / 1e6, 1) == 240.0
    assert round(written.replace(vocab=128256).params_total / 1e6, 1) == 299.9
    real = Arch(layers=8, d_model=512, heads=8, kv_heads=2, d_ff=1408, vocab=50257)
    assert round(real.params_total / 1e6, 1) == 48.3
    assert round(1 - real.params_non_embedding / real.params_total, 2) == 0.53


def test_the_four_counts_of_gpt2_by_hand():
    gpt2 = arch("gpt2")
    embedding, positions = 50257 * 768, 1024 * 768
    assert gpt2.params("body") == 12 * 12 * 768**2
    assert gpt2.params("matmul") == gpt2.params("body") + embedding
    assert gpt2.params("non_embedding") == gpt2.params("total") - embedding - positions
    # What non_embedding has over body: biases (3d + d + 4d + d a layer) and 25 LayerNorms of 2d.
    assert gpt2.params("non_embedding") - gpt2.params("body") == 12 * 9 * 768 + 25 * 2 * 768


def test_an_untied_head_is_a_matrix_and_its_embedding_is_not():
    tied = Arch(layers=4, d_model=256, heads=4, d_ff=704, vocab=1000)
    untied = tied.replace(tied=False)
    assert untied.params_total - tied.params_total == 256_000
    assert untied.params_matmul == tied.params_matmul
    assert untied.params_non_embedding == tied.params_non_embedding


def test_replace_recomputes_what_followed():
    small = Arch(layers=8, d_model=512, heads=8, d_ff=1408, vocab=50257)
    assert small.replace(heads=16).kv_heads == 16
    assert small.replace(d_model=1024).head_dim == 128
    assert Arch(layers=8, d_model=512, heads=8, kv_heads=2, d_ff=1408, vocab=9).replace(heads=4).kv_heads == 2


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"layers": 0}, "layers must be at least 1"),
        ({"layers": 2.5}, "whole number"),
        ({"heads": 7}, "not a multiple of heads=7"),
        ({"kv_heads": 3}, "kv_heads=3"),
        ({"norm": "batchnorm"}, "norm must be one of"),
        ({"experts": 8}, "needs both"),
        ({"experts_per_token": 2}, "experts is 0"),
        ({"experts": 2, "experts_per_token": 3}, "experts_per_token=3"),
        ({"experts": 2, "experts_per_token": 1, "dense_layers": 1}, "d_ff_dense"),
        ({"global_layers": 2}, "needs a window"),
        ({"window": 64, "global_layers": 9}, "global_layers=9"),
    ],
)
def test_impossible_shapes_are_refused(changes, match):
    fields = {"layers": 8, "d_model": 512, "heads": 8, "d_ff": 1408, "vocab": 50257}
    with pytest.raises(DataError, match=match):
        Arch(**{**fields, **changes})


def test_unknown_count_is_refused():
    with pytest.raises(DataError, match="non_embedding"):
        arch("gpt2").params("embedding")


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UnknownArchError, match="gpt2") as caught:
        arch("gpt-2-medum")
    assert "gpt2-medium" in caught.value.suggestions
    assert arch("GPT-2 Medium") == arch("gpt2-medium")
    assert set(PUBLISHED) <= set(arch_names())


SHAPES = st.builds(
    lambda heads, kv, **f: Arch(heads=heads * kv, kv_heads=kv, d_model=64 * heads * kv, **f),
    heads=st.integers(1, 4),
    kv=st.integers(1, 3),
    layers=st.integers(1, 40),
    d_ff=st.integers(1, 5000),
    vocab=st.integers(1, 200_000),
    tied=st.booleans(),
    gated=st.booleans(),
    bias=st.booleans(),
    norm=st.sampled_from(["rmsnorm", "layernorm", "none"]),
)


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, field=st.sampled_from(["layers", "d_ff", "vocab"]))
def test_counts_grow_with_every_dimension(shape, field):
    larger = shape.replace(**{field: getattr(shape, field) + 1})
    assert larger.params_total > shape.params_total
    for count in ("non_embedding", "matmul", "body"):
        assert larger.params(count) >= shape.params(count)


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, experts=st.integers(2, 16))
def test_a_mixture_has_its_dense_model_as_the_active_part(shape, experts):
    """With one expert a token, active is the dense model plus the router, total has all experts."""
    mixture = shape.replace(experts=experts, experts_per_token=1)
    router = shape.layers * shape.d_model * experts
    assert mixture.params_active == shape.params_total + router
    more = shape.replace(experts=experts + 1, experts_per_token=1)
    one_expert = (more.params_total - mixture.params_total) // shape.layers
    feed_forward = (3 if shape.gated else 2) * shape.d_model * shape.d_ff
    biases = ((2 if shape.gated else 1) * shape.d_ff + shape.d_model) if shape.bias else 0
    assert one_expert == feed_forward + biases + shape.d_model
