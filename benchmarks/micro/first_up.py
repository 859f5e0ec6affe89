"""python -m benchmarks.micro.first_up [HOSTS]: how long the first `up` takes on hosts that have nothing of dtfctl.

Makes that many hosts on this machine (`tests/lab/netns.py`: root, and OpenSSH's server), each with an empty home, and
brings up one real task on each: with nothing kept here from an `up` before but what is installed, then, on new hosts,
with the archives of the first time. Prints when the first and the last task ran, what went over the operator's own
link, and the CPU seconds of all that it has started; the cores of this machine do the work of all hosts.

The homes lie on a file system made for them (a loop device), as hosts have disks of their own: on one where many files
were removed in the last minutes, as after the lab before, ext4 takes twenty times as long to make one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import Event
from dtfctl.launcher.spec.model import TaskGroup
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab, why_not

TIMEOUT_S = 900.0
MIB = 2**20
HOST_BYTES = 512 * MIB
"""Room for one host."""


@contextlib.contextmanager
def new_lab(count: int) -> Iterator[Lab]:
    """Make hosts on a file system of their own, and remove both."""
    wanted = Lab.of_environment()
    image, disk = wanted.root.with_name(f"{wanted.root.name}.img"), wanted.root.with_name(f"{wanted.root.name}.disk")
    disk.mkdir()
    try:
        with image.open("wb") as file:
            file.truncate(2**30 + count * HOST_BYTES)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(disk)], check=True)
        try:
            lab = Lab(wanted.prefix, wanted.net, disk / "lab")
            lab.up(count)
            try:
                yield lab
            finally:
                lab.down()
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
    finally:
        image.unlink(missing_ok=True)
        disk.rmdir()


def sent_by_operator(lab: Lab) -> int:
    """Bytes that have left this machine for the hosts; what hosts send each other does not pass here."""
    return int(Path(f"/sys/class/net/{lab.bridge}/statistics/tx_bytes").read_text())


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], tuple[float, float]]]:
    """Count the CPU seconds, of programs and of the kernel for them, of this process and all that it starts."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    root = Path(next(where for _, where, kind, *_ in mounts if kind == "cgroup2"))
    before = root / Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
    group = root / f"dtf-first-up-{os.getpid()}"
    group.mkdir()

    def used() -> tuple[float, float]:
        said = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        return int(said["user_usec"]) / 1e6, int(said["system_usec"]) / 1e6

    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield used
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(100):
            if not (group / "cgroup.procs").read_text():
                break
            time.sleep(0.1)
        group.rmdir()


def measure(lab: Lab, what: str, used: Callable[[], tuple[float, float]], *, verbose: bool) -> None:
    """Bring a cluster up and take it down again."""
    count = len(lab.names)
    spec = cluster_of(lab, tasks={"worker": TaskGroup(count)}, slots=1, python=None)
    sent, before, begun = sent_by_operator(lab), used(), time.monotonic()
    ran: list[float] = []

    def hear(event: Event) -> None:
        took = time.monotonic() - begun
        if event.kind == "task.running":
            ran.append(took)
        if verbose:
            print(f"    {took:6.2f} {event.subject} {event.kind} {event.reason}")

    result = Cluster.up(spec, on_event=hear, timeout_s=TIMEOUT_S)
    took = time.monotonic() - begun
    print(f"{what}: {count} hosts, {result.running} of {result.wanted} tasks: up in {took:.1f} s", flush=True)
    for problem in result.problems:
        print(f"    {problem}")
    ran.sort()
    if ran:
        print(f"    the first task ran after {ran[0]:.1f} s, half of them after {ran[len(ran) // 2]:.1f} s")
    mib, (user, system) = (sent_by_operator(lab) - sent) / MIB, (b - a for a, b in zip(before, used(), strict=True))
    print(f"    {mib:.0f} MiB sent by this machine, {user + system:.1f} s of CPU on all hosts and here, ", end="")
    print(f"{system:.1f} s of it in the kernel; load {os.getloadavg()[0]:.1f}", flush=True)
    Cluster.down_by_name(spec.cluster, grace_s=0.5)


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    count = int(words[0]) if words else 4
    problem = why_not()
    if problem:
        print(f"needs a lab of SSH hosts, which {problem}", file=sys.stderr)
        return 2
    verbose = "-v" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DTFCTL_HOME"] = f"{folder}/home"
        for what in ("nothing prepared", "archives kept here"):
            with counted() as used, new_lab(count) as lab:
                measure(lab, what, used, verbose=verbose)
    return 0


if __name__ == "__main__":
    sys.exit(main())
