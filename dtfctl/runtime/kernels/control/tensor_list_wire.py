"""How a TensorList travels to another task: TensorFlow's VariantTensorDataProto of it.

The metadata is varints (number of unset items, their positions, element type, length limit) followed by the serialized
element shape; the tensors are the items that are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.framework.varints import varint

TENSOR_LIST = "tensorflow::TensorList"
"""The type's name in a VariantTensorDataProto."""
_MASK = 0xFFFFFFFFFFFFFFFF


def encode_tensor_list(
    element_dtype: DType, element_shape: TensorShape, items: Sequence[Any], max_num_elements: int
) -> tensor_pb2.VariantTensorDataProto:
    """Encode what a list consists of; items that are not set are None."""
    unset = [i for i, item in enumerate(items) if item is None]
    numbers = (len(unset), *unset, element_dtype.as_datatype_enum, max_num_elements & _MASK)
    metadata = b"".join(map(varint, numbers)) + element_shape.as_proto().SerializeToString()
    tensors = [encode_tensor(item, element_dtype) for item in items if item is not None]
    return tensor_pb2.VariantTensorDataProto(type_name=TENSOR_LIST, metadata=metadata, tensors=tensors)


def decode_tensor_list(proto: tensor_pb2.VariantTensorDataProto) -> tuple[DType, TensorShape, list[Any], int]:
    """Decode what `encode_tensor_list` encoded, in the order of its arguments.

    Raises:
        InvalidArgumentError: the proto is malformed.
    """
    metadata = proto.metadata
    count, at = _read(metadata, 0)
    if count > len(metadata):
        raise InvalidArgumentError("Malformed TensorList: more unset items than its metadata can name")
    unset = set()
    for _ in range(count):
        position, at = _read(metadata, at)
        unset.add(position)
    number, at = _read(metadata, at)
    limit, at = _read(metadata, at)
    total = len(proto.tensors) + count
    if len(unset) != count or any(position >= total for position in unset):
        raise InvalidArgumentError("Malformed TensorList: positions of unset items are out of range")
    try:
        dtype = dtypes.as_dtype(number)
        shape = TensorShape(tensor_pb2.TensorShapeProto.FromString(metadata[at:]))
    except (TypeError, ValueError, DecodeError) as e:
        raise InvalidArgumentError(f"Malformed TensorList: {e}") from e
    tensors = iter(proto.tensors)
    items = [None if i in unset else decode_tensor(next(tensors)) for i in range(total)]
    return dtype, shape, items, limit - (1 << 64) if limit >> 63 else limit


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise InvalidArgumentError("Malformed TensorList: its metadata ends in the middle of a number")
