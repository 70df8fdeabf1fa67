"""The OLMo ladder: 30 quiet runs that a sum of two powers does not fit."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from experiments.benchmarks.tables import markdown
from experiments.reproductions.page import (
    Page,
    billions,
    coupled_row,
    coupled_words,
    interval,
    spread,
    warnings_of,
)
from experiments.reproductions.tables import find, read
from scaling import IdentificationWarning, fit_chinchilla, fit_coupled


def reproduce() -> Page:
    """Fit the final losses, and hold residuals against what seeds scatter."""
    path = find("olmo_ladder_c4_final.csv")
    runs, rows = read(path), pd.read_csv(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)  # the page says it
        fit = fit_chinchilla(runs, n_boot=400)
    bent = fit_coupled(runs, n_boot=200)
    pairs = rows[rows["chinchilla_mult"] == 1.0].groupby("size")["loss"]
    noise = float(np.sqrt(np.mean(pairs.apply(lambda v: np.log(v).var(ddof=1)))))
    sd = {
        name: float(np.sqrt(np.mean(f.residuals**2))) for name, f in (("two powers", fit), ("coupled", bent))
    }
    d_star = fit.tokens_at(1e9, unidentified="return")
    best = bent.law.tokens_at(1e9)
    low, high = np.quantile(np.asarray(bent.draws.tokens_at(1e9)), [0.025, 0.975])
    percent = {name: f"{100 * value:.2g}%" for name, value in sd.items()}
    return Page(
        "olmo_ladder",
        "The OLMo ladder on C4",
        "Table: 30 final losses of 5 sizes at 0.5 to 10 times 20 tokens per parameter, five of them trained "
        "twice (github "
        "allenai/OLMo-ladder, Apache-2.0). No law of this loss was published with the table.",
        "none for this loss",
        f"alpha {interval(fit.ci('alpha'))}, beta {interval(fit.ci('beta'))}",
        (None, fit.objective),
        fit.verdict,
        [
            f"Two runs of one configuration differ by {100 * noise:.2g}% (standard deviation of one run, five "
            "pairs). The "
            f"residuals of E + A/N^alpha + B/D^beta have {percent['two powers']}, "
            f"{sd['two powers'] / noise:.0f} times "
            f"as much: the law is wrong here, not the runs. With the coupled law they have {percent['coupled']}.",
            markdown(
                ["law", "objective", "rms residual", "D*(1B), 95%", "verdict"],
                [
                    [
                        "two powers",
                        f"{fit.objective:.4g}",
                        percent["two powers"],
                        billions(d_star),
                        fit.verdict,
                    ],
                    [
                        "coupled",
                        f"{bent.objective:.4g}",
                        percent["coupled"],
                        spread(best, low, high),
                        bent.verdict,
                    ],
                ],
            ),
            coupled_words(bent),
            "Findings on the plain fit: " + warnings_of(fit),
        ],
        coupled=[coupled_row("OLMo ladder, C4", bent)],
    )
