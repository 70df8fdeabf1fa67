"""The cost of serving at measured speeds: by hand, and beside the roofline."""

from __future__ import annotations

import pytest

from economics import inference_cost
from economics.inference_measured import measured_serving
from scaling.errors import DataError

KNOWN = {"read_tokens_per_s": [1000.0], "write_tokens_per_s": [50.0], "usd_per_hour": 3.6, "busy": 1.0}


def test_one_request_by_hand():
    """400 tokens read in 0.4 s and 100 made in 2 s at $0.001 a second: $0.0024 for 500 tokens, busy half the time."""
    served = measured_serving(
        **{**KNOWN, "busy": 0.5}, prompt_tokens=400, output_tokens=100, bytes_per_token=4
    )
    assert served.usd_per_million_tokens.value == pytest.approx(0.0024 / 500 * 1e6 / 0.5)
    assert served.usd_per_million_input.value == pytest.approx(0.0004 / 400 * 1e6 / 0.5)
    assert served.usd_per_million_output.value == pytest.approx(0.002 / 100 * 1e6 / 0.5)
    assert served.usd_per_mb.value == pytest.approx(served.usd_per_million_tokens.value / 4)
    assert served.usd_per_mb.low == served.usd_per_mb.high
    assert measured_serving(**KNOWN).usd_per_mb is None


def test_it_says_what_the_roofline_says_at_its_speeds():
    """Given the speeds of a roofline without spread, both cost the same, busy share and its interval included."""
    roof = inference_cost(arch="llama-3-8b", gpu="H100 SXM", n_gpus=1, batch=8, price=3.6, prefill_mfu=0.5,
                          bandwidth_share=0.6, prompt_tokens=400, output_tokens=100)  # fmt: skip
    p = roof.plan
    read = p.peak * 0.5 / (p.prefill_flops / 400)
    write = 8 / (p.step_bytes / (p.bandwidth * 0.6))
    served = measured_serving(read_tokens_per_s=[read], write_tokens_per_s=[write], usd_per_hour=3.6,
                              prompt_tokens=400, output_tokens=100)  # fmt: skip
    for name in ("usd_per_million_tokens", "usd_per_million_input", "usd_per_million_output"):
        mine, its = getattr(served, name), getattr(roof, name)
        assert (mine.value, mine.low, mine.high) == pytest.approx((its.value, its.low, its.high), rel=1e-9)
        assert mine.low < mine.value < mine.high


def test_trials_spread_the_interval():
    spread = measured_serving(
        **KNOWN | {"read_tokens_per_s": [500, 1000, 2000], "write_tokens_per_s": [25, 50, 100]}
    )
    once = measured_serving(**KNOWN)
    dollars, low, high = (getattr(spread.usd_per_million_tokens, x) for x in ("value", "low", "high"))
    assert dollars == pytest.approx(once.usd_per_million_tokens.value)
    assert (low, high) == pytest.approx((dollars / 2, dollars * 2))  # both phases of the same trial


@pytest.mark.parametrize(
    ("change", "match"),
    [({"read_tokens_per_s": [0.0]}, "read_tokens_per_s"), ({"write_tokens_per_s": [-1]}, "write_tokens_per_s"),
     ({"write_tokens_per_s": [1.0, 2.0]}, "1 trials of reading and 2 of writing"),
     ({"usd_per_hour": 0}, "usd_per_hour"),
     ({"read_tokens_per_s": [], "write_tokens_per_s": []}, "0 trials"), ({"busy": 40}, "40%"),
     ({"bytes_per_token": -1}, "bytes_per_token"), ({"output_tokens": 0}, "output_tokens"), ({"draws": 5}, "draws")],
)  # fmt: skip
def test_bad_input_is_a_clear_error(change, match):
    with pytest.raises(DataError, match=match):
        measured_serving(**KNOWN | change)
