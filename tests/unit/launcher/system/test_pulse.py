"""Whether a process's loop turns, as others see it: of a real process, stopped, stuck and at work."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from dtfctl.launcher.providers import host_agent
from dtfctl.launcher.system.procfs import ProcessId, identify
from dtfctl.launcher.system.pulse import Pulse, hangs, silence_of
from tests.support.waiting import eventually

BEATS = """
import sys, time
from dtfctl.launcher.system.pulse import Pulse
pulse = Pulse()
print(pulse.fd, flush=True)
while not sys.stdin.readline():
    pulse.beat()
    time.sleep(0.01)
"""


@pytest.fixture
def beating() -> Iterator[tuple[subprocess.Popen[str], ProcessId, int]]:
    """A process whose loop turns until it is told something."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    with subprocess.Popen([sys.executable, "-c", BEATS], stdin=read, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        fd = int(process.stdout.readline())
        found = identify(process.pid)
        assert found is not None
        yield process, found, fd
        process.kill()
        os.close(read)
        os.close(write)


def as_info(process: ProcessId, fd: int) -> dict[str, int]:
    return {"pid": process.pid, "start_ticks": process.start_ticks, "pulse": fd}


def test_one_whose_loop_turns_does_not_hang(beating: tuple[subprocess.Popen[str], ProcessId, int]) -> None:
    _, process, fd = beating
    looked = time.monotonic()
    eventually(lambda: (silence_of(process, fd) or math.inf) < time.monotonic() - looked)  # it has turned since
    assert not hangs(process, fd, 60.0)
    assert not host_agent.hangs(as_info(process, fd), 60.0)
    silence = silence_of(process, fd)
    assert silence is not None and silence < 60.0


def test_one_that_is_stopped_hangs_at_once(beating: tuple[subprocess.Popen[str], ProcessId, int]) -> None:
    running, process, fd = beating
    running.send_signal(signal.SIGSTOP)
    eventually(lambda: hangs(process, fd, 1e6))
    assert host_agent.hangs(as_info(process, fd), 1e6)
    running.send_signal(signal.SIGCONT)
    eventually(lambda: not hangs(process, fd, 1e6))


def test_one_whose_loop_stands_hangs_after_its_time() -> None:
    pulse, me = Pulse(), identify(os.getpid())
    assert me is not None
    try:
        assert not hangs(me, pulse.fd, 60.0)
        eventually(lambda: hangs(me, pulse.fd, 0.2))
        assert host_agent.hangs(as_info(me, pulse.fd), 0.2)
        pulse.beat()
        assert not hangs(me, pulse.fd, 60.0)
    finally:
        os.close(pulse.fd)


def test_without_evidence_nothing_is_said_to_hang() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert not hangs(me, None, 0.0)
    assert not hangs(me, 10**6, 0.0), "no such file"
    assert not hangs(ProcessId(me.pid, me.start_ticks + 1), None, 0.0), "another process by now"
    assert not host_agent.hangs({"pid": me.pid, "start_ticks": me.start_ticks}, 0.0), "an older agent"
