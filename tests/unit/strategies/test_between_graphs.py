"""Strategies whose workers each build a graph of their own, on the servers of one cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.replication.values import PerReplica
from dtfctl.runtime.strategies.collective_all_reduce import CollectiveAllReduce, Group
from dtfctl.runtime.testing.devices import create_local_cluster
from tests.unit.strategies.test_mirrored import OPTIMIZERS, X, mirrored, train_step, trained

pytestmark = pytest.mark.slow

Resolver = tf.distribute.cluster_resolver.SimpleClusterResolver


@contextlib.contextmanager
def cluster(workers: int, ps: int = 0) -> Iterator[list[Any]]:
    """Serve a cluster, and give a resolver for each worker."""
    servers, parameter_servers = create_local_cluster(workers, ps)
    try:
        spec = servers[0].server_def.cluster
        yield [Resolver(tf.train.ClusterSpec(spec), s.target, "worker", i) for i, s in enumerate(servers)]
    finally:
        for server in [*servers, *parameter_servers]:
            server.stop()


def in_all(resolvers: list[Any], work: Callable[[Any], Any]) -> list[Any]:
    """Do the same as every worker, side by side."""
    with ThreadPoolExecutor(len(resolvers)) as pool:
        return list(pool.map(work, resolvers))


def multi_worker(resolver: Any) -> Any:
    return tf.distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("name", ["adam", "momentum"])
def test_workers_end_with_the_weights_of_one_device(workers: int, name: str) -> None:
    alone = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS[name])

    def work(resolver: Any) -> dict[str, Any]:
        strategy = multi_worker(resolver)
        assert strategy.num_replicas_in_sync == workers
        with tf.Graph().as_default(), strategy.scope():
            step = train_step(strategy, OPTIMIZERS[name]())
            config = strategy.update_config_proto(tf.ConfigProto())
            with tf.Session(resolver.master(), config=config) as session:
                session.run(tf.global_variables_initializer())
                losses = [session.run(step) for _ in range(4)]
                assert losses[-1] < losses[0]
                return {v.op.name: session.run(v) for v in tf.global_variables()}

    with cluster(workers) as resolvers:
        for found in in_all(resolvers, work):
            assert found.keys() == alone.keys()
            for key, value in alone.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)


def test_the_first_workers_initial_values_are_those_of_all() -> None:
    def work(resolver: Any) -> Any:
        strategy = multi_worker(resolver)
        with tf.Graph().as_default(), strategy.scope():
            tf.set_random_seed(resolver.task_id + 1)
            variable = tf.get_variable("v", [5])
            own = tf.Variable(float(resolver.task_id), collections=[tf.GraphKeys.LOCAL_VARIABLES])
            counted = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
            grown = strategy.run(lambda: counted.assign_add(resolver.task_id + 1.0))
            rows = strategy.run(lambda: tf.ones([resolver.task_id + 1, 2]) * resolver.task_id)
            config = strategy.update_config_proto(tf.ConfigProto())
            with tf.Session(resolver.master(), config=config) as session:
                session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
                gathered = session.run(strategy.gather(rows, axis=0))
                return session.run(variable), session.run(own), session.run(grown), gathered

    with cluster(2) as resolvers:
        (first, own, grown, rows), (second, other, _, _) = in_all(resolvers, work)
    np.testing.assert_array_equal(first, second)
    assert (own, other, grown) == (0, 1, 4)
    np.testing.assert_array_equal(rows, [[0, 0], [1, 1], [1, 1]])


def test_rows_of_gradients_come_from_all_workers() -> None:
    ids = [[0, 1, 1], [3]]

    def work(resolver: Any) -> Any:
        strategy = multi_worker(resolver)
        with tf.Graph().as_default(), strategy.scope():
            table = tf.get_variable("table", [5, 2], initializer=tf.ones_initializer())

            def step() -> Any:
                rows = tf.nn.embedding_lookup(table, tf.constant(ids[resolver.task_id]))
                return tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(rows))

            update = strategy.run(step)
            config = strategy.update_config_proto(tf.ConfigProto())
            with tf.Session(resolver.master(), config=config) as session:
                session.run(tf.global_variables_initializer())
                session.run(update)
                return session.run(table)

    with cluster(2) as resolvers:
        for table in in_all(resolvers, work):
            np.testing.assert_array_equal(table[:, 0], [0.5, 0, 1, 0.5, 1])


def test_monitored_sessions_agree_and_the_first_worker_saves(tmp_path: Path) -> None:
    def work(resolver: Any, last: int) -> Any:
        strategy = multi_worker(resolver)
        with tf.Graph().as_default(), strategy.scope():
            step = train_step(strategy, tf.train.AdamOptimizer(0.01))
            weights = tf.trainable_variables()[0].read_value()
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path / str(resolver.task_id)),
                hooks=[tf.train.StopAtStepHook(last_step=last)],
                log_step_count_steps=None,
            ) as session:
                begun = session.run(tf.train.get_global_step())
                while not session.should_stop():
                    _, found = session.run([step, weights])
                return begun, found

    alone = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS["adam"], steps=5)
    for start, end in ((0, 3), (3, 5)):
        # The second time the servers are others, which have nothing: only the first worker's checkpoint is there.
        with cluster(2) as resolvers:
            found = in_all(resolvers, lambda resolver, end=end: work(resolver, end))
        assert [begun for begun, _ in found] == [start, start]
    assert not (tmp_path / "1").exists() or tf.train.latest_checkpoint(str(tmp_path / "1")) is None
    saved = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(tmp_path / "0")))
    for key, value in alone.items():
        np.testing.assert_allclose(saved.get_tensor(key), value, rtol=1e-5, atol=1e-5, err_msg=key)


def test_who_comes_back_gets_what_the_others_have() -> None:
    def work(resolver: Any) -> Any:
        strategy = multi_worker(resolver)
        with tf.Graph().as_default(), strategy.scope():
            step = train_step(strategy, tf.train.AdamOptimizer(0.01))
            forget = tf.get_default_graph()
            with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=3)]) as session:
                while not session.should_stop():
                    session.run(step)
            del forget
            if resolver.task_id == 0:
                # As a worker that was started again: it has no state.
                tf.Session.reset(resolver.master(), config=strategy.update_config_proto(tf.ConfigProto()))
            with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=5)]) as session:
                assert session.run(tf.train.get_global_step()) == 3
                while not session.should_stop():
                    session.run(step)
                raw = session.raw_session()
            with tf.Session(resolver.master(), config=strategy.update_config_proto(tf.ConfigProto())) as plain:
                del raw
                return {v.op.name: plain.run(v) for v in tf.global_variables()}

    alone = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS["adam"], steps=5)
    with cluster(2) as resolvers:
        for found in in_all(resolvers, work):
            for key, value in alone.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)


def test_workers_read_their_parts_of_each_batch() -> None:
    def work(resolver: Any) -> Any:
        strategy = multi_worker(resolver)
        with tf.Graph().as_default(), strategy.scope():
            value = strategy.make_dataset_iterator(tf.data.Dataset.range(8).batch(4))
            element, parts = value.get_next(), []
            told = strategy.make_input_fn_iterator(lambda c: tf.data.Dataset.range(4).shard(
                c.num_input_pipelines, c.input_pipeline_id)).get_next  # fmt: skip
            assert callable(told)
            config = strategy.update_config_proto(tf.ConfigProto())
            with tf.Session(resolver.master(), config=config) as session:
                session.run(value.initializer)
                for _ in range(2):
                    parts.append(session.run(element).tolist())
                return parts

    with cluster(2) as resolvers:
        assert in_all(resolvers, work) == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


def test_workers_read_what_the_datasets_policy_says() -> None:
    policies = tf.data.experimental.AutoShardPolicy

    def work(resolver: Any) -> Any:
        strategy = multi_worker(resolver)
        found = []
        with tf.Graph().as_default(), strategy.scope():
            for policy in (policies.DATA, policies.OFF):
                options = tf.data.Options()
                options.experimental_distribute.auto_shard_policy = policy
                dataset = tf.data.Dataset.range(4).batch(4).with_options(options).prefetch(1)
                iterator = strategy.experimental_distribute_dataset(dataset).make_initializable_iterator()
                element = iterator.get_next()
                with tf.Session(resolver.master(), config=strategy.update_config_proto(tf.ConfigProto())) as session:
                    session.run(iterator.initializer)
                    found.append(session.run(element).tolist())
                    if policy is policies.OFF:
                        found.append(session.run(element).tolist())
            options.experimental_distribute.auto_shard_policy = policies.FILE
            with pytest.raises(ValueError, match=r"reads no files, so AutoShardPolicy\.FILE has none"):
                strategy.experimental_distribute_dataset(dataset)
        return found

    with cluster(2) as resolvers:
        assert in_all(resolvers, work) == [[[0, 1], [0, 1], [2, 3]], [[2, 3], [0, 1], [2, 3]]]


def _lines(files: Any, how: str) -> Any:
    if how == "named":
        return tf.data.TextLineDataset(files)
    if how == "listed":
        return tf.data.Dataset.list_files(str(Path(files[0]).parent / "*.txt")).flat_map(tf.data.TextLineDataset)
    named = tf.data.Dataset.from_tensor_slices(files).shuffle(10).repeat(1)
    if how == "interleaved":
        return named.interleave(tf.data.TextLineDataset, cycle_length=2).map(lambda line: line)
    return named.flat_map(lambda name: tf.data.TextLineDataset(name).map(lambda line: line))


@pytest.mark.parametrize("how", ["named", "interleaved", "flat", "listed"])
def test_workers_read_files_of_their_own(tmp_path: Path, how: str) -> None:
    files = [str(tmp_path / f"{i}.txt") for i in range(5)]
    for i, name in enumerate(files):
        Path(name).write_text(f"{i}a\n{i}b\n")

    def work(resolver: Any) -> Any:
        strategy = multi_worker(resolver)
        with tf.Graph().as_default(), strategy.scope():
            options = tf.data.Options()
            options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
            dataset = _lines(files, how).batch(2).with_options(options)
            if resolver.task_id == 0:
                few = tf.data.TextLineDataset(files[:1]).batch(2).with_options(options)
                with pytest.raises(ValueError, match="has 1 file to share out to 2 processes"):
                    strategy.experimental_distribute_dataset(few)
            iterator = strategy.experimental_distribute_dataset(dataset).make_initializable_iterator()
            element, found = iterator.get_next(), []
            with tf.Session(resolver.master(), config=strategy.update_config_proto(tf.ConfigProto())) as session:
                session.run(iterator.initializer)
                with contextlib.suppress(tf.errors.OutOfRangeError):
                    while True:
                        # A batch of 2 is for two replicas: one example for each.
                        found.append(session.run(element).tolist())
        assert all(len(part) == 1 for part in found)
        return sorted(line.decode() for part in found for line in part)

    with cluster(2) as resolvers:
        assert in_all(resolvers, work) == [["0a", "0b", "2a", "2b", "4a", "4b"], ["1a", "1b", "3a", "3b"]]


@pytest.mark.parametrize("how", ["fed", "interleaved", "flat", "listed"])
def test_fewer_files_than_workers_fail_in_all_of_them(tmp_path: Path, how: str) -> None:
    """Else one has nothing to do, and the others wait for it."""
    only = tmp_path / "only.txt"
    only.write_text("a\nb\n")

    def work(resolver: Any) -> Any:
        strategy = multi_worker(resolver)
        with tf.Graph().as_default(), strategy.scope():
            options = tf.data.Options()
            options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
            names = tf.placeholder(tf.string, [None])
            files = tf.data.TextLineDataset(names) if how == "fed" else _lines([str(only)], how)
            dataset = files.batch(2).with_options(options)
            iterator = strategy.experimental_distribute_dataset(dataset).make_initializable_iterator()
            element = iterator.get_next()
            with (
                tf.Session(resolver.master(), config=strategy.update_config_proto(tf.ConfigProto())) as session,
                pytest.raises(tf.errors.InvalidArgumentError, match="FILE"),
            ):
                session.run(iterator.initializer, {names: [str(only)]} if how == "fed" else None)
                session.run(element)
        return True

    with cluster(2) as resolvers:
        assert in_all(resolvers, work) == [True, True]


def test_parameter_servers_hold_the_variables() -> None:
    def work(resolver: Any) -> Any:
        strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
        assert strategy.num_replicas_in_sync == 1
        with tf.Graph().as_default(), strategy.scope():
            step = train_step(strategy, tf.train.GradientDescentOptimizer(0.01))
            devices = {v.op.name: v.device for v in tf.global_variables()}
            with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=20)]) as session:
                while not session.should_stop():
                    loss = session.run(step)
            return devices, loss

    with cluster(2, ps=2) as resolvers:
        (devices, _), (others, loss) = in_all(resolvers, work)
    assert devices == others and {d[:14] for d in devices.values()} == {"/job:ps/task:0", "/job:ps/task:1"}
    assert np.isfinite(loss)


def test_central_storage_has_every_variable_once() -> None:
    strategy = tf.distribute.experimental.CentralStorageStrategy(["/cpu:1", "/cpu:2"], "/cpu:0")
    found = trained(strategy, OPTIMIZERS["adam"])
    alone = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS["adam"])
    assert found.keys() == alone.keys()
    for key, value in alone.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)
    with tf.Graph().as_default(), strategy.scope():
        variable = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)
        assert variable.device.endswith("CPU:0")
        moved = strategy.run(
            lambda: variable.assign_add(2.0 * tf.distribute.get_replica_context().replica_id_in_sync_group + 1)
        )
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as session:
            session.run(tf.global_variables_initializer())
            session.run(strategy.group(moved))
            assert session.run(variable) == 3


def test_who_is_no_worker_is_told() -> None:
    spec = {"worker": ["a:1"], "ps": ["b:1"]}
    with pytest.raises(ValueError, match="chief or worker of the cluster, not as ps/0"):
        multi_worker(Resolver(spec, "", "ps", 0))
    with pytest.raises(ValueError, match="needs to have `ps` jobs"):
        tf.distribute.experimental.ParameterServerStrategy(Resolver({"worker": ["a:1"]}, "", "worker", 0))
    assert len(X) == 8 and mirrored(1).num_replicas_in_sync == 1


@pytest.mark.parametrize(("compression", "reductions"), [("none", [20_000, 100, 100]), ("int8", [20_000, 60, 100, 40])])
def test_short_gradients_are_reduced_together(compression: str, reductions: list[int]) -> None:
    """Those of one type; with compression each goes alone, as what is short is not encoded."""
    options = tf.distribute.experimental.CommunicationOptions(compression=compression)
    operations = CollectiveAllReduce(["/cpu:0"], Group(1, 2), options)
    lengths = [(40, tf.float32), (100, tf.float64), (60, tf.float32), (20_000, tf.float32)]
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:0"):
            values = [PerReplica([tf.zeros([count], dtype)]) for count, dtype in lengths]
        operations.batch_reduce(tf.distribute.ReduceOp.SUM, [(value, value) for value in values])
        asked = [op for op in graph.get_operations() if op.type == "CollectiveReduce"]
    assert [op.inputs[0].shape.num_elements() for op in asked] == reductions


def test_a_users_own_all_reduce_gives_the_weights_of_one_device() -> None:
    """Two racks of two workers: sums in a rack first, then between those at the same place in both."""
    alone = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS["adam"])

    def work(resolver: Any) -> tuple[int, dict[str, Any]]:
        rack, place = divmod(resolver.task_id, 2)
        called: list[int] = []

        def topology_aware_all_reduce(values: list[Any], group: Group) -> list[Any]:
            called.append(len(values))
            inside, across = group.part(rack, size=2), group.part(2 + place, size=2)
            return across.all_reduce(inside.all_reduce(values))

        strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(
            cluster_resolver=resolver,
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=topology_aware_all_reduce
            ),
        )
        with tf.Graph().as_default() as graph, strategy.scope():
            step = train_step(strategy, OPTIMIZERS["adam"]())
            assert {op.get_attr("group_size") for op in graph.get_operations() if op.type == "CollectiveReduce"} == {2}
            with tf.Session(resolver.master(), config=strategy.update_config_proto(tf.ConfigProto())) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(4):
                    session.run(step)
                return len(called), {v.op.name: session.run(v) for v in tf.global_variables()}

    with cluster(4) as resolvers:
        for called, found in in_all(resolvers, work):
            assert called
            assert found.keys() == alone.keys()
            for key, value in alone.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)


def test_a_users_own_all_reduce_is_refused_what_it_must_say_itself() -> None:
    options = tf.distribute.experimental.CommunicationOptions
    with pytest.raises(ValueError, match="says compression and timeout_seconds itself"):
        options(implementation=lambda values, group: values, compression="int8")
    group = Group(1, 4)
    assert group.part(3, 2) is group.part(3, 2)
    assert len({Group(1, 4).key, Group(2, 4).key, group.part(0, 2).key, group.part(1, 2).key}) == 4
    with pytest.raises(ValueError, match="Part 3 has 2 devices, and is now said to have 4"):
        group.part(3, 4)
    with pytest.raises(ValueError, match="A part has a number below 1024"):
        group.part(1024, 2)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="has returned 0 values for 1 devices"):
        group.all_reduce([tf.constant(1.0)], options=options(implementation=lambda values, group: []))
