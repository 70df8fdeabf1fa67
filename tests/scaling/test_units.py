"""Counts and loss units: what is read, what is refused, and that writing and reading agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from scaling.errors import DataError, UnitError
from scaling.units import format_count, parse_count, parse_loss_unit

# Spellings met in public tables: "2.8B", "125m", "175b", "65B" (ColPret num_params), "7e9", "1_300_000" ...
SPELLINGS = [
    ("1.3B", 1.3e9),
    ("125m", 125e6),  # m is a million, never milli
    ("175b", 175e9),
    ("1.3 B", 1.3e9),
    ("7e9", 7e9),
    ("2.5E9", 2.5e9),
    ("1_300_000", 1.3e6),
    ("1,300,000", 1.3e6),
    ("1 300 000", 1.3e6),
    ("1'300'000", 1.3e6),
    ("1\u00a0300\u00a0000", 1.3e6),  # no-break spaces, as spreadsheets write them
    ("1.3 billion", 1.3e9),
    ("300k", 3e5),
    ("2T", 2e12),
    (".5B", 5e8),
    ("2 x 10^9", 2e9),
    ("10^9", 1e9),
    ("\uff11\uff12\uff15M", 125e6),  # full-width digits
    (" 42 ", 42.0),
    (np.int64(6_000_000_000), 6e9),
    (7, 7.0),
]
REFUSED = [
    "1.3X",
    "4B params?",
    "",
    "b",
    "e5",
    "1..3",
    "1,30,000",
    "1e3M",
    "~1B",
    ">1B",
    "8x7B",
    "1.3B+",
    "12%",
    "0x10",
]


@pytest.mark.parametrize(("text", "value"), SPELLINGS)
def test_counts_are_read(text, value):
    assert parse_count(text) == value


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_count_is_refused(text):
    with pytest.raises(DataError):
        parse_count(text)


@pytest.mark.parametrize("value", [None, True, "True", [1], {}, object()])
def test_what_is_no_number_at_all_is_refused(value):
    with pytest.raises(DataError):
        parse_count(value)


def test_refusals_name_the_likely_cause():
    with pytest.raises(DataError, match="total and an active"):
        parse_count("8x7B")
    with pytest.raises(DataError, match="decimal=','"):
        parse_count("1,3B")
    with pytest.raises(DataError, match="exponent and a suffix"):
        parse_count("1e3M")


def test_a_loss_has_no_magnitude():
    assert parse_count("3.41", suffixes=False) == 3.41
    with pytest.raises(DataError):
        parse_count("3.41M", suffixes=False)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,3", 1.3), ("1.300.000,5", 1300000.5), ("7,5e3", 7500.0), ("1,3 B", 1.3e9), ("3", 3.0)],
)
def test_decimal_comma(text, value):
    assert parse_count(text, decimal=",") == value


def test_decimal_comma_refuses_a_decimal_point():
    for text in ("3.41", "7.382e+07"):  # neither groups of three nor a comma: not silently 7382e7
        with pytest.raises(DataError):
            parse_count(text, decimal=",")


def test_suffixes_are_exact_powers_of_ten():
    # Through the decimal text: 2.3 * 1e9 in floating point is 2299999999.9999995.
    assert parse_count("2.3B") == 2_300_000_000
    assert parse_count("1.1M") == 1_100_000


@given(st.floats(min_value=1e-3, max_value=1e17), st.integers(2, 6))
def test_writing_and_reading_a_count_agree_to_the_digits_written(value, digits):
    assert parse_count(format_count(value, digits)) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@given(st.integers(0, 10**15))
def test_spellings_of_a_whole_number_agree(n):
    for text in (str(n), f"{n:,}", f"{n:_}", f"{n:,}".replace(",", " "), f" {n} "):
        assert parse_count(text) == n
    assert parse_count(f"{n:,}".replace(",", "."), decimal=",") == n


@given(st.floats(allow_nan=False))
def test_every_float_survives_its_repr(value):
    assert parse_count(repr(value)) == value
    assert parse_count(value) == value


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_a_data_error(text):
    for decimal in (".", ","):
        try:
            assert isinstance(parse_count(text, decimal=decimal), float)
        except DataError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (124_439_808, "124M"),
        (999.9996e6, "1B"),
        (999, "999"),
        (1000, "1K"),
        (0, "0"),
        (-2.5e9, "-2.5B"),
        (3e19, "3.00e+19"),
    ],
)
def test_counts_are_written(value, text):
    assert format_count(value) == text


def test_not_finite_counts_are_written_as_they_are():
    assert format_count(math.inf) == "inf"
    assert format_count(math.nan) == "nan"


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("nats/token", "nats/token"),
        ("Nats", "nats/token"),
        ("bits per token", "bits/token"),
        ("bits", "bits/token"),
        ("BPB", "bits/byte"),
        ("bits_per_byte", "bits/byte"),
        ("nats / byte", "nats/byte"),
        ("ppl", "perplexity"),
        ("Perplexity", "perplexity"),
        ("unstated", "unstated"),
    ],
)
def test_loss_units_are_read(text, unit):
    assert parse_loss_unit(text) == unit


def test_unknown_loss_unit_lists_the_known():
    with pytest.raises(UnitError, match="nats/token, bits/token"):
        parse_loss_unit("bits per character")
