"""Batches that are shared out by how fast workers are."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.strategies.test_between_graphs import cluster, in_all, multi_worker
from tests.unit.strategies.test_mirrored import OPTIMIZERS, X, Y, mirrored, model, trained

pytestmark = pytest.mark.slow

BalancedBatch = tf.distribute.experimental.BalancedBatch


def test_a_slow_worker_gets_fewer_examples_and_the_weights_stay() -> None:
    expected = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS["adam"], 6)

    def work(resolver: Any) -> Any:
        strategy = multi_worker(resolver)
        slow = resolver.task_id == 1

        def computed(x: Any) -> Any:
            time.sleep(0.04 * len(x) * (1 + 5 * slow))
            return x

        with tf.Graph().as_default(), strategy.scope():
            count = tf.train.get_or_create_global_step()
            balanced, taken = BalancedBatch(strategy), []

            def step() -> Any:
                x, y = balanced.part((tf.constant(X), tf.constant(Y)))
                shape = x.shape
                x = tf.py_func(computed, [x], tf.float32)
                x.set_shape(shape)
                train = balanced.minimize(OPTIMIZERS["adam"](), model(x, y), global_step=count)
                with tf.control_dependencies([train]):
                    return tf.identity(tf.shape(x)[0])

            (rows,) = strategy.experimental_local_results(strategy.run(step))
            config = strategy.update_config_proto(tf.ConfigProto())
            with tf.Session(resolver.master(), config=config) as session:
                session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
                taken = [int(session.run(rows)) for _ in range(6)]
                return taken, {v.op.name: session.run(v) for v in tf.global_variables()}

    with cluster(2) as resolvers:
        (fast, found), (slow, others) = in_all(resolvers, work)
    assert [a + b for a, b in zip(fast, slow, strict=True)] == [len(X)] * 6
    assert (fast[0], slow[0]) == (4, 4) and fast[-1] > slow[-1] >= 1
    for have in (found, others):
        assert have.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(have[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


def test_what_cannot_be_shared_out_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="workers with one device each"):
        BalancedBatch(mirrored(2))
    one = tf.distribute.OneDeviceStrategy("/cpu:0")
    with pytest.raises(ValueError, match="counts above 0"):
        BalancedBatch(one, newest=0.0)
    with pytest.raises(ValueError, match="one example at least"):
        BalancedBatch(one, least=0)
    with tf.Graph().as_default(), one.scope():
        with pytest.raises(RuntimeError, match="within a replica"):
            BalancedBatch(one).part(X)
        with pytest.raises(RuntimeError, match=r"call that before `minimize`"):
            one.run(lambda: BalancedBatch(one).minimize(OPTIMIZERS["adam"](), tf.constant(0.0)))
