"""How well speeds and GPU-hours are predicted, on what the predictions were not calibrated on.

python experiments/benchmarks/mfu_calibration.py            # print the tables, about 5 s
python experiments/benchmarks/mfu_calibration.py --write    # estimate mfu_components.csv again
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from economics.gpu_names import read_table
from economics.hardware import gpu
from economics.mfu_check import (
    Check,
    components,
    constant,
    coverage,
    leave_one_code_base_out,
    leave_one_organisation_out,
    leave_one_size_out,
    whole_runs,
)
from economics.mfu_rows import palm_flops_per_token

TABLE = Path(__file__).parents[2] / "data" / "hardware" / "mfu_components.csv"


def reproduce() -> None:
    """Recompute every published MFU of llm-foundry from its speed."""
    worst = 0.0
    rows = [row for row in read_table("known_throughput.csv") if row["code_base"] == "llm-foundry"]
    for row in rows:
        per_token = palm_flops_per_token(
            *(float(row[k]) for k in ("n_params", "layers", "d_model", "seq_len"))
        )
        peak = gpu(row["gpu"]).peak("fp8" if "fp8" in row["precision"] else "bf16")
        mfu = float(row["tok_per_s_per_gpu"]) * per_token / peak
        worst = max(worst, abs(mfu / (float(row["mfu_pct"]) / 100) - 1))
    print(
        f"1. {len(rows)} published MFU recomputed as (6N + 12 L d T) tokens/s / dense peak: within {worst:.2%}\n"
    )


def sizes() -> None:
    """Leave one model size out, against the constants that are usually assumed."""
    print("2. llm-foundry, each model size predicted from the others: error of the speed")
    print(f"   {'':24}{'median':>8}{'p90':>8}{'max':>8}{'inside 80%':>12}")
    rows = {
        "this model": leave_one_size_out(),
        "constant 0.35": constant(0.35),
        "constant 0.40": constant(0.40),
    }
    for name, check in rows.items():
        error = check.error
        inside = f"{check.covered.mean():.0%}" if name == "this model" else "-"
        print(
            f"   {name:24}{np.median(error):8.1%}{np.quantile(error, 0.9):8.1%}{error.max():8.1%}{inside:>12}"
        )
    print()


def line(name: str, check: Check, hours: bool = False) -> None:
    """Print one row of a table of coverages."""
    count = coverage(check)
    error = np.median(check.error_of_hours if hours else check.error)
    print(
        f"   {name:24}{count.n:5}{count.covered:5}/{count.n:<4}{count.covered / count.n:6.0%}"
        f"{f'{count.low}-{count.high}':>9}{check.interval_score:8.2f}{error:8.1%}"
    )


def code_bases() -> None:
    """Leave one code base out."""
    head = f"   {'':24}{'n':>5}{'inside 80%':>16}{'95% range':>9}{'score':>8}{'error':>8}"
    print("3. Other code bases, each predicted from all the rest (score: interval score of ln speed)")
    print(head)
    check = leave_one_code_base_out()
    for name, part in check.groups():
        line(name, part)
    line("all", check)
    table = [row for row in read_table("known_throughput.csv") if row["code_base"] != "llm-foundry"]
    first = [is_first(row) for name, _ in check.groups() for row in table if row["code_base"] == name]
    line("of them first collected", check.select(np.array(first)))
    print()
    print(
        "4. GPU-hours of whole runs: known_runs.csv, used for nothing else; and the runs the gap comes from"
    )
    print(head)
    line("known runs, usable", whole_runs(), hours=True)
    line("organisation left out", leave_one_organisation_out(), hours=True)
    print()


def is_first(row: dict[str, str]) -> bool:
    """Tell whether a row of another code base came with the first sources, before more were looked for."""
    if row["code_base"] == "torchtitan":
        return "benchmarks/" in row["source"]
    if row["code_base"] == "fms-fsdp":
        return "issue" in row["source"]
    return row["code_base"] in ("maxtext", "tinyllama", "litgpt-xla")


def write() -> None:
    """Estimate the standard deviations and the gap, and write them."""
    spread, gap, df = components()
    rows = [
        (f"sd_{name}", value, f"spread between members of the group {name}")
        for name, value in spread.groups.items()
    ]
    rows += [
        ("sd_row", spread.row, "spread from row to row"),
        ("df", df, "code bases less one"),
        ("run_gap", gap.mean, "whole runs against the steady prediction"),
        ("run_gap_sd", gap.sd, "spread of that for the next run of another organisation"),
        ("run_gap_between", gap.between, "between organisations"),
        ("run_gap_within", gap.within, "between the runs of one"),
        ("run_gap_df", gap.df, "organisations less one"),
    ]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("name", "value", "what"))
        out.writerows((name, f"{value:.6g}", what) for name, value, what in rows)
    print(f"wrote {TABLE}: now run make manifest")


def main() -> None:
    """Print the tables, or write the components."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="estimate mfu_components.csv again")
    if parser.parse_args().write:
        write()
        return
    reproduce()
    sizes()
    code_bases()


if __name__ == "__main__":
    main()
