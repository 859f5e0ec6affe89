"""A copy of a job's event files, and TensorBoard before it."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from dtfctl.launcher.errors import Conflict, ConnectionLost, NoSuchJob
from dtfctl.launcher.model import ClientStatus, JobStatus
from dtfctl.launcher.operator import event_files
from dtfctl.launcher.operator.event_files import EventFiles, job_of
from dtfctl.launcher.operator.tensorboard import TensorBoard
from tests.doubles.launcher import status


class Here:
    """A command that runs here, in place of a host."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [sys.executable, *words[1:]]

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        yield "out", subprocess.run(self._words, capture_output=True, check=True).stdout

    def close(self) -> None:
        """Do nothing: it has ended."""


def job(folder: Path, *hosts: str) -> JobStatus:
    clients = tuple(ClientStatus(f"worker/{n}", host, "running") for n, host in enumerate(hosts))
    return JobStatus("j-1", "j", "running", "between-graph", "j.py", checkpoint_dir=str(folder), clients=clients)


def test_what_grows_on_a_host_is_appended_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "tensorboard").mkdir(parents=True)
    events = there / "tensorboard" / "events.out.tfevents.1"
    events.write_bytes(b"one\n{}")
    (there / "model.ckpt-1.data-00000-of-00001").write_bytes(b"large")
    os.symlink("/etc/passwd", there / "tfevents.link")
    files = EventFiles(job(there, "a", "a"), here, lambda target, words: cast(Any, Here(words)))
    assert files.fetch() == 6
    with events.open("ab") as more:
        more.write(b"two")
    monkeypatch.setattr(event_files, "MOST_BYTES", 2)
    assert [files.fetch() for _ in range(3)] == [2, 1, 0]
    assert {str(file.relative_to(here)): file.read_bytes() for file in here.rglob("*") if file.is_file()} == {
        "tensorboard/events.out.tfevents.1": b"one\n{}two"
    }


def test_what_a_host_says_leads_nowhere_else(tmp_path: Path) -> None:
    class Liar(Here):
        def __iter__(self) -> Iterator[tuple[str, bytes]]:
            yield "out", b'["../out", 0, 2]\nxx["/tmp/see-out", 0, 2]\nxx["in", 7, 2]\nxx'

    assert EventFiles(job(tmp_path, "a"), tmp_path / "here", lambda _, words: cast(Any, Liar(words))).fetch() == 0
    assert not (tmp_path / "out").exists() and not list((tmp_path / "here").iterdir())


@pytest.mark.parametrize("said", [b'["x", 0, -1]\nab', b'["x", 0, "2"]\nab', b'["\\u0000", 0, 1]\nab', b"x" * 4096])
def test_what_a_host_says_that_makes_no_sense_is_told(
    tmp_path: Path, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Liar(Here):
        def __iter__(self) -> Iterator[tuple[str, bytes]]:
            while True:
                yield "out", said
                if len(said) < 4096:
                    return

    monkeypatch.setattr(event_files, "MOST_SAID", 65536)
    with pytest.raises(Conflict, match=r"no sense|more than"):
        EventFiles(job(tmp_path, "a"), tmp_path / "here", lambda _, words: cast(Any, Liar(words))).fetch()


def test_other_files_beside_the_copies_are_no_business_of_hosts(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "diary").write_text("mine")
    given: list[str] = []

    def run(target: Any, words: Sequence[str]) -> Any:
        given.extend(words)
        return Here(words)

    assert EventFiles(job(tmp_path / "there", "a"), tmp_path / "here", run).fetch() == 0
    assert not any("diary" in word for word in given)


def test_a_host_that_is_gone_is_passed_over_while_there_is_another(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x.tfevents").write_bytes(b"x")

    def run(target: Any, words: Sequence[str]) -> Any:
        if target.host == "gone":
            raise ConnectionLost("gone")
        return Here(words)

    assert EventFiles(job(tmp_path / "there", "gone", "here"), tmp_path / "to", run).fetch() == 1
    with pytest.raises(ConnectionLost):
        EventFiles(job(tmp_path / "there", "gone"), tmp_path / "to", run).fetch()


def test_a_job_that_is_not_there_or_has_nothing_is_told(tmp_path: Path) -> None:
    known = status(jobs=[job(tmp_path)])
    with pytest.raises(NoSuchJob):
        job_of(known, "j-2")
    with pytest.raises(Conflict, match="nothing yet"):
        job_of(known, "j-1")


@pytest.mark.slow
def test_tensorboard_is_shown_to_this_users_processes_under_this_machines_name(tmp_path: Path) -> None:
    python = os.environ.get("DTF_TEST_TENSORBOARD")
    if not python:
        pytest.skip("name a Python that has TensorBoard in DTF_TEST_TENSORBOARD")
    board = TensorBoard(python, tmp_path)
    board.start()
    try:
        for host, answer in (("127.0.0.1", 200), ("localhost", 200), ("else.example", 421)):
            connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=60)
            connection.request("GET", "/data/environment", headers={"Host": f"{host}:{board.port}"})
            assert connection.getresponse().status == answer
            connection.close()
    finally:
        board.close()


def test_what_tensorboard_says_when_it_cannot_start_is_told(tmp_path: Path) -> None:
    board = TensorBoard(sys.executable, tmp_path)
    try:
        with pytest.raises(Conflict, match=r"TensorBoard has ended with 1: .*No module named 'tensorboard'"):
            board.start()
    finally:
        board.close()
