"""The A100 version of the plan, costed: shapes, D*(1B) under both counts, the run, the ladder, what the price does."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from economics import check_plan, cost, spot_run
from economics.spot import SpotRun
from experiments.x1.designs import VOCAB, choose, shape
from experiments.x1.stages import ROOT, write_json
from scaling.architecture import Arch
from scaling.errors import DataError
from scaling.guard import WARN_DECADES
from scaling.result import ChinchillaFit
from scaling.shapes import solve_shape
from scaling.storage import write_atomically
from scaling.units import parse_count

PLAN = ROOT / "experiments" / "X1-pretraining" / "plan.toml"


def build(out: Path, pages: bool) -> list[Path]:
    """Return ``plan.json``, ``plan-shapes.csv``, ``plan-costs.csv``, ``plan-ladders.csv`` and the picture of the cost.

    Raises
    ------
    DataError
        The plan contradicts itself.
    """
    checked = check_plan(PLAN)
    if not checked.passed:
        raise DataError(f"{PLAN.name}: {'; '.join(f.message for f in checked.errors)}", source=str(PLAN))
    plan = tomllib.loads(PLAN.read_text(encoding="utf-8"))
    fit = ChinchillaFit.load(out / "hoffmann2022.fit.json")
    run, sweep_line = plan["run"], next(line for line in plan["budget"]["lines"] if line["name"] == "sweep")
    model = solve_shape(plan["model"]["params"], VOCAB, kv_group=4).arch
    bought = prices(run, str(plan["date"]))
    costs, runs = [], {}
    for name, asked in bought.items():
        runs[name] = cost(
            arch=model, D=plan["data"]["tokens"], gpu=run["gpu"], n_gpus=1, seq_len=run["seq_len"], **asked
        )
        found = runs[name]
        costs.append({"name": name, "usd": found.usd.to_dict(), "hours": found.wall_hours.to_dict(),
                      "interruptions": found.interruptions.value, "price": asked["price"], "market": asked["market"],
                      "save_every": str(asked.get("checkpoint_every", "-"))})  # fmt: skip
    ladders, best = choose(fit.law, float(sweep_line["usd"]), **bought[_SPOT])
    demand = {name: best.usd(**bought[name]).to_dict() for name in (_DEAR, _CHEAP)}
    hours = runs[_DEAR].wall_hours.value
    spot = spot_run(
        hours, usd_per_hour=bought[_SPOT]["price"], on_demand_usd_per_hour=bought[_DEAR]["price"],
        mean_up_hours=run["hours_between_preemptions"], checkpoint_hours=plan["checkpoint"]["save_minutes"] / 60,
    )  # fmt: skip
    content = {
        "plan": str(PLAN.relative_to(ROOT)), "verdict": checked.verdict, "checks": len(checked.checked),
        "date": str(plan["date"]), "budget_usd": plan["budget"]["usd"], "model": _shape("the run", model),
        "tokens": parse_count(plan["data"]["tokens"]), "costs": costs, "shapes": _shapes(model),
        "both_counts": _both_counts(fit), "ladders": ladders, "ladder_at_other_prices": demand,
        "sweep_line_usd": sweep_line["usd"], "other_lines_usd": _others(plan),
        "totals": _totals(plan, costs, demand, ladders),
        "spot": _spot(spot, hours),
        "reach": _reach(fit, {**bought[_DEAR], "gpu": run["gpu"], "seq_len": run["seq_len"]}),
        "findings": [f.message for f in runs[_DEAR].findings if f.severity != "info"],
    }  # fmt: skip
    files = [write_json(out / "plan.json", content)]
    files += [
        _csv(out / "plan-shapes.csv", content["shapes"]),
        _csv(out / "plan-costs.csv", [_flat(c) for c in costs]),
    ]
    files.append(_csv(out / "plan-ladders.csv", [_flat(row) for row in ladders]))
    if pages:
        from economics.plots import save

        files += save(runs[_DEAR], "tornado", out / "plan-tornado.png", dpi=110)
    return files


_DEAR, _CHEAP = "on demand", "on demand, the lower price"
_SPOT = "spot, saves at the best interval"


def prices(run: dict[str, Any], as_of: str) -> dict[str, dict[str, Any]]:
    """Return the ways to buy the hours: on demand at the plan's price and at $0.79, spot with and without saves.

    Parameters
    ----------
    run : dict
        Section ``[run]`` of the plan.
    as_of : str
        Its date.

    Returns
    -------
    dict
        Name -> arguments of `economics.cost`.
    """
    spot = {"market": "spot", "price": run["usd_per_gpu_hour"], "as_of": as_of,
            "spot": {"mean_up_hours": run["hours_between_preemptions"]}}  # fmt: skip
    return {
        _DEAR: {"market": "on-demand", "price": run["on_demand_usd_per_gpu_hour"], "as_of": as_of},
        _CHEAP: {"market": "on-demand", "price": 0.79, "as_of": as_of},
        _SPOT: {**spot, "checkpoint_every": "optimal"},
        "spot, a save every 30 min": {**spot, "checkpoint_every": "30 min"},
        "spot, no saves": {**spot, "checkpoint_every": None},
    }


def _shape(name: str, arch: Arch) -> dict[str, Any]:
    return {
        "name": name, "layers": arch.layers, "d_model": arch.d_model, "heads": arch.heads, "kv_heads": arch.kv_heads,
        "d_ff": arch.d_ff, "params_total": arch.params_total, "params_non_embedding": arch.params("non_embedding"),
        "embedding_share": 1 - arch.params("non_embedding") / arch.params_total,
    }  # fmt: skip


def _shapes(model: Arch) -> list[dict[str, Any]]:
    """Return the shapes of the plan: the sweep's by parameters outside the embedding, the run's by all."""
    names = {"5M": 5e6, "25M": 25e6, "100M": 100e6}
    return [_shape(f"{name} outside the embedding", shape(n)) for name, n in names.items()] + [
        _shape("the run", model)
    ]


def _both_counts(fit: ChinchillaFit) -> dict[str, Any]:
    """Return D*(1B) for one billion parameters in all, and for one billion outside the embedding."""
    arch = shape(1e9)
    return {
        "total": fit.tokens_at(1e9).to_dict(), "non_embedding": fit.tokens_at(float(arch.params_total)).to_dict(),
        "non_embedding_total": arch.params_total, "vocab": VOCAB,
    }  # fmt: skip


def _spot(spot: SpotRun, hours: float) -> dict[str, Any]:
    names = (
        "interruptions",
        "rework_hours",
        "saving_hours",
        "billed_hours",
        "wall_hours",
        "usd",
        "on_demand_usd",
    )
    minutes = None if spot.interval is None else 60 * spot.interval
    return {"interval_minutes": minutes, "work_hours": hours, **{name: getattr(spot, name) for name in names}}


def _reach(fit: ChinchillaFit, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the smallest compute-optimal run from which D*(1B) is not far out, and what it costs."""
    flops = 6e9 * fit.tokens_at(1e9).value / 10**WARN_DECADES
    best = fit.law.optimal(flops)
    params, tokens = float(best.params), float(best.tokens)
    found = cost(N=params, D=tokens, n_gpus=1, **asked)
    return {"flops": flops, "decades": WARN_DECADES, "params": params, "tokens": tokens, "usd": found.usd.to_dict(),
            "hours": found.wall_hours.to_dict()}  # fmt: skip


def _others(plan: dict[str, Any]) -> float:
    """Return what the lines of the budget hold beside training, the sweep, rework and the reserve."""
    counted = {"compute", "sweep", "rework", "buffer"}
    return float(sum(line["usd"] for line in plan["budget"]["lines"] if not counted & set(line["covers"])))


def _totals(
    plan: dict[str, Any], costs: list[dict[str, Any]], ladder: dict[str, Any], ladders: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the whole bill at each price: run, ladder and other lines, by medians and with both at P90."""
    of = {name: ladder.get(name) or ladders[-1]["usd"] for name in (_DEAR, _CHEAP, _SPOT)}
    run = {row["name"]: row["usd"] for row in costs}
    rest, cap = _others(plan), float(plan["budget"]["usd"])
    return [
        {"name": name, "run_usd": run[name]["value"], "ladder_usd": found["value"], "other_usd": rest,
         "total_usd": run[name]["value"] + found["value"] + rest,
         "high_usd": run[name]["high"] + found["high"] + rest,
         "fits": run[name]["value"] + found["value"] + rest <= cap,
         "fits_high": run[name]["high"] + found["high"] + rest <= cap}
        for name, found in of.items()
    ]  # fmt: skip


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out |= {f"{key}_{end}": value[end] for end in ("value", "low", "high")}
        else:
            out[key] = " ".join(map(repr, value)) if isinstance(value, list) else value
    return out


def _csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    import pandas as pd

    write_atomically(path, pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))
    return path
