"""Reading plans: every fault is named, with its line and the nearest key; formulas are read with their units."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from economics import PlanError, check_plan
from economics.plan_formula import FormulaError, evaluate
from economics.plan_reading import read_plan
from economics.plan_rule import tokens_per_param


def refused(plan, tmp_path=None):
    if tmp_path is not None:
        path = tmp_path / "plan.toml"
        path.write_text(plan, encoding="utf-8")
        plan = path
    with pytest.raises(PlanError) as caught:
        check_plan(plan)
    return caught.value


def test_syntax_error_has_its_line(tmp_path):
    error = refused("name = 'x'\n[data]\ntokens = 5B\n", tmp_path)
    assert error.rows == (3,)
    assert "plan.toml" in str(error) and "line 3" in str(error) and "tokens = 5B" in str(error)
    assert "need quotes" in str(error)


def test_unknown_key_has_its_line_and_the_nearest_key(tmp_path):
    error = refused("[run]\nn_gpus = 8\ntoken_per_s = '500k'\n", tmp_path)
    assert error.rows == (3,)
    assert "[run] has no key 'token_per_s' (line 3); did you mean 'tokens_per_s'?" in str(error)


def test_unknown_section():
    assert "a plan has no key 'modle'; did you mean 'model'?" in str(refused({"modle": {}}))


def test_key_in_the_wrong_section():
    assert "[run] has no key 'vocab'; it belongs in [model]" in str(refused({"run": {"vocab": 50257}}))


def test_faults_are_named_all_at_once(tmp_path):
    text = "[data]\ntokens = 'many'\n[budget]\nusd = 50\n[[budget.lines]]\nname = 'a'\nusd = 1\n"
    error = refused(text + "[[budget.lines]]\nname = 'b'\nusd = -3\ncovers = ['pizza']\n", tmp_path)
    assert len(error.problems) == 3
    assert error.rows == (2, 10, 11)
    assert "data.tokens (line 2): 'many' is not a number" in error.problems[0]
    assert "budget.lines[1].usd (line 10)" in error.problems[1]
    assert "pizza" in error.problems[2]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"run": {"mfu": 40}}, "for 40% write 0.4"),
        ({"run": {"market": "cheap"}}, "no market is called 'cheap'"),
        ({"run": {"hours": 0}}, "run.hours"),
        ({"run": {"seq_len": 0.5}}, "run.seq_len"),
        ({"run": {"n_gpus": 10**30}}, "run.n_gpus"),
        ({"model": {"params": 1e30}}, "model.params"),
        ({"model": {"params": 1e-30}}, "model.params"),
        ({"data": {"tokens": 1e300}}, "data.tokens"),
        ({"sweep": {"params": [1e30]}}, "sweep.params"),
        ({"run": {"n_gpus": 1.5}}, "run.n_gpus"),
        ({"checkpoint": {"minutes": 30, "hours": 1}}, "one unit of time is enough"),
        ({"step_rates": [{"steps": 10}]}, "needs seconds, minutes or hours"),
        ({"sweep": {"params": ["5M", "25M"], "tokens_per_s": ["1M"]}}, "1 tokens_per_s for 2 sizes"),
        ({"sweep": {}}, "sweep.params is missing"),
        ({"budget": {"lines": []}}, "budget.usd is missing"),
    ],
)
def test_values_that_are_none(plan, words):
    assert words in str(refused(plan))


def test_a_file_that_is_not_there(tmp_path):
    error = refused(tmp_path / "none.toml")
    assert "none.toml: the file of the plan cannot be read: No such file" in str(error)
    assert "Is a directory" in str(refused(tmp_path))
    assert len(str(refused("x" * 5000))) < 500


@pytest.mark.parametrize("plan", [[], None, 5, True, b"plan.toml", "", "name = 'x'\n[run]\n", "a\0b"])
def test_what_is_no_plan(plan):
    assert str(refused(plan))


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"run": {}},
        {"name": "x", "date": "2026-10-10"},
        {"model": {"layers": 12}},
        {"model": {"params": "7B", "vocab": 32000}},
        {"data": {"tokens": "5B"}, "budget": {"usd": 50}},
        {"run": {"usd_per_gpu_hour": 2.0}},
        {"run": {"usd_per_gpu_hour": 2.0, "gpu": "H100 SXM", "n_gpus": 8}},
        {"checkpoint": {"minutes": 30}},
        {"checkpoint": {"steps": 50}, "run": {"gpu": "H100 SXM"}},
        {"step_rates": [{"steps": 50, "minutes": 1}]},
        {"sweep": {"params": ["5M", "25M"]}},
    ],
)
def test_a_plan_in_which_nothing_can_be_compared_does_not_pass(plan):
    result = check_plan(plan)
    assert result.verdict == "nothing checked" and not result.passed and not result.checked
    assert "nothing_checked" in [f.code for f in result]
    assert "agrees" not in str(result).splitlines()[0]


@pytest.mark.parametrize(
    "plan",
    [
        {"checkpoint": {"minutes": 30}, "run": {"hours": 24}},
        {"checkpoint": {"minutes": 30, "save_minutes": 1}},
        {"step_rates": [{"steps": 50, "minutes": 1}, {"steps": 100, "minutes": 2}]},
        {
            "run": {"usd_per_gpu_hour": 2.5, "gpu": "H100 SXM", "n_gpus": 8, "market": "on-demand"},
            "date": "2026-10-10",
        },
        {"data": {"tokens": "5B", "stored_gb": 10}},
    ],
)
def test_two_values_that_agree_pass(plan):
    result = check_plan(plan)
    assert result.verdict == "agrees with itself" and result.passed, result


def test_counts_and_percentages_as_people_write_them():
    plan = read_plan({"model": {"params": "1.3 billion"}, "run": {"mfu": "41%", "tokens_per_s": 5e5}})
    assert (plan.model.params, plan.run.mfu, plan.run.tokens_per_s) == (1.3e9, 0.41, 5e5)


@pytest.mark.parametrize(
    ("rule", "ratio"),
    [
        ("N_opt = 20·D", 0.05),
        ("D_opt = 20 N", 20),
        ("tokens = 22.5 * params", 22.5),
        ("N ≈ 0.05 x D", 20),
        ("1.7 tokens per parameter", 1.7),
        ("D = N/20", 0.05),
        ("N = D / 20", 20),
        ("20 N = D", 20),
        ("D = N × 20", 20),
        ("20xN = D", 20),
        ("D/N = 20", 20),
        ("N/D = 20", 0.05),
        ("tokens per parameter = 20", 20),
        ("tokens/param: 20", 20),
        ("20 parameters per token", 0.05),
        ("20 params/token", 0.05),
        ("one token per 20 parameters", 0.05),
        ("20 tokens for every parameter", 20),
        ("twenty tokens per parameter (Chinchilla)", 20),
        ("Chinchilla: D = 20 N (Hoffmann et al.)", 20),
        ("D*(N) = 20·N", 20),
        ("Dopt ~ 20N", 20),
        ("D = 20 N^0.5", None),
        ("D = N**0.7", None),
        ("D = 0 N", None),
        ("D = 1e999 N", None),
        ("D = N / 1e-320", None),
        ("D = N / 1e300 / 1e300", None),
        ("20 N", None),
        ("= N", None),
        ("D = 20", None),
        ("", None),
        ("N = 20 N", None),
        ("Chinchilla", None),
    ],
)
def test_rules(rule, ratio):
    assert tokens_per_param(rule) == (None if ratio is None else pytest.approx(ratio))


# --- formulas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "unit", "value"),
    [
        ("550 steps × 500k tokens/s × $1.10/h / (3600 × 500k)", "$·steps·tokens/time^2", 550 * 1.10 / 3600),
        ("550 steps × 500k tokens/s × $1.10/h / (3600 × 500k tokens/s)", "$·steps/time", 550 * 1.10 / 3600),
        ("550 steps × 500k tokens/step / 500k tokens/s / 3600 × $1.10/h", "$", 550 * 1.10 / 3600),
        ("24 h × 8 GPUs × $2.5/GPU/h", "$", 480),
        ("200 GB * $0.09/GB", "$", 18),
        ("5B tokens ÷ (500k tokens/s)", "time", 1e4),
        ("2 x 3 · (1/4)", "1", 1.5),
    ],
)
def test_units_of_formulas(formula, unit, value):
    result = evaluate(formula)
    assert result.unit == unit
    assert result.value == pytest.approx(value)


@pytest.mark.parametrize(
    "formula", ["", "2 ×", "× 2", "(2", "2)", "2 / / 3", "3 apples", "1/0", "()", "2 + ", "2 h + $3"]
)
def test_formulas_that_cannot_be_read(formula):
    with pytest.raises(FormulaError):
        evaluate(formula)
    plan = {"formulas": [{"name": "x", "formula": formula}]}
    assert [f.code for f in check_plan(plan).errors] == ["formula_unread"]


def test_value_of_a_formula():
    plan = {"formulas": [{"name": "a day", "formula": "24 h × $2/h", "value": 84}]}
    assert "a day: 24 h × $2/h = 48, not 84." in check_plan(plan).errors[0].message
    plan["formulas"][0]["value"] = 48
    assert check_plan(plan).passed


@given(st.text(max_size=30) | st.text("ND=/*x·~20.e tokensparm", max_size=30))
def test_any_rule_is_read_or_not(text):
    ratio = tokens_per_param(text)
    assert ratio is None or 0 < ratio < float("inf")


@given(st.text(max_size=30) | st.text("0123.e×/+-()$% hsGPUtokens", max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        evaluate(text)
    except FormulaError as error:
        assert str(error)
