"""Signals ask; the loop answers when it is safe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reference_trainer.signals import Stop

ROOT = Path(__file__).parents[2]


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_request_is_a_flag(name):
    before = signal.getsignal(getattr(signal, name))
    with Stop() as stop:
        assert stop.requested is None
        send(getattr(signal, name))
        assert stop.requested == name and not stop.save_requested
        send(signal.SIGTERM)
        assert stop.requested == name  # the first is the reason
    assert signal.getsignal(getattr(signal, name)) is before


def test_a_second_interrupt_does_not_wait():
    with Stop() as stop:
        send(signal.SIGTERM)
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        assert stop.requested == "SIGTERM"


def test_save_and_go_on():
    with Stop() as stop:
        send(signal.SIGUSR1)
        assert stop.save_requested and stop.requested is None


def test_handlers_come_back_after_an_error_and_from_inside():
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = [signal.getsignal(n) for n in numbers]
    with pytest.raises(RuntimeError), Stop() as outer:
        with Stop() as inner:
            send(signal.SIGTERM)
        assert inner.requested and not outer.requested
        send(signal.SIGTERM)
        assert outer.requested
        raise RuntimeError
    assert [signal.getsignal(n) for n in numbers] == before


def test_other_threads_have_no_signals():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work() -> None:
        with Stop() as stop:
            seen.append((signal.getsignal(signal.SIGTERM) is before, stop.requested))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(True, None)]


def test_a_signal_inside_a_long_kernel_waits_for_its_end():
    """SIGTERM comes while the main thread is inside one call into torch: the call ends, then the flag is read."""
    code = """
import os, signal, threading, time, torch
from reference_trainer.signals import Stop
torch.set_num_threads(1)
a = torch.rand(1500, 1500)
with Stop() as stop:
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    while not stop.requested:
        b = a @ a
assert torch.equal(b, a @ a)
print(stop.requested)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout.strip(), done.returncode) == ("SIGTERM", 0), done.stderr
