"""Checkpoints by objects: which are kept, and what a program that has changed gets back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

layers = tf.keras.layers


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as opened:
        yield opened


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob("*.index"))


def test_a_manager_keeps_the_newest_and_deletes_the_others(session: Any, tmp_path: Path) -> None:
    v = tf.Variable(0.0, name="v", use_resource=True)
    session.run(v.initializer)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), str(tmp_path), max_to_keep=2)
    add = v.assign_add(1.0)
    for _ in range(4):
        session.run(add)
        manager.save()
    assert names(tmp_path) == ["ckpt-3.index", "ckpt-4.index"]
    assert manager.checkpoints == [str(tmp_path / "ckpt-3"), str(tmp_path / "ckpt-4")]
    assert manager.latest_checkpoint == tf.train.latest_checkpoint(str(tmp_path))
    # Another, as of the program started again, goes on where this one was.
    again = tf.train.CheckpointManager(manager.checkpoint, str(tmp_path), max_to_keep=1)
    assert again.restore_or_initialize() == str(tmp_path / "ckpt-4")
    again.save()
    assert names(tmp_path) == ["ckpt-5.index"]
    with pytest.raises(ValueError, match="max_to_keep"):
        tf.train.CheckpointManager(manager.checkpoint, str(tmp_path), max_to_keep=0)


def test_a_changed_model_gets_what_is_there(session: Any, tmp_path: Path) -> None:
    old = tf.keras.Sequential([layers.Dense(2, input_shape=(3,)), layers.Dense(1)])
    values = old.get_weights()
    path = tf.train.Checkpoint(model=old).save(str(tmp_path / "ckpt"))
    new = tf.keras.Sequential([layers.Dense(2, input_shape=(3,)), layers.Dense(1), layers.Dense(5)])
    status = tf.train.Checkpoint(model=new, step=tf.Variable(7, use_resource=True)).restore(path)
    with pytest.raises(AssertionError, match="No values in checkpoint"):
        status.assert_existing_objects_matched()
    status.expect_partial().initialize_or_restore(session)
    for ours, theirs in zip(new.get_weights(), values):
        np.testing.assert_array_equal(ours, theirs)
    assert new.get_weights()[4].shape == (1, 5)


def test_what_a_program_has_lost_is_found_by_assert_consumed(session: Any, tmp_path: Path) -> None:
    kept, lost = (tf.Variable(1.0, name=n, use_resource=True) for n in ("kept", "lost"))
    session.run(tf.global_variables_initializer())
    path = tf.train.Checkpoint(kept=kept, lost=lost).save(str(tmp_path / "ckpt"))
    status = tf.train.Checkpoint(kept=kept).restore(path)
    status.assert_existing_objects_matched()
    with pytest.raises(AssertionError, match="lost"):
        status.assert_consumed()
