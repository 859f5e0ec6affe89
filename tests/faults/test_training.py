"""Rows 1 to 3: the death of a worker, the ps and the chief under one real training job."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import Event, JobRequest
from dtfctl.launcher.spec.model import Checkpoints, Every
from tests.cluster.conftest import kill, pids, spec_of, task, wait_until
from tests.faults.conftest import Measured

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_mlp.py"
UNHURRIED = Path(__file__).with_name("unhurried.py")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, str]]:
    """A cluster of 1 ps and 2 workers that trains, and the job's id."""
    pytest.importorskip("sklearn", reason="the example's data set comes with scikit-learn")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("training")))
    cluster = Cluster.up(spec_of(checkpoints=Checkpoints(every=Every(seconds=5.0)))).cluster
    assert cluster is not None
    job_id = cluster.submit(JobRequest(str(UNHURRIED), (str(EXAMPLE), "--steps", "10000000")))
    wait_until(lambda: step_of(cluster, job_id) > 100, "it trains")
    yield cluster, job_id
    cluster.cancel([job_id], grace_s=1.0)
    cluster.down(grace_s=1.0)
    monkeypatch.undo()


def step_of(cluster: Cluster, job_id: str) -> int:
    progress = cluster.job(job_id).progress
    return 0 if progress is None else progress.step


def kill_task(cluster: Cluster, name: str, measured: Measured) -> float:
    """kill -9; waits until it runs again. The time of the fault."""
    newest = task(cluster, name).incarnation
    after = max(event.seq for event in cluster.events())
    begun = time.time()
    kill(pids(cluster)[name])
    wait_until(lambda: (t := task(cluster, name)).state == "running" and t.incarnation > newest, f"{name} is back")
    happened = [event for event in cluster.events() if event.subject == name and event.seq > after]
    measured("seen s", first(happened, "task.ended").time - begun)
    measured("new process s", first(happened, "task.starting").time - begun)
    return begun


def first(events: list[Event], kind: str) -> Event:
    return next(event for event in events if event.kind == kind)


def others(before: dict[str, int | None], after: dict[str, int | None]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.fault(1)
def test_a_killed_worker_comes_back_alone_and_trains_again(training: tuple[Cluster, str], measured: Measured) -> None:
    cluster, job_id = training
    before, step = pids(cluster), step_of(cluster, job_id)
    begun = kill_task(cluster, "worker/1", measured)
    wait_until(lambda: task(cluster, "worker/1").steps >= 3, "worker/1 trains again")
    measured("training again s", time.time() - begun)
    assert others(before, pids(cluster)) == {"worker/1"}
    wait_until(lambda: step_of(cluster, job_id) > step, "it gets on")


@pytest.mark.fault(2)
def test_a_killed_ps_is_restored_and_what_was_lost_is_told(training: tuple[Cluster, str], measured: Measured) -> None:
    cluster, job_id = training
    before, step = pids(cluster), step_of(cluster, job_id)
    newest = max(event.seq for event in cluster.events())
    worker_ran = task(cluster, "worker/1").steps
    begun = kill_task(cluster, "ps/0", measured)
    wait_until(lambda: task(cluster, "ps/0").steps >= 3 and task(cluster, "worker/1").steps > worker_ran, "goes on")
    wait_until(lambda: step_of(cluster, job_id) != step, "reports progress")
    measured("training again s", time.time() - begun)
    assert others(before, pids(cluster)) == {"ps/0"}

    def told() -> bool:
        """Whether it is said that steps are lost; the progress of a process may come a report before what it notes."""
        notes = [event.reason for event in cluster.events() if event.kind == "job.note" and event.seq > newest]
        return any("goes on from step" in reason for reason in notes)

    wait_until(lambda: told() or step_of(cluster, job_id) >= step, "it is told, or nothing was lost")
    assert cluster.job(job_id).state in ("running", "recovering")


@pytest.mark.fault(3)
def test_a_killed_chief_comes_back_as_chief_and_no_checkpoint_is_lost(
    training: tuple[Cluster, str], measured: Measured
) -> None:
    cluster, job_id = training
    folder = Path(cluster.job(job_id).checkpoint_dir)
    wait_until(lambda: (folder / "checkpoint").exists(), "a first checkpoint")
    saved = newest_checkpoint(folder)
    before, newest = pids(cluster), task(cluster, "worker/0").incarnation
    chief = cluster.job(job_id).clients[0]
    assert chief.name == "worker/0"
    begun = time.time()
    kill(before["worker/0"])
    kill(chief.pid)
    wait_until(
        lambda: (t := task(cluster, "worker/0")).state == "running" and t.incarnation > newest, "worker/0 is back"
    )
    wait_until(lambda: cluster.job(job_id).clients[0].restarts > chief.restarts, "its client is back")
    wait_until(lambda: task(cluster, "worker/0").steps >= 3, "it trains again")
    measured("training again s", time.time() - begun)
    assert others(before, pids(cluster)) == {"worker/0"}
    assert cluster.job(job_id).clients[0].name == "worker/0"
    wait_until(lambda: newest_checkpoint(folder) > saved, "it saves again")
    told = [event.reason for event in cluster.events() if event.kind == "job.note"]
    measured("checkpoints lost", sum("damaged" in reason for reason in told))
    assert not any("damaged" in reason for reason in told)


def newest_checkpoint(folder: Path) -> int:
    """The step of the newest checkpoint that the folder's state names."""
    first_line = (folder / "checkpoint").read_text().splitlines()[0]
    return int(first_line.rpartition("-")[2].strip('"'))


def stop_between_saves(cluster: Cluster, folder: Path) -> int:
    """Freeze the ps at a moment after which no newer checkpoint can come from it; its pid.

    Where it has written one that the chief has not named yet, the chief will, and restores that one then: a slow disk
    takes seconds for the list.
    """

    def stop() -> int | None:
        pid = pids(cluster)["ps/0"]
        assert pid is not None
        kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(state_of(thread) == "T" for thread in Path(f"/proc/{pid}/task").iterdir()), "it stands")
        newest = max(folder.glob("*.index"), key=lambda index: index.stat().st_mtime_ns)
        if newest.stem == f"model.ckpt-{newest_checkpoint(folder)}":
            return pid
        kill(pid, signal.SIGCONT)
        return None

    found: int = wait_until(stop, "the chief has named all that the ps has written")
    return found


def state_of(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.fault(26)
@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_checkpoint_is_refused_and_an_event_says_so(
    training: tuple[Cluster, str], measured: Measured, damage: str
) -> None:
    cluster, job_id = training
    folder = Path(cluster.job(job_id).checkpoint_dir)
    saved = newest_checkpoint(folder) if (folder / "checkpoint").exists() else -1
    wait_until(lambda: (folder / "checkpoint").exists() and newest_checkpoint(folder) > saved, "a new checkpoint")
    after = max(event.seq for event in cluster.events())
    ps = stop_between_saves(cluster, folder)
    name = (folder / "checkpoint").read_text().splitlines()[0].split('"')[1]
    (data,) = folder.glob(f"{Path(name).name}.data-*")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 0x10
    data.write_bytes(content[: len(content) // 2] if damage == "truncated" else content)
    kill(ps)

    def told() -> str:
        notes = (e.reason for e in cluster.events() if e.seq > after and e.kind == "job.note")
        return next((reason for reason in notes if "is damaged" in reason), "")

    wait_until(told, "an event tells of it", 60.0)
    assert f"{Path(name).name} is damaged" in told()
    assert "went on from" in told()
    measured("wrong state loaded", 0)
    wait_until(lambda: task(cluster, "ps/0").steps > 20 and cluster.job(job_id).state == "running", "it trains on")
