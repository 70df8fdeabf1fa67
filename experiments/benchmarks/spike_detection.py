"""The spike detector against published rules: healthy logs, and incidents spliced into them.

LOSS_CURVES_DIR=... python -m experiments.benchmarks.spike_detection            # about 3 minutes of one core
LOSS_CURVES_DIR=... python -m experiments.benchmarks.spike_detection --write    # and put the tables into README.md

Without the variable the public logs are left out, and the output says so. First half of the logs, on which the
thresholds were set: llm.c's and the base CPU run, synthetic seeds 0-99. Second half, scored here: both modded-nanogpt
runs, which were looked at while the detector was built though no number was fitted to them, and synthetic seeds
3000-3199, which nobody had drawn before.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from experiments.benchmarks.published_rules import RULES, episodes, silenced
from experiments.benchmarks.synthetic_logs import INCIDENTS, Log, healthy, splice
from reference_trainer.spike_alarm import Tier
from reference_trainer.spike_class import classify
from reference_trainer.spike_events import Spike, find_spikes
from reference_trainer.spikes import Detector
from reference_trainer.training_log import read_training_log

FIRST, SECOND = range(100), range(3000, 3200)
#: Synthetic logs of the second half that incidents are spliced into.
SPLICED = 60
FIRST_FILES = ("llmc_gpt2_124M_adamw_fineweb10B", "cpu_base_lr3e-3")
SECOND_FILES = ("modded_124M_adam_wsd_5100", "modded_124M_muon_wsd_5100")
#: Rows within which an incident must be found.
WITHIN = 500
OURS = "ours"
TIERS: tuple[Tier, ...] = ("point", "norm", "shift")


def public(names: Sequence[str]) -> list[Log]:
    """Return the public logs at hand."""
    folder = os.environ.get("LOSS_CURVES_DIR")
    return (
        [dict(read_training_log(Path(folder) / f"{name}.csv").history()) for name in names] if folder else []
    )


def loss_only(log: Log) -> Log:
    """Leave out everything but the loss."""
    return {name: log[name] for name in ("step", "loss")}


def quiet(logs: Sequence[Log], all_signals: bool) -> list[int]:
    """Return rows, point, norm and shift alarms, and spikes that an action was proposed for."""
    counts = [0, 0, 0, 0, 0]
    for log in logs:
        history = log if all_signals else loss_only(log)
        spikes = find_spikes(history)
        tiers = [alarm.tier for spike in spikes for alarm in spike.alarms]
        counts[0] += len(log["step"])
        for i, tier in enumerate(TIERS, 1):
            counts[i] += tiers.count(tier)
        counts[4] += sum(classify(history, spike).advice != "none" for spike in spikes)
    return counts


def per_10k(count: int, rows: int) -> str:
    """Return a rate with what was counted."""
    return f"{1e4 * count / rows:.2f} ({count})"


def false_alarms(logs: dict[str, list[Log]], limits: dict[str, float]) -> list[list[str]]:
    """Return a row for each rule: alarms and actions per 10,000 healthy rows."""
    rows = []
    for label, all_signals in (("ours, loss only", False), ("ours, all signals", True)):
        line = [label]
        for group in logs.values():
            n, point, norm, shift, actions = quiet(group, all_signals)
            logged = (point + norm) / n * 1e4
            line += [f"{per_10k(shift, n)}; logged {logged:.1f}", per_10k(actions, n)]
        rows.append(line)
    for rule, alarms in RULES.items():
        for label, limit in ((rule, None), (f"{rule}, at {limits[rule]:.3g}", limits[rule])):
            line = [label]
            for group in logs.values():
                n = sum(len(log["step"]) for log in group)
                found = [
                    alarms(log["loss"]) if limit is None else alarms(log["loss"], limit) for log in group
                ]
                actions = sum(len(episodes(rows_)) for rows_ in found)
                line += [per_10k(sum(map(len, found)), n), per_10k(actions, n)]
            rows.append(line)
    return rows


def places(logs: list[Log], synthetic: list[Log], each: int = 8) -> list[tuple[Log, int]]:
    """Return where incidents begin: `each` rows of every public log, one of every synthetic one."""
    found = []
    for i, log in enumerate([*logs, *synthetic]):
        n, rng = len(log["step"]), np.random.default_rng([30, i])
        count = each if i < len(logs) else 1
        found += [(log, int(row)) for row in rng.uniform(0.3 * n, 0.9 * n, count)]
    return found


def ours(log: Log, kind: str, row: int) -> tuple[float | None, bool, bool]:
    """Return the delay of the first alarm in rows, whether the class is right, and whether the advice is."""
    history = loss_only(splice(log, kind, row))
    start, cadence = int(history["step"][row]), int(history["step"][1] - history["step"][0])
    history = {
        name: column[max(row - 2000, 0) :] for name, column in history.items()
    }  # it forgets what was before
    wanted = ("point", "shift", "norm") if kind == "one-row outlier" else ("shift", "nonfinite")
    spike: Spike
    for spike in find_spikes(history):
        hits = [
            a.step for a in spike.alarms if a.tier in wanted and 0 <= (a.step - start) / cadence <= WITHIN
        ]
        if hits:
            found = classify(history, spike)
            names, advice = INCIDENTS[kind][1:]
            return (hits[0] - start) / cadence, found.kind in names, found.advice in advice
    return None, False, False


def theirs(rule: str, limit: float | None, log: Log, kind: str, row: int) -> float | None:
    """Return the delay of a rule's first alarm in rows."""
    loss = splice(log, kind, row)["loss"]
    found = RULES[rule](loss) if limit is None else RULES[rule](loss, limit)
    found = found[(found >= row) & (found <= row + WITHIN)]
    return float(found[0] - row) if len(found) else None


def share(delays: Sequence[float | None]) -> str:
    """Return how many were found, and the median delay."""
    found = [x for x in delays if x is not None]
    return f"{len(found) / len(delays):.0%}" + (f", {median(found):.0f}" if found else "")


def incidents(where: list[tuple[Log, int]]) -> list[list[str]]:
    """Return a row for each kind of incident."""
    rows = []
    for kind in INCIDENTS:
        mine = [ours(log, kind, row) for log, row in where]
        seen = [x for x in mine if x[0] is not None]
        right = [f"{np.mean([x[i] for x in seen]):.0%}" if seen else "" for i in (1, 2)]
        line = [kind, f"**{share([x[0] for x in mine])}**", " / ".join(right)]
        line += [share([theirs(rule, None, log, kind, row) for log, row in where]) for rule in RULES]
        rows.append(line)
    return rows


def numpy_pass(signals: Sequence[np.ndarray]) -> None:
    """Look once at the windows that the detector looks at, as plain numpy would after a step."""
    for size in (8, 16, 64, 256):
        np.median(signals[0][-size:])
    for signal in signals:
        centre = np.median(signal[-128:])
        np.median(np.abs(signal[-128:] - centre))


def best(function: Callable[[], object], repeats: int) -> float:
    """Return the shortest CPU time of several runs."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


def costs(rows: int = 20_000) -> list[list[str]]:
    """Return what a step and a whole log cost."""
    log = {name: column[:rows] for name, column in healthy(7, rows).items()}
    log["v_norm"] = 0.1 + 0.01 * np.random.default_rng(0).standard_normal(rows) ** 2
    log["step"] = np.arange(rows, dtype=float)
    for row in range(2000, rows - 1000, 2500):
        log["loss"][row:] += INCIDENTS["like BLOOM 176B"][0](np.arange(rows - row, dtype=float))
    names = [n for n in log if n != "step"]
    table = [dict(zip(names, x, strict=True)) for x in zip(*(log[n].tolist() for n in names), strict=True)]

    def watch() -> None:
        detector = Detector()
        for step, signals in enumerate(table):
            detector.observe(step, signals)

    def look() -> None:
        for _ in range(200):
            numpy_pass(five)

    def name_all() -> None:
        for spike in find_spikes(log):
            classify(log, spike)

    five = [log[n][:1024] for n in ("loss", "grad_norm", "update_norm", "param_norm", "v_norm")]
    step, whole = best(watch, 3) / rows, best(name_all, 2)
    bare = best(look, 5) / 200
    return [
        ["one numpy pass over the same windows", f"{1e6 * bare:.0f} us", "1"],
        [f"`observe`, {len(names)} signals", f"{1e6 * step:.1f} us", f"{step / bare:.2f}"],
        [
            f"`find_spikes` and `classify`, {rows:,} rows, {len(find_spikes(log))} spikes",
            f"{whole:.2f} s",
            f"{whole / rows / bare:.2f} a row",
        ],
    ]


def main() -> None:
    """Print the tables, or write them."""
    from experiments.benchmarks.tables import markdown, write

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    arguments = parser.parse_args()
    first, second = public(FIRST_FILES), public(SECOND_FILES)
    learned = [healthy(seed) for seed in FIRST]
    unseen = [healthy(seed) for seed in SECOND]
    limits = {rule: silenced(rule, [log["loss"] for log in [*first, *learned]]) for rule in RULES}
    groups = {"synthetic, second half": unseen}
    if second:
        groups = {"public, first half": first, "public, second half": second, **groups}
    head = ["rule", *(f"{what}, {name}" for name in groups for what in ("alarms", "actions"))]
    texts = [markdown(head, false_alarms(groups, limits))]
    head = ["incident", "ours: found, delay", "class / advice right", *RULES]
    if second:
        texts += ["Spliced into the public logs of the second half, 8 places each:"]
        texts += [markdown(head, incidents(places(second, [])))]
    texts += [f"Spliced into {SPLICED} synthetic logs of the second half:"]
    texts += [markdown(head, incidents(places([], unseen[:SPLICED])))]
    texts += [markdown(["what", "CPU time", "numpy passes"], costs())]
    if not second:
        texts.insert(0, "LOSS_CURVES_DIR was not set: the public logs are left out.")
    text = "\n\n".join(texts)
    print(text, flush=True)
    if arguments.write:
        write("spike_detection", text)


if __name__ == "__main__":
    main()
