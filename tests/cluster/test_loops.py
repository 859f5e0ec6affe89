"""Every loop of every process of a cluster raises once in a step: it is logged and counted, and all goes on."""

from __future__ import annotations

import ast
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import dtfctl
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import Dashboard, Health, Metrics
from tests.cluster.conftest import PATIENCE_S, controller_pid, pids, spec_of, wait_until
from tests.support.ports import free_ports

ROOT = Path(dtfctl.__file__).parent
FAULTS = Path(__file__).parents[1] / "support" / "loop_faults"
ELSEWHERE = {
    "launcher/checkpoints/replica.py:_run",
    "launcher/controller/serve/metrics_page.py:_try_again",
    "launcher/providers/remote.py:run_forever",
    "launcher/providers/lent.py:_watch",
    "runtime/kernels/into/parallel.py:_serve",
    "runtime/memory/kept_memory.py:_look_after",
    "runtime/rendezvous/pumps.py:_serve",
    "serve/model.py:_watch",
}
"""Not in this cluster: `tests/unit/test_loops.py` has them."""
JOB = """
import os, time
import dtfctl.runtime as tf
writer = tf.summary.FileWriter(os.environ["EVENTS"])
with tf.device("/job:ps/task:0"):
    total = tf.Variable(0.0)
    more = tf.assign_add(total, 1.0)
with tf.Session(os.environ["DTF_TARGET"]) as session:
    session.run(total.initializer)
    for number in range(1_000_000):
        session.run(more)
        writer.add_summary(tf.Summary(), number)
        writer.flush()
        with open(os.environ["STEPS"], "a") as file:
            file.write("x")
        time.sleep(0.02)
"""


def loops_in_source() -> set[str]:
    """What is given to `guard.forever` and `guard.run`, wherever in the package."""
    found = set()
    for path in ROOT.rglob("*.py"):
        text = path.read_text("utf-8")
        if "guard." in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("guard.forever", "guard.run"):
                    name = ast.unparse(node.args[0]).rpartition(".")[2]
                    found.add(f"{path.relative_to(ROOT)}:{name}")
    return found


Notes: TypeAlias = list[tuple[str, str, str]]
Faulty: TypeAlias = Callable[[int], Callable[[], Notes]]


@pytest.fixture
def faulty(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faulty:
    """Brings faults into the processes that are started from now on; what they note: state, loop, process and name."""
    folder = tmp_path / "notes"
    folder.mkdir()

    def notes() -> Notes:
        found = []
        for path in folder.iterdir():
            for line in path.read_text().splitlines():
                state, file, function, name, _ = line.split("\t")
                where = f"{Path(file).relative_to(ROOT)}:{function.rpartition('.')[2]}"
                found.append((state, where, f"{path.stem} {name}"))
        return found

    def after(lines: int) -> Callable[[], Notes]:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAULTS), *filter(None, [os.environ.get("PYTHONPATH")])]))
        monkeypatch.setenv("DTF_TEST_LOOP_FAULTS", str(folder))
        monkeypatch.setenv("DTF_TEST_LOOP_FAULT", str(lines))
        return notes

    return after


def bring_up_and_work(tmp_path: Path, *, patient: bool) -> tuple[Cluster, Callable[[], int]]:
    """A cluster with a job that goes on, and how many steps that has made."""
    steps = tmp_path / "steps"
    steps.touch()
    (tmp_path / "job.py").write_text(JOB)
    # A busy machine must not have tasks replaced; a question that is lost for ever shows all the same, below.
    health = Health()
    if patient:
        health = Health(suspect_phi=90.0, down_phi=100.0, down_after=PATIENCE_S, lease=2 * PATIENCE_S)
    metrics = Metrics(free_ports(1)[0])
    result = Cluster.up(spec_of("loops", worker=1, metrics=metrics, dashboard=Dashboard(0), health=health))
    assert result.exit_code == 0, result.problems
    cluster = result.cluster
    assert cluster is not None
    env = {"STEPS": str(steps), "EVENTS": str(tmp_path / "events")}
    cluster.submit(JobRequest(str(tmp_path / "job.py"), env=env))
    wait_until(lambda: steps.stat().st_size, "the job works")
    return cluster, lambda: steps.stat().st_size


def wait_for_none(missing: Callable[[], set[Any]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while missing() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert missing() == set()


def assert_as_before(cluster: Cluster, before: tuple[dict[str, int | None], int], steps: Callable[[], int]) -> None:
    assert (pids(cluster), controller_pid(cluster)) == before
    status = cluster.status()
    assert not any(task.restarts for task in status.tasks) and status.jobs[-1].state == "running"
    kinds = {event.kind for event in cluster.events()}
    assert not {"host.down", "host.failed", "task.moved", "job.restarting"} & kinds
    done = steps()
    wait_until(lambda: steps() > done + 1, "the job goes on")


def test_each_loop_of_a_cluster_goes_on_after_a_fault(tmp_path: Path, faulty: Faulty) -> None:
    notes = faulty(0)
    cluster, steps = bring_up_and_work(tmp_path, patient=True)
    before = pids(cluster), controller_pid(cluster)
    wanted = loops_in_source() - ELSEWHERE
    assert len(wanted) > 12 and not ELSEWHERE - loops_in_source()

    def not_raised() -> set[str]:
        return wanted - {where for state, where, _ in notes() if state == "raised"}

    def not_again() -> set[tuple[str, str]]:
        found = notes()
        raised = {(where, who) for state, where, who in found if state == "raised"}
        return raised - {(where, who) for state, where, who in found if state == "again"}

    wait_for_none(not_raised)
    wait_for_none(not_again)
    assert_as_before(cluster, before, steps)
    page = cluster.metrics(timeout_s=PATIENCE_S)
    for process in ("controller", "agent:localhost", "ps/0", "worker/0"):
        (line,) = (line for line in page.splitlines() if line.startswith(f'dtfctl_faults_total{{process="{process}"}}'))
        assert int(line.split()[-1]) >= 2, line
    logs = ClusterPaths.of("loops").logs
    for name in ("controller", "agent-localhost", "ps-0", "worker-0"):
        assert "failed, and goes on" in (logs / f"{name}.log").read_text(), name


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(8))
def test_wherever_in_a_step_it_is(tmp_path: Path, faulty: Faulty, seed: int) -> None:
    """Also behind what a loop has taken over: nothing of that may be lost."""
    lines = random.Random(seed).randrange(1, 16)
    notes = faulty(lines)
    cluster, steps = bring_up_and_work(tmp_path, patient=False)
    before = pids(cluster), controller_pid(cluster)
    wait_until(lambda: len(notes()) > 30, f"many raise after {lines} lines")
    seen = steps()
    wait_until(lambda: steps() > seen + 200, "a while passes")
    assert_as_before(cluster, before, steps)
