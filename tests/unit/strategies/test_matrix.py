"""1, 2 and 4 replicas by every strategy, algorithm and failure: the weights are those of one device alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.support.clusters import in_process_cluster
from tests.unit.pipelines import test_training as pipelines
from tests.unit.strategies.test_between_graphs import cluster, in_all
from tests.unit.strategies.test_mirrored import OPTIMIZERS, mirrored, train_step, trained

pytestmark = pytest.mark.slow

distribute = tf.distribute
CPUS = [f"/cpu:{i}" for i in range(4)]
IN_ONE_GRAPH: dict[str, Callable[[int], Any]] = {
    "mirrored, to one device": lambda n: mirrored(n),
    "mirrored, by halves": lambda n: mirrored(n, cross_device_ops=distribute.HierarchicalCopyAllReduce(2)),
    "state shared out": lambda n: mirrored(n, shard_optimizer_state=True),
    "state shared out, by halves": lambda n: mirrored(
        n, cross_device_ops=distribute.HierarchicalCopyAllReduce(1), shard_optimizer_state=True
    ),
    "central storage": lambda n: distribute.experimental.CentralStorageStrategy(CPUS[:n]),
    "hybrid": lambda n: distribute.experimental.HybridStrategy(CPUS[:n], ["/cpu:0"], ["dense/*"]),
}
OVER_TASKS: dict[str, Callable[[list[str]], Any]] = {
    "mirrored, to one device": lambda devices: distribute.MirroredStrategy(devices),
    "mirrored, by halves": lambda devices: distribute.MirroredStrategy(
        devices, cross_device_ops=distribute.HierarchicalCopyAllReduce(2)
    ),
    "state shared out": lambda devices: distribute.MirroredStrategy(devices, shard_optimizer_state=True),
    "hybrid": lambda devices: distribute.experimental.HybridStrategy(devices, ["/job:ps/task:0"], ["dense/*"]),
}
ORDERS = ("gossip", "star", "tree", "pieces", "ring", "halving", "hierarchical")


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return trained(distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS["adam"])


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("name", IN_ONE_GRAPH)
def test_strategies_of_one_graph(name: str, replicas: int, alone: dict[str, Any]) -> None:
    same(trained(IN_ONE_GRAPH[name](replicas), OPTIMIZERS["adam"]), alone)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_of_a_group_by_every_order_of_an_all_reduce(workers: int, alone: dict[str, Any]) -> None:
    """One cluster for all orders, one after the other: each with groups of its own, and reduced in packs and apart."""

    def work(resolver: Any) -> list[dict[str, Any]]:
        return [_by(resolver, order, (0, 64, 1 << 20)[i % 3]) for i, order in enumerate(ORDERS)]

    with cluster(workers) as resolvers:
        for of_worker in in_all(resolvers, work):
            for found in of_worker:
                same(found, alone)


def _by(resolver: Any, order: str, bytes_per_pack: int) -> dict[str, Any]:
    strategy = distribute.experimental.MultiWorkerMirroredStrategy(
        cluster_resolver=resolver,
        communication_options=distribute.experimental.CommunicationOptions(bytes_per_pack=bytes_per_pack),
    )
    with tf.Graph().as_default() as graph, strategy.scope():
        step = train_step(strategy, OPTIMIZERS["adam"]())
        if strategy.num_replicas_in_sync > 1:
            _by_order(graph, order)
        with tf.Session(resolver.master(), config=strategy.update_config_proto(tf.ConfigProto())) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(4):
                session.run(step)
            return {v.op.name: session.run(v) for v in tf.global_variables()}


@pytest.mark.parametrize("lost", ["first", "last"])
@pytest.mark.parametrize("workers", [2, 4])
def test_a_worker_of_a_group_is_lost_in_the_middle_by_every_order(
    workers: int, lost: str, alone: dict[str, Any]
) -> None:
    """Its task begins anew, with nothing, while the others are in a step; what all have is that of whoever has most."""
    index = 0 if lost == "first" else workers - 1

    def until(last: int, resolver: Any, order: str) -> dict[str, Any]:
        strategy = distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
        with tf.Graph().as_default() as graph, strategy.scope():
            step, count = train_step(strategy, OPTIMIZERS["adam"]()), tf.train.get_global_step()
            values = {v.op.name: v.read_value() for v in tf.global_variables()}
            _by_order(graph, order)
            with tf.train.MonitoredTrainingSession(log_step_count_steps=None) as session:
                while session.run(count) < last:
                    session.run(step)
                found: dict[str, Any] = session.run(values)
                return found

    def work(order: str, resolver: Any) -> dict[str, Any]:
        if resolver.task_id == index:
            until(2, resolver, order)
            # As a worker that was started again: the others fail in their third step.
            config = tf.ConfigProto(device_filters=[f"/job:worker/task:{index}"])
            tf.Session.reset(resolver.master(), config=config)
        return until(4, resolver, order)

    for order in ORDERS:
        # Servers of before have the variables of before.
        with in_process_cluster({"worker": workers}) as tasks:
            spec = tf.train.ClusterSpec({"worker": list(tasks.cluster["worker"].values())})
            resolvers = [
                distribute.cluster_resolver.SimpleClusterResolver(spec, tasks.target("worker", i), "worker", i)
                for i in range(workers)
            ]
            for found in in_all(resolvers, partial(work, order)):
                same(found, alone)


def _by_order(graph: Any, order: str) -> None:
    asked = [op for op in graph.get_operations() if op.type.startswith("CollectiveReduce")]
    assert asked
    for op in asked:
        op._set_attr("communication_hint", tf.AttrValue(s=order.encode()))


@pytest.mark.parametrize("tasks", [2, 4])
@pytest.mark.parametrize("name", OVER_TASKS)
def test_one_client_over_tasks(name: str, tasks: int, alone: dict[str, Any]) -> None:
    devices = [f"/job:worker/task:{i}" for i in range(tasks)]
    with in_process_cluster({"worker": tasks, "ps": 1}) as cluster:
        strategy = OVER_TASKS[name](devices)
        with tf.Graph().as_default(), strategy.scope():
            step = train_step(strategy, OPTIMIZERS["adam"]())
            with tf.Session(cluster.target("worker", 0)) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(4):
                    session.run(step)
                found = {}
                for variable in tf.global_variables():
                    copies = session.run(list(strategy.experimental_local_results(variable)))
                    for copy in copies[1:]:
                        np.testing.assert_array_equal(copy, copies[0])
                    found[variable.op.name] = copies[0]
    same(found, alone)


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_stages_of_a_pipeline(schedule: str, stages: int) -> None:
    pipeline = distribute.experimental.Pipeline(CPUS[:stages], 4, schedule)
    found = pipelines.trained(pipelines.staged(pipeline, stages), pipelines.adam)
    pipelines.same(found, pipelines.trained(pipelines.alone, pipelines.adam))


def test_a_ps_and_one_worker(alone: dict[str, Any]) -> None:
    """Workers of a ps do not wait for each other, so more than one are no step with the whole batch."""

    def work(resolver: Any) -> dict[str, Any]:
        strategy = distribute.experimental.ParameterServerStrategy(resolver)
        with tf.Graph().as_default(), strategy.scope():
            step = train_step(strategy, OPTIMIZERS["adam"]())
            with tf.Session(resolver.master(), config=strategy.update_config_proto(tf.ConfigProto())) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(4):
                    session.run(step)
                return {v.op.name: session.run(v) for v in tf.global_variables()}

    with cluster(1, ps=1) as resolvers:
        same(in_all(resolvers, work)[0], alone)


@pytest.mark.parametrize("shard", [False, True])
def test_one_client_over_tasks_goes_on_when_one_of_them_is_lost(
    tmp_path: Path, shard: bool, alone: dict[str, Any]
) -> None:
    """A task that begins anew between two steps: all is restored from the checkpoint, and no step counts twice."""
    with in_process_cluster({"worker": 2}) as tasks:
        strategy = distribute.MirroredStrategy(
            ["/job:worker/task:0", "/job:worker/task:1"], shard_optimizer_state=shard
        )
        lost = False
        with tf.Graph().as_default(), strategy.scope():
            step, count = train_step(strategy, OPTIMIZERS["adam"]()), tf.train.get_global_step()
            with tf.train.MonitoredTrainingSession(
                tasks.target("worker", 0),
                checkpoint_dir=str(tmp_path),
                hooks=[tf.train.StopAtStepHook(last_step=4)],
                save_checkpoint_steps=1,
                log_step_count_steps=None,
            ) as session:
                while not session.should_stop():
                    if not lost and session.run_step_fn(lambda c: c.session.run(count)) == 2:
                        lost = True
                        tasks.stop("worker", 1)
                        tasks.start("worker", 1)
                    session.run(step)
            assert lost
            names = [v.op.name for v in tf.global_variables()]
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(tmp_path)))
    same({name: reader.get_tensor(name) for name in names}, alone)
