"""How a TensorList travels to another task: TensorFlow's VariantTensorDataProto of it.

The metadata is varints (number of unset items, their positions, element type, length limit) followed by the serialized
element shape; the tensors are the items that are set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor, register_variant
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.framework.varints import varint

if TYPE_CHECKING:
    from dtfctl.runtime.kernels.control.tensor_list import TensorList

TYPE_NAME = "tensorflow::TensorList"
_MASK = 0xFFFFFFFFFFFFFFFF


def encode_tensor_list(value: TensorList) -> tensor_pb2.VariantTensorDataProto:
    items = value.items.to_list()
    unset = [i for i, item in enumerate(items) if item is None]
    numbers = (len(unset), *unset, value.element_dtype.as_datatype_enum, value.max_num_elements & _MASK)
    metadata = b"".join(map(varint, numbers)) + value.element_shape.as_proto().SerializeToString()
    tensors = [encode_tensor(item, value.element_dtype) for item in items if item is not None]
    return tensor_pb2.VariantTensorDataProto(type_name=TYPE_NAME, metadata=metadata, tensors=tensors)


def decode_tensor_list(proto: tensor_pb2.VariantTensorDataProto) -> TensorList:
    """Decode a list that `encode_tensor_list` encoded.

    Raises:
        InvalidArgumentError: the proto is malformed.
    """
    from dtfctl.runtime.kernels.control.tensor_list import TensorList

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
    return TensorList(dtype, shape, items, limit - (1 << 64) if limit >> 63 else limit)


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


register_variant(TYPE_NAME, decode_tensor_list)
