"""Groups of devices of one task and of several that compute together, and what becomes of them when a member fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import graph_pb2
from tests.support.clusters import InProcessCluster, in_process_cluster
from tests.support.waiting import eventually

raw = tf.raw_ops
TASKS = 3


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster({"worker": TASKS}) as made:
        yield made


def reduce(value: Any, size: int, instance: int = 1, group: int = 1, **attrs: Any) -> tf.Tensor:
    settings: dict[str, Any] = {"merge_op": "Add", "final_op": "Id", "subdiv_offsets": [0], **attrs}
    return raw.CollectiveReduce(input=value, group_size=size, group_key=group, instance_key=instance, **settings)


def on(task: int) -> str:
    return f"/job:worker/task:{task}"


def alone(task: int) -> tf.ConfigProto:
    """The session of a client that knows nothing of others."""
    return tf.ConfigProto(device_filters=[on(task)])


class Client:
    """A client of one task, in a thread of its own: what it runs, and how that ended."""

    def __init__(self, cluster: InProcessCluster, task: int, build: Callable[[], Any]) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(on(task)):
            self.fetches = build()
        self.session = tf.Session(cluster.target("worker", task), self.graph, alone(task))
        self.result: Any = None
        self._thread = threading.Thread(target=lambda: None)

    def start(self, feed: Any = None, options: Any = None) -> None:
        self.result = None

        def run() -> None:
            try:
                self.result = self.session.run(self.fetches, feed, options)
            except tf.errors.OpError as e:
                self.result = e

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def end(self) -> Any:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.result


# What is computed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [5, 200_000])
def test_devices_of_one_task_compute_together(count: int) -> None:
    values = [np.random.default_rng(i).standard_normal(count).astype(np.float32) for i in range(3)]
    outputs = []
    for i, value in enumerate(values):
        with tf.device(f"/cpu:{i}"):
            outputs.append(reduce(tf.constant(value), 3, final_op="Div"))
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as session:
        for _ in range(2):
            results = session.run(outputs)
            np.testing.assert_allclose(results[0], np.mean(values, axis=0), rtol=1e-4, atol=1e-6)
            assert len({r.tobytes() for r in results}) == 1


@pytest.mark.parametrize("transport", ["auto", "tcp", "grpc"])
def test_tasks_of_one_client_compute_together(transport: str) -> None:
    value = np.arange(100_000, dtype=np.float32)
    with in_process_cluster({"worker": TASKS}, transport=transport) as cluster:
        outputs = []
        for task in range(TASKS):
            with tf.device(on(task)):
                outputs.append(reduce(tf.constant(value) * (task + 1), TASKS))
        with tf.Session(cluster.target("worker", 0)) as session:
            for _ in range(3):
                for result in session.run(outputs):
                    np.testing.assert_array_equal(result, value * 6)


@pytest.mark.parametrize("is_taken", [False, True])
@pytest.mark.parametrize("is_merged_before", [False, True])
def test_a_branch_of_a_conditional_of_version_1_computes_where_it_is_taken(
    cluster: InProcessCluster, is_taken: bool, is_merged_before: bool
) -> None:
    """Nobody waits for what groups compute in the other branch: two sums at once there, and one here."""

    def build() -> Any:
        decides, value = tf.placeholder(tf.bool, [], "decides"), tf.ones([3])
        if is_merged_before:  # of a conditional that is over, which leaves nothing out
            value, _ = raw.Merge(inputs=raw.Switch(data=value, pred=decides))
        other, taken = raw.Switch(data=reduce(value, TASKS, 1), pred=tf.identity(decides))
        there = reduce(taken, TASKS, 2) + reduce(taken * 2, TASKS, 3)
        return raw.Merge(inputs=[reduce(other * 5, TASKS, 4), there])[0]

    clients = [Client(cluster, task, build) for task in range(TASKS)]
    for _ in range(3):
        for client in clients:
            client.start({"decides:0": is_taken})
        # 3 of each member; then 3 times that, and twice as much.
        assert [client.end().tolist() for client in clients] == [[27.0 if is_taken else 45.0] * 3] * TASKS


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_each_order_gives_the_same_sum(transport: str) -> None:
    value = np.arange(300_000, dtype=np.int32)
    with in_process_cluster({"worker": TASKS}, transport=transport) as cluster:
        outputs = []
        for number, hint in enumerate(["gossip", "star", "tree", "pieces", "ring", "halving", "hierarchical"]):
            for task in range(TASKS):
                with tf.device(on(task)):
                    outputs.append(reduce(tf.constant(value), TASKS, number, communication_hint=hint))
        with tf.Session(cluster.target("worker", 0)) as session:
            for result in session.run(outputs):
                np.testing.assert_array_equal(result, value * TASKS)


def encoded(total: tf.Tensor, codec: str) -> tf.Tensor:
    total.op._set_attr("_compression", graph_pb2.AttrValue(s=codec.encode()))
    return total


@pytest.mark.parametrize(("codec", "near"), [("int8", 0.3), ("bfloat16", 0.1), ("topk:ratio=0.25", 5.0)])
def test_sums_are_encoded_between_hosts(codec: str, near: float) -> None:
    """Tasks that do not share memory count as hosts of their own."""
    value = np.random.default_rng(3).standard_normal(50_000).astype(np.float32)
    with in_process_cluster({"worker": TASKS}, transport="tcp") as cluster:
        outputs = []
        for task in range(TASKS):
            with tf.device(on(task)):
                outputs.append(encoded(reduce(tf.constant(value), TASKS), codec))
        with tf.Session(cluster.target("worker", 0)) as session:
            results = [session.run(outputs) for _ in range(2)]
    for found in results:
        assert len({result.tobytes() for result in found}) == 1
        assert not np.array_equal(found[0], value * TASKS)
    # What was left out the first time has come with the second.
    np.testing.assert_allclose(sum(found[0] for found in results) / 2, value * TASKS, atol=near)


@pytest.mark.parametrize(("codec", "settings"), [("int3", {}), ("int8", {"merge_op": "Max"}), ("topk:ratio=2", {})])
def test_what_cannot_be_encoded_is_refused(codec: str, settings: dict[str, Any]) -> None:
    total = encoded(reduce([1.0], 1, **settings), codec)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"codec|topk|sums of 32-bit"):
        session.run(total)


def test_clients_that_know_nothing_of_each_other_compute_together(cluster: InProcessCluster) -> None:
    def build() -> Any:
        x = tf.placeholder(tf.float32, [2], name="x")
        doubled = reduce(x, TASKS, 1) * 2
        return [doubled, reduce(doubled, TASKS, 2, merge_op="Max")]

    clients = [Client(cluster, task, build) for task in range(TASKS)]
    for step in range(3):
        for task, client in enumerate(clients):
            client.start({"x:0": [task, step]})
        for client in clients:
            first, second = client.end()
            np.testing.assert_array_equal(first, [6, 6 * step])
            np.testing.assert_array_equal(second, [6, 6 * step])


def test_it_does_not_matter_in_which_order_members_begin(cluster: InProcessCluster) -> None:
    """Each of many computations waits for others that other members begin later."""
    many = 12

    def build(order: list[int]) -> Any:
        made = {i: reduce(tf.constant([float(i)]), TASKS, 10 + i) for i in order}
        return [made[i] for i in range(many)]

    orders = [list(range(many)), list(range(many))[::-1], [*range(1, many, 2), *range(0, many, 2)]]
    clients = [Client(cluster, task, lambda order=order: build(order)) for task, order in enumerate(orders)]
    for client in clients:
        client.start()
    for client in clients:
        np.testing.assert_array_equal(np.concatenate(client.end()), 3.0 * np.arange(many))


def test_every_kind_with_keys_that_are_computed() -> None:
    keys = {"group_size": tf.constant(2), "group_key": tf.constant(7)}
    outputs: list[list[tf.Tensor]] = []
    for i in range(2):
        with tf.device(f"/cpu:{i}"):
            x = tf.constant(np.arange(4, dtype=np.float32).reshape(2, 2) + 10 * i)
            send = raw.CollectiveBcastSendV2 if i == 0 else None
            outputs.append(
                [
                    raw.CollectiveReduceV2(
                        input=x, **keys, instance_key=1, ordering_token=[], merge_op="Mul", final_op="Id"
                    ),
                    raw.CollectiveGatherV2(input=x, **keys, instance_key=2, ordering_token=[]),
                    raw.CollectiveReduceScatterV2(
                        input=x, **keys, instance_key=3, ordering_token=[], merge_op="Add", final_op="Div"
                    ),
                    raw.CollectiveAllToAllV2(input=x, **keys, instance_key=4, ordering_token=[]),
                    send(input=x, **keys, instance_key=5)
                    if send is not None
                    else raw.CollectiveBcastRecvV2(T=tf.float32, shape=[2, 2], **keys, instance_key=5),
                ]
            )
    assert [o.shape.as_list() for o in outputs[1]] == [[2, 2], [None, 2], [None, 2], [2, 2], [2, 2]]
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        first, second = session.run(outputs)
    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    for merged, gathered, _, _, sent in (first, second):
        np.testing.assert_array_equal(merged, a * (a + 10))
        np.testing.assert_array_equal(gathered, np.concatenate([a, a + 10]))
        np.testing.assert_array_equal(sent, a)
    np.testing.assert_array_equal(np.concatenate([first[2], second[2]]), a + 5)
    np.testing.assert_array_equal(first[3], [a[0], a[0] + 10])
    np.testing.assert_array_equal(second[3], [a[1], a[1] + 10])


def test_members_of_a_communicator_have_the_ranks_they_say_and_may_form_parts() -> None:
    outputs = []
    for i in range(4):
        with tf.device(f"/cpu:{i}"):
            member = raw.CollectiveInitializeCommunicator(group_key=1, rank=3 - i, group_size=4)
            x = tf.constant([float(10**i)])
            all_of_them = raw.CollectiveReduceV3(
                input=x, communicator=member, group_assignment=np.zeros([0, 0], np.int32), reduction="Add"
            )
            with tf.control_dependencies([all_of_them]):
                halves = raw.CollectiveReduceV3(
                    input=x, communicator=member, group_assignment=[[0, 1], [2, 3]], reduction="Add"
                )
            with tf.control_dependencies([halves]):
                swapped = raw.CollectiveAllToAllV3(
                    input=tf.range(4.0) + 10 * i, communicator=member, group_assignment=[[0, 1, 2, 3]]
                )
            outputs.append([all_of_them, halves, swapped])
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 4})) as session:
        found = session.run(outputs)
    assert [float(f[0][0]) for f in found] == [1111.0] * 4
    assert [float(f[1][0]) for f in found] == [11.0, 11.0, 1100.0, 1100.0]
    # Rank 0 is /cpu:3: it gets the first element of all, of those with the least ranks first.
    np.testing.assert_array_equal(found[3][2], [30, 20, 10, 0])


def test_groups_are_assigned_by_a_matrix() -> None:
    size, key = raw.CollectiveAssignGroupV2(group_assignment=[[0, 1], [2, 3]], device_index=2, base_key=100)
    with tf.Session() as session:
        assert session.run([size, key]) == [2, 101]


def test_inside_a_function_and_a_loop() -> None:
    outputs = []
    for i in range(2):
        with tf.device(f"/cpu:{i}"):
            start = tf.constant([1.0 + i])
            outputs.append(
                tf.while_loop(lambda x: tf.reduce_sum(x) < 100, lambda x: reduce(x, 2, 1), [start], name=f"loop{i}")
            )
            outputs.append(tf.map_fn(lambda x: reduce(x, 2, 2), tf.constant([[1.0], [2.0 + i]]), parallel_iterations=1))
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        first, mapped, second, _ = session.run(outputs)
    np.testing.assert_array_equal(first, second)
    assert float(first[0]) == 192.0
    np.testing.assert_array_equal(mapped, [[2.0], [5.0]])


# What goes wrong ------------------------------------------------------------------------------------------------------


def test_members_with_different_shapes_fail_and_may_try_again() -> None:
    shapes = [tf.placeholder_with_default(tf.ones([3 - i]), [None]) for i in range(2)]
    outputs = []
    for i, x in enumerate(shapes):
        with tf.device(f"/cpu:{i}"):
            outputs.append(reduce(tf.identity(x), 2))
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch in the collective instance"):
            session.run(outputs)
        np.testing.assert_array_equal(session.run(outputs, {shapes[0]: [1.0, 2.0]})[1], [2, 3])


def test_a_broadcast_without_a_source_fails() -> None:
    outputs = []
    for i in range(2):
        with tf.device(f"/cpu:{i}"):
            outputs.append(raw.CollectiveBcastRecv(T=tf.float32, group_size=2, group_key=1, instance_key=1, shape=[2]))
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.Session(config=config) as session, pytest.raises(tf.errors.InvalidArgumentError, match="no source"):
        session.run(outputs)


def test_who_waits_too_long_fails() -> None:
    with tf.Session() as session, pytest.raises(tf.errors.DeadlineExceededError, match="timed out"):
        session.run(reduce(tf.constant([1.0]), 2, timeout_seconds=0.2))


def test_a_failed_member_takes_the_step_of_the_others_along_and_the_next_step_works(cluster: InProcessCluster) -> None:
    def build() -> Any:
        x = tf.placeholder(tf.float32, [], name="x")
        total = reduce(x, TASKS, 1)
        with tf.control_dependencies([total]):
            checked = tf.check_numerics(x, "x is bad")
        return reduce(checked, TASKS, 2)

    clients = [Client(cluster, task, build) for task in range(TASKS)]
    for bad in (None, np.nan, None):
        for task, client in enumerate(clients):
            client.start({"x:0": bad if bad is not None and task == 1 else 1.0})
        results = [client.end() for client in clients]
        if bad is None:
            assert results == [TASKS] * TASKS
        else:
            assert isinstance(results[1], tf.errors.InvalidArgumentError)
            for other in (results[0], results[2]):
                assert isinstance(other, tf.errors.AbortedError), other
                assert "/job:worker/replica:0/task:1 gave up its part" in other.message


def test_a_lost_task_ends_the_step_and_those_that_are_left_form_another_group(cluster: InProcessCluster) -> None:
    def build() -> Any:
        size = tf.placeholder(tf.int32, [], name="size")
        return raw.CollectiveReduceV2(
            input=[1.0],
            group_size=size,
            group_key=size,
            instance_key=1,
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
        )

    clients = [Client(cluster, task, build) for task in range(TASKS)]
    for client in clients:
        client.start({"size:0": TASKS})
    assert [float(client.end()[0]) for client in clients] == [TASKS] * TASKS
    for client in clients[:2]:
        client.start({"size:0": TASKS})
    cluster.stop("worker", 2)
    for client in clients[:2]:
        assert isinstance(client.end(), (tf.errors.UnavailableError, tf.errors.AbortedError))
    for client in clients[:2]:
        client.start({"size:0": 2})
    assert [float(client.end()[0]) for client in clients[:2]] == [2.0, 2.0]


def test_who_was_idle_when_a_group_came_apart_is_told_at_its_next_step(cluster: InProcessCluster) -> None:
    """Else it would wait for others, which have begun anew, with something else than they do."""

    def build() -> Any:
        return reduce(tf.constant([1.0]), 2)

    first, second = (Client(cluster, task, build) for task in range(2))
    first.start(), second.start()
    assert [float(c.end()[0]) for c in (first, second)] == [2.0, 2.0]
    second.session.close()
    eventually(lambda: not cluster.servers["worker", 0].worker.collectives.rooms)
    first.start()
    assert isinstance(first.end(), tf.errors.AbortedError)
    again = Client(cluster, 1, build)
    first.start(), again.start()
    assert [float(c.end()[0]) for c in (first, again)] == [2.0, 2.0]


def test_a_session_that_ends_leaves_its_groups(cluster: InProcessCluster) -> None:
    def build() -> Any:
        return reduce(tf.constant([1.0]), 2)

    first, second = (Client(cluster, task, build) for task in range(2))
    first.start(), second.start()
    assert [float(c.end()[0]) for c in (first, second)] == [2.0, 2.0]
    first.start()
    second.session.close()
    assert isinstance(first.end(), tf.errors.AbortedError)
    again = Client(cluster, 1, build)
    first.start(), again.start()
    assert [float(c.end()[0]) for c in (first, again)] == [2.0, 2.0]


def test_nothing_is_left_of_sessions_that_have_ended(cluster: InProcessCluster) -> None:
    clients = [Client(cluster, task, lambda: reduce(tf.zeros([50_000]), TASKS)) for task in range(TASKS)]
    for client in clients:
        client.start()
    assert [client.end().shape for client in clients] == [(50_000,)] * TASKS
    for client in clients:
        client.session.close()
    eventually(lambda: not any(s.worker.collectives.rooms for s in cluster.servers.values()))


@pytest.mark.parametrize(
    "build",
    [
        lambda: raw.NcclAllReduce(input=[1.0], reduction="sum", num_devices=1, shared_name="a"),
        lambda: raw.NcclBroadcast(input=[1.0], shape=[1]),
        lambda: raw.NcclReduce(input=[[1.0], [2.0]], reduction="sum"),
        lambda: raw.CollectivePermute(input=[1.0], source_target_pairs=[[0, 0]]),
    ],
)
def test_what_is_for_gpus_and_tpus_says_what_to_use_instead(build: Callable[[], Any]) -> None:
    value = build()
    assert value.shape == [1]
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"No OpKernel.* Use [CA]"):
        session.run(value)


def test_a_task_that_begins_anew_is_met_again_where_nobody_tells_the_others(cluster: InProcessCluster) -> None:
    """There is no controller here: who was refused by the first task's next life asks in which it is."""

    def together() -> list[Any]:
        clients = [Client(cluster, task, lambda: reduce(tf.constant([1.0]), TASKS)) for task in range(TASKS)]
        for client in clients:
            client.start(options=tf.RunOptions(timeout_in_ms=5000))
        found = [client.end() for client in clients]
        for client in clients:
            client.session.close()
        return found

    def succeed() -> bool:
        return all(not isinstance(result, tf.errors.OpError) for result in together())

    assert succeed()
    cluster.stop("worker", 0)
    cluster.start("worker", 0)
    eventually(succeed)


_KILLED_BETWEEN_STEPS = """
import sys
import dtfctl.runtime as tf

with tf.device("/job:worker/task:1"):
    total = tf.raw_ops.CollectiveReduce(
        input=[2.0], group_size=2, group_key=1, instance_key=1, merge_op="Add", final_op="Id", subdiv_offsets=[0]
    )
config = tf.ConfigProto(device_filters=["/job:worker/task:1"])
config.rpc_options.use_rpc_for_inprocess_master = sys.argv[2] == "rpc"
session = tf.Session(sys.argv[1], config=config)
print(session.run(total), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("way", ["local", "rpc"])
def test_a_client_that_is_killed_between_two_steps_ends_the_steps_of_the_others(
    cluster: InProcessCluster, way: str
) -> None:
    """Its task lives, and nothing of its session runs there: nobody else would end the group."""
    first = Client(cluster, 0, lambda: reduce([1.0], 2))
    command = [sys.executable, "-c", _KILLED_BETWEEN_STEPS, cluster.target("worker", 1), way]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            first.start()
            assert other.stdout is not None and other.stdout.readline() == "[3.]\n"
            assert first.end().tolist() == [3.0]
            first.start()
        finally:
            other.kill()
    assert isinstance(first.end(), tf.errors.AbortedError)
    # The client that takes its place and the one that is left form the next group.
    second = Client(cluster, 1, lambda: reduce([5.0], 2))
    for client in (first, second):
        client.start()
    assert [client.end().tolist() for client in (first, second)] == [[6.0], [6.0]]
