"""The Gemstones: the published law is the optimum, and the table hides other things."""

from __future__ import annotations

from experiments.benchmarks.tables import markdown
from experiments.reproductions.page import (
    Page,
    billions,
    coupled_row,
    coupled_words,
    interval,
    objective,
    warnings_of,
)
from experiments.reproductions.tables import find, read
from scaling import ChinchillaLaw, fit_chinchilla, fit_coupled

#: parameters_delta-3 of github mcleish7/gemstone-scaling-laws, to four digits, and the objective beside it.
PUBLISHED, PRINTED = ChinchillaLaw(2.1432, 213.0, 4955000.0, 0.2929, 0.7129), 0.0019816129

EXPONENTS = ("alpha", "beta", "params_exponent")


def reproduce() -> Page:
    """Fit the 220 checkpoints, whose runs are the independent units."""
    runs = read(find("gemstones_hot.csv"))
    fit = fit_chinchilla(runs, n_boot=400)
    rows = fit_chinchilla(runs, n_boot=400, resample="pairs")
    bent = fit_coupled(runs, n_boot=60)
    at_published = objective(PUBLISHED, runs)
    return Page(
        "gemstones",
        "The Gemstones",
        "Table: 220 checkpoints of 22 models at constant learning rate (McLeish et al. 2025; github "
        "mcleish7/gemstone-scaling-laws, MIT).",
        "alpha 0.2929, beta 0.7129",
        f"alpha {interval(fit.ci('alpha'))}, beta {interval(fit.ci('beta'))}",
        (at_published, fit.objective),
        fit.verdict,
        [
            f"The published law is the optimum: they print an objective of {PRINTED}, the least is "
            f"{fit.objective:.10f}; at "
            f"their coefficients rounded to four digits it is {at_published:.10f}.",
            "What the published page lacks is an interval. Ten checkpoints of one run are not ten runs:",
            markdown(
                ["resampled", "units", "alpha", "beta", "a of N* ~ C^a", "D*(1B)"],
                [
                    [how, n, *(interval(f.ci(c)) for c in EXPONENTS), billions(f.tokens_at(1e9))]
                    for how, n, f in (("runs", 22, fit), ("checkpoints as if independent", 220, rows))
                ],
            ),
            "Findings on the table: " + warnings_of(fit),
            coupled_words(bent),
        ],
        coupled=[coupled_row("Gemstones, 22 models", bent)],
    )
