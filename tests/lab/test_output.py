"""What jobs and commands on hosts write arrives whole, also when what carries it is killed on the way."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import PartlyDone
from dtfctl.launcher.spec.model import Health, Logs
from tests.cluster.commands import Shell, command
from tests.cluster.conftest import STUB_COMMAND, controller_pid, kill, wait_until
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab

CRASHES = f"""#!{sys.executable}
import os
import sys
lines, length = int(sys.argv[1]), int(sys.argv[2])
fill = "x" * (length - 9)
for number in range(0, lines, 1000):
    sys.stdout.write("".join("%08d%s\\n" % (n, fill) for n in range(number, number + 1000)))
sys.stdout.flush()
os.write(2, b"the last words\\n")
os._exit(41)
"""
RATE = 8 * 2**20
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[int], Lab]) -> Lab:
    return make_lab(2)


@pytest.fixture
def start(shell: Shell) -> Iterator[Start]:
    """Runs a command beside the test."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        made.append(subprocess.Popen(command(*arguments), cwd=shell.folder, env=shell.env, stdout=pipe, stderr=pipe))
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.wait()


@pytest.fixture
def shell(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A cluster with little room for logs."""
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "home"))
    (tmp_path / "crashes.py").write_text(CRASHES)
    # Time for new agents, so that no host counts as lost: its job would begin again, with output of its own.
    health = Health(pause=60.0, down_after=90.0, lease=300.0)
    spec = cluster_of(lab, ps=0, logs=Logs(rotate=4 * 2**20, keep=3, rate=RATE), health=health)
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert result.cluster is not None
    try:
        yield Shell(tmp_path, {**os.environ, "NO_COLOR": "1"})
    finally:
        result.cluster.down(grace_s=1.0)


@pytest.mark.parametrize("megabytes", [24, pytest.param(1000, marks=pytest.mark.nightly)])
def test_every_line_before_a_crash_arrives_though_controller_and_agents_are_killed(
    start: Start, lab: Lab, megabytes: int
) -> None:
    """More than the logs hold, at more than their rate; who follows has all of it, and nobody's memory grows by it."""
    count, length = megabytes * 2000, 500
    words = ("--workers", "1", "--framework", "command", "crashes.py", str(count), str(length))
    job = start("submit", "--id", "flood-1", *words)
    assert job.stdout is not None
    assert job.stderr is not None
    said: list[bytes] = []
    hears = threading.Thread(target=lambda stream: said.extend(stream), args=(job.stderr,), daemon=True)
    hears.start()
    cluster = Cluster.open()
    peak = 0
    for number, line in enumerate(job.stdout):
        assert line == b"%08d%s\n" % (number, b"x" * (length - 9))
        if number == count // 4:
            os.kill(controller_pid(cluster), signal.SIGKILL)
        if number == count // 2:
            for name in lab.names:
                for pid in lab.processes(name, "dtfctl.launcher.agent "):
                    os.kill(pid, signal.SIGKILL)
        if number % 1000 == 0:
            peak = max(peak, rss_of(job.pid))
    assert number == count - 1
    assert job.wait() == 41
    hears.join()
    assert b"the last words\n" in said
    assert not any(b"dropped" in line for line in said)
    assert peak < 150e6


def test_what_rotation_deletes_before_it_is_read_is_said_in_its_place(shell: Shell) -> None:
    words = ("--workers", "1", "--framework", "command", "crashes.py", "24000", "1000")
    assert shell.process("submit", "--detach", "--id", "flood-2", *words).returncode == 0
    cluster = Cluster.open()
    wait_until(lambda: cluster.job("flood-2").is_final, "the job ends")
    mark, *lines = shell("logs", "flood-2").stdout.splitlines()
    assert mark.startswith("worker/0 | dtfctl: \u2026 ")
    assert "MB of output dropped here by the limits logs.rotate and logs.keep" in mark
    assert lines.pop() == "worker/0 | the last words"
    first = int(lines[0].split(" | ")[1][:8])
    assert [line.split(" | ")[1][:8] for line in lines] == [f"{number:08d}" for number in range(first, 24_000)]


def test_what_a_command_writes_arrives_whole_and_at_the_pace_of_its_reader(start: Start, lab: Lab) -> None:
    size = 200_000_000
    run = start("exec", "worker/0", "--", "sh", "-c", f"head -c {size} /dev/zero; echo end >&2; exit 7")
    assert run.stdout is not None
    got, peak = 0, 0
    while data := run.stdout.read(2**20):
        got += len(data)
        agents = [pid for name in lab.names for pid in lab.processes(name, "dtfctl.launcher.agent ")]
        peak = max(peak, *(rss_of(pid) for pid in (run.pid, controller_pid(Cluster.open()), *agents)))
    assert got == size
    assert run.wait() == 7
    assert run.stderr is not None
    assert run.stderr.read() == b"end\n"
    assert peak < 200e6


def test_what_a_task_wrote_is_read_where_it_ran_before_it_moved(shell: Shell, lab: Lab) -> None:
    cluster = Cluster.up(cluster_of(lab, ps=0, worker=1), task_command=STUB_COMMAND).cluster
    assert cluster is not None
    first = cluster.status().tasks[0].host

    def output(**chosen: Any) -> list[str]:
        """Return the incarnations whose first line is given, in the order of time."""
        return [item.text.split()[2] for item in cluster.logs("worker/0", **chosen)]

    before = wait_until(output, "it has said so")
    cluster.drain([first], reason="new disks")
    told = wait_until(lambda: (now := output()) != before and now, "it has begun elsewhere")
    assert told[:-1] == before
    assert cluster.status().tasks[0].host != first
    assert (output(tail=1), output(previous=True)) == (told[-1:], before[-1:])
    assert next(iter(cluster.attach("worker/0", tail=1))).text.startswith(f"worker/0 incarnation {told[-1]}")
    kill(controller_pid(cluster))
    assert output() == told, "the next controller knows it, too"
    name = next(host.name for host in lab.hosts if host.address == first)
    lab.cut(name)
    try:
        with pytest.raises(PartlyDone, match=re.escape(first)):
            output()
    finally:
        lab.mend(name)


def rss_of(pid: int) -> float:
    """Bytes of memory of a process and, for none, 0."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except FileNotFoundError:
        return 0.0
