"""Predicted GPU-hours of published runs, and published money and energy, against what `cost` says.

python -m experiments.benchmarks.known_runs            # print the tables, about 2 s
python -m experiments.benchmarks.known_runs --write    # and put them into README.md
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from economics import RunCost, cost
from economics.gpu_names import read_table
from economics.run_check import known_runs
from economics.run_estimates import dollars, plain_number
from scaling.estimate import Estimate


class Known(NamedTuple):
    """A published figure and the inputs it is predicted from."""

    what: str
    figure: float
    answer: str
    inputs: dict[str, Any]


#: What the published dollars pay for: training alone, as its hours were multiplied by a price.
TRAINING = {"start_hours": 0.0, "storage_usd_gb_month": 0.0, "egress_usd_gb": 0.0}
_LLMC = {"n_gpus": 8, "seq_len": 1024, "overheads": TRAINING}
_DEEPSEEK = {
    "N": 671e9, "N_active": 37e9, "D": 14.8e12, "gpu": "H800-80GB-SXM", "n_gpus": 2048, "seq_len": 4096, "price": 2.0,
    "overheads": TRAINING,
}  # fmt: skip
_BLOOM = {
    "N": 176247271424, "D": 366e9, "gpu": "A100 SXM 80GB", "n_gpus": 384, "price": 1.0, "region": "jean-zay-2022",
    "energy": {"fraction": 1, "server": 1}, "pue": 1,
}  # fmt: skip
_GPT3 = {
    "N": 175e9, "D": 300e9, "gpu": "V100-32GB-SXM2", "n_gpus": 10_000, "price": 1.0, "pue": 1.10,
    "region": "us-mix-2020",
}  # fmt: skip

#: Published money and energy; no model is calibrated on any of these runs (a test looks).
#: BLOOM's 433 MWh are boards at their rating; 24.7 t are 57 g/kWh of that.
KNOWN = (
    Known("llm.c GPT-2 124M, 10B tokens, $14 a node-hour, its log shows about 60%", 20.0, "usd",
          {"N": 124439808, "D": 10e9, "gpu": "A100 SXM 80GB", "price": 14 / 8, "mfu": ("55%", "65%"), **_LLMC}),
    Known("llm.c GPT-2 1558M, 33.6B tokens, $28 a node-hour, its log shows about 50%", 672.0, "usd",
          {"N": 1557611200, "D": 33554432000, "gpu": "H100 SXM", "price": 28 / 8, "mfu": ("45%", "55%"), **_LLMC}),
    Known("MPT-7B, 1T tokens on 440 A100, $2 an hour", 200e3, "usd",
          {"N": 6658859008, "D": 1e12, "gpu": "A100-40GB-SXM", "n_gpus": 440, "price": 2.0}),
    Known("DeepSeek-V3, 37B active, 14.8T tokens, $2 an hour", 5.33e6, "usd", _DEEPSEEK),
    Known("DeepSeek-V3", 2.664e6, "gpu_hours", _DEEPSEEK),
    Known("BLOOM, boards at their rating", 433e3, "energy_kwh", _BLOOM),
    Known("BLOOM, 57 g/kWh", 24.7e3, "co2_kg", _BLOOM),
    Known("GPT-3, PUE 1.10", 1287e3, "energy_kwh", _GPT3),
    Known("GPT-3, 429 g/kWh", 552e3, "co2_kg", _GPT3),
)  # fmt: skip
_UNITS = {"usd": dollars, "gpu_hours": plain_number, "energy_kwh": plain_number, "co2_kg": plain_number}
_WORDS = {"usd": "", "gpu_hours": " GPU-hours", "energy_kwh": " kWh", "co2_kg": " kg CO2"}


def predict(known: Known) -> tuple[RunCost, Estimate]:
    """Return the cost for the inputs, and the answer that has a published figure."""
    run = cost(**known.inputs)
    answer: Estimate = getattr(run, known.answer)
    return run, answer


def money_and_energy() -> Iterable[list[str]]:
    """Yield a row for each published figure."""
    for known in KNOWN:
        _, e = predict(known)
        shown = _UNITS[known.answer]
        inside = "yes" if e.low <= known.figure <= e.high else "**no**"
        yield [known.what, f"{shown(known.figure)}{_WORDS[known.answer]}", shown(e.value),
               f"{shown(e.low)} to {shown(e.high)}", inside]  # fmt: skip


def hours() -> tuple[str, list[list[str]]]:
    """Return a summary of the GPU-hours, and a row for each run."""
    runs = known_runs()
    covered, n, low, high = runs.coverage
    left_out: dict[str, int] = {}
    for row in read_table("known_runs.csv"):
        if row["usable"] != "yes":
            left_out[row["reason"]] = left_out.get(row["reason"], 0) + 1
    summary = (
        f"{covered} of {n} published runs lie in the 80% interval of the predicted GPU-hours (an honest interval gives "
        f"{low} to {high}, 95% of the time); median error {np.median(runs.error):.1%}, 90th percentile "
        f"{np.quantile(runs.error, 0.9):.0%}, mean interval score of ln hours {runs.check.interval_score:.2f}. "
        "Left out: "
        + ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items())) + "."
    )  # fmt: skip
    rows = [
        [
            name,
            gpu,
            f"{told:,.4g}",
            f"{middle:,.4g}",
            f"{lo:,.4g} to {hi:,.4g}",
            "yes" if lo <= told <= hi else "**no**",
        ]
        for name, gpu, told, middle, lo, hi in zip(
            runs.model, runs.gpu, runs.hours, runs.median, runs.low, runs.high, strict=True
        )
    ]
    return summary, rows


def main() -> None:
    """Print the tables, or write them."""
    from experiments.benchmarks.tables import markdown, write

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # what a utilisation near the ceiling or an old price means is known here
    summary, rows = hours()
    head = ["run", "GPU", "GPU-hours", "predicted", "P10 to P90", "inside"]
    first = f"{summary}\n\n{markdown(head, rows)}"
    second = markdown(["what", "published", "predicted", "P10 to P90", "inside"], money_and_energy())
    print(f"{first}\n\n{second}")
    if arguments.write:
        write("known_runs", first)
        write("known_money", second)


if __name__ == "__main__":
    main()
