"""Whether the parts that serve answer, with a clock that the test owns, and the real reactor and gRPC server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtfctl.runtime.services.pulse import Answer, Pulse, ReactorProbe
from dtfctl.runtime.services.server import TaskServer, TaskServerConfig
from tests.support.ports import free_ports


class Asked:
    """A probe that keeps its questions."""

    def __init__(self, name: str = "it", every_s: float = 0.0) -> None:
        self.name, self.every_s = name, every_s
        self.open: list[Answer] = []
        self.count = 0

    def ask(self, answer: Answer) -> None:
        self.open.append(answer)
        self.count += 1

    def answer(self, was_served: bool = True) -> None:
        self.open.pop(0)(was_served)

    def close(self) -> None:
        self.open.clear()


def test_what_answers_is_asked_again_and_is_well() -> None:
    probe, rare = Asked(), Asked(every_s=2.0)
    pulse = Pulse([probe, rare], 0.5, 1.0)
    for beat in range(8):
        assert pulse.look(beat * 0.5) == ""
        for asked in (probe, rare):
            if asked.open:
                asked.answer()
    assert (probe.count, rare.count) == (8, 2)


def test_what_does_not_answer_is_told_until_it_does() -> None:
    probe = Asked("its reactor")
    pulse = Pulse([Asked("another"), probe], 0.5, 1.0)
    pulse._asked[0].probe.ask = lambda answer: answer(True)  # type: ignore[method-assign]
    said = [pulse.look(beat * 0.5) for beat in range(4)]
    assert said == ["", "", "its reactor has not answered for 1.0 s", "its reactor has not answered for 1.5 s"]
    assert probe.count == 1
    probe.answer()
    assert pulse.look(2.0) == ""


def test_time_in_which_the_one_who_asks_stood_still_does_not_count() -> None:
    probe = Asked()
    pulse = Pulse([probe], 0.5, 2.0)
    pulse.look(0.0)
    assert pulse.look(60.0) == "", "a kernel held the interpreter lock"
    probe.answer()
    assert pulse.look(60.5) == ""


def test_a_lost_question_is_asked_again_and_the_silence_goes_on() -> None:
    probe = Asked()
    pulse = Pulse([probe], 0.5, 1.0)
    said = []
    for beat in range(4):
        said.append(pulse.look(beat * 0.5))
        probe.answer(was_served=False)
    assert said == ["", "", "it has not answered for 1.0 s", "it has not answered for 1.5 s"]
    assert probe.count == 4


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TaskServer]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    found = TaskServer(
        TaskServerConfig({"worker": {0: address}}, "worker", 0, 1, address, tmp_path / "s", None, tmp_path)
    )
    found.start()
    yield found
    found.stop(0)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_real_server_answers_as_long_as_it_serves(server: TaskServer) -> None:
    pulse = server.make_pulse(0.5)
    reactor, calls = pulse._asked
    pulse.look(0.0)
    until(lambda: not reactor.is_open and not calls.is_open)
    assert not calls.must_ask
    server.stop(0)
    pulse.look(10.0)
    until(lambda: calls.must_ask)
    assert calls.is_open, "a server that is gone does not answer"
    pulse.close()


class Stuck:
    """Something watched that does not come back."""

    def __init__(self) -> None:
        self.gate, self.began = threading.Event(), threading.Event()
        self._probe = ReactorProbe()
        self._probe.ask(self._block)

    def _block(self, _served: bool) -> None:
        self.began.set()
        self.gate.wait(60.0)

    def release(self) -> None:
        self.gate.set()
        self._probe.close()


def test_a_reactor_that_is_stuck_does_not_answer() -> None:
    stuck = Stuck()
    try:
        assert stuck.began.wait(60.0)
        pulse = Pulse([ReactorProbe()], 0.5, 1.0)
        pulse.look(0.0)
        for beat in range(1, 4):
            time.sleep(0.05)
            said = pulse.look(beat * 0.5)
        assert said == "its reactor has not answered for 1.5 s"
    finally:
        stuck.release()
    until(lambda: not pulse._asked[0].is_open)
    assert pulse.look(2.0) == ""
    pulse.close()
