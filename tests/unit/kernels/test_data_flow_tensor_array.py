"""TensorArrays, stacks, tables and partitioning through the kernel registry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.data_flow.stack import Stack
from dtfctl.runtime.kernels.data_flow.table import DenseHashTable, HashTable, MutableHashTable
from dtfctl.runtime.kernels.data_flow.tensor_array import TensorArray
from tests.support.interpreter import run_op


def array(size: int = 2, shape: Any = None, **options: Any) -> TensorArray:
    return TensorArray("ta", dtypes.float32, size, TensorShape(shape), **options)


def value(*items: float) -> np.ndarray:
    return np.array(items, np.float32)


def test_each_element_is_written_once_and_read_once() -> None:
    ta = array()
    ta.write(0, value(1, 2))
    with pytest.raises(InvalidArgumentError, match="it has already been written to"):
        ta.write(0, value(1, 2))
    assert ta.read(0, np).tolist() == [1, 2]
    with pytest.raises(InvalidArgumentError, match="Could not read index 0 twice because it was cleared"):
        ta.read(0, np)
    with pytest.raises(InvalidArgumentError, match="it has already been read"):
        ta.write(0, value(1, 2))


def test_bounds_and_growth() -> None:
    with pytest.raises(
        InvalidArgumentError, match="Tried to write to index 2 but array is not resizeable and size is: 2"
    ):
        array().write(2, value(1))
    with pytest.raises(InvalidArgumentError, match="Tried to read from index 5 but array size is: 2"):
        array().read(5, np)
    ta = array(0, dynamic_size=True)
    ta.write(3, value(1))
    assert ta.size() == 4


def test_unwritten_elements_read_as_zeros_when_the_shape_is_known() -> None:
    assert array(2, [2]).read(1, np).tolist() == [0, 0]
    with pytest.raises(InvalidArgumentError, match="element shape is not fully defined: <unknown>"):
        array().read(1, np)


def test_gradient_arrays_add_up() -> None:
    source = array(2)
    source.write(0, value(1, 2))
    gradient = array(2, is_grad=True)
    gradient.gradient_shapes_from(source, ())
    gradient.write(0, value(1, 1))
    gradient.write(0, value(2, 3))
    with pytest.raises(InvalidArgumentError, match=r"the existing shape is \[2\] but the new input shape is \[1\]"):
        gradient.write(0, value(1))
    assert gradient.read(0, np).tolist() == [3, 4]
    assert not gradient.gradients_allowed


def test_identical_shapes_are_inferred() -> None:
    ta = array(2, identical_element_shapes=True)
    ta.write(0, value(1, 2))
    with pytest.raises(InvalidArgumentError, match="incompatible with the TensorArray's inferred element shape"):
        ta.write(1, value(1))


def test_stacks() -> None:
    stack = Stack(dtypes.float32, "s", 1)
    stack.push(value(1))
    with pytest.raises(InvalidArgumentError, match=r"Stack\[s\] overflowed its max_size \(1\)"):
        stack.push(value(2))
    assert stack.pop().tolist() == [1]
    with pytest.raises(InvalidArgumentError, match=r"Stack\[s\] is empty when calling Pop\(\)\."):
        stack.pop()


def words(*items: bytes) -> np.ndarray:
    return np.array(items, object)


def test_hash_tables_are_filled_once() -> None:
    table = HashTable("t", dtypes.string, dtypes.int64)
    default = np.array(-1)
    with pytest.raises(FailedPreconditionError, match=r"Table not initialized\."):
        table.find(words(b"a"), default)
    table.import_values(words(b"a", b"b"), np.array([1, 2]))
    table.import_values(words(b"a", b"b"), np.array([1, 2]))
    assert table.find(words(b"b", b"z"), default).tolist() == [2, -1]
    with pytest.raises(FailedPreconditionError, match="already initialized with different data"):
        table.import_values(words(b"a"), np.array([1]))
    with pytest.raises(FailedPreconditionError, match="Key a has 1 and trying to add value 2"):
        HashTable("u", dtypes.string, dtypes.int64).import_values(words(b"a", b"a"), np.array([1, 2]))


def test_mutable_tables_of_vectors() -> None:
    table = MutableHashTable("t", dtypes.int64, dtypes.float32, (2,))
    table.insert(np.array([1, 2]), np.arange(4, dtype=np.float32).reshape(2, 2))
    found = table.find(np.array([[2], [7]]), value(9, 9))
    assert found.tolist() == [[[2, 3]], [[9, 9]]]
    table.remove(np.array([1]))
    keys, values = table.export()
    assert keys.tolist() == [2] and values.tolist() == [[2, 3]]
    with pytest.raises(InvalidArgumentError, match=r"Expected shape \[1,2\] for value, got \[1\]"):
        table.insert(np.array([1]), value(1))


def test_dense_tables_set_two_keys_aside() -> None:
    table = DenseHashTable("t", dtypes.int64, dtypes.int64, (), np.array(0), np.array(-1))
    with pytest.raises(InvalidArgumentError, match="Using the empty_key as a table key is not allowed"):
        table.insert(np.array([0]), np.array([1]))
    with pytest.raises(InvalidArgumentError, match="Using the deleted_key"):
        table.find(np.array([-1]), np.array(5))
    table.insert(np.array([4]), np.array([7]))
    assert table.find(np.array([4, 5]), np.array(5)).tolist() == [7, 5]


def test_partition_and_stitch() -> None:
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    ids = np.array([2, 0, 2], np.int32)
    parts = run_op("DynamicPartition", data, ids, num_partitions=3)
    assert [p.tolist() for p in parts] == [[[2, 3]], [], [[0, 1], [4, 5]]]
    with pytest.raises(InvalidArgumentError, match=r"partitions\[1\] = 3 is not in \[0, 3\)"):
        run_op("DynamicPartition", data, np.array([0, 3, 0], np.int32), num_partitions=3)
    indices = [np.array([1], np.int32), np.array([], np.int32), np.array([0, 3], np.int32)]
    merged = run_op("DynamicStitch", indices, [p.reshape(-1, 2) for p in parts])
    assert merged.tolist() == [[0, 1], [2, 3], [0, 0], [4, 5]]


def test_a_table_of_types_tensorflow_has_no_kernel_for_is_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        keys, values = np.array([42], np.int32), np.array([0], np.int64)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)
        with pytest.raises(tf.errors.InvalidArgumentError, match="No OpKernel was registered"):
            session.run(table.initializer)
