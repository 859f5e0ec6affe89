"""Jobs on a real cluster: output, progress, exit codes, cancelling, what is wrong with a script, recovery."""

from __future__ import annotations

import itertools
import json
import signal
import stat
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import Conflict, NoSuchJob, ScriptError, UsageError
from dtfctl.launcher.model import JobEnded, JobOutput, JobProgress, JobRequest, JobStatus
from tests.cluster.conftest import agent_pid, controller_pid, kill, pids, spec_of, task, wait_until

Up = Callable[..., Cluster]
Write = Callable[[str], str]


@pytest.fixture
def script(tmp_path: Path) -> Write:
    """Write a script; its path."""

    def write(text: str, name: str = "train.py") -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


def follow(cluster: Cluster, job_id: str) -> tuple[list[JobOutput], list[JobProgress], JobStatus]:
    items = list(cluster.follow_job(job_id))
    assert isinstance(items[-1], JobEnded)
    output = [item for item in items if isinstance(item, JobOutput)]
    progress = [item for item in items if isinstance(item, JobProgress)]
    return output, progress, items[-1].status


def text_of(output: list[JobOutput], source: str, stream: str = "out") -> list[str]:
    """Its lines; parts of one that came apart are put together again."""
    lines = [o.line for o in output if o.line.source.endswith(source) and o.line.stream == stream]
    return "".join(line.text + ("\n" if line.newline else "") for line in lines).splitlines()


def test_output_of_every_process_reaches_the_submitter_and_success_needs_all(up: Up, script: Write) -> None:
    cluster = up()
    path = script(
        """
        import os, sys
        print("out", os.environ["DTF_JOB_NAME"], os.environ["DTF_TASK_INDEX"], sys.argv[1:])
        print("err", file=sys.stderr)
        """
    )
    job_id = cluster.submit(JobRequest(path, ("a", "b c"), success="all"))
    output, _, status = follow(cluster, job_id)
    assert job_id == "train-1"
    assert text_of(output, "worker/0") == ["out worker 0 ['a', 'b c']"]
    assert text_of(output, "worker/1") == ["out worker 1 ['a', 'b c']"]
    assert text_of(output, "worker/1", "err") == ["err"]
    assert (status.state, status.exit_code) == ("succeeded", 0)


def test_whose_end_is_the_jobs_is_a_policy(up: Up, script: Write, tmp_path: Path) -> None:
    cluster, go = up(), tmp_path / "go"
    path = script(
        """
        import os, pathlib, sys, time
        chief = os.environ["DTF_TASK_INDEX"] == "0"
        while not chief and not pathlib.Path(sys.argv[1]).exists():
            time.sleep(0.05)
        sys.exit(0 if chief else 3)
        """
    )
    for policy, end in (("chief", ("succeeded", 0)), ("all", ("failed", 3))):
        go.unlink(missing_ok=True)
        job_id = cluster.submit(JobRequest(path, (str(go),), success=policy))
        wait_until(
            lambda job_id=job_id: any(  # type: ignore[misc]
                (client.name, client.state) == ("worker/0", "done") for client in cluster.job(job_id).clients
            ),
            "the chief has ended well",
        )
        go.touch()
        _, _, status = follow(cluster, job_id)
        assert (status.state, status.exit_code) == end, (policy, status)


def test_the_environment_describes_cluster_task_and_job(up: Up, script: Write) -> None:
    cluster = up()
    path = script(
        """
        import json, os
        print(json.dumps(dict(os.environ)))
        """
    )
    output, _, status = follow(cluster, cluster.submit(JobRequest(path, env={"MINE": "1"})))
    env = json.loads(text_of(output, "worker/1")[0])
    addresses = {t.name: t.address for t in cluster.status().tasks}
    table = {"ps": [addresses["ps/0"]], "worker": [addresses["worker/0"], addresses["worker/1"]]}
    assert json.loads(env["TF_CONFIG"]) == {"cluster": table, "task": {"type": "worker", "index": 1}}
    assert json.loads(env["DTF_CLUSTER"]) == table
    assert env["DTF_TARGET"].startswith("unix:/")
    assert env["DTF_TARGET"].endswith("worker-1.sock?job=train-1")
    assert env["DTF_CHECKPOINT_DIR"] == status.checkpoint_dir
    assert (env["DTF_IS_CHIEF"], env["MINE"]) == ("0", "1")
    assert int(env["OPENBLAS_NUM_THREADS"]) >= 1
    assert "OPENBLAS_CORETYPE" not in env


def test_in_graph_runs_a_single_process(up: Up, script: Write) -> None:
    cluster = up()
    output, _, _ = follow(cluster, cluster.submit(JobRequest(script("print('once')"), replication="in-graph")))
    assert [o.line.text for o in output] == ["once"]


def test_a_script_that_imports_tensorflow_runs_as_it_is(up: Up, script: Write) -> None:
    """What `dtfctl submit --as-tensorflow` asks for."""
    cluster = up()
    path = script(
        """
        import tensorflow.compat.v1 as tf
        with tf.Session() as session:
            print(session.run(tf.constant(2) + 3))
        """
    )
    request = JobRequest(path, env={"DTF_AS_TENSORFLOW": "1"}, replication="in-graph")
    output, _, status = follow(cluster, cluster.submit(request))
    assert ([o.line.text for o in output], status.state) == (["5"], "succeeded")


@pytest.mark.parametrize("code", [1, 7])
def test_the_exit_code_of_the_script_is_the_jobs(up: Up, script: Write, code: int) -> None:
    cluster = up()
    job_id = cluster.submit(JobRequest(script(f"import sys; sys.exit({code})")))
    status = follow(cluster, job_id)[2]
    assert (status.state, status.exit_code, status.restarts) == ("failed", code, 0)


def test_one_failing_process_ends_the_others(up: Up, script: Write) -> None:
    cluster = up()
    path = script(
        """
        import os, sys, time
        if os.environ["DTF_TASK_INDEX"] == "1":
            raise RuntimeError("shards do not match")
        time.sleep(600)
        """
    )
    status = follow(cluster, cluster.submit(JobRequest(path)))[2]
    assert (status.state, status.exit_code) == ("failed", 1)
    assert status.reason.startswith("worker/1")
    broken = status.clients[1]
    assert broken.last_lines[-1] == "RuntimeError: shards do not match"
    assert status.clients[0].state == "stopped"


def test_progress_reaches_the_submitter(up: Up, script: Write) -> None:
    cluster = up()
    path = script(
        """
        import json, os, time
        for step in range(1, 4):
            with open(os.environ["DTF_PROGRESS_FILE"], "a") as file:
                line = {"step": step, "total": 3, "metrics": {"loss": 1 / step}, "time": time.time()}
                print(json.dumps(line), file=file)
            time.sleep(0.7)
        """
    )
    _, progress, status = follow(cluster, cluster.submit(JobRequest(path)))
    chief = [item.progress for item in progress if item.chief]
    assert chief[-1].step == 3
    assert chief[-1].total == 3
    assert chief[-1].metrics == {"loss": pytest.approx(1 / 3)}
    assert status.progress == chief[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [("def f(:\n", r"train\.py:1:\d+: invalid syntax"), ("x = 1\nreturn\n", r"train\.py:2.*'return' outside function")],
)
def test_a_script_that_does_not_compile_is_not_queued(up: Up, script: Write, text: str, message: str) -> None:
    cluster = up()
    with pytest.raises(ScriptError, match=message):
        cluster.submit(JobRequest(script(text)))
    assert cluster.jobs() == []


def test_a_missing_script_is_not_queued(up: Up, tmp_path: Path) -> None:
    cluster = up()
    with pytest.raises(ScriptError, match="there is no script"):
        cluster.submit(JobRequest(str(tmp_path / "none.py")))
    assert cluster.jobs() == []


def test_modules_beside_the_script_and_the_working_directory_are_found(
    up: Up, script: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = up()
    script("VALUE = 42", "helper.py")
    (tmp_path / "data.txt").write_text("17")
    monkeypatch.chdir(tmp_path)
    path = script("import helper; print(helper.VALUE, open('data.txt').read())")
    output, _, _ = follow(cluster, cluster.submit(JobRequest(path)))
    assert text_of(output, "worker/0") == ["42 17"]


def test_the_shipped_script_is_what_runs(up: Up, script: Write) -> None:
    cluster = up()
    blocker = cluster.submit(JobRequest(script("import time; time.sleep(0.5)", "first.py")))
    path = script("print('as submitted')")
    job_id = cluster.submit(JobRequest(path))
    assert cluster.job(job_id).position == 1
    Path(path).write_text("print('changed later')")
    output, _, _ = follow(cluster, job_id)
    assert text_of(output, "worker/0") == ["as submitted"]
    assert cluster.job(blocker).state == "succeeded"


def test_jobs_run_one_after_the_other_by_priority_then_age(up: Up, script: Write) -> None:
    cluster = up()
    path = script("import time; time.sleep(0.3)")
    ids = [cluster.submit(JobRequest(path, priority=p, submission_id=f"s{p}")) for p in (0, 1, 5)]
    for job_id in ids:
        follow(cluster, job_id)
    started = {job.id: job.started for job in cluster.jobs()}
    ended = {job.id: job.ended for job in cluster.jobs()}
    order = sorted(ids, key=lambda job_id: started[job_id] or 0)
    assert order == [ids[0], ids[2], ids[1]]
    assert all((ended[a] or 0) <= (started[b] or 0) for a, b in itertools.pairwise(order))


def test_submitting_an_id_twice_makes_one_job(up: Up, script: Write) -> None:
    cluster = up()
    request = JobRequest(script("print(1)"), submission_id="the-same")
    assert cluster.submit(request) == cluster.submit(request)
    assert len(cluster.jobs()) == 1


def test_a_chosen_id_is_the_jobs_and_stands_for_one_script(up: Up, script: Write) -> None:
    cluster = up()
    request = JobRequest(script("print(1)"), id="nightly-42")
    assert [cluster.submit(request), cluster.submit(request)] == ["nightly-42"] * 2
    assert [job.id for job in cluster.jobs()] == ["nightly-42"]
    with pytest.raises(Conflict, match="other arguments"):
        cluster.submit(replace(request, args=("2",)))
    with pytest.raises(UsageError, match="cannot be a job's id"):
        cluster.submit(replace(request, id="../up"))
    assert cluster.cancel(["nightly-42"])[0].id == "nightly-42"


def test_ids_and_folders_are_never_those_of_a_job_of_an_earlier_cluster(up: Up, script: Write) -> None:
    cluster = up()
    path = script(RUN_TWICE)
    first = cluster.submit(JobRequest(path))
    follow(cluster, first)
    chosen = cluster.submit(JobRequest(path, id="nightly-42"))
    follow(cluster, chosen)
    cluster.down()
    cluster = up()
    again = cluster.submit(JobRequest(path))
    output, _, _ = follow(cluster, again)
    assert (first, again) == ("train-1", "train-2")
    assert {text for line in output if (text := line.line.text)} == {"first"}
    with pytest.raises(Conflict, match="an earlier cluster"):
        cluster.submit(JobRequest(path, id="nightly-42"))
    output, _, _ = follow(cluster, cluster.submit(JobRequest(path, resume=first)))
    assert text_of(output, "worker/0") == ["resumed"]
    with pytest.raises(NoSuchJob):
        cluster.submit(JobRequest(path, resume="train-99"))


def test_two_jobs_do_not_write_the_same_checkpoints(up: Up, script: Write) -> None:
    cluster = up()
    path = script("import time; time.sleep(600)")
    first = cluster.submit(JobRequest(path))
    with pytest.raises(Conflict, match="has not ended"):
        cluster.submit(JobRequest(path, resume=first))
    cluster.cancel([first])


def test_cancel_ends_a_running_and_a_queued_job(up: Up, script: Write) -> None:
    cluster = up()
    path = script("import time; print('up'); time.sleep(600)")
    first, second = cluster.submit(JobRequest(path)), cluster.submit(JobRequest(path))
    wait_until(lambda: any("up" in line.text for line in cluster.logs(f"job:{first}")), "runs")
    assert {job.state for job in cluster.cancel([second, first])} == {"cancelled"}
    assert follow(cluster, first)[2].exit_code == 143
    with pytest.raises(NoSuchJob):
        cluster.cancel(["other-1"])


def test_cancel_kills_what_ignores_sigterm_after_the_grace(up: Up, script: Write) -> None:
    cluster = up()
    path = script("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)")
    job_id = cluster.submit(JobRequest(path, replication="in-graph"))
    wait_until(lambda: any("deaf" in line.text for line in cluster.logs(f"job:{job_id}")), "runs")
    (job,) = cluster.cancel([job_id], grace_s=0.2)
    assert job.clients[0].exit_code == 137


def test_a_job_past_its_time_limit_fails(up: Up, script: Write) -> None:
    cluster = up()
    job_id = cluster.submit(JobRequest(script("import time; time.sleep(600)"), max_time_s=0.5))
    status = follow(cluster, job_id)[2]
    assert (status.state, status.exit_code) == ("failed", 124)


RUN_TWICE = """
    import os, pathlib, sys, time
    marker = pathlib.Path(os.environ["DTF_CHECKPOINT_DIR"]) / (os.environ["DTF_TASK_INDEX"] + ".marker")
    if marker.exists():
        print("resumed")
        sys.exit(0)
    marker.write_text("x")
    print("first", flush=True)
"""


def test_a_killed_process_of_a_job_is_started_again_alone(up: Up, script: Write) -> None:
    cluster = up()
    job_id = cluster.submit(JobRequest(script(RUN_TWICE + "    time.sleep(600)\n")))
    wait_until(lambda: sum("first" in line.text for line in cluster.logs(f"job:{job_id}")) == 2, "both run")
    for client in cluster.job(job_id).clients:
        kill(client.pid)
    output, _, status = follow(cluster, job_id)
    assert (status.state, status.restarts) == ("succeeded", 2)
    assert text_of(output, "worker/0") == ["first", "resumed"]


def test_the_retryable_exit_code_asks_for_another_start(up: Up, script: Write) -> None:
    cluster = up()
    path = script(RUN_TWICE + '    sys.exit(int(os.environ["DTF_RETRYABLE_EXIT"]))\n')
    status = follow(cluster, cluster.submit(JobRequest(path)))[2]
    assert (status.state, status.exit_code, status.restarts) == ("succeeded", 0, 2)


def test_retries_start_all_processes_of_a_failed_job_again(up: Up, script: Write) -> None:
    cluster = up()
    path = script(
        """
        import os, pathlib, sys, time
        starts = int(os.environ["DTF_STARTS"])
        folder = pathlib.Path(os.environ["DTF_CHECKPOINT_DIR"])
        with (folder / (os.environ["DTF_TASK_INDEX"] + ".starts")).open("a") as file:
            print(starts, file=file)
        if starts == 3:
            print(sorted(path.read_text().split() for path in folder.glob("*.starts")))
            sys.exit(0)
        if os.environ["DTF_IS_CHIEF"] == "1":
            while not (folder / "1.starts").exists() or str(starts) not in (folder / "1.starts").read_text():
                time.sleep(0.01)
            sys.exit(9)
        time.sleep(600)
        """
    )
    status = follow(cluster, cluster.submit(JobRequest(path)))[2]
    assert (status.state, status.exit_code, status.restarts) == ("failed", 9, 0)
    job_id = cluster.submit(JobRequest(path, retries=2))
    status = follow(cluster, job_id)[2]
    assert (status.state, status.exit_code, status.restarts, status.starts) == ("succeeded", 0, 2, 3)
    kinds = [event.kind for event in cluster.events() if event.subject == f"job:{job_id}"]
    assert kinds.count("job.starts-again") == 2


def test_a_resubmission_finds_the_checkpoints_of_the_first(up: Up, script: Write) -> None:
    cluster = up()
    path = script(RUN_TWICE)
    first = cluster.submit(JobRequest(path))
    follow(cluster, first)
    output, _, _ = follow(cluster, cluster.submit(JobRequest(path, resume=first)))
    assert text_of(output, "worker/0") == ["resumed"]
    folder = Path(cluster.job(first).checkpoint_dir)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    cluster.down()
    assert (folder / "0.marker").exists()


def test_a_job_survives_controller_and_agent_and_its_stream_goes_on(up: Up, script: Write) -> None:
    cluster = up()
    path = script("import time\nfor i in range(30):\n    print(i, flush=True)\n    time.sleep(0.1)")
    job_id = cluster.submit(JobRequest(path, replication="in-graph"))
    seen = []
    killed = 0
    for item in cluster.follow_job(job_id):
        if isinstance(item, JobOutput):
            seen.append(item.line.text)
            if len(seen) == 5:
                kill(controller_pid(cluster))
                killed += 1
            if len(seen) == 15 and killed == 1:
                kill(agent_pid(cluster))
                killed += 1
    assert seen == [str(i) for i in range(30)]
    status = cluster.job(job_id)
    assert (status.state, status.exit_code, status.restarts) == ("succeeded", 0, 0)


def test_a_job_waits_while_a_task_recovers(up: Up, script: Write) -> None:
    cluster = up()
    job_id = cluster.submit(JobRequest(script("import time; time.sleep(4)")))
    wait_until(lambda: cluster.job(job_id).state == "running", "runs")
    kill(pids(cluster)["ps/0"], signal.SIGKILL)
    wait_until(lambda: task(cluster, "ps/0").incarnation == 2, "back")
    status = follow(cluster, job_id)[2]
    assert status.state == "succeeded"
    kinds = [event.kind for event in cluster.events() if event.subject == f"job:{job_id}"]
    assert kinds == ["job.queued", "job.running", "job.recovering", "job.running", "job.succeeded"]


def test_logs_of_tasks_and_jobs_by_selector(up: Up, script: Write) -> None:
    cluster = up(spec_of(worker=1))
    assert any("serves at" in line.text for line in cluster.logs("worker/0"))
    job_id = cluster.submit(JobRequest(script("for i in range(100): print(i)")))
    follow(cluster, job_id)
    assert [line.text for line in cluster.logs(f"job:{job_id}", tail=3)] == ["97", "98", "99"]
    assert [line.text for line in cluster.logs(job_id)] == [str(i) for i in range(100)]
    assert list(cluster.logs(job_id, since=time.time() + 60)) == []
    with pytest.raises(NoSuchJob):
        cluster.logs("job:nothing-1")


def test_parts_of_lines_and_broken_characters_arrive_as_written(up: Up, script: Write) -> None:
    cluster = up(spec_of(worker=1))
    path = script(
        """
        import sys, time
        sys.stdout.write("50%\\r"); sys.stdout.flush(); time.sleep(0.2)
        sys.stdout.buffer.write("é".encode()[:1]); sys.stdout.flush(); time.sleep(0.2)
        sys.stdout.buffer.write("é".encode()[1:] + b" 100%\\nend"); sys.stdout.flush()
        """
    )
    output, _, _ = follow(cluster, cluster.submit(JobRequest(path)))
    whole = "".join(o.line.text + ("\n" if o.line.newline else "") for o in output)
    assert whole == "50%\ré 100%\nend"
