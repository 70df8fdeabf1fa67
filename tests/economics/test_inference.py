"""The cost of serving: rooflines by hand, and which way every number moves."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from economics import cost, inference_cost
from economics.inference_setup import PREFILL_MFU
from scaling.errors import DataError
from scaling.published_archs import arch

#: Everything known: one H100, Llama-3-8B in bf16.
KNOWN = {
    "arch": "llama-3-8b", "gpu": "H100 SXM", "n_gpus": 1, "batch": 1, "price": 3.6, "prefill_mfu": 0.5,
    "bandwidth_share": 0.6, "busy": 1.0, "prompt_tokens": 1000, "output_tokens": 100,
}  # fmt: skip


def test_decoding_one_sequence_reads_the_weights():
    """16.06 GB of weights and 0.14 GB of cache at 60% of 3,350 GB/s: 8.06 ms a token; $3.6/h is $0.001/s."""
    served = inference_cost(**KNOWN)
    read = 2 * 8_030_261_248 + 1050 * 131072
    step = read / (0.6 * 3350e9)
    assert served.seconds_per_token.value == pytest.approx(step, rel=1e-9)
    assert served.usd_per_million_output.value == pytest.approx(step * 0.001 * 1e6, rel=1e-9)
    assert served.decode_bound == "memory"
    assert served.usd_per_million_output.low == served.usd_per_million_output.high


def test_prefill_is_arithmetic():
    """1,000 tokens of 2·8.03e9 FLOPs and causal attention at half of 989.4 TFLOP/s: 33 ms."""
    served = inference_cost(**KNOWN)
    shape = arch("llama-3-8b")
    flops = 1000 * (2 * shape.params_total + 2 * 2 * shape.layers * shape.d_model * 1000 / 2)
    assert served.usd_per_million_input.value == pytest.approx(
        flops / (0.5 * 989.4e12) * 0.001 / 1000 * 1e6, rel=1e-9
    )
    both = 1000 * served.usd_per_million_input.value + 100 * served.usd_per_million_output.value
    assert served.usd_per_million_tokens.value == pytest.approx(both / 1100, rel=1e-9)


def test_a_batch_shares_the_weights_until_it_computes():
    one, many = inference_cost(**KNOWN), inference_cost(**{**KNOWN, "batch": 64})
    assert many.usd_per_million_output.value < one.usd_per_million_output.value / 20
    assert many.usd_per_million_input.value == pytest.approx(one.usd_per_million_input.value)
    short = {**KNOWN, "prompt_tokens": 8, "output_tokens": 8, "prefill_mfu": 0.3}
    assert inference_cost(**{**short, "batch": 1}).decode_bound == "memory"
    assert inference_cost(**{**short, "batch": 1024}).decode_bound == "compute"


def test_tokenizers_compare_by_the_megabyte():
    """A million tokens of 4 bytes are 4 MB."""
    served = inference_cost(**KNOWN, bytes_per_token=4.0)
    assert served.usd_per_mb.value == pytest.approx(served.usd_per_million_tokens.value / 4.0)
    assert inference_cost(**KNOWN).usd_per_mb is None
    coarse = inference_cost(**KNOWN, bytes_per_token=5.0)
    assert coarse.usd_per_mb.value < served.usd_per_mb.value


def test_lifetime_with_and_without_training():
    served = inference_cost(arch="llama-3-8b", gpu="H100 SXM", price=2.5)
    life = served.lifetime_usd("10T")
    assert life.value == pytest.approx(served.usd_per_million_tokens.value * 1e7)
    training = cost(arch="llama-3-8b", D="15T", gpu="H100 SXM", n_gpus=1024, price=2.5)
    both = served.lifetime_usd("10T", training)
    assert both.value > max(life.value, training.usd.value)
    with pytest.raises(DataError, match="numbers of draws"):
        served.lifetime_usd("10T", training.what_if(draws=500))


def test_a_mixture_reads_few_experts_for_one_and_most_for_many():
    """Of 8 experts two are read for one sequence, 1 - 0.75^16 = 99% of them for 16."""
    base = {**KNOWN, "arch": "mixtral-8x7b", "n_gpus": 2}
    one, many = (inference_cost(**{**base, "batch": b}).plan for b in (1, 16))
    cache = 2 * 8 * 128 * 32 * 2 * 1050
    assert one.step_bytes - cache == pytest.approx(2 * one.active, rel=1e-3)
    assert many.step_bytes - 16 * cache == pytest.approx(2 * many.params, rel=0.02)
    by_numbers = inference_cost(
        "46.7B",
        N_active="12.9B",
        gpu="H100 SXM",
        n_gpus=2,
        batch=1,
        price=2.5,
        prompt_tokens=1000,
        output_tokens=100,
    )
    assert by_numbers.plan.step_flops < 2 * 15e9


def test_quantisation_reads_less():
    wide, narrow = inference_cost(**KNOWN), inference_cost(**KNOWN, weight_bits=8)
    assert narrow.usd_per_million_output.value < 0.52 * wide.usd_per_million_output.value


def test_memory_is_checked_and_chosen():
    with pytest.raises(DataError, match=r"do not fit into 1 x H100.*n_gpus=2"):
        inference_cost(arch="llama-2-70b", gpu="H100 SXM", n_gpus=1, batch=1, price=2)
    with pytest.raises(DataError, match=r"batch=\d+ would"):
        inference_cost(**{**KNOWN, "batch": 5000})
    chosen = inference_cost(arch="llama-2-70b", gpu="H100 SXM", price=2)
    assert chosen.plan.n_gpus == 4 and chosen.plan.batch > 32
    held = chosen.plan.weight_bytes + chosen.plan.batch * chosen.plan.cache_bytes
    assert held <= 0.9 * 4 * 80e9
    assert {"n_gpus_chosen", "batch_chosen"} <= {f.code for f in chosen.findings}
    assert "shape_assumed" in {f.code for f in inference_cost("7B", gpu="H100 SXM", price=2).findings}


def test_defaults_are_ranges_with_sources():
    served = inference_cost(arch="llama-3-8b", gpu="H100 SXM", as_of="2026-10-10")
    assert (
        served.usd_per_million_tokens.low
        < served.usd_per_million_tokens.value
        < served.usd_per_million_tokens.high
    )
    assert PREFILL_MFU.source in repr(served)
    ranged = inference_cost(**{**KNOWN, "busy": ("30%", "60%")})
    assert ranged.usd_per_million_tokens.low < ranged.usd_per_million_tokens.high


@pytest.mark.parametrize(
    ("change", "match"),
    [({"gpu": None}, "give gpu"), ({"arch": None}, "give N"), ({"batch": 0}, "batch"), ({"busy": 40}, "40%"),
     ({"busy": (0.6, 0.3)}, "a range"), ({"weight_bits": 5}, "weight_bits"),
     ({"bytes_per_token": 0}, "bytes_per_token"),
     ({"prompt_tokens": -1}, "prompt_tokens"), ({"gpu": "H1000"}, "H100")],
)  # fmt: skip
def test_bad_input_is_a_clear_error(change, match):
    with pytest.raises(DataError, match=match):
        inference_cost(**{**KNOWN, **change})


def test_words_and_plain_types():
    served = inference_cost(arch="llama-3-8b", gpu="H100 SXM", price=2.5, bytes_per_token=4.4)
    text = repr(served)
    for word in ("per million tokens", "per MB", "prompt", "output", "bound by", "price"):
        assert word in text
    json.dumps(served.to_dict())
    assert served._repr_html_().startswith("<pre>")


@settings(max_examples=40, deadline=None)
@given(
    params=st.floats(1e8, 3e10),
    prompt=st.floats(16, 4096),
    output=st.floats(16, 2048),
    batch=st.integers(1, 4),
    price=st.floats(0.2, 10),
)
def test_which_way_it_moves(params, prompt, output, batch, price):
    asked = {"gpu": "H100 SXM", "n_gpus": 4, "batch": batch, "price": price, "prompt_tokens": prompt,
             "output_tokens": output, "draws": 200}  # fmt: skip
    served = inference_cost(params, **asked)
    usd = served.usd_per_million_tokens
    assert 0 < usd.low <= usd.value <= usd.high < math.inf
    assert inference_cost(
        params, **{**asked, "price": 2 * price}
    ).usd_per_million_tokens.value == pytest.approx(2 * usd.value)
    assert inference_cost(2 * params, **asked).usd_per_million_tokens.value > usd.value
    assert inference_cost(params, **{**asked, "batch": batch + 1}).usd_per_million_output.value <= (
        served.usd_per_million_output.value * (1 + 1e-9)
    )
    assert inference_cost(params, **asked, busy=0.9).usd_per_million_tokens.value < (
        inference_cost(params, **asked, busy=0.3).usd_per_million_tokens.value
    )


def test_a_range_of_shares_never_draws_zero():
    """busy=(.2, .9) as 5th and 95th percentile of a normal reached 0 in 0.5% of the draws: infinite dollars."""
    served = inference_cost("7B", gpu="H100 SXM", price=2.0, busy=(0.2, 0.9))
    lifetime = served.lifetime_usd("1T")
    draws = served._draws["all"]
    assert np.isfinite(draws).all() and draws.max() < 20 * np.median(draws)
    assert lifetime.high / lifetime.low < 12
    with pytest.raises(DataError, match="busy must"):
        inference_cost("7B", gpu="H100 SXM", price=2.0, busy=(0.0, 0.9))


def test_it_is_the_cache_that_does_not_fit():
    with pytest.raises(
        DataError, match=r"14 GB of weights and .* GB of cache, 32 sequences .*shorter sequences"
    ):
        inference_cost("7B", gpu="H100 SXM", price=2.0, prompt_tokens=5e9)
    with pytest.raises(DataError, match="weight_bits"):
        inference_cost(N="1e15", gpu="H100 SXM", price=2.0, arch=None)
