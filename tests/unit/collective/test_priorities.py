"""What the next step needs first of a group's computations passes what waits, in the order of events."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.collective import communicator, members
from dtfctl.runtime.collective.all_reduce import ORDERS
from dtfctl.runtime.collective.sessions import SessionCollectives
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.transfer_names import URGENCIES
from dtfctl.runtime.kernels.collective_request import CollectiveRequest
from dtfctl.runtime.rendezvous.frames import Frame, FrameReader, FrameWriter, Kind, Message
from dtfctl.runtime.rendezvous.transports.lane_link import LaneLink
from dtfctl.runtime.rendezvous.transports.lanes import SHORT, LaneReaders, Lanes
from tests.unit.collective.test_members import TASKS, Post
from tests.unit.strategies.test_between_graphs import cluster, in_all, multi_worker

LAYERS = URGENCIES
_LIVES = 1, 1


class Way:
    """A link from one task to another that takes one piece whenever the test says so."""

    def __init__(self, received: Callable[[Frame], None]) -> None:
        self.lanes = Lanes(FrameWriter(*_LIVES), lambda: FrameWriter(*_LIVES))
        self._readers = LaneReaders(FrameReader(*_LIVES, received), *_LIVES, received)

    def pass_a_piece(self) -> bool:
        """Bring over all that is short, or a piece of what is long; False if nothing waits."""
        if self.lanes.short:
            lane, parts = SHORT, self.lanes.next_short()
        elif self.lanes.has_long:
            lane, parts = self.lanes.next_long(1)
        else:
            return False
        for part in parts:
            self._readers.of(lane).feed(part)
        return True


class Network(Post):
    """Two tasks on hosts of their own, between which arrays go through lanes, piece by piece."""

    def __init__(self) -> None:
        super().__init__(apart=True)
        self.ways: dict[tuple[str, str], Way] = {}

    def deliver_a_piece(self) -> bool:
        """Bring over what is said of groups, and a piece in each direction; False if nothing was on its way."""
        self.deliver(lambda source, to, message: message.kind is not Kind.COLLECTIVE)
        for source, to, message in self.held:
            way = self.ways.get((source, to))
            if way is None:
                way = self.ways[source, to] = Way(self.tasks[to].receive)
            way.lanes.put(message)
        self.held = []
        passed = [way.pass_a_piece() for way in list(self.ways.values())]
        return any(passed)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    for module in (members, communicator):
        monkeypatch.setattr(module, "submit", lambda function, *args: function(*args))
    return Network()


@pytest.mark.parametrize("hint", ORDERS)
def test_gradients_of_the_first_layer_are_reduced_before_those_that_wait(network: Network, hint: str) -> None:
    """Gradients begin in the order in which they exist, the last layer's first; one of them is on its way by then."""
    finished: list[tuple[int, int]] = []

    def begin(task: int, layer: int, urgency: int) -> None:
        device = SimpleNamespace(name=f"{TASKS[task]}/device:CPU:0")
        step: Any = SimpleNamespace(cancellation=CancellationToken(), device=device, step_id=1, frame="0:0")
        value = np.full(1 << 20, layer + 1.0, np.float32)
        request = CollectiveRequest("Reduce", 1, 2, layer, value, value.shape, value.dtype, hint=hint, urgency=urgency)

        def done(result: Any) -> None:
            np.testing.assert_array_equal(result, 2 * value)
            finished.append((task, layer))

        session = SessionCollectives(network.tasks[TASKS[task]], f"session {task}", "", TASKS[task])
        session.begin(request, step, done, outlives_kernel=True)

    def step(urgencies: Sequence[int]) -> list[int]:
        finished.clear()
        for layer in reversed(range(LAYERS)):
            for task in (0, 1):
                begin(task, layer, urgencies[layer])
            # Of the last layer's a piece is gone before the others exist.
            network.deliver_a_piece()
        while network.deliver_a_piece():
            pass
        assert len(finished) == 2 * LAYERS
        return [layer for task, layer in finished if task == 0]

    step([0] * LAYERS)
    # The group is there and all agree on what is computed: these are steps as all others.
    assert step([0] * LAYERS)[0] == LAYERS - 1
    assert step(range(URGENCIES)) == list(range(LAYERS))


def test_members_need_not_agree_on_what_is_urgent(network: Network) -> None:
    """Their graphs may differ elsewhere: how urgent something is is a matter of the sender's own step."""
    results: list[Any] = []
    for task, urgency in ((0, 0), (1, 3)):
        device = SimpleNamespace(name=f"{TASKS[task]}/device:CPU:0")
        step: Any = SimpleNamespace(cancellation=CancellationToken(), device=device, step_id=1, frame="0:0")
        value = np.ones(1 << 18, np.float32)
        request = CollectiveRequest("Reduce", 1, 2, 1, value, value.shape, value.dtype, urgency=urgency)
        session = SessionCollectives(network.tasks[TASKS[task]], f"session {task}", "", TASKS[task])
        session.begin(request, step, results.append, outlives_kernel=True)
    while network.deliver_a_piece():
        pass
    assert [r[0] for r in results] == [2.0, 2.0]


@pytest.mark.slow
def test_gradients_of_a_strategy_go_by_when_the_next_step_needs_their_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What this step needs goes before all of them: the statistics that all replicas share, here."""
    monkeypatch.setenv("DTF_TRANSPORT", "tcp")
    sent: list[Message] = []
    send = LaneLink.send

    def noted(self: LaneLink, messages: Sequence[Message]) -> None:
        sent.extend(m for m in messages if m.kind is Kind.TENSOR)
        send(self, messages)

    monkeypatch.setattr(LaneLink, "send", noted)

    def work(resolver: Any) -> dict[str, tuple[int, int]]:
        strategy = multi_worker(resolver)
        with tf.Graph().as_default() as graph, strategy.scope():
            # Not in the order in which they are used.
            weights = {n: tf.get_variable(f"w{n}", [160, 160]) for n in reversed(range(LAYERS))}

            def train() -> Any:
                y = tf.ones([1, 160])
                mean = tf.distribute.get_replica_context().all_reduce("MEAN", tf.ones([160]), None)
                for n in range(LAYERS):
                    y = tf.tanh(tf.matmul(y, weights[n])) - mean
                loss = tf.reduce_sum(y)
                return tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)

            step = strategy.run(train)
            told = tf.RunMetadata()
            config = strategy.update_config_proto(tf.ConfigProto())
            with tf.Session(resolver.master(), graph, config=config) as session:
                session.run(tf.global_variables_initializer())
                session.run(step, options=tf.RunOptions(output_partition_graphs=True), run_metadata=told)
        found = {}
        for part in told.partition_graphs:
            for node in part.node:
                if node.op == "_CollectiveStart":
                    found[node.input[0]] = node.attr["instance_key"].i, node.attr["_urgency"].i
        return found

    with cluster(2) as resolvers:
        of_workers = in_all(resolvers, work)
    for found in of_workers:
        assert len(found) == LAYERS + 1
        assert [found.pop(name)[1] for name in list(found) if "MatMul" not in name] == [0], "of the statistics"
        # The gradient of layer 2 has a name like gradients/MatMul_2_grad/....
        by_layer = {int((re.search(r"MatMul_(\d)", name) or "00")[1]): at[1] for name, at in found.items()}
        # Five computations in four classes: the statistics are the first of the first one.
        assert by_layer == {0: 0, 1: 1, 2: 2, 3: 3}
        by_instance = dict(found.values())
        seen = {int(m.key.split(".")[0]): m.urgency for m in sent if m.key.split(".")[0].isdigit()}
        assert {i: u for i, u in seen.items() if i in by_instance} == by_instance
