"""TensorProto <-> numpy: TensorFlow's encoding of values, for graphs, feeds and fetches.

Three forms exist on the wire: `tensor_content` (raw little-endian bytes, or varint lengths followed by the bytes for
strings), the typed `*_val` lists with the rule "the last value repeats", and object payloads (handles, variants).
Lengths are checked before anything is allocated, because messages come from strangers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import DataLossError, InvalidArgumentError, ResourceExhaustedError
from dtfctl.runtime.framework.number_variant import NUMBER_TYPES, NumberVariant
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.framework.varints import read_varint, varint

# One tensor may not hold more elements than this, whatever its proto claims (TensorFlow's own bound is int64's).
MAX_ELEMENTS = 2**40
# Bytes that a message of few values may make us allocate by the rule that the last one repeats. (One value alone
# allocates nothing.)
MAX_REPEATED = 2**31

_VALUE_FIELD: dict[int, str] = {
    1: "float_val",
    2: "double_val",
    3: "int_val",
    4: "int_val",
    5: "int_val",
    6: "int_val",
    8: "scomplex_val",
    9: "int64_val",
    10: "bool_val",
    11: "int_val",
    12: "int_val",
    13: "int_val",
    14: "half_val",
    15: "int_val",
    16: "int_val",
    17: "int_val",
    18: "dcomplex_val",
    19: "half_val",
    22: "uint32_val",
    23: "uint64_val",
    29: "int_val",
    30: "int_val",
    31: "int_val",
    32: "int_val",
}
_FLOAT8 = frozenset(range(24, 29))


def shape_of_proto(proto: tensor_pb2.TensorShapeProto) -> tuple[int, ...]:
    """Read the concrete shape in a TensorProto.

    Raises:
        InvalidArgumentError: unknown rank, a negative dimension, or more than `MAX_ELEMENTS` elements.
    """
    if proto.unknown_rank:
        raise InvalidArgumentError("A tensor's shape must be fully known; its rank is unknown")
    shape = tuple(int(d.size) for d in proto.dim)
    count = 1
    for size in shape:
        if size < 0:
            raise InvalidArgumentError(f"Tensor shape {list(shape)} has a negative dimension")
        count *= size
        if count > MAX_ELEMENTS:
            raise InvalidArgumentError(f"Tensor shape {list(shape)} has too many elements")
    return shape


def decode_tensor(proto: tensor_pb2.TensorProto) -> np.ndarray[Any, Any]:
    """Decode the array a TensorProto describes. The result may be read-only and share memory with the message.

    Raises:
        InvalidArgumentError: the dtype is unknown or a list or the content does not match the shape.
    """
    try:
        dtype = dtypes.as_dtype(proto.dtype).base_dtype
    except TypeError as e:
        raise InvalidArgumentError(f"Tensor has invalid dtype {proto.dtype}") from e
    shape = shape_of_proto(proto.tensor_shape)
    count = 1
    for size in shape:
        count *= size
    if dtype.is_object:
        return _decode_objects(proto, dtype, shape, count)
    if proto.tensor_content:
        content = proto.tensor_content
        if len(content) != count * dtype.np.itemsize:
            raise InvalidArgumentError(
                f"Tensor of type {dtype.name} and shape {list(shape)} needs {count * dtype.np.itemsize} bytes, "
                f"got {len(content)}"
            )
        return np.frombuffer(content, dtype.np).reshape(shape)
    if dtype.as_datatype_enum in _FLOAT8:
        return _fill(np.frombuffer(proto.float8_val, dtype.np), shape, count, dtype)
    values = getattr(proto, _VALUE_FIELD[dtype.as_datatype_enum])
    if dtype in (dtypes.bfloat16, dtypes.float16):
        flat = np.array(values, np.uint16).view(dtype.np)
    elif dtype.is_complex:
        if len(values) % 2:
            raise InvalidArgumentError("A complex tensor needs an even number of values")
        flat = np.array(values, dtype.real_dtype.np).view(dtype.np)
    elif dtype.kind in ("int", "uint", "quantized") and dtype.np.itemsize < 4:
        flat = np.array(values, np.int32).astype(dtype.np)
    else:
        flat = np.array(values, dtype.np)
    return _fill(flat, shape, count, dtype)


def _fill(flat: np.ndarray[Any, Any], shape: tuple[int, ...], count: int, dtype: DType) -> np.ndarray[Any, Any]:
    """Apply the rule that the last value repeats until the shape is full; no values at all means zeros."""
    if flat.size == count:
        return flat.reshape(shape)
    if flat.size > count:
        raise InvalidArgumentError(f"Tensor of shape {list(shape)} has {flat.size} values, at most {count} fit")
    last = flat[-1] if flat.size else np.zeros((), dtype.np)[()]
    if flat.size <= 1:
        return np.broadcast_to(np.asarray(last, dtype.np), shape)
    if count * dtype.np.itemsize > MAX_REPEATED:
        raise ResourceExhaustedError(f"OOM when allocating tensor with shape {list(shape)} and type {dtype.name}")
    out = np.full(count, last, dtype.np)
    out[: flat.size] = flat
    return out.reshape(shape)


def _decode_objects(
    proto: tensor_pb2.TensorProto, dtype: DType, shape: tuple[int, ...], count: int
) -> np.ndarray[Any, Any]:
    items: list[Any]
    if dtype is dtypes.string:
        if proto.tensor_content:
            items = _split_strings(proto.tensor_content, count)
        else:
            items = list(proto.string_val)
    elif dtype is dtypes.resource:
        items = [ResourceHandle.from_proto(h) for h in proto.resource_handle_val]
    else:
        items = [decode_variant(v) for v in proto.variant_val]
    if len(items) > count:
        if count:
            raise InvalidArgumentError(f"Tensor of shape {list(shape)} has {len(items)} values, at most {count} fit")
        # TensorFlow's own clients encode empty string constants with a value.
        items = []
    if len(items) < count:
        if dtype is not dtypes.string:
            raise InvalidArgumentError(f"Tensor of shape {list(shape)} has {len(items)} values, {count} needed")
        if count * 8 > MAX_REPEATED:
            raise ResourceExhaustedError(f"OOM when allocating tensor with shape {list(shape)} and type string")
        items += [items[-1] if items else b""] * (count - len(items))
    out = np.empty(count, object)
    out[:] = items
    return out.reshape(shape)


def _split_strings(content: bytes, count: int) -> list[bytes]:
    lengths, position = [], 0
    for _ in range(count):
        try:
            length, position = read_varint(content, position)
        except DataLossError:
            raise InvalidArgumentError("Malformed string tensor: a length runs past the content") from None
        lengths.append(length)
    if position + sum(lengths) != len(content):
        raise InvalidArgumentError("Malformed string tensor: the lengths do not add up to the content")
    out = []
    for length in lengths:
        out.append(content[position : position + length])
        position += length
    return out


_VARIANT_DECODERS: dict[str, Any] = dict.fromkeys(NUMBER_TYPES, NumberVariant.from_variant_proto)


def register_variant(type_name: str, decode: Any) -> None:
    """Let `decode_variant` rebuild objects of `type_name`; `decode(VariantTensorDataProto) -> object`."""
    _VARIANT_DECODERS[type_name] = decode


class OpaqueVariant:
    """A variant of a type nobody here knows: it can be kept and passed on, not looked into."""

    __slots__ = ("_proto",)

    def __init__(self, proto: tensor_pb2.VariantTensorDataProto) -> None:
        self._proto = proto

    def to_variant_proto(self) -> tensor_pb2.VariantTensorDataProto:
        return self._proto

    def __repr__(self) -> str:
        return f"<variant of unknown type {self._proto.type_name!r}>"


def decode_variant(proto: tensor_pb2.VariantTensorDataProto) -> Any:
    """Decode the object in a variant; an `OpaqueVariant` where its type is not registered, None where it is empty."""
    if not proto.type_name:
        return None
    decode = _VARIANT_DECODERS.get(proto.type_name)
    return OpaqueVariant(proto) if decode is None else decode(proto)


def encode_variant(value: Any) -> tensor_pb2.VariantTensorDataProto:
    if value is None:
        return tensor_pb2.VariantTensorDataProto()
    encode = getattr(value, "to_variant_proto", None)
    if encode is None:
        raise InvalidArgumentError(f"A variant holding {type(value).__name__} cannot leave its task")
    proto: tensor_pb2.VariantTensorDataProto = encode()
    return proto


def encode_tensor(value: Any, dtype: DType | None = None) -> tensor_pb2.TensorProto:
    """Encode an array as TensorProto: raw content for plain types, lists for strings, handles and variants.

    Args:
        value: an array or numpy scalar; object arrays need `dtype` unless they hold bytes.
        dtype: the element type; needed where numpy's type does not say it (quantized, resource, variant).
    """
    array = np.asarray(value)
    dtype = (dtype or dtypes.as_dtype(array.dtype)).base_dtype
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)  # type: ignore[arg-type]
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    proto.tensor_shape.SetInParent()
    if dtype is dtypes.string:
        proto.string_val.extend(to_bytes(s) for s in array.reshape(-1).tolist())
    elif dtype is dtypes.resource:
        proto.resource_handle_val.extend(h.to_proto() for h in array.reshape(-1).tolist())
    elif dtype is dtypes.variant:
        proto.variant_val.extend(encode_variant(v) for v in array.reshape(-1).tolist())
    else:
        proto.tensor_content = np.ascontiguousarray(array, dtype.np).tobytes()
    return proto


def encode_content(value: Any, dtype: DType) -> tensor_pb2.TensorProto:
    """Encode an array like `encode_tensor`, but strings as raw content too: the lengths of all, then their bytes."""
    proto = encode_tensor(value, dtype)
    if dtype is dtypes.string:
        texts = list(proto.string_val)
        proto.ClearField("string_val")
        proto.tensor_content = b"".join([*map(varint, map(len, texts)), *texts])
    return proto


def encode_repeated(item: Any, shape: tuple[int, ...], dtype: DType) -> tensor_pb2.TensorProto:
    """Encode an array of `shape` that holds `item` everywhere; the TensorProto is small whatever the shape."""
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)  # type: ignore[arg-type]
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    if dtype.as_datatype_enum in _FLOAT8:
        proto.float8_val = item.tobytes()
        return proto
    values = getattr(proto, _VALUE_FIELD[dtype.as_datatype_enum])
    if dtype in (dtypes.bfloat16, dtypes.float16):
        values.append(int.from_bytes(item.tobytes(), "little"))
    elif dtype.is_complex:
        values.extend([item.real.item(), item.imag.item()])
    elif dtype.kind in ("int", "uint", "quantized"):
        values.append(int(item))
    else:
        values.append(item.item())
    return proto


def to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise InvalidArgumentError(f"A string tensor holds {type(value).__name__} {value!r}; expected bytes or str")


def object_array(items: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Make an object array of `shape` from a flat list, without numpy looking inside the items."""
    out = np.empty(len(items), object)
    out[:] = items
    return out.reshape(shape)


def object_scalar(item: Any) -> np.ndarray[Any, Any]:
    """Make a 0-d object array holding `item`."""
    out = np.empty((), object)
    out[()] = item
    return out
