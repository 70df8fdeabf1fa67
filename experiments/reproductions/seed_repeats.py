"""What chance does to a loss: runs of Muennighoff et al. that differ by their seed alone."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.benchmarks.tables import markdown
from experiments.reproductions.muennighoff import BASE
from experiments.reproductions.page import Page
from experiments.reproductions.tables import find, read
from scaling import fit_data_constrained

LAWS = ("data-constrained, base law held", "the same, base law free")


def reproduce() -> Page:
    """Pool the variance of log loss within configurations."""
    rows = pd.read_csv(find("datablations_seed_repeats.csv"))
    rows["configuration"] = rows["run_id"].str.replace(r"seed\d+$", "", regex=True)
    groups = rows.groupby("configuration")["loss"]
    spread = groups.apply(lambda v: pd.Series({"n": len(v), "var": np.log(v).var(ddof=1)})).unstack()
    spread = spread[spread["n"] > 1]
    freedom = float((spread["n"] - 1).sum())
    pooled = float(np.sqrt((spread["var"] * (spread["n"] - 1)).sum() / freedom))
    each = np.sqrt(spread["var"].to_numpy(dtype=float))
    runs = read(find("datablations_repeat_182_fitset.csv"))
    held, free = fit_data_constrained(runs, base=BASE, n_boot=0), fit_data_constrained(runs, n_boot=0)
    rms = [float(np.sqrt(np.mean(f.residuals**2))) for f in (held, free)]
    middle = [float(np.median(np.abs(f.residuals)) / 0.6745) for f in (held, free)]
    return Page(
        "seed_repeats",
        "Seeds of Muennighoff et al.",
        "Table: 64 losses of configurations trained with several seeds (github huggingface/datablations, "
        "Apache-2.0).",
        "no law: scatter of single runs",
        f"{100 * pooled:.2g}% of the loss",
        (None, pooled),
        "measured",
        [
            f"{len(spread)} configurations with {int(spread['n'].sum())} runs leave {freedom:.0f} degrees of "
            "freedom. The "
            f"standard deviation of the log loss of one run is {pooled:.5f} pooled ({100 * pooled:.2g}% of "
            "the loss); in single "
            f"configurations from {each.min():.5f} to {each.max():.5f}, median {np.median(each):.5f}.",
            "Against it the residuals of laws on the 182 runs with repeated data:",
            markdown(
                ["law", "rms residual", "robust sd", "times the seeds' scatter"],
                [
                    [name, f"{a:.4f}", f"{b:.4f}", f"{b / pooled:.1f}"]
                    for name, a, b in zip(
                        ("data-constrained, base law held", "the same, base law free"),
                        rms,
                        middle,
                        strict=True,
                    )
                ],
            ),
            "So chance is not what these laws miss: an interval that takes the residuals for noise of single "
            "runs is wide "
            "because the law is wrong in places.",
        ],
    )
