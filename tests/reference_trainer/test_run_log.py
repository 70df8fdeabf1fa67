"""A log that a resumed run continues to the byte."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reference_trainer.errors import LogError
from reference_trainer.run_log import RunLog, read_log

ROOT = Path(__file__).parents[2]


def rows(begin: int, end: int) -> list[dict]:
    """Rows that are a function of the step."""
    return [
        {"step": step, "loss": random.Random(step).random(), "norm": math.nan if step % 7 == 0 else step / 3}
        for step in range(begin, end)
    ]


def test_floats_come_back_to_the_bit(tmp_path):
    draw = random.Random(0)
    numbers = [struct.unpack("d", draw.randbytes(8))[0] for _ in range(500)]
    numbers += [math.inf, -math.inf, math.nan, 5e-324, 0.1 + 0.2, -0.0]
    with RunLog(tmp_path / "log.jsonl", 0) as log:
        for step, number in enumerate(numbers):
            log.append("step", step, {"loss": number, "count": step, "why": "text", "ok": True, "none": None})
    found = list(read_log(tmp_path / "log.jsonl"))
    assert [struct.pack("d", row["loss"]) for row in found if row["loss"] == row["loss"]] == [
        struct.pack("d", n) for n in numbers if n == n
    ]
    assert sum(row["loss"] != row["loss"] for row in found) == sum(n != n for n in numbers)
    assert found[3] | {"loss": 0} == {"kind": "step", "step": 3, "loss": 0, "count": 3, "why": "text", "ok": True,
                                      "none": None}  # fmt: skip


def test_every_line_is_json_that_others_read(tmp_path):
    """NaN and Infinity are no JSON: strict readers must not stumble over them."""
    with RunLog(tmp_path / "log.jsonl", 0) as log:
        log.extend("step", [{"step": 1, "a": math.nan, "b": math.inf, "c": -math.inf}])
    text = (tmp_path / "log.jsonl").read_text()
    assert text == '{"kind": "step", "step": 1, "a": "nan", "b": "inf", "c": "-inf"}\n'
    assert json.loads(text, parse_constant=pytest.fail)["a"] == "nan"


def test_stopped_anywhere_and_resumed_the_file_is_the_same(tmp_path):
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    with RunLog(whole, 0) as log:
        log.extend("step", rows(0, 100))
    with RunLog(cut, 0) as log:
        log.extend("step", rows(0, 40))
        at_checkpoint = log.sync()
        assert at_checkpoint == log.bytes == cut.stat().st_size
        log.extend("step", rows(40, 63))
    with open(cut, "ab") as file:
        file.write(b'{"kind": "step", "st')  # the kill came inside a write
    with RunLog(cut, at_checkpoint) as log:
        assert log.bytes == at_checkpoint
        log.extend("step", rows(40, 50))
    with RunLog(cut, at_checkpoint) as log:  # and once more from the same checkpoint
        log.extend("step", rows(40, 100))
    assert cut.read_bytes() == whole.read_bytes()


def test_the_log_of_times_loses_only_what_was_not_finished(tmp_path):
    path = tmp_path / "perf.jsonl"
    with RunLog(path, None) as log:
        log.append("perf", 10, {"tokens_per_s": 1e5, "note": "x" * 200_000})
    whole = path.read_bytes()
    with open(path, "ab") as file:
        file.write(b'{"kind": "perf", "step": 20, "note": "' + b"y" * 150_000)
    assert len(list(read_log(path))) == 1
    with RunLog(path, None) as log:
        assert log.bytes == len(whole)
        log.append("perf", 20, {"tokens_per_s": 2e5})
    assert path.read_bytes().startswith(whole) and [row["step"] for row in read_log(path)] == [10, 20]
    (tmp_path / "torn.jsonl").write_bytes(b"{" * 100_000)
    with RunLog(tmp_path / "torn.jsonl", None) as log:
        assert log.bytes == 0


def test_a_log_that_cannot_be_continued_is_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    with RunLog(path, 0) as log:
        log.extend("step", rows(0, 3))
        size = log.bytes
    content = path.read_bytes()
    with pytest.raises(
        LogError, match=rf"has {size} bytes, the checkpoint was saved at {size + 1}"
    ) as caught:
        RunLog(path, size + 1)
    assert caught.value.source == str(path)
    with pytest.raises(LogError, match="no row ends at byte"):
        RunLog(path, size - 1)
    assert path.read_bytes() == content
    path.write_bytes(content + b"not json\n" + content)
    with pytest.raises(LogError, match="line 4") as caught:
        list(read_log(path))
    assert caught.value.rows == (4,)


@pytest.mark.parametrize("values", [{"x": [1]}, {"x": object()}, {"step": 3}, {"kind": "other"}])
def test_only_flat_rows_are_written(tmp_path, values):
    with RunLog(tmp_path / "log.jsonl", 0) as log:
        with pytest.raises(LogError, match="a row is flat"):
            log.append("step", 1, values)
        assert log.bytes == 0 == (tmp_path / "log.jsonl").stat().st_size


def test_a_full_disk_leaves_no_half_row(tmp_path):
    """A limit on the size of files is what a full disk looks like to a log: some bytes go in, then none."""
    code = """
import resource, signal, sys
from reference_trainer.errors import LogError
from reference_trainer.run_log import RunLog, read_log
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
log = RunLog(sys.argv[1], 0)
try:
    for step in range(1000):
        log.append("step", step, {"loss": 1 / (step + 1)})
except LogError as error:
    print(error)
print(step, len(list(read_log(sys.argv[1]))), log.bytes)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append("step", step, {"loss": 1 / (step + 1)})
print([row["step"] for row in read_log(sys.argv[1])] == list(range(step + 1)))
"""
    path = tmp_path / "log.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    message, counts, right = done.stdout.splitlines()
    step, found, size = map(int, counts.split())
    assert message.startswith(f"{path}: the log cannot be written (File too large)")
    assert step == found > 10 and 900 < size <= 1000 and right == "True"


def test_a_killed_run_has_lost_no_row(tmp_path):
    """SIGKILL: what append() returned for is in the file."""
    code = """
import itertools, os, sys
from reference_trainer.run_log import RunLog
log = RunLog(sys.argv[1], 0)
for step in itertools.count():
    log.append("step", step, {"loss": step / 7})
    os.write(1, b"%d\\n" % step)
"""
    path = tmp_path / "log.jsonl"
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline()
    time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    said = child.stdout.read().split()
    child.wait(), child.stdout.close()
    steps = [row["step"] for row in read_log(path)]
    assert len(steps) >= int(said[-1]) + 1 and steps == list(range(len(steps)))


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="cannot be opened"):
        RunLog(tmp_path / "file" / "log.jsonl", 0)
