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
    assert sorted(zip(keys.tolist(), values.tolist(), strict=True)) == [(11, 0), (12, 1), *[(100, 0)] * 5, (200, 2)]
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
