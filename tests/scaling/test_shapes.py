"""The shape solver: finds shapes people train, hits the size it was asked for, refuses what cannot exist."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from scaling.errors import DataError
from scaling.published_archs import arch
from scaling.shapes import ShapeError, solve_shape

GPT = {"gated": False, "bias": True, "norm": "layernorm"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("llama-2-7b", {"tied": False}),
        ("llama-2-13b", {"tied": False}),
        ("llama-3-8b", {"tied": False, "kv_group": 4, "ffn_ratio": 3.5}),
        ("gpt2", {**GPT, "learned_positions": 1024}),
        ("mpt-1b", {**GPT, "learned_positions": 2048, "head_dim": 128}),
        ("mpt-7b", {**GPT, "learned_positions": 2048}),
        ("pythia-70m", {**GPT, "tied": False}),
    ],
)
def test_finds_published_shapes_from_their_size(name, options):
    wanted = arch(name)
    found = solve_shape(wanted.params_total, wanted.vocab, **options)
    assert found.arch.replace(name=name) == wanted
    assert found.error == 0


def test_finds_the_real_50m():
    found = solve_shape(48_284_672, 50257, kv_group=4).arch
    assert (found.layers, found.d_model, found.heads, found.kv_heads, found.d_ff) == (8, 512, 8, 2, 1408)


def test_says_what_it_hit():
    found = solve_shape("1B", 50257)
    assert found.hit == found.arch.params_total
    assert found.error == pytest.approx(found.hit / 1e9 - 1)
    assert f"{found.error:+.2%}" in str(found)
    assert found.alternatives
    assert len({(a.layers, a.d_model) for a in (found.arch, *found.alternatives)}) == 4


def test_other_counts_can_be_asked_for():
    found = solve_shape("1B", 128256, count="non_embedding")
    assert found.hit == found.arch.params_non_embedding
    assert found.arch.params_total > 1.2e9
    assert "non_embedding" in str(found)


def test_5m_with_the_gpt2_vocabulary_does_not_exist():
    """50,257 x 99 is already 5M: the refusal says so, with what the widths around would cost."""
    with pytest.raises(ShapeError, match=r"bounds d_model by 99\b") as caught:
        solve_shape("5M", 50257)
    message = str(caught.value)
    assert "d_model = 64: 3.22M" in message and "d_model = 128: 6.43M" in message
    assert "The nearest that exist: 12.3M (6 x 192)" in message
    assert "With a vocabulary of 16,384 it is possible." in message
    assert caught.value.nearest[0].params_total == pytest.approx(12.3e6, rel=0.01)
    assert abs(solve_shape("5M", 16384).error) < 0.03


def test_grouped_heads_can_make_a_width_impossible():
    """Eight query heads of 64 per KV head mean widths in steps of 512: 131M of untied embeddings."""
    with pytest.raises(ShapeError, match="embedding and head cost 2 x 128,256"):
        solve_shape("88M", 128256, kv_group=8, tied=False)


def test_tiny_models_need_smaller_multiples():
    with pytest.raises(ShapeError, match="multiple= and head_dim="):
        solve_shape("100K", 256)
    tiny = solve_shape("100K", 256, multiple=8, head_dim=16)
    assert tiny.arch.layers >= 2
    assert abs(tiny.error) < 0.03


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"params": 0}, "params must be positive"),
        ({"params": "8x7B"}, "mixture"),
        ({"head_dim": 30}, "multiple of 8"),
        ({"kv_group": 0}, "kv_group"),
        ({"aspect": (100, 50)}, "smallest, largest"),
        ({"experts": 8, "experts_per_token": 2}, "only dense"),
    ],
)
def test_bad_input_is_refused(change, match):
    with pytest.raises(DataError, match=match):
        solve_shape(**{"params": "1B", "vocab": 50257, **change})


@settings(max_examples=40, deadline=None)
@given(
    exponent=st.floats(8.5, 12.5),
    vocab=st.sampled_from([256, 8192, 32000, 50257, 128256]),
    kv_group=st.sampled_from([1, 2, 4, 8]),
    tied=st.booleans(),
    gated=st.booleans(),
)
def test_hits_every_size_from_300m_on_within_its_tolerance(exponent, vocab, kv_group, tied, gated):
    found = solve_shape(10**exponent, vocab, kv_group=kv_group, tied=tied, gated=gated)
    shape = found.arch
    assert abs(found.error) <= 0.03
    assert shape.d_model % 64 == 0 and shape.d_ff % 64 == 0
    assert shape.head_dim in (64, 128) and shape.heads == kv_group * shape.kv_heads
    assert 16 <= shape.d_model / shape.layers <= 256
    assert shape.params_non_embedding >= 0.2 * shape.params_total
