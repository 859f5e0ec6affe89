"""Array kernels at the edges where TensorFlow's own tests look: legacy scalars, error texts, odd types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor, object_array
from dtfctl.runtime.kernels.ragged.variant import RaggedTensorVariant
from tests.support.interpreter import run_op


def i32(*values: Any) -> np.ndarray:
    return np.array(values[0] if len(values) == 1 else values, np.int32)


def test_scalars_of_old_graphs_count_as_vectors_of_one() -> None:
    assert run_op("Reshape", i32([7]), i32(1)).tolist() == [7]
    assert run_op("Fill", i32([2]), i32([3])).tolist() == [3, 3]
    assert run_op("Fill", i32(2), i32(3)).tolist() == [3, 3]


@pytest.mark.parametrize(
    "values", [(i32(2), i32([3]), i32(7)), (i32([2]), i32(3), i32(7)), (i32([2]), i32([3]), i32(7))]
)
def test_concat_says_that_scalars_cannot_be_concatenated(values: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Can't concatenate scalars \(use tf.stack instead\)"):
        run_op("ConcatV2", values, i32(0))


def test_padding_a_scalar_needs_no_rows() -> None:
    with pytest.raises(InvalidArgumentError, match="The first dimension of paddings must be the rank of inputs"):
        run_op("Pad", i32(7), i32([[1, 2]]))


@pytest.mark.parametrize(
    ("op", "inputs", "name"),
    [
        ("ShardedFilename", (b"foo", i32(4), i32([100])), "num_shards"),
        ("ShardedFilespec", (b"foo", i32([100])), "num_shards"),
    ],
)
def test_sharded_names_need_scalars(op: str, inputs: tuple[Any, ...], name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be a scalar"):
        run_op(op, *inputs)


def test_edit_distance_says_where_it_would_have_written() -> None:
    indices = np.array([[-5, 0]], np.int64)
    with pytest.raises(InternalError, match=r"inner product -5 which would require writing to outside"):
        run_op(
            "EditDistance", indices, [7], np.array([2, 1]), np.array([[0, 0]]), [7], np.array([2, 1]), normalize=False
        )


def test_fingerprint_of_no_rows() -> None:
    got = run_op("Fingerprint", np.ones((0, 3), np.float32), b"farmhash64")
    assert got.shape == (0, 8) and got.dtype == np.uint8


def test_depth_to_space_on_cpu_takes_channels_last_only() -> None:
    with pytest.raises(InvalidArgumentError, match="No OpKernel was registered to support Op 'DepthToSpace'"):
        run_op("DepthToSpace", np.ones((1, 4, 1, 1), np.float32), block_size=2, data_format="NCHW")


def test_bincounts_of_sparse_and_ragged_values() -> None:
    counted = run_op("RaggedBincount", np.array([0, 2, 3]), i32(1, 1, 0), i32(2), np.array([[0.5, 1.0, 2.0]]))
    assert counted.tolist() == [[0.0, 1.5], [2.0, 0.0]]
    with pytest.raises(InvalidArgumentError, match="Shape must be rank 0 but is rank 1"):
        run_op("RaggedBincount", np.array([0, 1]), i32([1]), i32([1, 1]), np.array([1.0]))
    with pytest.raises(InvalidArgumentError, match="out of bounds"):
        run_op("SparseBincount", np.array([[-2]]), i32([1]), np.array([4]), i32(3), np.zeros(0, np.float32))


def test_inplace_update_names_the_shape_that_does_not_fit() -> None:
    with pytest.raises(InvalidArgumentError, match="i and x shape doesn't match at index 0"):
        run_op("InplaceUpdate", np.ones((1, 1)), i32(0, 1), np.ones((1, 1)))
    with pytest.raises(InvalidArgumentError, match="x and v shape doesn't match at index 1"):
        run_op("InplaceUpdate", np.ones((1, 1)), i32([0]), np.ones((1, 2)))


def number(kind: str, data: bytes) -> np.ndarray:
    proto = tensor_pb2.TensorProto(dtype=21, tensor_shape=tensor_pb2.TensorShapeProto())
    proto.variant_val.add(type_name=kind, metadata=data)
    return decode_tensor(proto)


def test_variants_of_numbers_add_and_print() -> None:
    three = number("int", np.int32(3).tobytes())
    total = run_op("AddN", [three, three, number("int", np.int32(-1).tobytes())], dtypes={"T": dtypes.variant})
    assert run_op("AsString", total, dtypes={"T": dtypes.variant}).item() == b"Variant<type: int value: 5>"
    zero = run_op("ZerosLike", three, dtypes={"T": dtypes.variant})
    assert encode_tensor(zero, dtypes.variant).variant_val[0].metadata == bytes(4)
    with pytest.raises(InvalidArgumentError, match="instead of 4"):
        number("int", b"123")


def test_limits_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match="too many dimensions"):
        run_op("Reshape", i32([[1]]), np.ones(254, np.int64))
    for dtype, size in ((np.int32, 0x10000000), (np.int64, 0x7FFFFFFFFFFFFFFF)):
        with pytest.raises(InvalidArgumentError, match="Input dims product is causing integer overflow"):
            run_op("UnravelIndex", np.array(-0x100000, dtype), np.array([size, size], dtype))


def test_a_handle_is_no_constant() -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be a resource variable handle"):
        run_op("GuaranteeConst", np.array(None, object), dtypes={"T": dtypes.resource})


def test_values_of_ragged_tensors_have_rows_of_one_shape() -> None:
    parts = [RaggedTensorVariant((), np.ones((1, size), np.float32), dtypes.float32) for size in (2, 3)]
    with pytest.raises(InvalidArgumentError, match=r"compatible shapes.  Shape at index 0: \[2\].*\[3\]"):
        run_op(
            "RaggedTensorFromVariant",
            object_array(parts, (2,)),
            input_ragged_rank=0,
            output_ragged_rank=1,
            dtypes={"Tvalues": dtypes.float32, "Tsplits": dtypes.int64},
        )
