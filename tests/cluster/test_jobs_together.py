"""Several jobs at once on the real runtime: slots, names, state of their own, and what is left when one ends."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import Conflict, NoSuchTask
from dtfctl.launcher.model import JobEnded, JobOutput, JobRequest
from tests.cluster.conftest import controller_pid, kill, spec_of, wait_until

Script = Callable[[str], str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A ps and three workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("together") / "home"))
        made = Cluster.up(spec_of("together", worker=3), timeout_s=120.0).cluster
        assert made is not None
        try:
            yield made
        finally:
            made.down(grace_s=1.0)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Write a script; its path."""

    def write(text: str) -> str:
        path = tmp_path / "work.py"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


def lines(cluster: Cluster, job_id: str) -> list[str]:
    found = [line for line in cluster.logs(f"job:{job_id}") if line.stream == "out"]
    return "".join(line.text + ("\n" if line.newline else "") for line in found).splitlines()


def finish(cluster: Cluster, job_id: str) -> list[str]:
    items = list(cluster.follow_job(job_id))
    assert isinstance(items[-1], JobEnded)
    status = items[-1].status
    text = "".join(i.line.text + ("\n" if i.line.newline else "") for i in items if isinstance(i, JobOutput))
    assert status.state == "succeeded", status.reason + text
    return text.splitlines()


COUNT = """
    import os, pathlib, sys, time
    import dtfctl.runtime as tf

    with tf.device("/job:ps/task:0"):
        shared = tf.get_variable("count", initializer=float(sys.argv[1]))
    with tf.device("/job:worker/task:0"):
        chiefs = tf.get_variable("of_the_chief", initializer=float(sys.argv[1]))
    with tf.Session(os.environ["DTF_TARGET"]) as session:
        before = session.run(tf.report_uninitialized_variables())
        if os.environ["DTF_IS_CHIEF"] == "1":
            print("left by others:", 2 - len(before), flush=True)
            session.run(tf.global_variables_initializer())
        while len(session.run(tf.report_uninitialized_variables())):
            time.sleep(0.05)
        go = pathlib.Path(sys.argv[2])
        print("ready", os.environ["DTF_JOB_NAME"], os.environ["DTF_TASK_INDEX"], flush=True)
        while not go.exists():
            time.sleep(0.05)
        print("values", session.run(shared), session.run(chiefs), flush=True)
"""


def test_two_jobs_with_the_same_variables_do_not_meet(cluster: Cluster, script: Script, tmp_path: Path) -> None:
    path, go = script(COUNT), tmp_path / "go"
    first = cluster.submit(JobRequest(path, ("1", str(go)), tasks="worker/0"))
    second = cluster.submit(JobRequest(path, ("2", str(go)), workers=2))
    for job_id, count in ((first, 1), (second, 2)):
        wait_until(
            lambda j=job_id, n=count: sum("ready" in x for x in lines(cluster, j)) == n, "its processes are ready"
        )
    assert {cluster.job(job_id).state for job_id in (first, second)} == {"running"}
    assert cluster.job(second).tasks == ("worker/1", "worker/2")
    assert [(c.name, c.task) for c in cluster.job(second).clients] == [
        ("worker/0", "worker/1"),
        ("worker/1", "worker/2"),
    ]
    kill(controller_pid(cluster))
    go.write_text("")
    assert "values 1.0 1.0" in finish(cluster, first)
    assert finish(cluster, second).count("values 2.0 2.0") == 2
    third = cluster.submit(JobRequest(path, ("3", str(go))))
    assert "left by others: 0" in finish(cluster, third)


def test_the_tasks_drop_what_a_job_held_when_it_ends(cluster: Cluster, script: Script) -> None:
    path = script(
        """
        import os
        import numpy as np
        import dtfctl.runtime as tf

        with tf.device("/job:ps/task:0"):
            large = tf.get_variable("large", initializer=tf.zeros([64, 2**18]))  # 64 MiB
        with tf.Session(os.environ["DTF_TARGET"]) as session:
            session.run(large.initializer)
            print("sum", session.run(tf.reduce_sum(large)))
        """
    )

    def ps_bytes() -> int:
        return next(task.rss_bytes or 0 for task in cluster.status().tasks if task.name == "ps/0")

    for _ in range(2):
        assert "sum 0.0" in finish(cluster, cluster.submit(JobRequest(path, workers=1)))
    base = ps_bytes()
    for _ in range(3):
        finish(cluster, cluster.submit(JobRequest(path, workers=1)))
    wait_until(lambda: ps_bytes() < base + 100 * 2**20, f"ps/0 is back near {base >> 20} MiB")


def test_jobs_that_share_run_on_the_same_task_at_once(cluster: Cluster, script: Script, tmp_path: Path) -> None:
    path = script(
        """
        import pathlib, sys, time
        mine, other = map(pathlib.Path, sys.argv[1:])
        mine.write_text("")
        while not other.exists():
            time.sleep(0.02)
        """
    )
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    one = cluster.submit(JobRequest(path, (a, b), tasks="worker/1", share=True))
    two = cluster.submit(JobRequest(path, (b, a), tasks="worker/1", share=True))
    finish(cluster, one)
    finish(cluster, two)


def test_a_command_is_any_program(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "work.sh"
    path.write_text('#!/bin/sh\necho "$DTF_JOB_NAME/$DTF_TASK_INDEX $1" "${MINE}"\n')
    request = JobRequest(str(path), ("a b",), framework="command", workers=2, env={"MINE": "x y"})
    assert sorted(finish(cluster, cluster.submit(request))) == ["worker/0 a b x y", "worker/1 a b x y"]


def test_a_job_that_can_never_run_is_refused(cluster: Cluster, script: Script) -> None:
    path = script("print(1)")
    with pytest.raises(NoSuchTask, match="worker/7"):
        cluster.submit(JobRequest(path, tasks="worker/7"))
    with pytest.raises(Conflict, match="wants 9 workers, the cluster has 3"):
        cluster.submit(JobRequest(path, workers=9))


def test_cancel_all_ends_running_and_queued_jobs_and_now_means_now(cluster: Cluster, script: Script) -> None:
    deaf = script(
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", flush=True)
        time.sleep(600)
        """
    )
    running = cluster.submit(JobRequest(deaf, workers=1))
    queued = cluster.submit(JobRequest(deaf))
    assert re.fullmatch(rf"waits for its turn after {running}", wait_until(lambda: cluster.job(queued).reason, "waits"))
    wait_until(lambda: "deaf" in lines(cluster, running), "it runs")
    found = {job.id: job for job in cluster.cancel(None, grace_s=0.0)}
    assert {found[running].state, found[queued].state} == {"cancelled"}
    assert found[running].clients[0].exit_code == 137
    assert cluster.cancel(None) == []


def test_a_killed_process_of_a_group_restarts_all_with_another_port(
    cluster: Cluster, script: Script, tmp_path: Path
) -> None:
    path = script(
        """
        import os, pathlib, sys, time
        say = ("MASTER_PORT", "RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "TF_CONFIG", "DTF_TARGET")
        print(*(os.environ.get(name) for name in say), flush=True)
        while not pathlib.Path(sys.argv[1]).exists():
            time.sleep(0.02)
        """
    )
    go = tmp_path / "go"
    job_id = cluster.submit(JobRequest(path, (str(go),), framework="torch", workers=2))
    wait_until(lambda: len(lines(cluster, job_id)) == 2, "both run")
    before = {client.name: client.pid for client in cluster.job(job_id).clients}
    kill(before["worker/1"])
    wait_until(lambda: len(lines(cluster, job_id)) == 4, "both run again")
    assert cluster.job(job_id).restarts == 1
    go.write_text("")
    words = [line.split() for line in finish(cluster, job_id)]
    assert sorted(word[1:4] for word in words) == [["0", "2", "0"], ["0", "2", "1"], ["1", "2", "0"], ["1", "2", "1"]]
    ports = {start: {word[0] for word in words if word[3] == start} for start in ("0", "1")}
    assert len(ports["0"]) == len(ports["1"]) == 1
    assert ports["0"] != ports["1"]
    assert {tuple(word[4:]) for word in words} == {("None", "None")}, "it is not told about servers that are not its"
