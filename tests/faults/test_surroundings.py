"""Rows 12, 16, 21 and 27: the disk, the clock, floods of output and the journal."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import Event, JobRequest
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import Logs
from tests.cluster.conftest import agent_pid, controller_pid, kill, pids, spec_of, task, wait_until
from tests.cluster.test_full_disk import MakeDisk, disk as disk, fill
from tests.faults.conftest import Measured

Up = Callable[..., Cluster]
ROOT = Path(__file__).parents[2]
SAVING = """
import os
import time
import dtfctl.runtime as tf
step = tf.train.get_or_create_global_step()
weights = tf.get_variable("weights", [100000], initializer=tf.zeros_initializer())
train = tf.group(weights.assign_add(tf.ones([100000])), tf.assign_add(step, 1))
hooks = [tf.train.ProgressHook(), tf.train.StopAtStepHook(last_step=10**9)]
with tf.train.MonitoredTrainingSession(
    checkpoint_dir=os.environ["DTF_CHECKPOINT_DIR"],
    save_checkpoint_secs=None,
    save_checkpoint_steps=20,
    save_summaries_steps=None,
    hooks=hooks,
) as session:
    while not session.should_stop():
        session.run(train)
        time.sleep(0.01)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is made with a tmpfs, which needs root")
@pytest.mark.fault(12)
def test_a_full_disk_under_state_and_checkpoints(disk: MakeDisk, tmp_path: Path, measured: Measured) -> None:
    folder = disk("16m")
    cluster = Cluster.up(spec_of(worker=1)).cluster
    assert cluster is not None
    before = pids(cluster)
    script = tmp_path / "saving.py"
    script.write_text(SAVING)
    job_id = cluster.submit(JobRequest(str(script)))
    checkpoints = Path(cluster.job(job_id).checkpoint_dir)
    wait_until(lambda: (checkpoints / "checkpoint").exists(), "a first checkpoint")
    fill(folder)
    begun = time.monotonic()
    wait_until(lambda: any("no space" in problem for problem in cluster.status().problems), "status shows it")
    measured("shown s", time.monotonic() - begun)
    assert pids(cluster) == before
    measured("corrupt files", len(corrupt(checkpoints)))
    assert corrupt(checkpoints) == []
    saved = newest(checkpoints)
    (folder / "ballast").unlink()
    wait_until(lambda: not cluster.status().problems, "recovers by itself")
    wait_until(lambda: newest(checkpoints) > saved, "it saves again")
    assert corrupt(checkpoints) == []
    assert pids(cluster) == before
    cluster.cancel([job_id], grace_s=1.0)


def newest(folder: Path) -> int:
    return int((folder / "checkpoint").read_text().splitlines()[0].rpartition("-")[2].strip('"'))


def corrupt(folder: Path) -> list[str]:
    """Checkpoints that the folder's state names and that cannot be read whole."""
    import dtfctl.runtime as tf

    bad = []
    state = tf.train.get_checkpoint_state(str(folder))
    for path in state.all_model_checkpoint_paths if state is not None else ():
        try:
            reader = tf.train.load_checkpoint(path)
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
        except tf.errors.OpError as error:
            if os.path.exists(f"{path}.index"):  # else it was just removed as too old
                bad.append(f"{path}: {error}")
    return bad


@pytest.mark.fault(16)
def test_clocks_that_differ_and_jump_change_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Measured
) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("the clock is skewed by a preloaded C function, and there is no C compiler")
    library, ahead = tmp_path / "skew.so", tmp_path / "ahead"
    source = Path(__file__).with_name("skew.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    ahead.write_text("0")
    # The tasks keep the true time ...
    monkeypatch.setenv("CLOCK_AHEAD", str(ahead))
    from tests.cluster.conftest import STUB_COMMAND

    cluster = Cluster.up(spec_of(), task_command=STUB_COMMAND).cluster
    assert cluster is not None
    before = pids(cluster)
    # ... the controller and the agent are an hour ahead, then two behind, then back.
    monkeypatch.setenv("LD_PRELOAD", str(library))
    ahead.write_text("3600")
    kill(agent_pid(cluster))
    kill(controller_pid(cluster))
    found = Cluster.open()
    monkeypatch.delenv("LD_PRELOAD")
    wait_until(lambda: found.status().running == 3, "adopted")
    assert max(event.time for event in found.events()) > time.time() + 3000, "the clock of the new controller is ahead"
    kill(pids(found)["worker/1"])
    wait_until(lambda: (t := task(found, "worker/1")).state == "running" and t.incarnation == 2, "back")
    for jump in ("-7200", "0"):
        ahead.write_text(jump)
        time.sleep(6.0)  # longer than the silence after which a task is given up
    after = found.status()
    alarms = alarms_of(found)
    measured("false alarms", len(alarms))
    assert alarms == []
    assert {t.name: t.pid for t in after.tasks if t.name != "worker/1"} == {
        name: pid for name, pid in before.items() if name != "worker/1"
    }
    assert sorted(e.seq for e in found.events()) == list(range(1, len(list(found.events())) + 1))
    kill(agent_pid(found))
    kill(controller_pid(found))


@pytest.mark.fault(21)
def test_a_flood_of_output_waits_and_what_is_deleted_is_said(
    up: Up, home: Path, tmp_path: Path, measured: Measured
) -> None:
    cluster = up(spec_of(logs=Logs(rotate=4 * 2**20, keep=2, rate=2 * 2**20)))
    flood = tmp_path / "flood.py"
    flood.write_text(
        "import os, time\n"
        "end = time.monotonic() + 10\n"
        "block = (b'x' * 127 + b'\\n') * 8192\n"
        "while time.monotonic() < end:\n"
        "    os.write(1, block)\n"
    )
    job_id = cluster.submit(JobRequest(str(flood), replication="in-graph"))
    controller = controller_pid(cluster)
    rss, size = 0.0, 0.0
    while not cluster.job(job_id).is_final:
        rss = max(rss, rss_of(controller), rss_of(agent_pid(cluster)))
        size = max(size, folder_size(ClusterPaths.of("t").logs))
        time.sleep(0.2)
    measured("controller MB", rss)
    measured("disk MB", size)
    assert size < 40
    assert cluster.job(job_id).state == "succeeded"
    alarms = alarms_of(cluster)
    measured("false alarms", len(alarms))
    assert alarms == []
    assert all(t.restarts == 0 for t in cluster.status().tasks)
    first, *rest = (line.text for line in cluster.logs(f"job:{job_id}"))
    assert "dropped here by the limits logs.rotate and logs.keep" in first
    assert len(rest) > 10_000
    assert set(rest) == {"x" * 127}


def alarms_of(cluster: Cluster) -> list[Event]:
    """What was done for want of beats. That some are late, and shown as such, a busy machine is enough for."""
    return [event for event in cluster.events() if event.kind in ("task.stopping", "host.down")]


def rss_of(pid: int) -> float:
    """MB of memory of a process and, for none, 0."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
    except FileNotFoundError:
        return 0.0


def folder_size(folder: Path) -> float:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # rotated away
    return total / 1e6


@pytest.mark.fault(27)
def test_a_journal_cut_in_its_last_record_still_starts(up: Up, home: Path, measured: Measured) -> None:
    cluster = up()
    before = pids(cluster)
    for _ in range(3):
        cluster.restart("worker/1")
        paths = ClusterPaths.of("t")
        kill(controller_pid(cluster))
        tear_last_record(Path(f"{paths.database}-wal"))
        cluster = Cluster.open()
        wait_until(lambda found=cluster: found.status().running == 3, "all are adopted")
        after = pids(cluster)
        assert {name for name in before if before[name] != after[name]} <= {"worker/1"}
        with contextlib.closing(sqlite3.connect(paths.database)) as database:
            assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        before = after
    measured("failed starts", 0)


def tear_last_record(journal: Path) -> None:
    """Half of the newest page of a write-ahead log was never written.

    Frames of the current log carry the salts of its header; what follows them in the file is older.
    """
    content = bytearray(journal.read_bytes())
    page = int.from_bytes(content[8:12], "big")
    salts = content[16:24]
    at, newest = 32, None
    while at + 24 + page <= len(content) and content[at + 8 : at + 16] == salts:
        newest, at = at, at + 24 + page
    assert newest is not None, "the journal holds records"
    content[newest + 24 + page // 2 : newest + 24 + page] = bytes(page // 2 - 1) + b"\xff"
    journal.write_bytes(content)
