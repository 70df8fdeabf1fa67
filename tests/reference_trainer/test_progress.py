"""What a person sees, on a terminal and in a file."""

from __future__ import annotations

import io
import sys

import pytest

from reference_trainer.progress import Progress, summary

NUMBERS = {"loss": 3.14159, "tokens_per_s": 61_234.0, "mfu_palm": 0.412, "usd": 1.25, "usd_projected": 19.5,
           "eta_s": 5400.0}  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_one_line():
    assert summary(1200, 10_000, NUMBERS) == (
        "step 1,200/10,000  loss 3.1416  61.2K tokens/s  MFU 41.2%  $1.25 of $19.50  1.5 h left"
    )
    assert summary(1200, float("inf"), {"loss": float("nan")}) == "step 1,200  loss nan"


def test_plain_lines_in_a_file():
    """One for every print_every steps, however the readings fall, and always the last."""
    stream = io.StringIO()
    with Progress(1003, print_every=100, stream=stream) as progress:
        for step in (*range(10, 1000, 30), 1003):
            progress.update(step, NUMBERS)
        progress.say("done")
    lines = stream.getvalue().splitlines()
    assert [line.split()[1].split("/")[0].replace(",", "") for line in lines[:-1]] == [
        "10", "100", "220", "310", "400", "520", "610", "700", "820", "910", "1003",
    ]  # fmt: skip
    assert lines[-1] == "done" and "\x1b" not in stream.getvalue()


def test_a_line_that_moves_on_a_terminal():
    pytest.importorskip("rich")
    stream = Terminal()
    with Progress(10, stream=stream) as progress:
        for step in range(1, 11):
            progress.update(step, NUMBERS)
        progress.say("[a] line that stays")
    text = stream.getvalue()
    assert "\x1b[" in text and "step 10/10" in text and "[a] line that stays" in text
    assert 1 <= text.count("step ") < 10  # not redrawn at every step


def test_without_rich_a_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    with Progress(2, print_every=1, stream=stream) as progress:
        progress.update(1, NUMBERS)
        progress.update(2, NUMBERS)
    assert stream.getvalue().count("\n") == 2 and "\x1b" not in stream.getvalue()


def test_other_processes_are_silent():
    stream = Terminal()
    with Progress(10, rank=1, stream=stream) as progress:
        progress.update(10, NUMBERS)
        progress.say("text")
    assert stream.getvalue() == ""


def test_the_end_may_move():
    stream = io.StringIO()
    with Progress(float("inf"), print_every=1, stream=stream) as progress:
        progress.update(1, {})
        progress.update(2, {}, total=2)
    assert stream.getvalue().splitlines() == ["step 1", "step 2/2"]
