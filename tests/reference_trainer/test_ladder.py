"""A ladder file becomes runs: exact steps, what branches save, what is refused, what it takes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from reference_trainer.__main__ import app
from reference_trainer.branch import config_of, scratch_config
from reference_trainer.errors import ConfigError
from reference_trainer.ladder import leaves_at, read_ladder, to_steps
from reference_trainer.ladder_cost import pace, priced
from reference_trainer.ladder_file import CostSection
from reference_trainer.lr_choice import at_edge, best_of
from reference_trainer.state import State
from reference_trainer.train import cooldown_start, total_steps
from tests.reference_trainer.tiny_ladders import LADDER, write_ladder
from tests.reference_trainer.tiny_runs import tiny, write_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ladder")
    write_data(path)
    return path


def plan_of(folder, text=LADDER, *overrides):
    return read_ladder(write_ladder(folder, text), *overrides)


def test_four_budgets_cost_63_percent_of_separate_runs(folder):
    """D = 1, 2, 4, 8 with a cooldown of 20%: (8 + 0.2 (1 + 2 + 4)) / 15."""
    plan = plan_of(folder, LADDER.replace("[1280, 2560]", '["1.28k", "2.56k", "5.12k", "10.24k"]'))
    assert plan.tokens_paid / plan.tokens_separate == pytest.approx(9.4 / 15, abs=1e-12)
    trunk, *_ = (run for run in plan.runs if run.kind == "trunk")
    assert (trunk.steps, trunk.leaves, trunk.tokens) == (160, (16, 32, 64), 10240)
    mine = [run for run in plan.runs if run.trunk_id == trunk.trunk_id]
    assert [(run.kind, run.began, run.steps) for run in mine] == [
        ("branch", 16, 20), ("branch", 32, 40), ("branch", 64, 80), ("trunk", 0, 160)
    ]  # fmt: skip
    checks = 3 * 20
    assert plan.steps_paid == 2 * 2 * (160 + 4 + 8 + 16) + checks
    assert plan.flops_separate == sum(6 * plan.size[r.size].arch.params_total * r.tokens for r in plan.runs)


@pytest.mark.parametrize("cooldown", [0.1, 0.2, 1 / 3])
def test_plan_and_trainer_count_alike(folder, cooldown):
    data = {key: str(folder / f"{key[:-5]}.tokens") for key in ("train_data", "val_data")}
    for tokens in (64, 97, 1000, 4095, 4097, 123_456):
        config = tiny(folder / "run", data, tokens=tokens, cooldown=cooldown)
        steps = total_steps(State(), config)
        assert to_steps(tokens, config.step_tokens) == steps
        assert leaves_at(int(steps), cooldown) == cooldown_start(steps, config)


def test_a_branch_is_configured_as_the_run_from_scratch(folder):
    plan = plan_of(folder)
    branch = next(run for run in plan.runs if run.kind == "branch")
    config = config_of(plan, branch, 1e-2)
    assert config.start_from.endswith("1x8-seed0-2560/checkpoints/step_00000016")
    assert config_of(plan, plan.run[branch.parent], 1e-2).checkpoint_at == (16,)
    assert scratch_config(plan, branch, 1e-2, "x").hash() == config.hash()
    assert config.train_data == str(folder / "train.tokens")  # relative to the file, not to where one stands


def test_wanted_counts_become_shapes(folder):
    text = LADDER.replace("layers = 1\nd_model = 8\nheads = 2", 'params = "50k"\nmultiple = 8\nhead_dim = 16')
    size = plan_of(folder, text).sizes[1]
    assert size.arch.params_total == pytest.approx(50e3, rel=0.03)
    run = next(run for run in plan_of(folder, text).runs if run.size == size.name)
    assert config_of(plan_of(folder, text), run, 1e-2).arch(24) == size.arch


def changed(old, new):
    assert old in LADDER
    return LADDER.replace(old, new)


REFUSED = {
    "budgets of 1,280 and 1,300 tokens are both 20 steps": changed("[1280, 2560]", "[1280, 1300]"),
    "cooldown at step 16, inside the warm-up that ends at step 20": changed("= 320\neval", "= 1280\neval"),
    "of which 0.2 is no step of cooldown": changed("[1280, 2560]", "[128, 2560]"),
    "no learning rate": changed("lr = 1e-2\n", ""),
    "lr and lr_grid contradict": changed("lr = 1e-2\n", "lr = 1e-2\nlr_grid = [1, 2, 3]\n"),
    "needs [lr_check]": changed("[lr_check]\ntokens = 1280\n", ""),
    "more than the longest run": changed("[lr_check]\ntokens = 1280", "[lr_check]\ntokens = 5120"),
    "no key size[1].dmodel; did you mean d_model": changed("d_model = 16", "dmodel = 16"),
    "no key 'warmup_token'; did you mean warmup_tokens": changed("warmup_tokens", "warmup_token"),
    "seed cannot stand here: give seeds": changed("dropout = 0.1", "seed = 3"),
    "cut by time": changed("dropout = 0.1", "hours = 3"),
    "two sizes have the shape": changed("layers = 2\nd_model = 16", 'name = "b"\nlayers = 1\nd_model = 8'),
    "names a seed twice": changed("[0, 1]", "[1, 1]"),
    "leave one out": changed("d_model = 8\n", 'd_model = 8\nparams = "1k"\n'),
    "cannot be rotated": changed("d_model = 8\nheads = 2", "d_model = 6\nheads = 2"),
    "hold no window": changed("eval_tokens = 320", "eval_tokens = 10"),
    "inject cannot stand here: a run that is hurt on purpose": changed(
        "dropout = 0.1", 'inject = "lr_spike@6x5:100"'
    ),
    "val_data holds the tokens of train_data": changed('"val.tokens"', '"train.tokens"'),
    "size[0].layers: a number is meant, got True": changed("layers = 1", "layers = true"),
    "seeds[1]: Input should be less than 1844674407370955": changed("[0, 1]", "[0, 18446744073709551616]"),
    "cannot name a folder": changed("layers = 1", 'name = "a\\u0000b"\nlayers = 1'),
    "cooldown: Input should be less than 1": "cooldown = 1\n" + LADDER,
    "usd_per_hour is missing": LADDER + "[budget]\ncap_usd = 3\n",
    "cost.mfu": LADDER + '[cost]\ngpu = "H100 SXM"\nmfu = nan\n',
    "is a file: name the folder of the runs": changed('out = "out"', 'out = "train.tokens"'),
    "cannot be read as TOML": "tokens = [1280",
}


@pytest.mark.parametrize("message", REFUSED)
def test_contradictions_are_refused(folder, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan_of(folder, REFUSED[message])


def test_days_may_be_written_as_toml_has_them(folder):
    for day in ("2026-10-10", '"2026-10-10"'):
        cost = plan_of(folder, f'{LADDER}[cost]\ngpu = "H100 SXM"\nas_of = {day}\n').file.cost
        assert cost is not None and cost.as_of == "2026-10-10"
    with pytest.raises(ConfigError, match="out is empty"):
        read_ladder(write_ladder(folder, LADDER), out="")


def test_doubts_are_said(folder):
    text = LADDER.replace("lr_grid = [3e-3, 1e-2, 3e-2]\n", "").replace("[lr_check]\ntokens = 1280\n", "")
    text = text.replace("lr = 1e-2\n", "").replace("[0, 1]", "[0]").replace("2560]", "25600]")
    found = {f.code: f for f in plan_of(folder, text, "lr=1e-2").findings}
    assert set(found) == {"lr_not_tuned", "one_seed", "small_grid", "repeated_data"}
    assert found["repeated_data"].severity == "warning"  # 4.3 epochs of 6,000 tokens
    scaled = plan_of(folder, text, "lr=1e-2", "mup=true")
    assert "lr_not_tuned" not in {f.code for f in scaled.findings}
    assert scaled.sizes[0].lr_rule == "muP, base width 256"


def test_a_gpu_prices_the_ladder(folder):
    """With utilisation and price given, the hours are FLOPs over speed and the dollars are hours times price."""
    from economics import gpu

    text = LADDER.replace("layers = 2\nd_model = 16\nheads = 2", "layers = 8\nd_model = 512\nheads = 8")
    plan = plan_of(folder, text.replace("[1280, 2560]", '["1G", "4G"]').replace("1280", "1e8"))
    section = CostSection(gpu="A100 SXM 80GB", mfu="40%", price=2.0, as_of="2026-10-10")
    cost = priced(replace(plan, file=plan.file.model_copy(update={"cost": section})))
    assert cost.usd is not None and cost.hours.low < cost.hours.value < cost.hours.high
    hours = plan.flops_paid / (0.4 * gpu("A100 SXM 80GB").peak("bf16")) / 3600
    # Beside the steps: evaluation (0.3% to 5%), one start of the instance (6 to 30 minutes), storage in the bill.
    assert hours * 1.003 + 0.1 <= cost.hours.low and cost.hours.high <= hours * 1.06 + 0.5
    assert cost.usd.value == pytest.approx(2.0 * cost.hours.value, rel=0.05)


def test_steps_on_this_machine_time_the_ladder(folder, capsys):
    path = write_ladder(folder, LADDER + "[budget]\ncap_usd = 1e-9\nusd_per_hour = 0.1\n")
    assert app(["plan", str(path), "--json", "--jobs", "2"], standalone_mode=False) == 1  # over the cap
    document = json.loads(capsys.readouterr().out)
    plan, cost = read_ladder(path), document["cost"]
    assert document["tokens_paid"] == plan.tokens_paid and len(document["runs"]) == 8 and not document["fits"]
    hours = cost["hours"]
    assert 0 < hours["low"] <= hours["value"] <= hours["high"]
    least = (
        sum(plan.tokens_of(name) / rate["value"] for name, rate in cost["tokens_per_s"].items()) / 3600 / 2
    )
    assert least < hours["value"] < 3 * least  # evaluations come on top
    assert cost["usd"]["value"] == pytest.approx(0.1 * hours["value"])


def test_the_pace_is_measured_inside_a_long_warm_up(folder):
    """200 steps are timed; a warm-up of 250 would not let a run of 200 begin."""
    text = LADDER.replace("[1280, 2560]", "[25_600, 51_200]").replace(
        "warmup_tokens = 320", "warmup_tokens = 16_000"
    )
    plan = plan_of(folder, text.replace("[lr_check]\ntokens = 1280", "[lr_check]\ntokens = 25_600"))
    rates = pace(plan)
    assert set(rates) == {"1x8", "2x16"} and all(0 < r.low <= r.value <= r.high for r in rates.values())


def test_the_best_rate_is_chosen():
    assert best_of({1e-3: 3.0, 1e-2: 2.5, 1e-1: float("nan")}) == 1e-2
    assert best_of({1e-3: None, 1e-2: float("inf")}) is None
    assert at_edge(1e-2, [1e-3, 1e-2]) and not at_edge(2.0, [1.0, 2.0, 3.0])
