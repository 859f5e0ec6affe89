"""Loops that no small cluster has (`tests/cluster/test_loops.py` has the others) go on after a fault in a step, too."""

from __future__ import annotations

import ast
import importlib.util
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dtfctl
from dtfctl import guard
from dtfctl.dashboard.feed import Feed
from dtfctl.launcher.checkpoints import replica
from dtfctl.launcher.controller.serve import metrics_page
from dtfctl.launcher.identity.certificates import TlsFiles, ensure_authority, ensure_certificate
from dtfctl.launcher.messages.orders import FolderOrder
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import Grant
from dtfctl.launcher.providers.slurm import commands
from dtfctl.launcher.providers.slurm.commands import Job
from dtfctl.launcher.providers.slurm.provider import SlurmProvider
from dtfctl.launcher.providers.ssh import SshProvider
from dtfctl.launcher.spec.load import parse_spec
from dtfctl.launcher.spec.model import ClusterSpec, Metrics, TaskGroup
from dtfctl.runtime.kernels.into.parallel import ThreadPool
from dtfctl.runtime.memory import kept_memory
from dtfctl.runtime.rendezvous.pumps import Pumps
from dtfctl.runtime.steps.deadlines import Deadlines
from dtfctl.runtime.train.event_file import EventFileWriter
from dtfctl.serve import model as served_model
from dtfctl.serve.sources import Policy
from tests.doubles.launcher import status, task
from tests.support.waiting import eventually
from tests.unit.dashboard.test_server import FakeCluster
from tests.unit.serve.test_served import of_source, write

ROOT = Path(dtfctl.__file__).parent
FAULTS = Path(__file__).parents[1] / "support" / "loop_faults" / "sitecustomize.py"
Notes = Callable[[], list[str]]


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notes]:
    """Each loop that is started from now on raises once; what they have noted: `raised`, `again`."""
    spec = importlib.util.spec_from_file_location("loop_faults", FAULTS)
    assert spec is not None and spec.loader is not None
    faults: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(faults)
    folder = tmp_path / "notes"
    folder.mkdir()
    faults.FOLDER = str(folder)
    monkeypatch.setattr(guard, "run", guard.run)  # put back afterwards
    faults.wrap()
    before = guard.faults()

    def noted() -> list[str]:
        return [line.split("\t")[0] for path in folder.iterdir() for line in path.read_text().splitlines()]

    yield noted
    assert "raised" in noted() and guard.faults() > before


def test_threads_for_kernels(notes: Notes) -> None:
    done = list[int]()
    pool = ThreadPool(2)
    for number in range(3):
        pool.run([lambda number=number: done.append(number)] * 4)  # type: ignore[misc]
        eventually(lambda number=number: len(done) == 4 * (number + 1))  # type: ignore[misc]
    eventually(lambda: notes() == ["raised", "again"])


def test_threads_for_long_tensors(notes: Notes) -> None:
    done = threading.Event()
    pumps = Pumps(1)
    pumps.submit(done.set)
    assert done.wait(60.0)
    pumps.submit(lambda: 1 // 0)
    later = threading.Event()
    pumps.submit(later.set)
    assert later.wait(60.0)


def test_memory_that_is_kept(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_memory, "IDLE_S", 0.01)
    kept = kept_memory.Kept(1 << 24)
    eventually(lambda: notes() == ["raised", "again"])
    assert kept is not None


def test_the_event_loop_of_ssh(notes: Notes, tmp_path: Path) -> None:
    """What it is asked is answered, before and after."""
    provider = SshProvider(ClusterPaths(tmp_path / "t"))
    try:
        eventually(lambda: "again" in notes())
        provider.configure(ClusterSpec("t", {"worker": TaskGroup(1)}))
    finally:
        provider.close()


def test_the_look_at_an_allocation(notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Slurm lends is known, before and after."""
    paths = ClusterPaths(tmp_path / "t")
    paths.folder.mkdir()
    paths.allocation.write_text('{"job": "17", "is_ours": true}')
    states = ["PENDING"]
    monkeypatch.setattr(commands, "show_job", lambda job: Job(job, states[-1], "Resources", "", None, None, 0))
    grants: list[Grant] = []
    provider = SlurmProvider(paths)
    provider.on_grant = grants.append
    try:
        provider.configure(parse_spec("cluster: t\nprovider: slurm\ntasks: {worker: 1}\n"))
        eventually(lambda: "again" in notes())
        states.append("CANCELLED")
        provider.configure(parse_spec("cluster: t\nprovider: slurm\ntasks: {worker: 1}\n"))
        eventually(lambda: bool(grants) and grants[-1].why == "was cancelled")
    finally:
        provider.close()


def test_a_flush_of_events_ends_whatever_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = EventFileWriter(str(tmp_path))
    real, left = writer._file.flush, [1]

    def flush() -> None:
        if left:
            left.pop()
            raise ValueError("nobody foresaw it")
        real()

    before = guard.faults()
    file = SimpleNamespace(write=writer._file.write, flush=flush, close=writer._file.close)
    monkeypatch.setattr(writer, "_file", file)
    writer.flush()
    writer.flush()
    writer.close()
    assert guard.faults() == before + 1 and Path(writer.path).stat().st_size


def test_a_metrics_page_whose_port_is_taken(notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "RETRY_S", 0.02)
    ensure_authority(tmp_path, "t")
    tls = ensure_certificate(tmp_path, "t", "controller")
    made = metrics_page.MetricsPage(lambda: "", tls, TlsFiles.of(tmp_path, "controller"))
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    try:
        with taken:
            made.keep_open(ClusterSpec("t", {"worker": TaskGroup(1)}, metrics=Metrics(port)))
            eventually(lambda: "again" in notes())
        eventually(lambda: made._server is not None)
    finally:
        made.close()


def test_checkpoints_that_are_kept_alike(notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "ROUND_S", 0.01)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    told = list[Any]()
    made = replica.Replica(
        FolderOrder(str(folder)), TlsFiles.of(tmp_path, "agent"), "t", lambda *what: told.append(what)
    )
    made.start()
    (folder / "a").write_bytes(b"x")
    try:
        eventually(lambda: "again" in notes())
        eventually(lambda: "a" in made.record.entries)
    finally:
        made.close()
    assert told == []


# ---------------------------------------------------------------- what is done by a clock


def test_what_a_dashboard_follows(notes: Notes) -> None:
    clusters = list[FakeCluster]()

    def opened() -> Any:
        clusters.append(FakeCluster(status(task("worker/0"))))
        return clusters[-1]

    feed = Feed(opened)
    feed.start()
    try:
        eventually(lambda: sorted(notes()) == ["again", "again", "raised", "raised"])
        eventually(lambda: feed.news(0, 0.0) is not None)
    finally:
        feed.close()


def test_the_look_at_the_versions_of_a_served_model(
    notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_model, "LOOK_S", 0.01)
    write(tmp_path / "1", 1.0)
    served = served_model.Model("m", str(tmp_path), Policy.parse("latest"), of_source)
    served.start()
    try:
        eventually(lambda: "again" in notes())
        write(tmp_path / "2", 2.0)
        eventually(lambda: served.find(None).source.version == 2)
    finally:
        served.close()


def test_what_a_clock_does_is_done_again_whatever_it_raised() -> None:
    turns = list[float]()

    def turn() -> bool:
        turns.append(time.monotonic())
        if len(turns) < 3:
            raise ValueError("nobody foresaw it")
        return len(turns) < 5

    before, deadlines = guard.faults(), Deadlines()
    guard.repeat(deadlines.after, 0.01, turn, name="a clock of a test")
    eventually(lambda: len(turns) == 5)
    done = threading.Event()
    deadlines.after(0.1, done.set)
    assert done.wait(60.0) and len(turns) == 5 and guard.faults() - before == 2


def trees() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text("utf-8")
        if "after(" in text or "call_later(" in text or "create_task(" in text or "ensure_future(" in text:
            yield str(path.relative_to(ROOT)), ast.parse(text)


def test_no_function_has_a_clock_call_it_again() -> None:
    """Such a chain ends for good when it raises before that."""
    wrong = []
    for name, tree in trees():
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("after", "call_later"):
                    given = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                    given |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
                    if function.name in given and name != "guard.py":
                        wrong.append(f"{name}:{node.lineno}")
    assert not wrong, "use guard.repeat"


AWAITED = {"launcher/providers/login.py", "launcher/providers/ray/bridge.py"}
"""Where somebody waits for a task that is made, and hears what it raised; and what runs without dtfctl, on hosts."""


def test_no_task_of_an_event_loop_fails_unseen() -> None:
    wrong = []
    for name, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or name in AWAITED:
                continue
            inner = [part for part in node.args if isinstance(part, ast.Call)]
            if ast.unparse(node.func) == "guard.watched":
                for part in inner:
                    part.func = ast.Name("seen")
            function = ast.unparse(node.func)
            if function.endswith(("create_task", "ensure_future")) and not function.startswith("group."):
                wrong.append(f"{name}:{node.lineno}")
    assert not wrong, "use guard.watched"
