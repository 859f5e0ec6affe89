"""python -m benchmarks.micro.first_up [HOSTS]: how long the first `up` takes on hosts that have nothing of dtfctl.

Makes that many hosts on this machine (`tests/lab/netns.py`: root, and OpenSSH's server), each with an empty home, and
brings up one real task on each: with nothing kept here from an `up` before but what is installed, then, on new hosts,
with the archives of the first time. Prints when the first and the last task ran, what went over the operator's own
link, and the CPU seconds of everybody; the cores of this machine do the work of all hosts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import Event
from dtfctl.launcher.spec.model import TaskGroup
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab, why_not

TIMEOUT_S = 900.0
MIB = 2**20


def sent_by_operator(lab: Lab) -> int:
    """Bytes that have left this machine for the hosts; what hosts send each other does not pass here."""
    return int(Path(f"/sys/class/net/{lab.bridge}/statistics/tx_bytes").read_text())


def cpu_s() -> float:
    """CPU seconds of the whole machine since it was started, without what was idle or waited."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:8]]
    return sum(fields[:3] + fields[5:]) / os.sysconf("SC_CLK_TCK")


def measure(lab: Lab, what: str, *, verbose: bool) -> None:
    """Bring a cluster up and take it down again."""
    count = len(lab.names)
    spec = cluster_of(lab, tasks={"worker": TaskGroup(count)}, slots=1, python=None)
    sent, used, begun = sent_by_operator(lab), cpu_s(), time.monotonic()
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
    mib, cpu = (sent_by_operator(lab) - sent) / MIB, cpu_s() - used
    print(f"    {mib:.0f} MiB sent by this machine, {cpu:.1f} s of CPU on all hosts and here", flush=True)
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
            lab = Lab.of_environment()
            lab.up(count)
            try:
                measure(lab, what, verbose=verbose)
            finally:
                lab.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
