"""Optimizers whose state is shared out over the replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.strategies.test_mirrored import CPUS, OPTIMIZERS, mirrored, train_step, trained

pytestmark = pytest.mark.slow


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weights_and_slots_are_those_of_one_device(name: str) -> None:
    expected = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS[name])
    for count in (1, 2, 4):
        same(trained(mirrored(count, shard_optimizer_state=True), OPTIMIZERS[name]), expected)


def test_each_device_has_its_part_of_the_slots_by_bytes() -> None:
    strategy = mirrored(2, shard_optimizer_state=True)
    with tf.Graph().as_default(), strategy.scope():
        optimizer = tf.train.AdamOptimizer(0.01)
        train_step(strategy, optimizer)
        held: dict[str, int] = {}
        for variable in tf.trainable_variables():
            slots = [optimizer.get_slot(variable, name) for name in optimizer.get_slot_names()]
            assert len({s.device for s in slots}) == 1 and not any(hasattr(s, "values") for s in slots)
            held[slots[0].device[-1]] = held.get(slots[0].device[-1], 0) + sum(s.shape.num_elements() for s in slots)
        # 30 + 5 + 10 + 2 elements, two slots each: the largest first, and the others where least is.
        assert held == {"0": 2 * 30, "1": 2 * (5 + 10 + 2)}


def test_checkpoints_are_those_of_copied_slots(tmp_path: Path) -> None:
    def go_on(strategy: Any, steps: int) -> dict[str, Any]:
        with tf.Graph().as_default(), strategy.scope():
            step, saver = train_step(strategy, OPTIMIZERS["adam"]()), tf.train.Saver()
            with tf.Session(config=CPUS) as session:
                newest = tf.train.latest_checkpoint(str(tmp_path))
                session.run(tf.global_variables_initializer())
                if newest:
                    saver.restore(session, newest)
                for _ in range(steps):
                    session.run(step)
                saver.save(session, str(tmp_path / "model"), global_step=tf.train.get_global_step())
                return {v.op.name: session.run(v) for v in tf.global_variables()}

    go_on(tf.distribute.OneDeviceStrategy("/cpu:0"), 1)
    go_on(mirrored(4, shard_optimizer_state=True), 1)
    go_on(mirrored(2), 1)
    found = go_on(mirrored(2, shard_optimizer_state=True), 1)
    same(found, trained(tf.distribute.OneDeviceStrategy("/cpu:0"), OPTIMIZERS["adam"]))


def test_optimizers_of_keras_refuse_it() -> None:
    with tf.Graph().as_default(), mirrored(2, shard_optimizer_state=True).scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
        model.compile("adam", "mse")
        with pytest.raises(NotImplementedError, match=r"for optimizers of tf\.train"):
            model.fit(np.ones((4, 3), np.float32), np.ones((4, 2), np.float32), verbose=0)
