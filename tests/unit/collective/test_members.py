"""Groups of tasks whose messages arrive when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.collective import leading, members, own_ways
from dtfctl.runtime.collective.all_reduce import ORDERS
from dtfctl.runtime.collective.members import Collectives
from dtfctl.runtime.collective.sessions import SessionCollectives
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import AbortedError, UnavailableError
from dtfctl.runtime.kernels.collective_request import CollectiveRequest
from dtfctl.runtime.rendezvous.frames import Frame, Kind, Message

TASKS = [f"/job:worker/replica:0/task:{i}" for i in range(3)]


class Post:
    """Messages between tasks, kept until they are let through.

    Args:
        apart: each task is on a host of its own.
    """

    def __init__(self, apart: bool = False) -> None:
        self.held: list[tuple[str, str, Message]] = []
        self.rates: dict[str, dict[str, float]] = {}
        self.tasks = {
            task: Collectives(task, 1, Door(self, task), TASKS[0], host=task if apart else "") for task in TASKS
        }

    def deliver_arrays(self, count: int) -> int:
        """Let that many arrays through, and all else; return how many there were."""
        passed = 0

        def is_late(source: str, to: str, message: Message) -> bool:
            nonlocal passed
            if message.kind is Kind.COLLECTIVE:
                return False
            passed += 1
            return passed > count

        self.deliver(is_late)
        return min(passed, count)

    def lose(self, task: int) -> None:
        """Have a task gone, with what it has sent and was sent, and the others notice."""
        self.held = [at for at in self.held if TASKS[task] not in at[:2]]
        for other in set(range(len(TASKS))) - {task}:
            self.tasks[TASKS[other]].peer_lost(TASKS[task], UnavailableError(f"{TASKS[task]} is gone"))

    def deliver(self, but: Callable[[str, str, Message], bool] = lambda source, to, message: False) -> None:
        """Let all through that are not held back, and what follows from them."""
        kept: list[tuple[str, str, Message]] = []
        while self.held:
            source, to, message = self.held.pop(0)
            if but(source, to, message):
                kept.append((source, to, message))
            elif message.kind is Kind.COLLECTIVE:
                self.tasks[to].received(source, message.value)
            else:
                self.tasks[to].receive(Frame(message.kind, message.step, 1, 1, message.key, False, message.value))
        self.held = kept


class Door:
    """What one task reaches the others by."""

    def __init__(self, post: Post, task: str) -> None:
        self._post, self._task = post, task

    def learn(self, task: str, life: int) -> None:
        return

    def hear_of(self, task: str) -> None:
        return

    def rates(self) -> Mapping[str, float]:
        return self._post.rates.get(self._task, {})

    def send(self, task: str, messages: Sequence[Message]) -> None:
        self._post.held += [(self._task, task, message) for message in messages]


class Step:
    """A step of a task that sums ones over all of them."""

    def __init__(
        self, post: Post, task: int, instance: int = 1, size: int = 4, members: int = len(TASKS), hint: str = "auto"
    ) -> None:
        self.token = CancellationToken()
        self.results: list[Any] = []
        device = SimpleNamespace(name=f"{TASKS[task]}/device:CPU:0")
        step: Any = SimpleNamespace(cancellation=self.token, device=device, step_id=1, frame="0:0")
        value = np.ones(size, np.float32)
        request = CollectiveRequest("Reduce", members, members, instance, value, value.shape, value.dtype, hint=hint)
        session = SessionCollectives(post.tasks[TASKS[task]], f"session {task}", "", TASKS[task])
        session.begin(request, step, self.results.append, outlives_kernel=True)


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    monkeypatch.setattr(members, "submit", lambda function, *args: function(*args))
    return Post()


def test_who_leaves_after_its_part_fails_nobody(post: Post) -> None:
    first = [Step(post, task) for task in range(3)]
    post.deliver()
    assert [s.results[0].tolist() for s in first] == [[3.0] * 4] * 3
    last = [Step(post, task) for task in range(3)]
    slow = [(TASKS[2], TASKS[1])]
    post.deliver(lambda source, to, message: (source, to) in slow)
    assert last[0].results and last[2].results and not last[1].results
    post.tasks[TASKS[0]].end_session("session 0")
    post.deliver(lambda source, to, message: (source, to) in slow)
    assert last[1].token.reason is None, "what is still to come is on its way"
    post.deliver()
    assert last[1].results[0].tolist() == [3.0] * 4
    # The next one is told that there is no such group any more.
    following = Step(post, 1)
    assert isinstance(following.token.reason, AbortedError)
    for task in (1, 2):
        post.tasks[TASKS[task]].end_session(f"session {task}")
    post.deliver()
    assert [t.rooms for t in post.tasks.values()] == [0, 0, 0]


def test_who_leaves_before_its_part_fails_the_others(post: Post) -> None:
    for _ in range(2):
        steps = [Step(post, task) for task in range(3)]
        post.deliver()
        assert all(s.results for s in steps)
    waiting = [Step(post, task) for task in (1, 2)]
    post.deliver()
    post.tasks[TASKS[0]].end_session("session 0")
    post.deliver()
    for step in waiting:
        assert isinstance(step.token.reason, AbortedError)
    assert [t.rooms for t in post.tasks.values()] == [0, 0, 0]


@pytest.mark.parametrize("lost", [0, 1])
def test_who_leaves_and_is_gone_before_all_have_heard_of_it_is_not_waited_for(post: Post, lost: int) -> None:
    """The leader passes it on: others may have no link to who is gone, and so never notice."""
    for _ in range(2):
        steps = [Step(post, task) for task in range(3)]
        post.deliver()
        assert all(s.results for s in steps)
    waiting = [Step(post, task) for task in (0, 1)]
    post.deliver()
    post.tasks[TASKS[2]].end_session("session 2")
    post.held = [(source, to, message) for source, to, message in post.held if to != TASKS[lost]]
    if lost == 0:
        # The leader has a link to all that have asked it.
        post.tasks[TASKS[0]].peer_lost(TASKS[2], UnavailableError("gone"))
    post.deliver()
    for step in waiting:
        assert isinstance(step.token.reason, (AbortedError, UnavailableError))


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("hint", sorted(ORDERS))
def test_a_member_that_is_lost_at_any_moment_ends_the_step_for_all(
    monkeypatch: pytest.MonkeyPatch, hint: str, lost: int
) -> None:
    monkeypatch.setattr(members, "submit", lambda function, *args: function(*args))
    left = [task for task in range(3) if task != lost]
    for moment in range(100):
        post = Post()
        steps = [Step(post, task, hint=hint) for task in range(3)]
        is_last = post.deliver_arrays(moment) < moment
        post.lose(lost)
        post.deliver()
        for task in left:
            step = steps[task]
            if step.results:
                assert step.results[0].tolist() == [3.0] * 4
            else:
                assert isinstance(step.token.reason, (UnavailableError, AbortedError))
        # Those that are left make a group of their own; who was done is not told of the other one's end in it.
        again = [Step(post, task, members=2, hint=hint) for task in left]
        post.deliver()
        assert [step.results[0].tolist() for step in again] == [[2.0] * 4] * 2
        if is_last:
            assert all(steps[task].results for task in left)
            return
    raise AssertionError("it does not end")


def steps_of(post: Post, size: int = 4) -> list[Step]:
    return [Step(post, task, size=size, hint="ring") for task in range(3)]


def sent_to(post: Post, task: int) -> set[str]:
    """Name the tasks to which one has sent arrays that were not delivered yet."""
    return {to for source, to, message in post.held if source == TASKS[task] and message.kind is Kind.TENSOR}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Time passes when the test says so."""
    now = [100.0]
    for module in (own_ways, leading):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def passes(seconds: float) -> None:
        now[0] += seconds

    yield passes


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Post:
    """Tasks on a host each."""
    monkeypatch.setattr(members, "submit", lambda function, *args: function(*args))
    return Post(apart=True)


def test_a_slow_way_is_gone_round_from_the_next_step_on(hosts: Post, clock: Callable[[float], None]) -> None:
    good = {task: {other: 100e6 for other in TASKS if other != task} for task in TASKS}
    hosts.rates = good
    for _ in range(2):
        steps = steps_of(hosts)
        assert sent_to(hosts, 0) <= {TASKS[1]} and sent_to(hosts, 1) <= {TASKS[2]}
        hosts.deliver()
        assert [s.results[0].tolist() for s in steps] == [[3.0] * 4] * 3
    clock(10)
    hosts.rates = good | {TASKS[0]: {TASKS[1]: 5e6, TASKS[2]: 100e6}}
    steps = steps_of(hosts)  # its first task says what it has seen; this step goes on as the one before
    hosts.deliver()
    assert all(step.results for step in steps)
    assert not any("carries" in news for t in TASKS[1:] for news in hosts.tasks[t].leading.news)
    (news,) = hosts.tasks[TASKS[0]].leading.news
    assert "worker/0, worker/2, worker/1" in news and "worker/0 to worker/1 carries 5 MB/s, others 100" in news
    steps = steps_of(hosts)
    assert sent_to(hosts, 0) == {TASKS[2]} and sent_to(hosts, 2) == {TASKS[1]} and sent_to(hosts, 1) == {TASKS[0]}
    hosts.deliver()
    assert [s.results[0].tolist() for s in steps] == [[3.0] * 4] * 3


@pytest.mark.parametrize("late", [0, 1, 2])
def test_members_that_are_not_equally_far_change_places_together(
    hosts: Post, clock: Callable[[float], None], late: int
) -> None:
    for _ in range(2):
        steps = steps_of(hosts)
        hosts.deliver()
    clock(10)
    who, after, other = TASKS[(late + 1) % 3], TASKS[(late + 2) % 3], TASKS[late]
    hosts.rates = {who: {after: 5e6, other: 100e6}}
    ahead = {task: Step(hosts, task, hint="ring") for task in range(3) if task != late}
    hosts.deliver()  # they have begun and wait; the leader has asked all, and told them
    assert hosts.tasks[TASKS[0]].leading.news
    ahead[late] = Step(hosts, late, hint="ring")
    hosts.deliver()
    assert [ahead[task].results[0].tolist() for task in range(3)] == [[3.0] * 4] * 3
    steps = steps_of(hosts)
    hosts.deliver()
    assert [s.results[0].tolist() for s in steps] == [[3.0] * 4] * 3


def test_what_waits_for_a_route_ends_with_the_group(hosts: Post, clock: Callable[[float], None]) -> None:
    steps_of(hosts)
    hosts.deliver()
    clock(10)
    hosts.rates = {TASKS[0]: {TASKS[1]: 5e6, TASKS[2]: 100e6}}
    steps_of(hosts)
    # The last one's answer to the leader never comes.
    hosts.deliver(lambda source, to, message: source == TASKS[2] and message.kind is Kind.COLLECTIVE)
    waiting = Step(hosts, 1, hint="ring")
    assert not waiting.results and waiting.token.reason is None
    hosts.lose(2)
    hosts.deliver()
    assert waiting.token.reason is not None
    for task in (0, 1):
        hosts.tasks[TASKS[task]].end_session(f"session {task}")
    assert [hosts.tasks[TASKS[task]].rooms for task in (0, 1)] == [0, 0]


def test_who_waits_for_a_route_does_not_outlive_its_leader(hosts: Post, clock: Callable[[float], None]) -> None:
    steps_of(hosts)
    hosts.deliver()
    clock(10)
    hosts.rates = {TASKS[1]: {TASKS[2]: 5e6, TASKS[0]: 100e6}}
    steps_of(hosts)
    hosts.deliver(lambda source, to, message: source != TASKS[0] and message.kind is Kind.COLLECTIVE and to == TASKS[0])
    hosts.deliver(lambda source, to, message: to == TASKS[0] and source == TASKS[2])
    waiting = Step(hosts, 2, hint="ring")
    assert not waiting.results
    hosts.lose(0)
    hosts.deliver()
    assert waiting.token.reason is not None
