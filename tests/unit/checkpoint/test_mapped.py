"""Restored tensors that are still their file: checked before anybody has them, and soon copied."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.checkpoint.blocks import LARGE
from dtfctl.runtime.checkpoint.bundle_reader import BundleReader
from dtfctl.runtime.checkpoint.bundle_writer import BundleWriter, data_file
from dtfctl.runtime.checkpoint.mapped import copy_soon, is_mapped
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import DataLossError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.variable import Variable

BIG = np.arange(LARGE // 4 * 2, dtype=np.float32).reshape(2, -1)


def saved(folder: Path, *more: tuple[str, np.ndarray, dtypes.DType]) -> BundleReader:
    path = str(folder / "m")
    with BundleWriter(path) as writer:
        for name, value, dtype in (*more, ("big", BIG, dtypes.float32)):
            writer.add(name, value, dtype)
    return BundleReader(path)


def settled() -> None:
    """Wait until everything that was to be copied is."""
    copy_soon(np.zeros(0), np.empty_like, lambda copy: None).result()


def test_a_large_tensor_is_given_as_it_stands_in_the_file_and_a_small_one_is_not(tmp_path: Path) -> None:
    reader = saved(tmp_path, ("a small one", np.ones(3, np.float32), dtypes.float32))
    big, small = reader.begin_map("big")(), reader.begin_map("a small one")()
    assert is_mapped(big) and not big.flags.writeable and not is_mapped(small)
    assert big.shape == BIG.shape and np.array_equal(big, BIG)
    assert not is_mapped(reader.read("big"))


def test_one_whose_place_no_array_can_have_is_copied(tmp_path: Path) -> None:
    big = saved(tmp_path, ("a byte before", np.ones(1, np.uint8), dtypes.uint8)).begin_map("big")()
    assert not is_mapped(big) and np.array_equal(big, BIG)


def test_damage_is_found_before_anybody_has_the_tensor(tmp_path: Path) -> None:
    reader = saved(tmp_path)
    with Path(data_file(str(tmp_path / "m"), 0, 1)).open("r+b") as file:
        file.seek(BIG.nbytes - 3)
        file.write(b"x")
    with pytest.raises(DataLossError, match="Checksum does not match"):
        reader.begin_map("big")()


def test_a_variable_soon_has_memory_of_its_own(tmp_path: Path) -> None:
    variable = Variable(dtypes.float32, TensorShape(BIG.shape))
    variable.assign(saved(tmp_path).begin_map("big")())
    settled()
    # What is done to the file does not show.
    Path(data_file(str(tmp_path / "m"), 0, 1)).write_bytes(bytes(BIG.nbytes))
    assert not is_mapped(variable.read()) and np.array_equal(variable.read(), BIG)
    with variable.lock:
        before = variable.read()
        del before
        variable.change(lambda a: a[0, :1].fill(7))
    assert variable.read()[0, 0] == 7


def test_a_restored_value_takes_the_memory_of_the_one_before(tmp_path: Path) -> None:
    variable = Variable(dtypes.float32, TensorShape(BIG.shape))
    variable.assign(np.zeros_like(BIG))
    address = variable.read().ctypes.data
    reader = saved(tmp_path)
    for _ in range(2):
        variable.assign(reader.begin_map("big")())
        settled()
        assert variable.read().ctypes.data == address and np.array_equal(variable.read(), BIG)
        with variable.lock:
            variable.change(lambda a: a[0, :1].fill(7))
    # But not as long as somebody reads that one.
    held = variable.read()
    variable.assign(reader.begin_map("big")())
    settled()
    assert held[0, 0] == 7 and variable.read().ctypes.data != address and np.array_equal(variable.read(), BIG)


def test_no_copy_is_made_of_what_is_no_value_any_more(tmp_path: Path) -> None:
    variable = Variable(dtypes.float32, TensorShape(BIG.shape))
    with variable.lock:
        variable.assign(np.zeros_like(BIG))
        before = variable.read().ctypes.data
        variable.assign(saved(tmp_path).begin_map("big")())
        variable.assign(BIG)
    settled()
    assert variable.read() is BIG and variable.read().ctypes.data != before


def test_an_update_that_comes_before_the_copy_stays(tmp_path: Path) -> None:
    variable = Variable(dtypes.float32, TensorShape(BIG.shape))
    with variable.lock:
        variable.assign(saved(tmp_path).begin_map("big")())
        variable.change(lambda a: a[0, :1].fill(7))
    settled()
    assert variable.read()[0, 0] == 7 and np.array_equal(variable.read()[1], BIG[1])


@pytest.mark.slow
def test_training_goes_on_from_a_restored_checkpoint(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.Variable(tf.zeros(BIG.shape), name="big")
        update = tf.scatter_add(variable, [0], [tf.ones(BIG.shape[1:])])
        saver = tf.train.Saver()
        session.run(variable.assign(BIG))
        path = saver.save(session, str(tmp_path / "m"))
        session.run(variable.assign(BIG * 0))
        saver.restore(session, path)
        session.run(update.op)
        np.testing.assert_array_equal(session.run(variable), BIG + [[1], [0]])
        # The file has not changed with it.
        np.testing.assert_array_equal(tf.train.NewCheckpointReader(path).get_tensor("big"), BIG)
