"""How large the worked case is on which device: read from ``profiles.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from scaling.errors import DataError
from scaling.units import parse_count

FILE = Path(__file__).with_name("profiles.toml")


@dataclass(frozen=True)
class Profile:
    """One device.

    Parameters
    ----------
    name : str
    jobs : int
        Workers of the ladder.
    usd_per_hour, cap_usd : float
        Price of the machine; cap on everything that is trained.
    owned : bool
        The machine is one's own: hours in which nothing runs cost nothing.
    device : str
        As in a training configuration.
    tokenizer : str
        As in `reference_trainer.data.tokenizers.load_tokenizer`.
    n_boot : int
        Bootstrap refits.
    ladder, spike : dict
        Settings of the ladder, and of the run that is hurt.
    """

    name: str
    jobs: int
    usd_per_hour: float
    cap_usd: float
    owned: bool
    device: str
    tokenizer: str
    n_boot: int
    ladder: dict[str, Any]
    spike: dict[str, Any]

    @property
    def budgets(self) -> tuple[int, ...]:
        """Token budgets of the ladder, ascending."""
        return tuple(sorted(int(parse_count(t)) for t in self.ladder["tokens"]))

    @property
    def most_tokens(self) -> int:
        """Training tokens of the longest run."""
        return max(*self.budgets, int(parse_count(self.spike["tokens"])))


def read_profile(name: str, *, cap_usd: float | None = None, file: Path = FILE) -> Profile:
    """Read a profile.

    Parameters
    ----------
    name : str
        A section of the file.
    cap_usd : float, optional
        Another cap.
    file : pathlib.Path
        TOML.

    Raises
    ------
    DataError
        There is none of this name, or it lacks something.
    """
    found = tomllib.loads(file.read_text(encoding="utf-8"))
    if name not in found:
        near = get_close_matches(name, found, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(found)}"
        raise DataError(f"X1_PROFILE: no profile {name!r}; {hint}", source=str(file), column="X1_PROFILE")
    given = {"name": name, **found[name]}
    if cap_usd is not None:
        given["cap_usd"] = cap_usd
    missing = {field.name for field in fields(Profile)} - set(given)
    other = set(given) - {field.name for field in fields(Profile)}
    if missing or other:
        what = (
            f"lacks {', '.join(sorted(missing))}" if missing else f"has no use for {', '.join(sorted(other))}"
        )
        raise DataError(f"{file}: profile {name} {what}", source=str(file))
    return Profile(**given)
