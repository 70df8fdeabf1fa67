"""From what people, drivers and price catalogs call an accelerator to its name in the table.

Names are looked up exactly, after letter case, separators and the vendor's words have been dropped. A part
of a name never matches: an unknown one is an error with the nearest names, and a name that several parts
share ("H100") is an error that lists them.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import cache

from economics.errors import AmbiguousGPU, UnknownGPU
from scaling.datasets import data_dir
from scaling.errors import shown

#: Words in front of a name that add nothing to it.
_VENDOR_WORDS = ("nvidia", "amd", "google", "cloud", "intel", "aws", "tesla", "geforce", "instinct")
_SLICE = re.compile(r"\bMIG\b|\b\d+g\.\d+gb\b|\bv?GPU profile\b", re.IGNORECASE)


def read_table(file: str) -> list[dict[str, str]]:
    """Return the rows of a table that ships in ``data/hardware``, as text."""
    with (data_dir("economics", "hardware") / file).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def normalise(name: str) -> str:
    """Return the form in which names are compared.

    Examples
    --------
    >>> normalise("NVIDIA A100-SXM4-80GB"), normalise("a100 sxm4 80 GB")
    ('a100sxm480gb', 'a100sxm480gb')
    """
    words = re.findall(r"[a-z0-9.+]+", name.casefold())
    while len(words) > 1 and words[0] in _VENDOR_WORDS:
        words = words[1:]
    return "".join(words)


@cache
def canonical_names() -> tuple[str, ...]:
    """Return every name of the table, in its order."""
    return tuple(row["name"] for row in read_table("gpu_specs.csv"))


@cache
def _lookup() -> dict[str, str]:
    """Every known spelling, normalised -> canonical name."""
    known: dict[str, str] = {}
    pairs = [(name, name) for name in canonical_names()]
    pairs += [(row["alias"], row["name"]) for row in read_table("gpu_aliases.csv")]
    for spelling, name in pairs:
        other = known.setdefault(normalise(spelling), name)
        if other != name:  # a fault of the table, not of the user: a test makes it impossible to ship
            raise UnknownGPU(f"{spelling!r} stands for both {other} and {name} in gpu_aliases.csv")
    return known


@cache
def _families() -> dict[str, tuple[str, ...]]:
    """Shortened names that leave memory or form factor open: "h100", "a100-80gb", "v100-16gb" ..."""
    shared: dict[str, list[str]] = defaultdict(list)
    for name in canonical_names():
        words = name.split("-")
        for n in range(1, len(words)):
            shared[normalise(" ".join(words[:n]))].append(name)
    return {key: tuple(names) for key, names in shared.items() if key not in _lookup()}


def resolve(name: str) -> str:
    """Return the canonical name of an accelerator.

    Parameters
    ----------
    name : str
        A name of the table, an alias, or the string a driver reports.

    Returns
    -------
    str

    Raises
    ------
    AmbiguousGPU
        The name leaves open which part is meant; `suggestions` has all that it may be.
    UnknownGPU
        No part has it; `suggestions` has the nearest names.

    Examples
    --------
    >>> resolve("H100 SXM"), resolve("NVIDIA L40S")
    ('H100-80GB-SXM', 'L40S')
    """
    if not isinstance(name, str):
        raise UnknownGPU(f"gpu must be a name such as 'H100 SXM' or a GPU, got {shown(name)}", column="gpu")
    key = normalise(name)
    if key in _lookup():
        return _lookup()[key]
    if _SLICE.search(name):
        raise UnknownGPU(
            f"{name!r} is a slice of an accelerator: its rates are a fraction that no table has. "
            "Name the whole part, or describe the slice with GPU(...).",
            column="gpu",
        )
    family = _families().get(key, ())
    if family:
        raise AmbiguousGPU(
            f"{name!r} leaves open which part is meant, and rates, memory and price differ: "
            f"say {' or '.join(family)}.",
            suggestions=family,
            column="gpu",
        )
    near = _nearest(key)
    raise UnknownGPU(
        f"no accelerator is called {shown(name)}: did you mean {', '.join(near)}? gpus() lists all of them; "
        "one that is missing is described with GPU(name=..., memory_gb=..., dense_tflops={...}).",
        suggestions=near,
        column="gpu",
    )


def _nearest(key: str, n: int = 3) -> tuple[str, ...]:
    """Return the n canonical names whose best spelling is most like the key; never none."""
    matcher = difflib.SequenceMatcher(b=key, autojunk=False)
    scores: dict[str, float] = {}
    for spelling, name in _lookup().items():
        matcher.set_seq1(spelling)
        # Drivers and people agree on the beginning of a name more than on its end.
        start = len(_common_start(spelling, key)) / max(len(spelling), len(key), 1)
        scores[name] = max(scores.get(name, 0.0), matcher.ratio() + start)
    return tuple(sorted(scores, key=lambda name: -scores[name])[:n])


def _common_start(a: str, b: str) -> str:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return a[:n]


@cache
def _instances() -> tuple[tuple[str, str, str], ...]:
    return tuple((row["provider"], row["instance"], row["gpu"]) for row in read_table("instance_gpus.csv"))


def from_instance(provider: str, instance: str) -> str | None:
    """Return the accelerator that an instance type of a cloud holds, or None where it is not known.

    A catalog that says "A100 80 GB" leaves the form factor open; the instance type closes it.

    Examples
    --------
    >>> from_instance("aws", "p4de.24xlarge"), from_instance("azure", "Standard_NC24ads_A100_v4")
    ('A100-80GB-SXM', 'A100-80GB-PCIe')
    """
    instance = instance.casefold()
    for known, pattern, gpu in _instances():
        if known == provider and fnmatchcase(instance, pattern):
            return gpu
    return None
