"""No thread dies unseen: loops go on after what they raise, it is counted, and nothing goes around the guard."""

from __future__ import annotations

import ast
import logging
import os
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dtfctl
from dtfctl import guard
from dtfctl.launcher.controller.serve.metrics import render
from dtfctl.launcher.model import ClusterStatus, ControllerStatus, HostStatus, TaskStatus
from dtfctl.runtime.executor.workers import WORKERS
from dtfctl.runtime.framework.errors import CancelledError, UnavailableError
from dtfctl.runtime.rendezvous.reactor import Reactor
from dtfctl.runtime.services import peers, pulse
from dtfctl.runtime.steps.deadlines import Deadlines
from dtfctl.task import AgentLine
from tests.support.waiting import eventually

ROOT = Path(dtfctl.__file__).parent
OUTSIDE = {"guard.py", *(f"launcher/providers/{path.name}" for path in (ROOT / "launcher/providers").glob("host_*.py"))}
"""The guard itself, and the program that comes to a host before the package."""
TF_API = {"runtime/train/coordinator.py", "runtime/train/supervisor.py"}
"""TensorFlow's public class of threads of a user's program, which reports to its coordinator, and who makes one."""


def makes_threads(tree: ast.AST) -> list[int]:
    """The lines that make a thread, or a class of threads, by themselves."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("Thread", "Timer"):
            found.append(node.lineno)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "start_new_thread":
            found.append(node.lineno)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Thread") for base in node.bases):
            found.append(node.lineno)
    return found


def modules_with(*words: str) -> Iterator[tuple[Path, ast.Module]]:
    """Modules of the package in which one of the words stands: nobody else can do what it names."""
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text("utf-8")
        if any(word in text for word in words):
            yield path, ast.parse(text)


@pytest.mark.slow
def test_no_thread_goes_around_the_guard() -> None:
    wrong = {}
    for path, tree in modules_with("Thread", "Timer", "start_new_thread"):
        name = str(path.relative_to(ROOT))
        lines = makes_threads(tree)
        if lines and name not in OUTSIDE | TF_API:
            wrong[name] = lines
    assert not wrong, f"use guard.forever or guard.once: {wrong}"
    assert makes_threads(ast.parse((ROOT / "guard.py").read_text()))


@pytest.mark.slow
def test_no_loop_without_end_is_started_as_work_that_is_done_once() -> None:
    """A function that is `while True` at its top, and returns nowhere, is a loop for `forever`."""
    wrong = []
    for path, tree in modules_with("guard.once"):
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "guard.once" and node.args:
                body = functions.get(ast.unparse(node.args[0]).rpartition(".")[2])
                loops = [] if body is None else [item for item in body.body if isinstance(item, ast.While)]
                endless = [loop for loop in loops if ast.unparse(loop.test) == "True"]
                if any(not any(isinstance(i, (ast.Return, ast.Break)) for i in ast.walk(loop)) for loop in endless):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong


def test_a_loop_goes_on_after_what_it_raises_and_it_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    turns, before, done = list[int](), guard.faults(), threading.Event()

    def loop() -> None:
        turns.append(1)
        if len(turns) < 4:
            raise CancelledError("the channel was closed")
        done.set()

    with caplog.at_level(logging.ERROR):
        guard.forever(loop, name="a loop of a test").start()
        assert done.wait(60.0)
    assert guard.faults() - before == 3 and len(turns) == 4
    assert caplog.text.count("a loop of a test failed, and goes on") == 3 and "the channel was closed" in caplog.text


def test_work_that_is_done_once_ends_seen(caplog: pytest.LogCaptureFixture) -> None:
    before = guard.faults()
    thread = guard.once(lambda: 1 // 0, name="work of a test")
    thread.start()
    thread.join(60.0)
    assert guard.faults() == before + 1 and "work of a test failed" in caplog.text


class Wrong(Exception):
    """What nobody foresaw."""


def failing_first(real: Callable[..., Any], times: int = 2) -> Callable[..., Any]:
    """A step that raises at first."""
    left = [times]

    def step(*args: Any, **more: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise Wrong
        return real(*args, **more)

    return step


class Tasks:
    """What `AgentLine` needs of a server."""

    def __init__(self) -> None:
        self.asked = 0

    def progress(self) -> int:
        return 0

    def silent_peers(self, _timeout_s: float) -> set[str]:
        self.asked += 1
        if self.asked <= 2:
            raise CancelledError("Channel closed!")
        return {"ps/0"}

    def transports(self) -> dict[str, str]:
        return {}


def test_a_cancelled_question_does_not_end_the_look_for_tasks_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtfctl.task.LOOK_S", 0.01)
    monkeypatch.setattr("dtfctl.runtime.services.reach.QUIET_S", 0.0)
    line: Any = AgentLine.__new__(AgentLine)
    line._unreachable, line._beat_now = (), threading.Event()
    server = Tasks()
    guard.forever(line._look, [server], name="reach").start()
    eventually(lambda: line._unreachable == ("ps/0",))
    assert line._beat_now.is_set() and server.asked >= 4


def test_a_cancelled_question_is_no_sign_of_a_silent_peer() -> None:
    board: Any = peers.Peers.__new__(peers.Peers)
    board._lock = threading.Lock()

    class Peer:
        life, down, links, channel = 1, None, [1], None

        def __init__(self, task: str) -> None:
            self.task = task

    class Answer:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def result(self) -> None:
            raise self.error

    errors = {"a": CancelledError("Channel closed!"), "b": UnavailableError("no answer")}
    board._peers = {task: Peer(task) for task in errors}
    board.status = lambda task, timeout_s: Answer(errors[task])
    assert board.silent(1.0) == {"b"}


def test_deadlines_go_on() -> None:
    deadlines, done = Deadlines(), threading.Event()
    deadlines.after(0.0, lambda: 1 // 0)
    deadlines.after(0.01, done.set)
    assert done.wait(60.0)


def test_a_kernel_thread_goes_on() -> None:
    done = threading.Event()
    WORKERS.submit(lambda: 1 // 0)
    WORKERS.submit(done.set)
    assert done.wait(60.0)


class Thing:
    """Something the reactor watches."""

    def __init__(self, fd: int, tick: Callable[[], None]) -> None:
        self._fd, self._tick, self.read = fd, tick, threading.Event()

    def fileno(self) -> int:
        return self._fd

    def readable(self) -> None:
        os.read(self._fd, 1)
        self.read.set()

    def writable(self) -> None:
        """Never asked for."""

    def tick(self, _now: float) -> None:
        self._tick()


def test_the_reactor_serves_on_after_a_tick_and_a_turn_that_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtfctl.runtime.rendezvous.reactor.TICK_S", 0.02)
    reactor, ticked = Reactor(), threading.Event()
    ends = [os.pipe(), os.pipe()]

    def bad() -> None:
        ticked.set()
        raise Wrong

    thing, broken = Thing(ends[0][0], lambda: None), Thing(ends[1][0], bad)
    monkeypatch.setattr(reactor, "_drain", failing_first(reactor._drain))
    reactor.add(thing)
    reactor.add(broken)
    assert ticked.wait(60.0)
    assert select.select([ends[0][0]], [], [], 0)[0] == []
    os.eventfd_write(reactor._wake, 1)
    os.write(ends[0][1], b"x")
    assert thing.read.wait(60.0)
    reactor.remove(thing)
    for pair in ends:
        for fd in pair:
            os.close(fd)


def test_a_probe_that_fails_in_a_way_nobody_foresaw_asks_again(tmp_path: Path) -> None:
    probe = pulse.CallProbe(tmp_path / "nobody")
    answers: list[bool] = []
    probe._ping = failing_first(lambda *_args, **_more: b"")
    for number in range(3):
        probe.ask(answers.append)
        eventually(lambda number=number: len(answers) == number + 1)  # type: ignore[misc]
    assert answers == [False, False, True]
    probe.close()


def test_faults_are_on_the_metrics_page() -> None:
    tasks = (TaskStatus("worker", 1, "running", faults=7),)
    hosts = (HostStatus("a", "up", faults=5),)
    page = render(ClusterStatus("lab", 0.0, ControllerStatus(1, "", 1, 0.0, "1"), hosts, tasks, (), ()), 1, faults=3)
    for process, count in (("controller", 3), ("agent:a", 5), ("worker/1", 7)):
        assert f'dtfctl_faults_total{{process="{process}"}} {count}\n' in page
