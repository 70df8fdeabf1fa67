"""Errors as a person or a program reads them, and the exit codes.

===  ==================================================================================
0    fine
1    a negative verdict: the data do not determine what was asked; what they do is shown
2    bad input: a table, an argument or a path that cannot be used
3    a fault of the program itself, with its traceback
130  stopped with Ctrl-C
===  ==================================================================================
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import typer

from scaling.cli.output import OutputError, as_options, note, say, say_json
from scaling.errors import NotIdentifiedError, ScalingError

FINE, NEGATIVE, BAD_INPUT, FAULT = 0, 1, 2, 3

#: Unknown options, missing arguments. Newer typer brings its own copy of click: this finds the class in both.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def run(command: Callable[[], Any], *, as_json: bool, spelling: Callable[[str], str] = as_options) -> int:
    """Run a command and return its exit code; errors are shown, never raised.

    Parameters
    ----------
    command : callable
        What to run; an int it returns is the exit code.
    as_json : bool
        Whether errors are JSON documents.
    spelling : callable
        Writes the Python names in a message as those of the command line.
    """
    try:
        return _run(command, as_json, spelling)
    except OutputError as error:  # there is nowhere to put a document
        note(f"error: cannot write to standard output: {error}", "red")
        return BAD_INPUT


def _run(command: Callable[[], Any], as_json: bool, spelling: Callable[[str], str]) -> int:
    try:
        code = command()
        return code if isinstance(code, int) else FINE
    except OutputError:
        raise
    except NotIdentifiedError as error:
        _negative(error, as_json, spelling)
        return NEGATIVE
    except (ScalingError, OSError, _UsageError) as error:
        _bad_input(error, as_json, spelling)
        return BAD_INPUT
    except typer.Abort:
        return 130
    except SystemExit as end:
        # A page of help into a pipe that closed (`scaling --help | head -3`) is no failure.
        if isinstance(end.__context__, BrokenPipeError):
            return FINE
        raise
    except Exception as error:
        if as_json:
            say_json(_document("fault", f"{type(error).__name__}: {error}", FAULT))
        traceback.print_exc(file=sys.stderr)
        note(
            "This is a fault of the program, not of your data: please report it with the lines above.", "red"
        )
        return FAULT


def _negative(error: NotIdentifiedError, as_json: bool, spelling: Callable[[str], str]) -> None:
    message = spelling(str(error))
    if as_json:
        document = _document(_code(error), message, NEGATIVE, _evidence(error))
        document["partial"] = partial_answer(error)
        say_json(document)
        return
    say(f"verdict    not identified\n{message}")
    if hasattr(error.partial, "summary"):
        say("what the runs do determine:\n" + _indented(error.partial.summary()))
    elif isinstance(error.partial, tuple):
        lines = [_indented(repr(part)) for part in error.partial if getattr(part, "curves", None)]
        say("\n".join(["what the runs do determine:", *lines]))


def _bad_input(error: Exception, as_json: bool, spelling: Callable[[str], str]) -> None:
    if isinstance(error, OSError) and not isinstance(error, ScalingError):
        where = f"{error.filename}: " if error.filename else ""
        message, code = f"{where}{error.strerror or error}", "os_error"
    elif isinstance(error, _UsageError):
        message, code = _usage(error), "usage_error"
    else:
        message, code = spelling(str(error)), _code(error)
    if as_json:
        say_json(_document(code, message, BAD_INPUT, _evidence(error)))
    else:
        note(f"error: {message}", "red")


def partial_answer(error: NotIdentifiedError) -> Any:
    """Return what an unidentified table does determine, as plain types; None where that is nothing."""
    partial = error.partial
    if hasattr(partial, "ci"):
        return {
            "law": type(partial.law).__name__,
            "variables": list(partial.variables),
            "coefficients": {name: partial.ci(name).to_dict() for name in partial.law.COEFFICIENTS},
        }
    return list(partial) if isinstance(partial, tuple) else partial


def _document(code: str, message: str, exit_code: int, evidence: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message, "evidence": evidence or {}}
    return {"error": error, "exit_code": exit_code}


def _evidence(error: Exception) -> dict[str, Any]:
    """Return the attributes in which an error carries its numbers."""
    if not isinstance(error, ScalingError):
        return {}
    return {k: v for k, v in vars(error).items() if k != "partial" and not _is_object(v)}


def _is_object(value: Any) -> bool:
    return is_dataclass(value) and bool(fields(value))


def _code(error: Exception) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    hint = f"\nTry '{context.command_path} --help'." if context is not None else ""
    return f"{error.format_message()}{hint}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
