"""Training with replicas: what a strategy's variables, reductions and optimizers come to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

pytestmark = pytest.mark.slow

CPUS = tf.ConfigProto(device_count={"CPU": 4})
RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 6)).astype(np.float32)
Y = RNG.normal(size=(8, 2)).astype(np.float32)
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.01, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01, centered=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


def mirrored(count: int, **options: Any) -> Any:
    return tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(count)], **options)


def start(name: str) -> Any:
    return tf.constant_initializer(np.random.default_rng(len(name)).normal(size=(6, 5) if name == "h" else (5, 2)))


def model(x: Any, y: Any) -> Any:
    hidden = tf.layers.dense(x, 5, activation=tf.nn.tanh, kernel_initializer=start("h"))
    out = tf.layers.dense(hidden, 2, kernel_initializer=start("out"))
    return tf.reduce_sum((out - y) ** 2) / len(X)


def train_step(strategy: Any, optimizer: Any, loss_of: Callable[..., Any] = model) -> Any:
    """Build a step over the whole batch, of which every replica has its part; the loss after it is of the whole."""
    count = tf.train.get_or_create_global_step()
    part = len(X) // strategy.num_replicas_in_sync

    def step() -> Any:
        rows = slice(*(part * (tf.distribute.get_replica_context().replica_id_in_sync_group + i) for i in (0, 1)))
        loss = loss_of(tf.constant(X[rows]), tf.constant(Y[rows]))
        with tf.control_dependencies([optimizer.minimize(loss, global_step=count)]):
            return tf.identity(loss)

    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step))


def trained(strategy: Any, optimizer: Callable[[], Any], steps: int = 4) -> dict[str, Any]:
    """Train, and return every variable by its name in a checkpoint."""
    with tf.Graph().as_default(), strategy.scope():
        step = train_step(strategy, optimizer())
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(steps):
                session.run(step)
            found = {}
            for variable in tf.global_variables():
                copies = session.run(list(strategy.experimental_local_results(variable)))
                for copy in copies[1:]:
                    np.testing.assert_array_equal(copy, copies[0])
                found[variable.op.name] = copies[0]
            return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_replicas_end_with_the_weights_of_one_device(name: str) -> None:
    optimizer = OPTIMIZERS[name]
    alone = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), optimizer)
    assert alone["global_step"] == 4 and "dense_1/kernel" in alone
    for count in (1, 2, 4):
        together = trained(mirrored(count), optimizer)
        assert together.keys() == alone.keys()
        for key, value in alone.items():
            np.testing.assert_allclose(together[key], value, rtol=1e-5, atol=1e-5, err_msg=key)


@pytest.mark.parametrize(
    "operations",
    [
        tf.distribute.HierarchicalCopyAllReduce(),
        tf.distribute.HierarchicalCopyAllReduce(num_packs=0),
        tf.distribute.ReductionToOneDevice("/cpu:2", tf.add_n),
    ],
)
def test_every_reduction_ends_with_the_same_weights(operations: Any) -> None:
    alone = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS["momentum"])
    together = trained(mirrored(3 + 1, cross_device_ops=operations), OPTIMIZERS["momentum"])
    for key, value in alone.items():
        np.testing.assert_allclose(together[key], value, rtol=1e-5, atol=1e-5, err_msg=key)


def test_gradients_of_several_types_are_packed_by_type() -> None:
    strategy = mirrored(2, cross_device_ops=tf.distribute.HierarchicalCopyAllReduce())
    with tf.Graph().as_default(), strategy.scope():
        single = tf.get_variable("single", [2], initializer=tf.ones_initializer())
        double = tf.get_variable("double", [3], tf.float64, initializer=tf.ones_initializer())
        other = tf.get_variable("other", [2], initializer=tf.ones_initializer())

        def step() -> Any:
            loss = tf.reduce_sum(single * other) + tf.cast(2 * tf.reduce_sum(double), tf.float32)
            return tf.train.GradientDescentOptimizer(0.25).minimize(loss)

        update = strategy.group(strategy.run(step))
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            session.run(update)
            assert [v.tolist() for v in session.run([single, double, other])] == [[0.5] * 2, [0.0] * 3, [0.5] * 2]


def test_a_users_own_reduction_is_used() -> None:
    class Tree(tf.distribute.CrossDeviceOps):
        calls = 0

        def reduce_implementation(self, reduce_op: Any, per_replica_value: Any, destinations: Any, options: Any) -> Any:
            Tree.calls += 1
            return tf.distribute.ReductionToOneDevice().reduce(reduce_op, per_replica_value, destinations)

    alone = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS["descent"])
    together = trained(mirrored(2, cross_device_ops=Tree()), OPTIMIZERS["descent"])
    assert Tree.calls
    for key, value in alone.items():
        np.testing.assert_allclose(together[key], value, rtol=1e-5, atol=1e-5, err_msg=key)


def test_nccl_says_what_it_needs() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match=r"not all GPUs.*HierarchicalCopyAllReduce"):
        trained(mirrored(2, cross_device_ops=tf.distribute.NcclAllReduce()), OPTIMIZERS["descent"])


def test_sparse_gradients_are_those_of_all_replicas() -> None:
    ids = np.array([0, 1, 1, 2, 0, 3, 3, 3])

    def table_after(strategy: Any) -> Any:
        with tf.Graph().as_default(), strategy.scope():
            table = tf.get_variable("table", [5, 3], initializer=tf.ones_initializer())

            def step() -> Any:
                part = 8 // strategy.num_replicas_in_sync
                first = part * tf.distribute.get_replica_context().replica_id_in_sync_group
                rows = tf.nn.embedding_lookup(table, tf.constant(ids[first : first + part]))
                return tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows * rows))

            update = strategy.group(strategy.run(step))
            with tf.Session(config=CPUS) as session:
                session.run(tf.global_variables_initializer())
                session.run(update)
                return session.run(table)

    alone = table_after(tf.distribute.OneDeviceStrategy("/cpu:0"))
    assert (alone[4] == 1).all() and (alone[3] < 1).all()
    np.testing.assert_allclose(table_after(mirrored(2)), alone, atol=1e-6)
    np.testing.assert_allclose(table_after(mirrored(4)), alone, atol=1e-6)


def test_a_checkpoint_has_no_replicas(tmp_path: Path) -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():
        step = train_step(strategy, tf.train.AdamOptimizer(0.01))
        saver = tf.train.Saver()
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            session.run(step)
            prefix = saver.save(session, str(tmp_path / "model"))
            kernel = session.run(tf.trainable_variables()[0])
    names = {name for name, _ in tf.train.list_variables(prefix)}
    assert {"dense/kernel", "dense/kernel/Adam_1", "beta1_power", "global_step"} < names
    assert not [name for name in names if "replica" in name]
    with tf.Graph().as_default():
        train_step(tf.distribute.get_strategy(), tf.train.AdamOptimizer(0.01))
        with tf.Session() as session:
            tf.train.Saver().restore(session, prefix)
            np.testing.assert_array_equal(session.run(tf.trainable_variables()[0]), kernel)
            one_device = tf.train.Saver().save(session, str(tmp_path / "one"))
    with tf.Graph().as_default(), strategy.scope():
        train_step(strategy, tf.train.AdamOptimizer(0.01))
        with tf.Session(config=CPUS) as session:
            tf.train.Saver().restore(session, one_device)
            for copy in strategy.experimental_local_results(tf.trainable_variables()[0]):
                np.testing.assert_array_equal(session.run(copy), kernel)


def test_batch_norm_moves_its_averages_in_each_replica() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():

        def step() -> Any:
            x = tf.constant(X[:4] if tf.distribute.get_replica_context().replica_id_in_sync_group == 0 else X[4:])
            out = tf.layers.batch_normalization(x, momentum=0.5, training=True)
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
                return tf.identity(out)

        out = strategy.group(strategy.run(step))
        mean = next(v for v in tf.global_variables() if "moving_mean" in v.name)
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            session.run(out)
            first, second = session.run(list(strategy.experimental_local_results(mean)))
            np.testing.assert_allclose(first, X[:4].mean(0) / 2, atol=1e-6)
            np.testing.assert_allclose(second, X[4:].mean(0) / 2, atol=1e-6)
            np.testing.assert_allclose(session.run(mean), X.mean(0) / 2, atol=1e-6)
            np.testing.assert_allclose(session.run(mean.read_value()), X.mean(0) / 2, atol=1e-6)


def test_a_monitored_session_trains_and_resumes(tmp_path: Path) -> None:
    for start, end in ((0, 3), (3, 5)):
        strategy = mirrored(2)
        with tf.Graph().as_default(), strategy.scope():
            step = train_step(strategy, tf.train.AdamOptimizer(0.01))
            hook = tf.train.StopAtStepHook(last_step=end)
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), hooks=[hook], config=CPUS, log_step_count_steps=None
            ) as session:
                assert session.run(tf.train.get_global_step()) == start
                while not session.should_stop():
                    session.run(step)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-5")
