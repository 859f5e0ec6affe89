"""AttrValue <-> Python: types become `DType`, shapes `TensorShape`, tensors arrays, strings `bytes`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError, ResourceExhaustedError
from dtfctl.runtime.framework.op_signature import Arg, Attr, OpSignature
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape

AttrMap = Mapping[str, graph_pb2.AttrValue]

# Tensors one argument of a node can stand for.
MAX_TENSORS = 1 << 18

_FIELD = {
    "string": "s",
    "int": "i",
    "float": "f",
    "bool": "b",
    "type": "type",
    "shape": "shape",
    "tensor": "tensor",
    "func": "func",
}

_KIND = {field: kind for kind, field in _FIELD.items()}


def decode_attr(value: graph_pb2.AttrValue) -> Any:
    """Decode an attribute to Python; lists become tuples, functions stay `NameAttrList`, an empty one is None.

    Raises:
        InvalidArgumentError: a type, shape or tensor inside is malformed.
        ResourceExhaustedError: a tensor inside claims more than fits into memory.
    """
    try:
        return _decode(value)
    except OpError:
        raise
    except MemoryError as e:
        raise ResourceExhaustedError(f"An attribute's tensor does not fit into memory: {e}") from e
    except (ValueError, TypeError, KeyError, OverflowError) as e:
        raise InvalidArgumentError(f"Malformed attribute value: {e}") from e


def _decode(value: graph_pb2.AttrValue) -> Any:
    which = value.WhichOneof("value")
    if which == "list":
        values = value.list
        for field in ("s", "i", "f", "b", "type", "shape", "tensor", "func"):
            items = getattr(values, field)
            if items:
                return tuple(_decode_one(field, item) for item in items)
        return ()
    return None if which is None else _decode_one(which, getattr(value, which))


def _decode_one(field: str, item: Any) -> Any:
    if field == "type":
        try:
            return dtypes.as_dtype(item)
        except TypeError as e:
            raise InvalidArgumentError(f"Attribute holds invalid data type {item}") from e
    if field == "shape":
        return TensorShape(item)
    if field == "tensor":
        return decode_tensor(item)
    return item


def encode_attr(kind: str, value: Any) -> graph_pb2.AttrValue:
    """Encode a Python value as an attribute of `kind` ("int", "list(type)", ...).

    Raises:
        TypeError: the value does not fit the kind.
    """
    if isinstance(value, graph_pb2.AttrValue):
        return value
    if kind == "type":
        return _type_value(dtypes.as_dtype(value))
    out = graph_pb2.AttrValue()
    if kind.startswith("list("):
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise TypeError(f"expected a list for an attribute of kind {kind}, got {value!r}")
        out.list.SetInParent()
        inner = kind[5:-1]
        field = getattr(out.list, _FIELD[inner])
        for item in value:
            one = _encode_one(inner, item)
            if inner in ("shape", "tensor", "func"):
                field.add().CopyFrom(one)
            else:
                field.append(one)
        return out
    one = _encode_one(kind, value)
    if kind in ("shape", "tensor", "func"):
        getattr(out, kind).CopyFrom(one)
    else:
        setattr(out, _FIELD[kind], one)
    return out


@cache
def _type_value(dtype: DType) -> graph_pb2.AttrValue:
    """Encode a type once: every other attribute is one, so they are shared, and never written."""
    return graph_pb2.AttrValue(type=dtype.as_datatype_enum)  # type: ignore[arg-type]


def _encode_one(kind: str, value: Any) -> Any:
    if kind == "string":
        return value.encode() if isinstance(value, str) else bytes(value)
    if kind == "int":
        return int(value)
    if kind == "float":
        return float(value)
    if kind == "bool":
        return bool(value)
    if kind == "type":
        return dtypes.as_dtype(value).as_datatype_enum
    if kind == "shape":
        return as_shape(value).as_proto()
    if kind == "tensor":
        return value if hasattr(value, "tensor_shape") else encode_tensor(np.asarray(value))
    if kind == "func":
        return graph_pb2.NameAttrList(name=value) if isinstance(value, str) else value
    raise TypeError(f"unknown attribute kind {kind!r}")


def arg_dtypes(arg: Arg, attrs: Mapping[str, Any]) -> list[DType]:
    """List the types of the tensors one declared argument stands for, given decoded attributes.

    Raises:
        InvalidArgumentError: an attribute it depends on is missing or of the wrong kind.
    """
    try:
        if arg.type_list_attr:
            types = list(attrs[arg.type_list_attr])
            if not all(isinstance(t, DType) for t in types):
                raise InvalidArgumentError(f"Attribute '{arg.type_list_attr}' should be a list of types")
            return types
        one = arg.dtype or attrs[arg.type_attr]
        if not isinstance(one, DType):
            raise InvalidArgumentError(f"Attribute '{arg.type_attr}' should be a type, got {one!r}")
        one = one.ref if arg.is_ref else one
        if not arg.number_attr:
            return [one]
        count = int(attrs[arg.number_attr])
        if count < 0:
            raise InvalidArgumentError(f"Value for number_attr() {count} < 0 for argument '{arg.name}'")
        if count > MAX_TENSORS:
            raise InvalidArgumentError(
                f"Attribute '{arg.number_attr}' says that argument '{arg.name}' is {count} tensors; at most "
                f"{MAX_TENSORS} are supported"
            )
        return [one] * count
    except KeyError as e:
        raise InvalidArgumentError(f"Missing attribute {e.args[0]!r} for argument '{arg.name}'") from None
    except TypeError as e:
        raise InvalidArgumentError(f"Attribute of argument '{arg.name}' has the wrong kind: {e}") from None


def types_of(args: tuple[Arg, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    out: list[DType] = []
    for arg in args:
        out += arg_dtypes(arg, attrs)
    return tuple(out)


def check_attr(signature: OpSignature, attr: Attr, value: graph_pb2.AttrValue) -> Any:
    """Decode an attribute, checked against its declaration.

    Raises:
        InvalidArgumentError: `value` is not of the attribute's kind, or not within its limits.
    """
    which = value.WhichOneof("value")
    if which == "type" and attr.kind == "type":
        decoded = dtypes.BY_NUMBER.get(value.type)
        if decoded is not None and (not attr.allowed or decoded in attr.allowed):
            return decoded
    expected = "list" if attr.is_list else _FIELD.get(attr.kind)
    if which == "placeholder" or expected is None:
        return decode_attr(value)
    if which != expected:
        raise InvalidArgumentError(
            f"AttrValue of op '{signature.name}' had value with type '{which}' when '{attr.kind}' expected for attr "
            f"'{attr.name}'"
        )
    decoded = decode_attr(value)
    if attr.is_list:
        _check_items(signature, attr, value)
    if attr.allowed:
        for item in decoded if attr.is_list else (decoded,):
            word = item.decode(errors="replace") if isinstance(item, bytes) else item
            if word not in attr.allowed:
                shown = ", ".join(dtypes.WIRE_NAME[a] if isinstance(a, DType) else f'"{a}"' for a in attr.allowed)
                name = dtypes.WIRE_NAME[word] if isinstance(word, DType) else f'"{word}"'
                raise InvalidArgumentError(
                    f"Value for attr '{attr.name}' of {name} is not in the list of allowed values: {shown}\n"
                    f"\t; NodeDef op: {signature.name}"
                )
    if attr.minimum is not None:
        size = len(decoded) if attr.is_list else decoded
        if size < attr.minimum:
            what = "Length for" if attr.is_list else "Value for"
            raise InvalidArgumentError(
                f"{what} attr '{attr.name}' of {size} must be at least minimum {attr.minimum}\n"
                f"\t; NodeDef op: {signature.name}"
            )
    return decoded


def _check_items(signature: OpSignature, attr: Attr, value: graph_pb2.AttrValue) -> None:
    """Raise InvalidArgumentError unless the items of a list are of the attribute's kind."""
    expected = _FIELD.get(attr.kind[5:-1])
    for descriptor, _ in value.list.ListFields():
        if descriptor.name != expected:
            raise InvalidArgumentError(
                f"AttrValue of op '{signature.name}' had value with type 'list({_KIND[descriptor.name]})' when "
                f"'{attr.kind}' expected for attr '{attr.name}'"
            )
