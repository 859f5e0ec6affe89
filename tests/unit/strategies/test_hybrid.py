"""Sparse variables on parameter servers, copies of the others on every replica."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.strategies.test_mirrored import OPTIMIZERS

pytestmark = pytest.mark.slow

CPUS = tf.ConfigProto(device_count={"CPU": 6})
IDS = np.random.default_rng(1).integers(0, 20, (8, 3))
TABLES = [np.random.default_rng(i).normal(size=(20, 4)).astype(np.float32) for i in range(2)]
KERNEL = np.random.default_rng(5).normal(size=(4, 2)).astype(np.float32)


def hybrid(count: int, shared: Any = ("tables/*",)) -> Any:
    devices = [f"/cpu:{i}" for i in range(count)]
    return tf.distribute.experimental.HybridStrategy(devices, ["/cpu:4", "/cpu:5"], shared)


def trained(strategy: Any, optimizer: Any) -> dict[str, Any]:
    with tf.Graph().as_default(), strategy.scope():
        count, made = tf.train.get_or_create_global_step(), optimizer()
        part = len(IDS) // strategy.num_replicas_in_sync

        def step() -> Any:
            at = tf.distribute.get_replica_context().replica_id_in_sync_group
            ids = tf.constant(IDS[at * part : (at + 1) * part])
            rows = [
                tf.nn.embedding_lookup(tf.get_variable(f"tables/{i}", initializer=TABLES[i]), ids) for i in range(2)
            ]
            hidden = tf.tanh(tf.reduce_sum(rows[0] * rows[1], 1))
            out = tf.layers.dense(hidden, 2, kernel_initializer=tf.constant_initializer(KERNEL))
            return made.minimize(tf.reduce_sum(out**2) / len(IDS), global_step=count)

        train = strategy.run(step)
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(4):
                session.run(train)
            found = {}
            for variable in tf.global_variables():
                copies = strategy.experimental_local_results(variable)
                on_ps = variable.op.name.startswith("tables/")
                if not isinstance(strategy, tf.distribute.OneDeviceStrategy):
                    assert len(copies) == (1 if on_ps else strategy.num_replicas_in_sync), variable.op.name
                    assert not on_ps or variable.device[-1] in "45"
                values = session.run(list(copies))
                for value in values[1:]:
                    np.testing.assert_array_equal(value, values[0])
                found[variable.op.name] = values[0]
            return found


@pytest.mark.parametrize("name", ["descent", "momentum", "adam", "adagrad"])
def test_replicas_end_with_the_weights_of_one_device(name: str) -> None:
    expected = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS[name])
    for count in (1, 2, 4):
        found = trained(hybrid(count), OPTIMIZERS[name])
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)


def test_a_rule_says_what_is_shared_and_the_servers_take_turns_by_bytes() -> None:
    strategy = hybrid(2, lambda name, shape: shape.rank == 2 and shape[0].value >= 10)
    with tf.Graph().as_default(), strategy.scope():
        made = [tf.get_variable(f"v{i}", [rows, 4]) for i, rows in enumerate((40, 10, 20, 5))]
    assert [v.device[-1] for v in made[:3]] == ["4", "5", "5"]
    assert len(strategy.experimental_local_results(made[3])) == 2


def test_servers_are_needed() -> None:
    with pytest.raises(ValueError, match="parameter_devices has none"):
        tf.distribute.experimental.HybridStrategy(["/cpu:0"], [], ["tables/*"])
