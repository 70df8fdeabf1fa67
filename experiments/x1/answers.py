"""``REPORT.md``: what the worked case answers, every number read from a file that a command makes.

python -m experiments.x1.answers            # 20 s: answers.json from points, prices and manifests, then REPORT.md
python -m experiments.x1.answers --page     # REPORT.md alone, from what is there
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import scaling.datasets as datasets
from experiments.ladders import pages
from experiments.x1 import a100
from experiments.x1.designs import VOCAB
from experiments.x1.law import fit_or_refusal, load
from experiments.x1.stages import ROOT, write_json
from experiments.x1.templating import environment
from scaling.report.phrases import count, number, percent
from scaling.result import ChinchillaFit
from scaling.shapes import solve_shape
from scaling.storage import write_atomically

HOME = ROOT / "experiments" / "X1-pretraining"
_N_BOOT = 2000
#: Sizes at which the published law is asked for its tokens per parameter.
_SIZES = (1e8, 1e9, 1e10)


def collect() -> dict[str, Any]:
    """Return what the page needs and no other file holds."""
    published = fit_or_refusal(load(datasets.builtin("hoffmann2022")), _N_BOOT)
    assert isinstance(published, ChinchillaFit)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        published.save(Path(folder) / "hoffmann2022.fit.json")
        a100.build(Path(folder), pages=False)
        plan = json.loads((Path(folder) / "plan.json").read_text(encoding="utf-8"))
        content = {
            "command": "python -m experiments.x1.answers", "plan": plan, "mfu": mfu_reached(), "run_a100": run_a100(),
            "per_param": per_param(published), "buys": buys(published, float(plan["budget_usd"])),
        }  # fmt: skip
    return content


def mfu_reached() -> list[dict[str, Any]]:
    """Return tokens per second and MFU of each size of the text ladder, over its runs: median, lowest, highest."""
    points = pd.read_csv(pages.HOME / "text" / "points.csv")
    out = []
    for params, rows in points[points["mfu"].notna()].groupby("params_total"):
        out.append({"params": float(str(params)), "runs": len(rows), "mfu": float(rows["mfu"].median()),
                    "low": float(rows["mfu"].min()), "high": float(rows["mfu"].max())})  # fmt: skip
    return out


def run_a100() -> dict[str, Any]:
    """Return the MFU the run of the plan should reach on an A100, which nobody measured, and what moves its cost."""
    from economics import cost

    plan = tomllib.loads(a100.PLAN.read_text(encoding="utf-8"))
    model = solve_shape(plan["model"]["params"], VOCAB, kv_group=4).arch
    asked = a100.prices(plan["run"], str(plan["date"]))["on demand"]
    run = cost(
        arch=model,
        D=plan["data"]["tokens"],
        gpu=plan["run"]["gpu"],
        n_gpus=1,
        seq_len=plan["run"]["seq_len"],
        **asked,
    )
    low, value, high = (float(x) for x in np.quantile(np.asarray(run.variates.mfu), (0.1, 0.5, 0.9)))
    swings = [
        {"factor": s.factor, "low": min(s.low, s.high), "high": max(s.low, s.high)}
        for s in run.sensitivity().swings
    ]
    return {"params": model.params_total, "mfu": {"value": value, "low": low, "high": high, "level": 0.8},
            "swings": sorted(swings, key=lambda s: s["low"] - s["high"])}  # fmt: skip


def per_param(fit: ChinchillaFit) -> list[dict[str, Any]]:
    """Return the compute-optimal tokens per parameter of the published law, and whether 20 is among them."""
    out = []
    for params in _SIZES:
        best = fit.tokens_at(params)
        per = {name: getattr(best, name) / params for name in ("value", "low", "high")}
        out.append({"params": params, **per, "holds_20": per["low"] <= 20.0 <= per["high"]})
    return out


def buys(fit: ChinchillaFit, usd: float) -> list[dict[str, Any]]:
    """Return the best run that the money buys on one GPU: at the plan's prices, and at those of the price book."""
    from economics import solve_budget

    plan = tomllib.loads(a100.PLAN.read_text(encoding="utf-8"))
    planned, day = a100.prices(plan["run"], str(plan["date"])), str(plan["date"])
    ways: list[tuple[str, dict[str, Any]]] = [
        (f"A100, {name}", {"gpu": plan["run"]["gpu"], **asked})
        for name, asked in planned.items() if asked.get("checkpoint_every", "optimal") == "optimal"
    ]  # fmt: skip
    for gpu in ("A100-80GB-SXM", "H100-80GB-SXM"):
        for market in ("on-demand", "spot"):
            ways.append((f"{gpu[:4]}, {market}, quotes", {"gpu": gpu, "market": market, "as_of": day}))
    out = []
    for name, asked in ways:
        best = solve_budget(usd, fit=fit, n_gpus=1, seq_len=plan["run"]["seq_len"], **asked)
        assert best.one_run is not None and best.range_params is not None  # the fit has draws
        out.append({
            "name": name, "price": best.cost.plan.price.median, "params": best.params, "tokens": best.tokens,
            "per_param": best.tokens / best.params, "loss": best.one_run.to_dict(), "usd": best.usd.to_dict(),
            "hours": best.cost.wall_hours.to_dict(), "tokens_range": best.affordable.to_dict(),
            "params_range": list(best.range_params),
        })  # fmt: skip
    return out


def write(content: dict[str, Any]) -> Path:
    """Write ``REPORT.md`` from ``answers.json`` and the files of the parts."""

    def read(*parts: str) -> Any:
        path = HOME.joinpath(*parts)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    templates = environment(Path(__file__).parent / "templates")
    templates.filters["as_count"] = count
    ladders = {name: read("scaling-law", name, "law.json") for name in pages.LADDERS}
    text = templates.get_template("REPORT.md.j2").render(
        **content, text=ladders["text"], known=ladders["known-law"], run=read("run-cloud", "manifest.json"),
        after=read("run-cloud", "after-training.json"), count=count, number=number, percent=lambda x: percent(x, 3),
        usd=lambda x: f"${x:,.2f}",
    )  # fmt: skip
    write_atomically(HOME / "REPORT.md", text)
    return HOME / "REPORT.md"


def main(arguments: list[str] | None = None) -> int:
    """Collect and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write REPORT.md alone")
    given = parser.parse_args(arguments)
    path = HOME / "answers.json"
    if not given.page:
        write_json(path, collect())
    print(f"written: {write(json.loads(path.read_text(encoding='utf-8'))).relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
