"""Which real tables reject the sum of two shortages, and what k they ask for in its place.

    python -m experiments.benchmarks.form_rejected --tables DIR            # half a minute of one core
    python -m experiments.benchmarks.form_rejected --tables DIR --write    # and put the table into README.md

The tables are those of `rollout.py`, whole.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from experiments.benchmarks import tables
from experiments.benchmarks.rollout_tables import real_tables
from scaling import fit_chinchilla, fit_coupled


def table(folder: Path | None) -> str:
    """Return the p-value of k = 1, k fitted alone, and k after published laws, for every table."""
    rows, alone, rejected = [], [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _, name, runs in real_tables(folder):
            fit, k = fit_chinchilla(runs, n_boot=0), fit_coupled(runs, n_boot=0).law.k
            found, open_ = fit.diagnostics.finding("form_rejected"), fit.open_form.ci("k")
            said = (
                "no"
                if found is None
                else f"**yes**, k {found.evidence['side']} 1 (p = {found.evidence['p_value']:.0e})"
            )
            rejected += found is not None
            alone.append(float(k))
            rows.append(
                [name, len(runs), said, f"{k:.2f}", f"{open_.value:.2f} [{open_.low:.2f}, {open_.high:.2f}]"]
            )
    head = ["table", "runs", "rejects k = 1", "k fitted alone", "k after published laws too, 95%"]
    middle = float(np.exp(np.mean(np.log(alone))))
    return (
        f"{tables.markdown(head, rows)}\n\n{rejected} of {len(rows)} tables reject k = 1; geometric mean of k fitted "
        f"alone {middle:.2f}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, help="folder with further public tables")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    args = parser.parse_args()
    text = table(args.tables)
    print(text)
    if args.write:
        tables.write("form_rejected", text)


if __name__ == "__main__":
    main()
