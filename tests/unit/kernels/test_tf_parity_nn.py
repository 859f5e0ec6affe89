"""Kernels of networks, strings and tables at the edges where TensorFlow's own tests look."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.kernels.data_flow.table import DenseHashTable
from tests.support.interpreter import run_op


def test_texts_of_bad_arguments() -> None:
    with pytest.raises(InvalidArgumentError, match="must have last dimension > n = 2"):
        run_op("NthElement", np.ones((2, 2), np.float32), np.array(2, np.int32))
    with pytest.raises(UnimplementedError, match="batch nor channel"):
        run_op("FractionalAvgPool", np.ones((3, 30, 50, 3)), pooling_ratio=[2.0, 3.0, 1.5, 1.0])
    with pytest.raises(InvalidArgumentError, match="requested more paths than the beam width"):
        run_op(
            "CTCBeamSearchDecoder", np.ones((1, 1, 2), np.float32), np.array([1], np.int32), beam_width=2, top_paths=3
        )


def test_format_keeps_characters_that_are_utf8() -> None:
    value = np.array("\U0001f60a\n".encode() + b"\xff", object)
    got = run_op("StringFormat", [value], template=b"{}", placeholder=b"{}", summarize=3)
    assert got.item() == '"\U0001f60a\\n\\377"'.encode()


def dense_table(buckets: int) -> DenseHashTable:
    return DenseHashTable("t", dtypes.int64, dtypes.int64, (), np.array(100), np.array(200), buckets)


def test_a_removed_bucket_is_exported_under_the_deleted_key() -> None:
    table = dense_table(8)
    table.insert(np.array([11, 12, 13]), np.array([0, 1, 2]))
    table.remove(np.array([13, 14]))
    keys, values = table.export()
    assert keys.shape == values.shape == (8, 1)
    assert sorted(zip(keys[:, 0].tolist(), values[:, 0].tolist(), strict=True)) == [
        (11, 0),
        (12, 1),
        *[(100, 0)] * 5,
        (200, 2),
    ]
    restored = dense_table(64)
    restored.import_values(keys, values)
    assert len(restored.export()[0]) == 8


def test_dense_tables_take_vectors_of_keys_only() -> None:
    with pytest.raises(InvalidArgumentError, match="Expected key shape"):
        dense_table(8).find(np.array([[11, 0], [12, 1]]), np.array(-1))


def test_padding_stays_below_the_window() -> None:
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "EXPLICIT"}
    with pytest.raises(InvalidArgumentError, match="Right padding 2 needs to be smaller than the window size 2"):
        run_op("MaxPool", np.ones((1, 3, 3, 1), np.float32), explicit_paddings=[0, 0, 0, 1, 0, 2, 0, 0], **attrs)
    got = run_op("MaxPool", np.ones((1, 3, 3, 1), np.float32), explicit_paddings=[0, 0, 0, 1, 0, 1, 0, 0], **attrs)
    assert got.shape == (1, 2, 2, 1)


def test_fractional_pooling_wants_sequences_that_are_vectors() -> None:
    value = np.ones((1, 7, 13, 1), np.float32)
    with pytest.raises(InvalidArgumentError, match="row_pooling_sequence must be a vector"):
        run_op("FractionalMaxPoolGrad", value, value, value, np.array(0), np.array(0))


def test_recurrent_cells_name_what_does_not_fit() -> None:
    def ones(*shape: int) -> np.ndarray:
        return np.ones(shape, np.float32)

    weights = (ones(46, 68), ones(), ones(17), ones(17), ones(68))
    with pytest.raises(InvalidArgumentError, match="wci_tensor must be rank 1 but is rank 0"):
        run_op("LSTMBlockCell", ones(28, 29), ones(28, 17), ones(28, 17), *weights)
    with pytest.raises(InvalidArgumentError, match="cs_prev_tensor is empty"):
        run_op("LSTMBlockCell", ones(2, 16), ones(2, 0), ones(2, 0), ones(16, 0), *[ones(0)] * 4)
    with pytest.raises(InvalidArgumentError, match="`seq_len_max_tensor` must be rank 0 but is rank 3"):
        length = np.zeros((13, 11, 0), np.int64)
        run_op("BlockLSTM", length, ones(1, 3, 15), ones(3, 0), ones(3, 0), ones(15, 0), *[ones(0)] * 4)


def test_softplus_of_half_floats() -> None:
    x = np.float16([4.96, 4.97, 4.98, 5.03, 5.04, 5.1, 5.11, 1.5, -3, -8, 9])
    want = [4.96875, 4.9765625, 4.98828125, 5.0390625, 5.046875, 5.109375, 5.1171875, 1.701171875]
    got = run_op("Softplus", x)
    assert got.tolist() == [*want, 0.048583984375, 0.00033545494079589844, 9.0]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_means_of_small_integers_do_not_overflow(dtype: type) -> None:
    many = np.full(3 * (np.iinfo(dtype).max + 1), 7, dtype)
    axis = np.array([0], np.int32)
    assert run_op("Mean", many, axis) == 7
    got = run_op("Mean", np.full(10, 100, dtype), axis)
    assert got == 100 and got.dtype == dtype
    if np.dtype(dtype).kind == "i":
        assert run_op("Mean", np.array([-7, 0], dtype), axis) == -3
