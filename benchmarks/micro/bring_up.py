"""python -m benchmarks.micro.bring_up [HOSTS [TASKS_PER_HOST]]: how long `up` takes over SSH, and what it costs whom.

Makes that many hosts on this machine (`tests/lab/netns.py`: root, and OpenSSH's server), brings a cluster up once so
that the bundle is there, takes it down, and measures the second `up` and its `down`. Prints wall time and the CPU
seconds of the command, the controller, and by kind of process on the hosts.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import HostGroup, HostName, TaskGroup
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab, why_not

NS = 1e-9
TICKS = os.sysconf("SC_CLK_TCK")
KINDS = {
    "dtfctl.launcher.controller": "controller",
    "dtfctl.launcher.agent": "agents",
    "/keeper.": "keepers",
    "/stub ": "tasks",
    "host_side import serve": "hands of the launcher",
    "sshd": "ssh servers, and what they ran that has ended",
}


def cpu_by_kind(lab: Lab, folder: str) -> dict[str, float]:
    """CPU seconds of this cluster's live processes; those of ssh servers with their ended children's."""
    spaces = {Path(f"/proc/{lab.init(name)}/ns/pid").readlink() for name in lab.names}
    used: dict[str, float] = defaultdict(float)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if folder not in command and (entry / "ns/pid").readlink() not in spaces:
                continue
        except OSError:
            continue  # it has just ended
        kind = next((kind for words, kind in KINDS.items() if words in command), "others")
        used[kind] += own_cpu(entry)
        if "ssh" in kind:
            used[kind] += sum(int(field) for field in fields[13:15]) / TICKS
    return used


def own_cpu(process: Path) -> float:
    """CPU seconds of its live threads, to the nanosecond: ticks would lose most of what a keeper uses."""
    total = 0
    for thread in (process / "task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            total += int((thread / "schedstat").read_text().split()[0])
    return total * NS


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    each = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    problem = why_not()
    if problem:
        print(f"needs a lab of SSH hosts, which {problem}", file=sys.stderr)
        return 2
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        print("needs a C compiler for the stub tasks", file=sys.stderr)
        return 2
    lab = Lab.of_environment()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DTFCTL_HOME"] = f"{folder}/home"
        lab.up(count)
        try:
            lab.lend_packages()
            stub = lab.root / "stub"
            source = Path(__file__).parents[2] / "tests" / "faults" / "stub.c"
            subprocess.run([compiler, "-O1", "-o", stub, source], check=True)
            hosts = tuple(HostName(host.address) for host in lab.hosts)
            spec = cluster_of(
                lab,
                tasks={"worker": TaskGroup(count * each)},
                host_groups={"all": HostGroup(hosts, slots=each)},
            )
            for attempt in ("first", "again"):
                before = cpu_by_kind(lab, folder)
                own, begun = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
                result = Cluster.up(spec, task_command=(str(stub),), timeout_s=600)
                wall = time.monotonic() - begun
                mine = resource.getrusage(resource.RUSAGE_SELF)
                used = {kind: all_of_it - before.get(kind, 0) for kind, all_of_it in cpu_by_kind(lab, folder).items()}
                used["this command"] = mine.ru_utime + mine.ru_stime - own.ru_utime - own.ru_stime
                print(f"{attempt}: {count} hosts, {result.running} of {result.wanted} tasks: up in {wall:.2f} s")
                for kind, seconds in sorted(used.items(), key=lambda item: -item[1]):
                    print(f"    {seconds:7.2f} s of CPU  {kind}")
                print(f"    {sum(used.values()):7.2f} s of CPU together", flush=True)
                begun = time.monotonic()
                left = Cluster.down_by_name(spec.cluster, grace_s=0.5)[1]
                print(f"    down in {time.monotonic() - begun:.2f} s {left or ''}", flush=True)
        finally:
            lab.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
