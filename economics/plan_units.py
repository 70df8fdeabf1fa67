"""Units of the formulas of a plan: what each is worth in base units, and its dimensions."""

from __future__ import annotations

from collections.abc import Mapping

_TIMES = {
    1.0: "s sec secs second seconds",
    60.0: "min mins minute minutes",
    3600.0: "h hr hrs hour hours",
    86400.0: "d day days",
    604800.0: "week weeks",
    2629800.0: "mo month months",
    31557600.0: "year years",
}
_BYTES = {
    1.0: "byte bytes",
    1e3: "kb",
    1e6: "mb",
    1e9: "gb",
    1e12: "tb",
    2.0**20: "mib",
    2.0**30: "gib",
    2.0**40: "tib",
}
_FLOPS = {
    1.0: "flop flops",
    1e9: "gflop gflops",
    1e12: "tflop tflops",
    1e15: "pflop pflops",
    1e18: "eflop eflops",
}
_WATTS = {1.0: "w watt watts", 1e3: "kw", 1e6: "mw"}
_JOULES = {3600.0: "wh", 3.6e6: "kwh", 3.6e9: "mwh"}
#: Things that are counted: "3 runs x 4 h" says no less than "3 x 4 h".
_THINGS = (
    "run job trial size seed node machine instance epoch restart interruption preemption phase experiment save "
    "checkpoint incident time"
)


def _units() -> dict[str, tuple[float, Mapping[str, int]]]:
    found: dict[str, tuple[float, Mapping[str, int]]] = {
        **{word: (1.0, {"steps": 1}) for word in ("step", "steps")},
        **{word: (1.0, {"tokens": 1}) for word in ("token", "tokens", "tok", "toks")},
        **{word: (1.0, {"$": 1}) for word in ("$", "usd", "dollar", "dollars")},
        **{
            word: (1.0, {"GPUs": 1})
            for word in ("gpu", "gpus", "accelerator", "accelerators", "chip", "chips")
        },
        **{word: (3600.0, {"GPUs": 1, "time": 1}) for word in ("gpuh", "gpuhour", "gpuhours")},
        **{word: (1.0, {"params": 1}) for word in ("param", "params", "parameter", "parameters")},
    }
    for table, dimensions in (
        (_TIMES, {"time": 1}),
        (_BYTES, {"bytes": 1}),
        (_FLOPS, {"FLOPs": 1}),
        (_WATTS, {"energy": 1, "time": -1}),
        (_JOULES, {"energy": 1}),
    ):
        found |= {word: (worth, dimensions) for worth, words in table.items() for word in words.split()}
    for thing in _THINGS.split():
        found[thing] = found[f"{thing}s"] = (1.0, {f"{thing}s": 1})
    return found


#: Unit in lower case -> what it is worth in base units (s, bytes, FLOP, J), and its dimensions. A month is
#: 1/12 of 365.25 days.
UNITS = _units()

#: Dimensions that only count things: one left over changes no unit.
COUNTED = frozenset(f"{thing}s" for thing in _THINGS.split())

#: Numbers that convert between units when they stand alone: seconds, minutes, hours and days of one another,
#: prefixes.
CONVERSIONS = frozenset(
    {7.0, 24.0, 30.0, 60.0, 168.0, 365.0, 720.0, 730.0, 1440.0, 3600.0, 86400.0}
    | {1e3, 1e6, 1e9, 1e12, 1e15, 1024.0, 2.0**20, 2.0**30}
)
