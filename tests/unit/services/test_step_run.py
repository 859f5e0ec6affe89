"""A step over several tasks as its master runs it: it ends although tasks are slow to be told of it."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from dtfctl.runtime.framework.errors import CancelledError
from dtfctl.runtime.rendezvous.frames import Kind
from dtfctl.runtime.rendezvous.routing import Routes
from dtfctl.runtime.services.step_run import StepRun
from dtfctl.runtime.services.tasks import RemotePart
from dtfctl.runtime.steps.coordinator import Parts
from dtfctl.runtime.steps.grace import GRACE_S
from dtfctl.runtime.steps.step import Step

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"


class Silent:
    """A task that takes what it is sent and says nothing; starting a part takes until it is let go."""

    def __init__(self) -> None:
        self.sent: list[Kind] = []
        self.reached, self.go = threading.Event(), threading.Event()
        self.go.set()

    def start(self, *_: Any) -> None:
        self.reached.set()
        assert self.go.wait(60.0)

    def send(self, kind: Kind, step: int) -> None:
        self.sent.append(kind)


def test_a_part_that_is_started_after_the_time_to_end_is_over_does_not_keep_the_step() -> None:
    tasks = {PS: Silent(), WORKER: Silent()}
    tasks[WORKER].go.clear()
    step = Step(1, Routes("/job:chief/replica:0/task:0"), None, 0.0)
    remote = {name: RemotePart(cast(Any, task), 1, b"") for name, task in tasks.items()}
    run = StepRun(step, "session", Parts([PS, WORKER]), remote)
    ended: list[BaseException] = []

    def execute() -> None:
        with pytest.raises(CancelledError, match="enough") as caught:
            run.execute(lambda: None)
        ended.append(caught.value)

    thread = threading.Thread(target=execute)
    thread.start()
    assert tasks[WORKER].reached.wait(60.0)
    step.token.cancel(CancelledError("enough"))
    # Longer than what runs has to end.
    threading.Event().wait(2 * GRACE_S)
    assert not ended
    tasks[WORKER].go.set()
    thread.join(60.0)
    assert ended
    assert [task.sent for task in tasks.values()] == [[Kind.CANCEL, Kind.CLEANUP]] * 2
