"""Reading a plan: from a TOML file or a dictionary to `Plan`, with every fault named at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from economics.errors import EconomicsError
from economics.plan_schema import Plan
from scaling.errors import DataError, shown


class PlanError(EconomicsError, DataError):
    """A plan cannot be read; `problems` has every fault, `rows` the lines of the file where they are known."""

    def __init__(self, message: str, *, problems: Sequence[str] = (), **evidence: Any) -> None:
        super().__init__(message, **evidence)
        self.problems = tuple(problems)


def read_plan(plan: str | Path | Mapping[str, Any] | Plan) -> Plan:
    """Read a plan.

    Parameters
    ----------
    plan : str, Path, mapping or Plan
        Path of a TOML file, or its content as a dictionary.

    Raises
    ------
    PlanError
        No file, no TOML (with the line), an unknown key (with the nearest known one), or a value that is none. All
        faults are named, not only the first.

    Examples
    --------
    >>> read_plan({"data": {"tokens": "5B"}}).data.tokens
    5000000000.0
    >>> read_plan({"data": {"token": "5B"}})
    Traceback (most recent call last):
      ...
    economics.plan_reading.PlanError: the plan: [data] has no key 'token'; did you mean 'tokens'?
    """
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, Mapping):
        return _validated(dict(plan), "the plan", "")
    if not isinstance(plan, str | Path):
        raise PlanError(
            f"a plan is the path of a TOML file or a dictionary of its sections, got {type(plan).__name__}"
        )
    if isinstance(plan, str) and ("\n" in plan or not plan.strip()):
        raise PlanError(
            "a plan is the path of a TOML file, got "
            + (
                "its text: give economics.plan_reading.read_plan_text(text, name)"
                if plan.strip()
                else "nothing"
            )
        )
    path = Path(plan)
    name = str(path) if len(str(path)) <= 300 else f"{str(path)[:300]}..."
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlanError(f"{name}: not UTF-8 text: {error}", source=name) from error
    except OSError as error:
        raise PlanError(
            f"{name}: the file of the plan cannot be read: {error.strerror}", source=name
        ) from error
    except ValueError as error:  # a path with a zero in it
        raise PlanError(f"{name!r} is no path: {error}") from error
    return read_plan_text(text, str(path))


def read_plan_text(text: str, source: str) -> Plan:
    """Read a plan from TOML text; `source` names it in messages, errors as in `read_plan`."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _line_number(str(error))
        raise PlanError(
            f"{source}: no valid TOML: {error}{_hint(text, line)}",
            problems=[str(error)],
            source=source,
            rows=[line] if line else [],
        ) from error
    return _validated(content, source, text)


def _line_number(message: str) -> int | None:
    match = re.search(r"at line (\d+)", message)
    return int(match[1]) if match else None


def _hint(text: str, line: int | None) -> str:
    """Show the line at fault, and say what is often wrong with it."""
    lines = text.splitlines()
    if line is None or line > len(lines):
        return ""
    shown = lines[line - 1].strip()
    value = shown.partition("=")[2].strip()
    quotes = " (text and counts such as 50M need quotes)" if re.match(r"\d[\d_.]*\s*[A-Za-z%]", value) else ""
    return f": {shown}{quotes}"


def _validated(content: dict[str, Any], source: str, text: str) -> Plan:
    try:
        return Plan.model_validate(content)
    except ValidationError as error:
        found = [_problem(e, text) for e in error.errors()]
        problems = [words for words, _ in found]
        raise PlanError(
            f"{source}: {'; '.join(problems)}",
            problems=problems,
            source=source,
            rows=[line for _, line in found if line],
        ) from error


def _problem(error: Any, text: str) -> tuple[str, int | None]:
    """Put one fault into words, with its line in the file where it can be found."""
    path = [part for part in error["loc"] if not (isinstance(part, str) and part.startswith("function-"))]
    key = str(path[-1]) if path else ""
    section = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path[:-1]).lstrip(".")
    line = _find_line(text, path)
    at = f" (line {line})" if line else ""
    if error["type"] == "extra_forbidden":
        keys = _keys(path[:-1])
        near = get_close_matches(key.casefold().replace("-", "_"), keys, n=1, cutoff=0.5)
        owner = next((s for s in _sections() if key in _keys([s])), None)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(keys)}"
        if owner and not near:
            hint = f"it belongs in [{owner}]"
        where = f"[{section}]" if section else "a plan"
        return f"{where} has no key {key!r}{at}; {hint}", line
    name = ".".join(filter(None, (section, key))) or "the plan"
    if error["type"] == "missing":
        return f"{name} is missing{at}", line
    message = str(error["msg"]).removeprefix("Value error, ")
    seen = "" if isinstance(error["input"], dict | BaseModel) else f", got {shown(error['input'])}"
    seen = "" if seen and repr(error["input"]) in message else seen
    return f"{name}{at}: {message}{seen}", line


def _sections() -> Iterator[str]:
    return (name for name in Plan.model_fields if _model(Plan.model_fields[name].annotation))


def _keys(path: Sequence[Any]) -> list[str]:
    """Keys that the section at a path knows."""
    at: type[BaseModel] = Plan
    for part in path:
        if isinstance(part, str) and part in at.model_fields:
            at = _model(at.model_fields[part].annotation) or at
    return list(at.model_fields)


def _model(annotation: Any) -> type[BaseModel] | None:
    """Return the section in an annotation such as ``list[Section]`` or ``Section | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model(a))), None)


def _find_line(text: str, path: Sequence[Any]) -> int | None:
    """Find the line of a key of a section; the n-th ``[[section]]`` for a key of its n-th element."""
    names = [part for part in path if isinstance(part, str)]
    numbers = [part for part in path if isinstance(part, int)]
    if not text or not names:
        return None
    header, seen, wanted = "", 0, numbers[0] if numbers else 0
    for n, line in enumerate(text.splitlines(), start=1):
        table = re.fullmatch(r"\s*(\[\[?)\s*([\w.]+)\s*\]\]?\s*(#.*)?", line)
        if table:
            header = table[2]
            seen += header == ".".join(names[:-1]) and table[1] == "[["
            if header == ".".join(names):
                return n
        elif (
            header == ".".join(names[:-1])
            and re.match(rf"\s*[\"']?{re.escape(names[-1])}[\"']?\s*=", line)
            and (not seen or seen - 1 == wanted)
        ):
            return n
    return None
