"""What groups hold in memory for others: bounded, whatever these ask for and however long a task runs."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import tensorflow_worker_pb2 as pb, worker_pb2
from dtfctl.runtime.collective import buffers, leader, members, mixed, step_ids
from dtfctl.runtime.collective.buffers import Buffers
from dtfctl.runtime.collective.communicator import Computation, Origin
from dtfctl.runtime.collective.leader import Leader
from dtfctl.runtime.collective.members import Collectives
from dtfctl.runtime.collective.mixed import foreign, is_foreign
from dtfctl.runtime.collective.sessions import SessionCollectives
from dtfctl.runtime.collective.step_ids import StepIds
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    Code,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from dtfctl.runtime.kernels.collective_request import CollectiveRequest

TASK = "/job:worker/replica:0/task:0"
OTHER = "/job:worker/replica:0/task:1"
FEW = 20
MANY = 10 * FEW


def held(*roots: object) -> int:
    """Count the objects that can be reached, modules and code aside."""
    seen: set[int] = set()
    queue = list(roots)
    while queue:
        found = queue.pop()
        if id(found) in seen or isinstance(found, (type, ModuleType, FunctionType)):
            continue
        seen.add(id(found))
        queue += gc.get_referents(found)
    return len(seen)


def grown(root: object, rounds: Iterable[object]) -> int:
    """Count what is held more after all rounds than in the middle of them."""
    sizes = [held(root) for _ in rounds]
    return sizes[-1] - sizes[len(sizes) // 2]


def asks(key: int, task: str, size: int = 2, request: int = 1, life: int = 1) -> worker_pb2.JoinGroup:
    return worker_pb2.JoinGroup(
        request=request, group_key=key, group_size=size, device=f"{task}/device:CPU:0", incarnation=life
    )


def computes(communicator: int, task: str, instance: int, **more: Any) -> worker_pb2.JoinInstance:
    return worker_pb2.JoinInstance(
        communicator=communicator,
        instance_key=instance,
        device=f"{task}/device:CPU:0",
        **{"request": 1, "what": "Reduce of float32[4]", **more},
    )


def mixed_group(found: Leader, key: int = 1) -> int:
    found.join_group(TASK, asks(key, TASK))
    answers = found.join_group(foreign(OTHER), asks(key, OTHER))
    return answers[0][1].group_ready.communicator


@pytest.fixture
def led(monkeypatch: pytest.MonkeyPatch) -> Leader:
    for name in ("MAX_PLACES", "MAX_ASKED", "MAX_REMEMBERED"):
        monkeypatch.setattr(leader, name, FEW)
    return Leader(is_foreign=is_foreign)


@pytest.mark.parametrize("size", [1, 2])
def test_ever_new_groups_are_refused_until_others_end(led: Leader, size: int) -> None:
    def ask() -> Iterable[None]:
        for key in range(MANY):
            answers.append(led.join_group(foreign(OTHER), asks(key, OTHER, size)))
            yield

    answers: list[list[leader.Answer]] = []
    assert grown(led, ask()) == 0
    assert answers[-1][0][1].group_ready.code == Code.RESOURCE_EXHAUSTED
    for answer in answers[:FEW]:
        for _, message in answer:
            led.end(message.group_ready.communicator, AbortedError("over"))
    led.lost(foreign(OTHER), AbortedError("gone"))
    assert led.join_group(TASK, asks(1, TASK, 1))[0][1].group_ready.communicator


def test_who_asks_for_a_group_again_and_again_is_refused_in_the_end(led: Leader) -> None:
    answers = [led.join_group(foreign(OTHER), asks(1, OTHER, request=i)) for i in range(MANY)]
    assert answers[-1][0][1].group_ready.code == Code.RESOURCE_EXHAUSTED
    for i in range(MANY):
        led.withdraw_group(asks(1, OTHER, request=i))
    assert mixed_group(led)


def test_who_withdraws_is_not_in_the_group(led: Leader) -> None:
    for i in range(MANY):
        assert not led.join_group(foreign(OTHER), asks(i, OTHER, request=i))
        led.withdraw_group(asks(i, OTHER, request=i))
    assert not led.join_group(TASK, asks(1, TASK))
    # One of two wishes for the same device: the other stands.
    for i in (8, 9):
        led.join_group(foreign(OTHER), asks(2, OTHER, request=i))
    led.withdraw_group(asks(2, OTHER, request=8))
    answers = led.join_group(TASK, asks(2, TASK))
    assert sorted(message.group_ready.request for _, message in answers) == [1, 9]


def test_a_long_run_of_a_mixed_group_holds_no_more(led: Leader) -> None:
    group = mixed_group(led)

    def compute() -> Iterable[None]:
        for instance in range(MANY):
            for task in (TASK, foreign(OTHER)):
                answers = led.join_instance(task, computes(group, TASK if task == TASK else OTHER, instance))
                assert len(answers) == 1 and not answers[0][1].instance_ready.code
            yield

    assert grown(led, compute()) == 0
    # What was computed long ago may be computed again.
    assert led.join_instance(TASK, computes(group, TASK, 0))[0][1].HasField("instance_ready")


def test_sources_are_never_forgotten(led: Leader) -> None:
    """A foreign member says once that it is the source: a group that needs more of them than can be kept is ended."""
    group = mixed_group(led)
    sent = 0
    for instance in range(MANY):
        answers = led.join_instance(
            foreign(OTHER), computes(group, OTHER, instance, what="Broadcast of float32[4]", is_source=True)
        )
        if answers[0][1].instance_ready.code or not answers[0][1].HasField("instance_ready"):
            break
        sent += 1
        first = led.join_instance(TASK, computes(group, TASK, 0, what="Broadcast of float32[4]"))
        assert first[0][1].instance_ready.source == 1
    assert 0 < sent < FEW
    assert {answer[1].instance_ready.code or answer[1].end_group.code for answer in answers} == {
        Code.RESOURCE_EXHAUSTED
    }
    assert mixed_group(led, 2), "what was remembered of it has gone with it"


@pytest.mark.parametrize("is_mixed", [True, False])
def test_computations_that_others_do_not_ask_for_end_their_group(led: Leader, is_mixed: bool) -> None:
    if is_mixed:
        group = mixed_group(led)
    else:
        led.join_group(TASK, asks(1, TASK))
        group = led.join_group(OTHER, asks(1, OTHER))[0][1].group_ready.communicator
    for instance in range(MANY):
        answers = led.join_instance(TASK, computes(group, TASK, instance, what="Broadcast of float32[4]"))
        if answers:
            break
    assert instance <= FEW and answers[0][1].end_group.code == Code.RESOURCE_EXHAUSTED
    assert mixed_group(led, 2)


def test_a_foreign_member_that_asks_again_or_gives_up_leaves_nothing(led: Leader) -> None:
    group = mixed_group(led)
    for i in range(MANY):
        asked = computes(group, OTHER, 1, what="Broadcast of float32[4]", request=i)
        answers = led.join_instance(foreign(OTHER), asked)
        assert [message.instance_ready.request for _, message in answers] == ([i - 1] if i else [])
    led.withdraw_instance(asked)
    for i in range(MANY):
        asked = computes(group, OTHER, 2, what="Broadcast of float32[4]", request=i)
        assert not led.join_instance(foreign(OTHER), asked)
        led.withdraw_instance(asked)


def test_a_foreign_member_of_a_group_that_is_no_more_is_answered(led: Leader) -> None:
    group = mixed_group(led)
    led.end(group, AbortedError("over"))
    ((_, message),) = led.join_instance(foreign(OTHER), computes(group, OTHER, 1, request=7))
    assert message.instance_ready.request == 7 and message.instance_ready.code == Code.ABORTED


def test_numbers_of_steps_are_not_kept_for_who_only_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = StepIds(None)

    def ask() -> Iterable[None]:
        for key in range(-MANY, MANY):
            assert ids.next_of(key) == ids.next_of(key)
            yield

    assert grown(ids, ask()) == 0
    first, told = ids.next_of(7), []
    ids.number(7, 1, "a", lambda number, error: told.append(number))
    assert told == [first]
    ids.forget(7)
    assert ids.next_of(7) != first, "what failed is not begun again under the same number"
    monkeypatch.setattr(step_ids, "MAX_KEYS", FEW)
    errors: list[OpError | None] = []
    for key in range(MANY):
        ids.number(key, 1, "a", lambda number, error: errors.append(error))
    assert isinstance(errors[-1], ResourceExhaustedError) and errors.count(None) == FEW
    ids.number(7, 2, "a", lambda number, error: errors.append(error))
    assert errors[-1] is None


def test_arrays_that_are_fetched_and_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "MAX_WAITING", FEW)
    found, errors = Buffers(), list[OpError | None]()
    for i in range(MANY):
        found.fetch(1, str(i), lambda value, error: errors.append(error))
    assert len(errors) == MANY - FEW and isinstance(errors[0], ResourceExhaustedError)
    del errors[:]
    # Who fetches the same again takes the place of the one before, who is told.
    give_up = found.fetch(1, "0", lambda value, error: errors.append(error))
    assert len(errors) == 1 and isinstance(errors[0], AbortedError)
    give_up()
    got: list[Any] = []
    found.fetch(1, "0", lambda value, error: got.append(value))
    found.leave(1, "0", np.ones(2), lambda: got.append("taken"))
    assert got[0].tolist() == [1, 1] and got[1] == "taken"


def request_of(instance: int, size: int, kind: str = "Reduce") -> CollectiveRequest:
    value = np.ones(2, np.float32)
    return CollectiveRequest(kind, 1, size, instance, value, value.shape, value.dtype)


def begin(collectives: Collectives, instance: int, size: int, master: str = TASK) -> CancellationToken:
    token = CancellationToken()
    step: Any = SimpleNamespace(
        cancellation=token, device=SimpleNamespace(name=f"{TASK}/device:CPU:0"), step_id=1, frame="0:0"
    )
    session = SessionCollectives(collectives, "session", "", master, 5)
    session.begin(request_of(instance, size), step, lambda value: None, outlives_kernel=True)
    return token


def test_ever_new_instances_of_a_session_end_with_a_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "_MAX_INSTANCES", FEW)
    collectives = Collectives(TASK)
    reasons = [begin(collectives, instance, 1).reason for instance in range(FEW + 1)]
    assert reasons[:FEW] == [None] * FEW
    assert isinstance(reasons[FEW], ResourceExhaustedError) and "instance key" in reasons[FEW].message
    collectives.end_session("session")
    assert begin(collectives, 1, 1).reason is None


def complete_group(life: int) -> pb.CompleteGroupRequest:
    request = pb.CompleteGroupRequest(group_key=1, group_size=2, device_type="CPU")
    request.device_attributes.name, request.device_attributes.incarnation = f"{OTHER}/device:CPU:0", life
    return request


def test_foreign_members_that_wait_and_give_up_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed, "MAX_WAITING", FEW)
    collectives = Collectives(TASK)

    def ask() -> Iterable[None]:
        for life in range(MANY):
            collectives.leading.complete_group(complete_group(life), lambda value, error: None)()
            yield

    assert grown(collectives, ask()) == 0
    for life in range(FEW):
        collectives.leading.complete_group(complete_group(life), lambda value, error: None)
    with pytest.raises(ResourceExhaustedError):
        collectives.leading.complete_group(complete_group(1), lambda value, error: None)
    long = complete_group(1)
    long.device_attributes.name = f"{OTHER}/device:CPU:{'0' * 1000}"
    with pytest.raises(InvalidArgumentError, match="characters"):
        collectives.leading.complete_group(long, lambda value, error: None)


def test_steps_whose_master_never_answers_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master of a step in a mixed group counts the steps; who computes asks it, and may be cancelled meanwhile."""
    monkeypatch.setattr(members, "submit", lambda function, *args: None)
    neighbours: Any = SimpleNamespace(rates=dict)
    collectives = Collectives(TASK, 1, neighbours)

    def run() -> Iterable[None]:
        for _ in range(MANY):
            collectives.leading.complete_group(complete_group(3), lambda value, error: None)
            token = begin(collectives, 1, 2, master=OTHER)
            assert token.reason is None
            token.cancel(CancelledError("given up"))
            yield

    assert grown(collectives.mixed, run()) == 0


def test_what_fails_before_its_step_has_a_number_fails_the_step_for_others() -> None:
    """The reason is not in the token yet: that of another thread is about to be."""
    ended: list[OpError | None] = []
    computation = Computation(request_of(1, 2), CancellationToken(), lambda value: None, Origin())
    failed = AbortedError("too late")
    shared: Any = SimpleNamespace(number=1, ended=ended.append)
    communicator: Any = SimpleNamespace(
        size=2, rank=0, room=SimpleNamespace(members=[SimpleNamespace(task=TASK), SimpleNamespace(task=OTHER)])
    )
    computation.token.on_cancel(lambda: computation.begin(communicator, -1, shared))
    monkey_reason = computation.token
    computation.withdraw.append(lambda: computation.begin(communicator, -1, shared))
    computation.fail(failed)
    assert monkey_reason.reason is failed
    assert ended and all(error is failed for error in ended)
