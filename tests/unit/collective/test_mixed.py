"""Two tasks that take each other for TensorFlow's servers: its protocol on both sides, with no sockets between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import tensorflow_worker_pb2 as pb
from dtfctl.runtime.collective import members
from dtfctl.runtime.collective.communicator import Member
from dtfctl.runtime.collective.foreign_messages import OURS
from dtfctl.runtime.collective.members import Collectives
from dtfctl.runtime.collective.mixed import Mixed
from dtfctl.runtime.collective.sessions import SessionCollectives
from dtfctl.runtime.collective.step_ids import StepIds
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import (
    AbortedError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OpError,
    UnimplementedError,
)
from dtfctl.runtime.kernels.collective_request import CollectiveRequest

TASKS = [f"/job:worker/replica:0/task:{i}" for i in range(2)]
KEY = 6


class Wire:
    """What one task reaches the other by: what TensorFlow's servers serve, and nothing else."""

    def __init__(self, tasks: dict[str, Collectives]) -> None:
        self._tasks = tasks
        self.methods: list[str] = []

    def call(self, task: str, method: str, request: Any, answer: Any, done: Callable[..., None]) -> Callable[[], None]:
        self.methods.append(method)
        other = self._tasks[task]

        def told(value: Any, error: OpError | None) -> None:
            if isinstance(value, pb.CompleteGroupResponse):
                for device in value.device_attributes:
                    own = device.name.startswith(task)
                    device.physical_device_desc = "" if own else OURS
            done(value, error)

        try:
            if method == "CompleteGroup":
                return other.leading.complete_group(request, told)
            if method == "CompleteInstance":
                return other.leading.complete_instance(request, told)
            if method == "RecvBuf":
                return other.mixed.receive(request, told)
            told(other.mixed.step_sequence(request), None)
        except OpError as e:
            told(None, e)
        return lambda: None

    def rates(self) -> Mapping[str, float]:
        return {}

    def learn(self, task: str, life: int) -> None:
        raise AssertionError("a foreign task has no life that is known")

    def hear_of(self, task: str) -> None:
        raise UnimplementedError("There is no method /dtf.WorkerService/GetStatus")

    def slowest_rate(self) -> float:
        return 0.0

    def send(self, task: str, messages: Any) -> None:
        raise AssertionError("what is ours does not reach it")


class Step:
    """A step of a task, with what it computes."""

    def __init__(self, tasks: dict[str, Collectives], task: int, number: int, **request: Any) -> None:
        self.token = CancellationToken()
        self.results: list[Any] = []
        collectives = tasks[TASKS[task]]
        device = SimpleNamespace(name=f"{TASKS[task]}/device:CPU:0")
        step: Any = SimpleNamespace(cancellation=self.token, device=device, step_id=number, frame="0:0")
        value = np.arange(5, dtype=np.float32) + task
        settings = {"kind": "Reduce", "group_key": 1, "group_size": 2, "instance_key": 1, "value": value}
        asked = CollectiveRequest(**{**settings, "shape": value.shape, "dtype": value.dtype, **request})  # type: ignore[arg-type]
        session = SessionCollectives(collectives, "session", "", TASKS[task], KEY)
        session.begin(asked, step, self.results.append, outlives_kernel=True)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Collectives]:
    monkeypatch.setattr(members, "submit", lambda function, *args: function(*args))
    made: dict[str, Collectives] = {}
    for life, task in enumerate(TASKS, 5):
        wire: Any = Wire(made)
        made[task] = Collectives(task, life, wire, TASKS[0], wire)
    return made


def test_steps_and_sessions_follow_each_other(tasks: dict[str, Collectives]) -> None:
    for number in range(1, 4):
        # The numbers of the steps differ; TensorFlow's number for them does not.
        steps = [Step(tasks, task, number * 10 + task) for task in range(2)]
        assert [s.results[0].tolist() for s in steps] == [[1.0, 3.0, 5.0, 7.0, 9.0]] * 2
        if number == 2:
            # Who opens a new session is still in the group of before.
            tasks[TASKS[1]].end_session("session")
    gathered = [Step(tasks, task, 50 + task, kind="Gather", instance_key=2) for task in (1, 0)]
    assert [s.results[0].tolist() for s in gathered] == [[0, 1, 2, 3, 4, 1, 2, 3, 4, 5]] * 2
    receives = {"kind": "Broadcast", "instance_key": 3}
    sent = [
        Step(tasks, 0, 60, value=None, **receives),
        Step(tasks, 1, 61, is_source=True, **receives),
    ]
    assert [s.results[0].tolist() for s in sent] == [[1, 2, 3, 4, 5]] * 2


def test_a_step_that_fails_fails_for_who_fetches_from_it(tasks: dict[str, Collectives]) -> None:
    for task in (0, 1):
        Step(tasks, task, 10 + task)
    waiting = Step(tasks, 1, 21)
    assert not waiting.results and waiting.token.reason is None
    failing = Step(tasks, 0, 20, instance_key=2)
    failing.token.cancel(AbortedError("something else in its step"))
    assert isinstance(waiting.token.reason, AbortedError)
    # The group is at its end, for both of them; the next one has both again.
    again = [Step(tasks, task, 30 + task) for task in range(2)]
    assert [s.results[0].tolist() for s in again] == [[1.0, 3.0, 5.0, 7.0, 9.0]] * 2


def test_members_must_agree(tasks: dict[str, Collectives]) -> None:
    long = np.zeros(6, np.float32)
    first = Step(tasks, 0, 10)
    second = Step(tasks, 1, 11, value=long, shape=long.shape)
    assert isinstance(second.token.reason, InvalidArgumentError)
    assert "Shape mismatch" in second.token.reason.message
    assert first.token.reason is not None


def test_a_broadcast_has_one_source(tasks: dict[str, Collectives]) -> None:
    steps = [Step(tasks, task, 10 + task, kind="Broadcast", is_source=True) for task in range(2)]
    assert isinstance(steps[1].token.reason, InvalidArgumentError)
    assert "several sources" in steps[1].token.reason.message
    assert steps[0].token.reason is not None


def test_who_was_restarted_before_the_group_was_whole_is_in_it_in_its_new_life(tasks: dict[str, Collectives]) -> None:
    answers: list[Any] = []
    for life in (8, 9):
        request = pb.CompleteGroupRequest(group_key=1, group_size=2, device_type="CPU")
        request.device_attributes.name, request.device_attributes.incarnation = f"{TASKS[1]}/device:CPU:0", life
        for _ in range(2):
            tasks[TASKS[0]].leading.complete_group(request, lambda answer, error: answers.append(answer))
    Step(tasks, 0, 10)
    assert answers and [d.incarnation for d in answers[0].device_attributes] == [5, 9]
    # Nobody waits for what the former life has asked.
    assert len(answers) == 2


def test_a_type_that_is_none_is_refused(tasks: dict[str, Collectives]) -> None:
    for task in (0, 1):
        Step(tasks, task, 10 + task)
    request = pb.CompleteInstanceRequest(group_key=1, instance_key=2, device=f"{TASKS[1]}/device:CPU:0")
    with pytest.raises(InvalidArgumentError, match="DType"):
        tasks[TASKS[0]].leading.complete_instance(request, lambda value, error: None)


def test_what_cannot_be_read_fails_who_has_fetched_it() -> None:
    def call(task: str, method: str, request: Any, answer: Any, done: Callable[..., None]) -> Callable[[], None]:
        response = pb.RecvBufResponse()
        response.transport_options.value = b"\xff\xff"
        done(response, None)
        return lambda: None

    foreign: Any = SimpleNamespace(call=call)
    errors: list[OpError | None] = []
    Mixed(TASKS[0], 5, TASKS[0], foreign).fetch_from(
        Member(f"{TASKS[1]}/device:CPU:0", TASKS[1], 6, True),
        1,
        f"{TASKS[0]}/device:CPU:0",
        "key",
        np.zeros(3, np.float32),
        lambda value, error: errors.append(error),
    )
    assert len(errors) == 1 and isinstance(errors[0], InternalError)


def test_a_group_without_the_one_who_has_asked_fails_it(
    tasks: dict[str, Collectives], monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(self: Wire, task: str, method: str, request: Any, answer: Any, done: Any) -> Callable[[], None]:
        done(pb.CompleteGroupResponse(group_key=1, group_size=2), None)
        return lambda: None

    monkeypatch.setattr(Wire, "call", call)
    step = Step(tasks, 1, 10)
    assert isinstance(step.token.reason, InternalError)
    assert f"{TASKS[1]}/device:CPU:0" in step.token.reason.message


def test_what_they_cannot_do_is_refused(tasks: dict[str, Collectives]) -> None:
    steps = [Step(tasks, task, 10 + task, kind="ReduceScatter") for task in range(2)]
    assert isinstance(steps[0].token.reason, UnimplementedError)
    assert steps[1].token.reason is not None


def test_a_former_life_is_not_meant(tasks: dict[str, Collectives]) -> None:
    request = pb.RecvBufRequest(step_id=1, buf_rendezvous_key="1:1:0:0:0:0:0", src_incarnation=4)
    with pytest.raises(FailedPreconditionError, match="restarted"):
        tasks[TASKS[0]].mixed.receive(request, lambda value, error: None)


def test_numbers_of_steps() -> None:
    """Who asks while a step goes on can take part in it; afterwards in the next one."""
    told: list[int] = []

    def number(ids: StepIds, step: int, what: str) -> int:
        ids.number(KEY, step, what, lambda found, error: told.append(found))
        return told[-1]

    leader = StepIds(None)
    first = leader.next_of(KEY)
    assert number(leader, 70, "a") == number(leader, 70, "b") == leader.next_of(KEY) == first
    leader.ended(KEY, first)
    assert leader.next_of(KEY) == first
    leader.ended(KEY, first)
    assert leader.next_of(KEY) == (first + 1) % (1 << 57)
    member = StepIds(lambda key, then: then(leader.next_of(key), None))
    assert number(member, 5, "a") == number(leader, 71, "a") == (first + 1) % (1 << 57)
    # A step whose number in the cluster is that of the one before computes the same again.
    assert number(member, 5, "a") == (first + 2) % (1 << 57)
