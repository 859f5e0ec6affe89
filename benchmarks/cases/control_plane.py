"""The launcher: clusters up, jobs through, tasks back after a kill."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.peers import Missing
from benchmarks.processes import Child, ChildError, clean_environment
from benchmarks.results import Row, judge, timing

UP_S = 120.0
DOWN_S = 30.0
HANG_S = 60.0
HOSTS = 8
TASKS = 32
VICTIMS = 3
"""Tasks that one case does harm to, one after the other: the restart policy delays who fails twice."""


class CommandLine:
    """dtfctl as a user runs it, with all its files in one folder that ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = clean_environment({"DTFCTL_HOME": str(folder / "home")})

    def __call__(self, *words: str, within_s: float = UP_S + 30) -> str:
        """Run a command; its standard output.

        Raises:
            ChildError: it failed.
        """
        command = [sys.executable, "-m", "dtfctl", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=within_s, env=self.environment, cwd=self.folder
        )
        if done.returncode:
            raise ChildError(f"dtfctl {words[0]} ended with {done.returncode}: {done.stderr.strip()[-1000:]}")
        return done.stdout

    def timed(self, *words: str) -> float:
        begin = time.perf_counter()
        self(*words)
        return time.perf_counter() - begin


@contextlib.contextmanager
def cluster(spec: str, up: bool = True) -> Iterator[CommandLine]:
    """A cluster of a spec called "bench", down at the end."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "cluster.yaml").write_text(spec)
        (folder / "empty.py").write_text("")
        dtfctl = CommandLine(folder)
        try:
            if up:
                dtfctl("up", "cluster.yaml", "--timeout", f"{UP_S:.0f}s")
            yield dtfctl
        finally:
            # What it leaves is ended with the run.
            with contextlib.suppress(ChildError, subprocess.TimeoutExpired):
                dtfctl("down", "--yes", "-c", "bench", within_s=DOWN_S)


@contextlib.contextmanager
def launcher_client(dtfctl: CommandLine) -> Iterator[Child]:
    """A process that holds the cluster's Python API open, as those of Ray and Dask are held."""
    command = [sys.executable, "-m", "benchmarks.launcher_client", "bench"]
    child = Child(command, "launcher client", dtfctl.environment)
    try:
        child.read()
        yield child
    finally:
        child.stop()


@contextlib.contextmanager
def peer_program(bench: Bench, peer: str, program: str) -> Iterator[Child]:
    """A peer's process.

    Raises:
        Missing, ChildError: there is none.
    """
    python = bench.peer(peer)
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        # Ray writes to its home and leaves daemons to those who do not let it end.
        environment = {"HOME": folder, "RAY_TMPDIR": folder, "RAY_raylet_start_wait_time_s": "120"}
        child = Child([python, "-m", f"benchmarks.peer_programs.{program}"], f"{peer} {program}", environment)
        try:
            child.read(UP_S)
            yield child
        finally:
            child.stop(grace_s=20.0)


def _against(
    bench: Bench, row: Row, ours: Callable[[], float], peer: str, program: str, command: dict[str, Any], rounds: int
) -> Row:
    """Time ours and a peer's in turns."""
    mine: list[list[float]] = []
    theirs: list[list[float]] = []
    with contextlib.ExitStack() as stack:
        child: Child | None = None
        failed = False
        try:
            child = stack.enter_context(peer_program(bench, peer, program))
        except (Missing, ChildError) as e:
            row.note = str(e)
        for _ in range(rounds):
            mine.append([ours()])
            if child is not None and not failed:
                try:
                    theirs.append(child.ask(command, UP_S)["times"])
                except ChildError as e:
                    # Ours stands all the same.
                    row.note, failed = str(e), True
    row.ours = timing(mine)
    if theirs and not failed:
        row.peer = timing(theirs)
        judge(row)
    return row


def _up_local(bench: Bench) -> Iterator[Row]:
    spec = f"cluster: bench\ntasks: {{ps: {HOSTS}, worker: {TASKS - HOSTS}}}\n"

    def up() -> float:
        with cluster(spec, up=False) as dtfctl:
            return dtfctl.timed("up", "cluster.yaml", "--timeout", f"{UP_S:.0f}s")

    peers = [("dask", "dask_cluster", {"do": "up", "workers": TASKS}, "LocalCluster")]
    if bench.full:
        peers.append(("ray", "ray_cluster", {"do": "actors", "count": TASKS}, "init and actors"))
    for peer, program, command, what in peers:
        row = Row(
            "up-32",
            f"up of {TASKS} tasks on this machine; {peer}: {what}",
            peer_name=peer,
            goal=4.0,
            limit=TASKS * bench.limits.fork_s,
            limit_is="a fork a task",
        )
        yield _against(bench, row, up, peer, program, command, rounds=1)


def _up_ssh(bench: Bench) -> Iterator[Row]:
    from tests.lab.netns import Lab, why_not

    row = Row(
        "up-32-ssh",
        f"up of {TASKS} tasks on {HOSTS} hosts over SSH (network namespaces) that have the packages; Dask: SSHCluster",
        peer_name="dask",
        goal=4.0,
    )
    problem = why_not()
    if problem:
        row.note = f"the lab of SSH hosts {problem}"
        yield row
        return
    lab = Lab.of_environment()
    lab.up(HOSTS)
    try:
        spec = (
            f"cluster: bench\ntasks: {{ps: {HOSTS}, worker: {TASKS - HOSTS}}}\n"
            f"hosts: {json.dumps([host.address for host in lab.hosts])}\n"
            f"ssh: {{user: root, key: {lab.key}, known_hosts: {lab.known_hosts}}}\n"
        )

        def up() -> float:
            with cluster(spec, up=False) as dtfctl:
                return dtfctl.timed("up", "cluster.yaml", "--timeout", f"{UP_S:.0f}s")

        command = {
            "do": "up_ssh",
            "hosts": [host.address for host in lab.hosts],
            "workers": TASKS // HOSTS,
            "key": str(lab.key),
            "known_hosts": str(lab.known_hosts),
        }
        try:
            # Dask's hosts have its packages; ours get them the first time, once.
            with cluster(spec):
                pass
            yield _against(bench, row, up, "dask", "dask_cluster", command, rounds=1)
        except ChildError as e:
            row.error = str(e)
            yield row
    finally:
        lab.down()


def _submit(bench: Bench) -> Iterator[Row]:
    with cluster("cluster: bench\ntasks: {ps: 1, worker: 1}\n") as dtfctl, launcher_client(dtfctl) as client:
        script = str(dtfctl.folder / "empty.py")

        def submit() -> float:
            return float(client.ask({"do": "submit", "script": script})["times"][0])

        submit()
        for peer, program, command, what in (
            ("ray", "ray_cluster", {"do": "job", "script": script}, "its job API"),
            ("dask", "dask_cluster", {"do": "job", "script": script}, "a task that runs the script"),
        ):
            row = Row(
                "submit-empty",
                f"submit of an empty script until it has ended; {peer}: {what}",
                peer_name=peer,
                goal=4.0 if peer == "ray" else None,
                limit=bench.limits.fork_s,
                limit_is="a fork",
                note="" if peer == "ray" else "Dask: a child of a running worker, without log, record or restart",
            )
            yield _against(bench, row, submit, peer, program, command, rounds=3 if bench.quick else 5)


def _killed(bench: Bench) -> Iterator[Row]:
    """Only ours: TensorFlow never notices, and starts nothing.

    Each task's first failure, which the restart policy answers at once; then the second of each, which it delays.
    """
    with cluster(f"cluster: bench\ntasks: {{ps: 1, worker: {VICTIMS}}}\n") as dtfctl, launcher_client(dtfctl) as client:
        first, second = (
            [client.ask({"do": "kill", "name": f"worker/{index}"}) for index in range(VICTIMS)] for _ in range(2)
        )
    for what, key, goal in (
        ("noticed", "noticed", 0.1),
        ("new process", "started", 0.5),
        ("serving again", "serving", 2.0),
    ):
        taken = timing([[got[key]] for got in first])
        yield Row(
            "task-killed",
            f"task killed with SIGKILL: {what}",
            ours=taken,
            limit=bench.limits.fork_s,
            goal_is=f"< {goal:g} s",
            met=taken.median < goal,
            note="TensorFlow never notices and starts nothing" if what == "noticed" else "",
        )
    yield Row(
        "task-killed",
        "task killed a second time: new process",
        ours=timing([[got["started"]] for got in second]),
        limit=bench.limits.fork_s,
        note="it waits for what the restart policy says, 0.5 s a quarter more or less",
    )


def _hung(bench: Bench) -> Iterator[Row]:
    """Only ours: with their default settings the others take half a minute and more."""
    suspect, acted = [], []
    with cluster(f"cluster: bench\ntasks: {{ps: 1, worker: {VICTIMS}}}\n") as dtfctl, launcher_client(dtfctl) as client:
        for index in range(VICTIMS):
            got = client.ask({"do": "hang", "name": f"worker/{index}"}, HANG_S)
            suspect.append([got["suspect"]])
            acted.append([got["acted"]])
    for what, times, goal in (("suspect", suspect, 2.0), ("a new process in its place", acted, 5.0)):
        taken = timing(times)
        yield Row(
            "task-hung",
            f"task stopped with SIGSTOP: {what}",
            ours=taken,
            goal_is=f"< {goal:g} s",
            met=taken.median < goal,
            note="TensorFlow never notices" if what == "suspect" else "",
        )


def _host_lost(bench: Bench) -> Iterator[Row]:
    """A host's link is cut; only ours, as it needs the lab."""
    from tests.lab.netns import Lab, why_not

    problem = why_not()
    if problem:
        yield Row("host-lost", "host cut off", note=f"the lab of SSH hosts {problem}")
        return
    lab = Lab.of_environment()
    lab.up(2)
    try:
        lab.lend_packages()
        spec = (
            "cluster: bench\ntasks: {ps: 1, worker: 3}\n"
            f"hosts: {json.dumps([host.address for host in lab.hosts])}\n"
            f"ssh: {{user: root, key: {lab.key}, known_hosts: {lab.known_hosts}}}\n"
        )
        lost = lab.hosts[1]
        with cluster(spec) as dtfctl, launcher_client(dtfctl) as client:
            got = client.ask({"do": "cut", "name": lost.name, "address": lost.address}, HANG_S)
            lab.mend(lost.name)
    finally:
        lab.down()
    for what, goal in (("suspect", 2.0), ("down", 5.0)):
        taken = timing([[got[what]]])
        yield Row(
            "host-lost",
            f"host cut off from the network: {what}",
            ours=taken,
            goal_is=f"< {goal:g} s",
            met=taken.median < goal,
            note="TensorFlow never notices" if what == "suspect" else "",
        )


CASES: list[Case] = [
    CustomCase(
        "submit-empty",
        "an empty script submitted and ended, against Ray and Dask",
        _submit,
        ("ray", "dask"),
        quick=False,
    ),
    CustomCase("task-killed", "a task killed: noticed, new process, serving", _killed, most_s=60.0),
    CustomCase("task-hung", "a task hung: suspect, a new process in its place", _hung, quick=False, most_s=90.0),
    CustomCase(
        "host-lost",
        "a host cut off (root: network namespaces): suspect, down",
        _host_lost,
        quick=False,
        full=True,
        most_s=240.0,
    ),
    CustomCase(
        "up-32",
        "up of 32 tasks on this machine, against Dask (and Ray with --full)",
        _up_local,
        ("dask",),
        quick=False,
        most_s=150.0,
    ),
    CustomCase(
        "up-32-ssh",
        "up of 32 tasks on 8 SSH hosts (root: network namespaces), against Dask",
        _up_ssh,
        ("dask",),
        quick=False,
        full=True,
        most_s=400.0,
    ),
]
