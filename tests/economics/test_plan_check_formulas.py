"""Formulas of a plan: units mixed in every sane way give their value, whoever converts; nothing else passes."""

from __future__ import annotations

import pytest

from economics import check_plan
from economics.plan_formula import FormulaError, evaluate


def errors(formula, value=None, gives="usd", **run):
    entry = {"name": "f", "formula": formula, "gives": gives}
    if value is not None:
        entry["value"] = value
    return [f.code for f in check_plan({"formulas": [entry], "run": run}).errors]


@pytest.mark.parametrize(
    ("formula", "usd"),
    [
        ("30 min × $1.10/h", 0.55),
        ("30 min / 60 × $1.10/h", 0.55),  # converted by hand
        ("1800 s × $1.10/h", 0.55),
        ("1800 s / 3600 × $1.10/h", 0.55),
        ("1800 s / 60 / 60 × $1.10/h", 0.55),
        ("$26.40/day × 30 min", 0.55),
        ("2 days × $1.10/h", 52.8),
        ("2 days × 24 × $1.10/h", 52.8),
        ("2 days × 24 h/day × $1.10/h", 52.8),
        ("60 × 30 min × $1.10/h", 33.0),  # sixty times: 60 is a number here
        ("24 h × 7 × $1/h", 168.0),
        ("1 week × $1/h", 168.0),
        ("550 steps × 500k tokens/step / (500k tokens/s) / 3600 × $1.10/h", 0.168),
        ("550 steps × 500k tokens/step / (500k tokens/s) × $1.10/h", 0.168),
        ("550 steps / (1 step/s) / (3600 s/h) × $1.10/h", 0.168),
        ("24 h × $1.10/GPU-h", 26.4),
        ("24 h × $1.10/(GPU·h)", 26.4),
        ("24h × 8 GPUs × $1.10/GPU-h", 211.2),
        ("24 h × 8 GPUs × $1.10 per GPU-hour", 211.2),
        ("192 GPU-hours × $1.10/GPU-h", 211.2),
        ("192 GPU h × $1.10/GPU h", 211.2),
        ("24 h × $1.10/h × 8 GPUs", 211.2),
        ("24 h × $1.10/h + $3", 29.4),
        ("$50 - 24 h × $1.10/h", 23.6),
        ("30 min × $1.10/h + $3", 3.55),
        ("550 steps / (1 step/s) / 3600 × $1.10/h + 30 min × $1.10/h", 0.718),
        ("(2 h + 30 min) × $2/h", 5.0),
        ("3 runs × 4 h × $1.10/h", 13.2),
        ("200 GB × $0.09/GB", 18.0),
        ("5B tokens × 2 bytes/token × $0.02/GB", 0.2),
        ("5B tokens × 2 bytes/token / 1e9 × $0.02/GB", 0.2),
        ("200 GB × $0.02/GB/month × 3 months", 12.0),
        ("200 GB × $0.02/GB-month × 90 days", 11.83),
        ("0.7 kW × 24 h × $0.10/kWh", 1.68),
        ("24 h at $1.10/h", 26.4),
        ("24h*8gpu @ $1.10/gpu/h", 211.2),
        ("$1.10/hr x8 x 24hrs", 211.2),
        ("10% of $50 + USD 2", 7.0),
        ("110% × 24 h × $1/h", 26.4),
    ],
)  # fmt: skip
def test_sane_dollars(formula, usd):
    assert errors(formula, usd) == []
    assert errors(formula, 1.2 * usd) == ["formula_value"]
    for factor in (60, 1 / 60, 3600, 1 / 3600):
        assert errors(formula, usd * factor) == ["formula_value"]


@pytest.mark.parametrize(
    ("formula", "hours"),
    [
        ("5B tokens / (500k tokens/s)", 2.78),
        ("5B tokens / 500k tokens/s / 3600", 2.78),
        ("5B tokens / (500k tokens/s) / 60 / 60", 2.78),
        ("30 min", 0.5),
        ("24 h + 90 min", 25.5),
        ("2 days", 48),
        ("5B tokens / (62.5k tokens/s/GPU × 8 GPUs)", 2.78),
        ("5B tokens / (62.5k tokens/s × 8 GPUs)", 2.78),
        ("6 × 50M × 5B FLOPs / (0.4 × 312 TFLOP/s)", 3.34),
        ("6 × 50M × 5B FLOPs / (40% × 312 TFLOPS)", 3.34),
        ("3 runs × 4 h", 12),
    ],
)
def test_sane_hours(formula, hours):
    assert errors(formula, hours, "hours") == []
    assert errors(formula, 3600 * hours, "hours") == ["formula_value"]
    assert errors(formula, hours / 60, "hours") == ["formula_value"]


@pytest.mark.parametrize(
    ("formula", "gives"),
    [
        ("24 h × 64 GPUs × $3.5", "usd"),
        ("24 h", "usd"),
        ("$3", "hours"),
        ("24 h × 8 GPUs", "hours"),  # GPU-hours
        ("24 h × $1.10", "usd"),
        ("$5/run", "usd"),
        ("550 steps × $1", "usd"),
        ("24 h / (12 h)", "usd"),
    ],
)
def test_units_that_do_not_fit(formula, gives):
    assert errors(formula, gives=gives) == ["formula_units"]


def test_a_value_without_its_units_is_said():
    entry = {"name": "f", "formula": "30 min × $1.10/h", "value": 33}
    message = check_plan({"formulas": [entry]}).errors[0].message
    assert "= 0.55, not 33 (33 is what the numbers give without their units)" in message


def test_a_formula_may_state_its_value():
    assert errors("24 h × 8 × $1.10/h = $211") == []
    assert errors("24 h × 8 × $1.10/h = $251") == ["formula_value"]
    assert errors("90 min = 1.5 h", gives="hours") == []


def test_numbers_without_units():
    plan = {"formulas": [{"name": "f", "formula": "24 * 1.1", "value": 26.4}]}
    assert [(f.code, f.severity) for f in check_plan(plan)] == [("formula_without_units", "warning")]
    assert errors("24 * 1.1", 27.9) == ["formula_value"]
    assert errors("5e9 / 5e5 / 3600", 2.78, "hours") == []


def test_a_price_per_gpu_is_for_one():
    plan = {"formulas": [{"name": "f", "formula": "24 h × $1.10/GPU-h", "value": 26.4}], "run": {"n_gpus": 8}}
    found = {f.code: f for f in check_plan(plan)}
    assert "$211.20" in found["formula_per_gpu"].message
    plan["formulas"][0]["value"] = 211.2
    assert not list(check_plan(plan))


@pytest.mark.parametrize(
    "formula",
    [
        "1e999 h", "1e300 × 1e300 × $1", "1/1e-320 × $1", "(" * 5000 + "1" + ")" * 5000,
        "(" * 30 + "$1" + ")" * 30, "1 × " * 5000 + "$1", "24 h 30 min", "3 4 h", "1e5k h", "1,2,3 h", "$-3",
        "2 h + $3", "2 + 3 h", "1 h -", "- $3", "3 m", "$٣",
        "8 × H100 × $2", "h 3 × $2", "24 h at", "$48 =", "= $48",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(formula):
    with pytest.raises(FormulaError) as caught:
        evaluate(formula)
    assert len(str(caught.value)) < 1200
    assert errors(formula) == ["formula_unread"]
