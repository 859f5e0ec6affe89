"""The controller's store keeps what it was given, all or nothing, also across a torn write."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.controller.state.store import Store, TaskRow, read_events
from dtfctl.launcher.errors import InternalError
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.spec.model import ClusterSpec, TaskGroup


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller.db"


def record(job_id: str) -> JobRecord:
    return JobRecord(job_id, JobRequest("t.py", submission_id=f"s-{job_id}"), "t.py", "/j", "/j/c", 1.0)


def test_everything_is_there_after_opening_it_again(path: Path) -> None:
    spec = ClusterSpec("dev", {"ps": TaskGroup(1), "worker": TaskGroup(2, env={"A": "b"})})
    rows = [TaskRow("worker/10", "b", run=False), TaskRow("ps/0", "a", restart_request=2, incarnation=5)]
    store = Store(path)
    store.set_spec(spec)
    store.put_tasks(rows)
    job = store.add_job(record("j-1"))
    store.add_event("task.running", "ps/0", "why", 5)
    store.close()
    again = Store(path)
    assert again.spec() == spec
    assert again.tasks() == rows
    assert again.jobs() == [job]
    assert [event.kind for event in read_events(path, 0, 0.0, 10)] == ["task.running"]


def test_a_transaction_that_fails_leaves_nothing(path: Path) -> None:
    store = Store(path)

    def half() -> None:
        with store.transaction():
            store.add_event("a", "b")
            store.add_job(record("j-1"))
            raise KeyError("in the middle")

    with pytest.raises(KeyError):
        half()
    assert store.last_event() == 0
    assert store.jobs() == []


def test_one_submission_is_one_job(path: Path) -> None:
    store = Store(path)
    store.add_job(record("j-1"))
    with pytest.raises(sqlite3.IntegrityError):
        store.add_job(record("j-1"))


def test_epochs_count_up(path: Path) -> None:
    assert [Store(path).next_epoch() for _ in range(3)] == [1, 2, 3]


def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    Store(path).put("schema", "99")
    with pytest.raises(InternalError, match="newer dtfctl"):
        Store(path)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 40_000))
def test_a_journal_cut_anywhere_opens_with_a_prefix_of_the_events(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """A kill -9 with a torn last write, by copying the live files and cutting the log."""
    folder = tmp_path_factory.mktemp("torn")
    live = folder / "live.db"
    store = Store(live)
    for number in range(20):
        store.add_event("kind", f"subject-{number}")
    torn = folder / "torn.db"
    shutil.copy(live, torn)
    journal = (folder / "live.db-wal").read_bytes()
    (folder / "torn.db-wal").write_bytes(journal[: max(0, len(journal) - cut)])
    store.close()
    subjects = [event.subject for event in Store(torn) and read_events(torn, 0, 0.0, 100)]
    assert subjects == [f"subject-{number}" for number in range(len(subjects))]


def test_events_are_read_in_order_from_a_number_and_a_time(path: Path) -> None:
    store = Store(path)
    for at in (1.0, 2.0, 3.0):
        store.add_event("k", "s", at=at)
    assert [event.time for event in read_events(path, 1, 0.0, 10)] == [2.0, 3.0]
    assert [event.time for event in read_events(path, 0, 2.5, 10)] == [3.0]
    assert [event.time for event in read_events(path, 0, 0.0, 1)] == [1.0]
