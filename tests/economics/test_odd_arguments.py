"""Odd values for every argument of every public function: an answer, or an error that names the argument."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pytest

import economics
from economics.plots.output import plot_data
from scaling import Arch, fit_chinchilla
from scaling.errors import ScalingError
from tests.scaling.fit_worlds import scattered

#: Wrong types, what is no number, what no table has, and text as people write it.
ODD = (
    None, True, 0, -1, math.nan, math.inf, -math.inf, 10**400, "", "abc", "1,5", "-3", "7 b", "5 kg", "1e500", "üñí",
    "\x00", "nan", [], (), {}, [None], {"a": 1}, b"7", object(), float, np.array([1.0, 2.0]), np.float64("nan"),
    complex(1, 2), "x" * 3000, date(2026, 10, 10),
)  # fmt: skip
DAY = "2026-10-10"
RUN = {"N": "1B", "D": "20B", "gpu": "H100 SXM", "n_gpus": 8, "draws": 100, "as_of": DAY}
SHAPE = Arch(layers=4, d_model=64, heads=4, d_ff=256, vocab=1000)


def _guard() -> economics.BudgetGuard:
    return economics.BudgetGuard(10, 1.0)


def _state(**odd: Any) -> None:
    """Load a state with one odd entry, wherever it stands."""
    state = _guard().state_dict()
    ((name, value),) = odd.items()
    for place in (state, state["bill"], state["bill"]["sessions"][0]):
        if name in place:
            place[name] = value
            return _guard().load_state_dict(state)
    raise AssertionError(name)


def _answered(run: economics.RunCost) -> None:
    run.usd, run.energy_kwh, repr(run), run.to_dict()


def _calls(tmp_path: Any) -> dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[str, ...]]]:
    """Name -> function, arguments that are sound, and those to be made odd (all of them, where none are named)."""
    catalog = tmp_path / "vms.csv"
    catalog.write_text("a,b\n1,2\n", encoding="utf-8")
    run = economics.cost(**RUN)
    served = economics.inference_cost(N="7B", gpu="H100 SXM", as_of=DAY, draws=100)
    model = economics.mfu_model()
    spot = economics.spot_run(10)

    def cost(**asked: Any) -> None:
        _answered(economics.cost(**asked))

    def within(name: str) -> Callable[..., None]:
        return lambda **given: cost(**RUN | {"market": "spot"} | {name: given})

    return {
        "cost": (cost, RUN, tuple(inspect.signature(economics.cost).parameters)),
        "overheads": (within("overheads"), {}, tuple(economics.Overheads.__dataclass_fields__)),
        "spot": (within("spot"), {}, ("mean_up_hours", "growth", "checkpoint_hours", "wait_hours", "gpus_per_node")),
        "energy factors": (within("energy"), {}, ("watts", "fraction", "server", "pue")),
        "what_if": (run.what_if, {}, ("N", "gpu", "mfu", "price", "seed", "region", "draws", "nonsense")),
        "compare": (run.compare, {}, ("gpus", "n_gpus")),
        "sensitivity": (run.sensitivity, {}, ()),
        "usd_quantile": (run.usd_quantile, {}, ()),
        "solve_budget": (economics.solve_budget, {"usd": 100, "N": "1B", "gpu": "H100 SXM", "n_gpus": 1, "draws": 100},
                         ("usd", "N", "quantile", "level", "unidentified", "fit", "law", "n_gpus", "nonsense")),
        "inference_cost": (economics.inference_cost, {"N": "7B", "gpu": "H100 SXM", "as_of": DAY, "draws": 100}, ()),
        "lifetime_usd": (served.lifetime_usd, {"tokens": 1e9}, ()),
        "energy": (economics.energy, {"gpu_hours": 10, "gpu": "H100 SXM"}, ()),
        "energy_factors": (economics.energy_factors, {"gpu": "H100 SXM"}, ()),
        "grid_intensity": (economics.grid_intensity, {}, ()),
        "gpu": (economics.gpu, {}, ("name",)),
        "gpu overrides": (lambda **k: economics.gpu("H100 SXM", **k), {}, ("tdp_w", "memory_gb", "dense_tflops", "zz")),
        "GPU": (economics.GPU, {"name": "x", "memory_gb": 10, "dense_tflops": {"bf16": 10}},
                ("name", "memory_gb", "dense_tflops", "sparse_tflops", "tdp_w", "source", "arch")),
        "prices": (economics.prices, {"gpu": "H100 SXM", "as_of": DAY}, ()),
        "fixed_price": (economics.fixed_price, {"usd_per_gpu_hour": 2.0}, ()),
        "add_price": (economics.add_price, {"provider": "me", "gpu": "H100 SXM", "usd_per_gpu_hour": 2.5, "day": DAY},
                      ("provider", "gpu", "usd_per_gpu_hour", "gpus_per_instance", "market", "day", "region", "commit",
                       "currency", "usd_per_unit", "includes_host", "note")),
        "import_skypilot": (economics.import_skypilot, {"file": catalog, "day": DAY}, ("file", "day", "provider")),
        "quantile": (economics.prices("H100 SXM", as_of=DAY).quantile, {}, ()),
        "predict": (model.predict, {"params": "7B", "gpu": "H100 SXM", "n_gpus": 64}, ()),
        "update": (model.update, {"measured_tokens_per_s": 655e3, "params": "7B", "gpu": "H100 SXM", "n_gpus": 64}, ()),
        "tokens_per_s": (model.predict("7B", "H100 SXM", 64).tokens_per_s, {}, ()),
        "measured_mfu": (economics.measured_mfu,
                         {"tokens_per_s": 1e5, "flops_per_token": 1e9, "gpu": "H100 SXM", "n_gpus": 8}, ()),
        "parse_mfu": (economics.parse_mfu, {}, ("value",)),
        "hfu": (economics.hfu, {"mfu": 0.4}, ()),
        "memory_fit": (economics.memory_fit, {"arch": "llama-2-7b", "gpu": "H100 SXM"},
                       ("arch", "gpu", "micro_batch", "seq_len", "n_gpus", "tp", "zero", "checkpointing", "optimizer",
                        "gradients", "sequence_parallel", "reserve_gb", "nonsense")),
        "kv_cache_bytes": (economics.kv_cache_bytes, {"arch": SHAPE, "tokens": 100}, ()),
        "spot_run": (economics.spot_run, {"work_hours": 10}, ()),
        "SpotRun.sample": (spot.sample, {"rng": np.random.default_rng(0), "n": 10}, ("n", "rate_sd")),
        "interruption_rate": (economics.interruption_rate, {}, ()),
        "optimal_interval": (economics.optimal_interval, {"rate": 0.1, "checkpoint": 0.02}, ()),
        "check_plan": (economics.check_plan, {}, ()),
        "BudgetGuard": (economics.BudgetGuard, {"cap_usd": 10, "usd_per_hour": 1.0},
                        ("cap_usd", "usd_per_hour", "billing_granularity", "shutdown_usd", "final_save_s", "shutdown_s",
                         "max_step_s", "planned_hours", "quantile", "minimum_s", "started_at", "instance", "spent_usd",
                         "previous_ended_at", "gone_after_s")),
        "check": (lambda **k: _guard().check(**k), {}, ("hours", "tokens", "startup_s")),
        "step": (lambda **k: _guard().step(**k), {}, ("seconds",)),
        "charge": (lambda **k: _guard().charge(**k), {"reason": "x", "usd": 1.0}, ("usd",)),
        "load_state_dict": (lambda **k: _guard().load_state_dict(**k), {"state": _guard().state_dict()},
                            ("state", "previous_ended_at")),
        "state": (_state, {}, ("bill", "longest_step_s", "refused", "version", "latest", "until", "sessions", "ledger",
                               "instance", "started_at", "ended_at", "usd_per_hour", "billing_granularity")),
        "plot_data": (lambda **k: plot_data(**{"subject": run, "kind": "breakdown"} | k), {}, ("subject", "kind")),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_odd_values_are_answered_or_refused_by_name(tmp_path):
    """More than 5,000 calls, in seconds."""
    calls, refused, faults = 0, 0, []
    for where, (function, sound, names) in _calls(tmp_path).items():
        parameters = inspect.signature(function).parameters.values()
        for name in names or [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]:
            for value in ODD:
                calls += 1
                try:
                    function(**sound | {name: value})
                except ScalingError as error:
                    refused += 1
                    if not str(error).strip() or "Traceback" in str(error):
                        faults.append((where, name, repr(value)[:30], "says nothing"))
                except Exception as error:
                    faults.append((where, name, repr(value)[:30], repr(error)[:120]))
    assert not faults, "\n".join(map(str, faults[:40]))
    assert calls > 5000 and refused > 0.7 * calls


@pytest.mark.parametrize(
    ("function", "sound", "name"),
    [
        (economics.cost, RUN, "N"),
        (economics.cost, RUN, "D"),
        (economics.cost, RUN, "n_gpus"),
        (economics.cost, RUN, "seq_len"),
        (economics.cost, RUN, "draws"),
        (economics.cost, RUN, "seed"),
        (economics.cost, RUN, "price"),
        (economics.cost, RUN, "mfu"),
        (economics.cost, RUN, "region"),
        (economics.solve_budget, {"usd": 10, "N": "1B", "gpu": "H100 SXM"}, "usd"),
        (economics.energy, {"gpu_hours": 1, "gpu": "H100 SXM"}, "gpu_hours"),
        (economics.energy, {"gpu_hours": 1, "gpu": "H100 SXM"}, "measured_gpu_kwh"),
        (economics.memory_fit, {"arch": "llama-2-7b", "gpu": 80}, "micro_batch"),
        (
            economics.measured_mfu,
            {"tokens_per_s": 1, "flops_per_token": 1e9, "gpu": "A10"},
            "flops_per_token",
        ),
        (economics.BudgetGuard, {"cap_usd": 1, "usd_per_hour": 1}, "max_step_s"),
    ],
    ids=lambda x: getattr(x, "__name__", x if isinstance(x, str) else ""),
)
@pytest.mark.parametrize("value", [True, -1.5, "many", [1, 2], 10**400, {"a": 1}], ids=lambda v: repr(v)[:8])
def test_the_error_names_the_argument(function, sound, name, value):
    with pytest.raises(ScalingError) as caught:
        function(**sound | {name: value})
    assert name in str(caught.value) or name == getattr(caught.value, "column", None)
    assert len(str(caught.value)) < 1500


@pytest.mark.filterwarnings("ignore")
def test_a_fit_in_any_place_is_named_in_one_line(tmp_path):
    """What prints itself on a dozen lines, instead of a number or a name, at every argument there is."""
    n, d, loss = scattered(30, seed=1)
    fit = fit_chinchilla(params=n, tokens=d, loss=loss, n_boot=0)
    for where, (function, sound, names) in _calls(tmp_path).items():
        parameters = inspect.signature(function).parameters.values()
        for name in names or [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]:
            for odd in (fit, [fit]):
                try:
                    function(**sound | {name: odd})
                except ScalingError as error:
                    assert "\n" not in str(error) and len(str(error)) < 700, (where, name, str(error))


@pytest.mark.parametrize("price", ["1,5", "1,50", "2,000,0"])
def test_a_comma_may_be_a_decimal_point(price):
    """Fifteen dollars for one and a half, without a word."""
    with pytest.raises(economics.PriceError, match="price"):
        economics.cost(**RUN, price=price)


def test_a_state_without_sessions_forgets_no_money():
    guard = _guard()
    state = guard.state_dict()
    state["bill"]["sessions"] = []
    with pytest.raises(ScalingError, match="damaged"):
        guard.load_state_dict(state)


def test_false_is_no_grid_of_zero_grams():
    """0 and False are one key of a cache."""
    run = economics.cost(**RUN, region=0)
    assert run.co2_kg.value == 0
    with warnings.catch_warnings(), pytest.raises(ScalingError, match="region"):
        run.what_if(region=False)
