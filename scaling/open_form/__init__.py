"""The law with its form left open, and what is said of single runs: `open_form` and `predict` of a `ChinchillaFit`.

`posterior` draws laws with k open (by `sampler`); `answers` asks them for E, D* and optima; `rollout` asks them on cuts
of the table for its larger runs, by which `calibration` moves and widens what `single_run` says of one new run.
`form_test` asks whether the runs reject k = 1 at all. Import from the modules: laws import one another here.
"""
