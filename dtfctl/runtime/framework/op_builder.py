"""Build an operation from its signature and Python arguments: conversion, type inference, defaults, checks."""

from __future__ import annotations

from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.op_signature import Arg, Attr, OpSignature, find_signature, get_signature
from dtfctl.runtime.framework.operation import Operation, Tensor


def apply_op(op_type: str, name: str | None = None, **arguments: Any) -> Tensor:
    """Add an op that has one output, and return that output; arguments as of `apply_op_nested`.

    Raises:
        TypeError: the op has no output, several or a list: those are built with `make_op` and `apply_op_outputs`.
    """
    op = make_op(op_type, name or _called(op_type), **arguments)
    outputs = op.signature.outputs
    if len(outputs) != 1 or outputs[0].is_list:
        raise TypeError(f"Op '{op_type}' does not have exactly one output: build it with apply_op_outputs or make_op")
    return op.outputs[0]


def apply_op_outputs(op_type: str, name: str | None = None, **arguments: Any) -> list[Tensor]:
    """Add an op and return all its outputs, those of list outputs one after the other."""
    return list(make_op(op_type, name or _called(op_type), **arguments).outputs)


def _called(op_type: str) -> str | None:
    signature = find_signature(op_type)
    return None if signature is None else signature.called or None


def apply_op_nested(op_type: str, name: str | None = None, **arguments: Any) -> Any:
    """Add an op to the default graph.

    Args:
        op_type: a registered op ("MatMul").
        name: the op's name; its type when None.
        arguments: inputs and attributes by the names of the signature. Attributes that follow from inputs are inferred.

    Returns:
        The Operation when it has no outputs, a Tensor for one, else a list, with list outputs as lists.

    Raises:
        TypeError: an argument is missing, unknown, or of a type the op does not take.
        ValueError: a value or static shape does not fit.
    """
    return outputs_of(make_op(op_type, name, **arguments))


def make_op(op_type: str, name: str | None = None, **arguments: Any) -> Operation:
    """Add an op and return its Operation; arguments as of `apply_op_nested`."""
    graph = context.get_default_graph()
    signature = find_signature(op_type)
    if signature is None:
        function = graph.library.find(op_type)
        signature = get_signature(op_type) if function is None else OpSignature.from_proto(function.signature)
    with graph.name_scope(name or op_type) as scope:
        attrs: dict[str, Any] = {}
        for attr in signature.attrs:
            if attr.name in arguments:
                value = arguments.pop(attr.name)
                if value is not None:
                    attrs[attr.name] = _clean(op_type, attr, value)
        inputs: list[Tensor] = []
        for arg in signature.inputs:
            if arg.name not in arguments:
                raise TypeError(f"Missing input '{arg.name}' of op {op_type}")
            inputs += _convert_input(op_type, signature, arg, arguments.pop(arg.name), attrs)
        if arguments:
            raise TypeError(
                f"apply_op() got unexpected keyword arguments: {', '.join(sorted(arguments))} for {op_type}"
            )
        raw = _encode(op_type, signature, attrs)
        return graph.add_op(signature, inputs, raw, name=scope)


def outputs_of(op: Operation) -> Any:
    """Arrange the outputs of an op in the structure of its signature."""
    signature = op.signature
    if not signature.outputs:
        return op
    out: list[Any] = []
    position = 0
    for arg in signature.outputs:
        if arg.is_list:
            size = len(op.attr(arg.type_list_attr)) if arg.type_list_attr else int(op.attr(arg.number_attr))
            out.append(op.outputs[position : position + size])
            position += size
        else:
            out.append(op.outputs[position])
            position += 1
    return out[0] if len(out) == 1 else out


def _clean(op_type: str, attr: Attr, value: Any) -> Any:
    """Convert types to DType; anything else stays as given."""
    if attr.kind == "type":
        return as_dtype(value).base_dtype
    if attr.kind == "list(type)":
        # Lists keep reference types: functions may take a variable itself.
        return [as_dtype(v) for v in value]
    return value


def _convert_input(op_type: str, signature: OpSignature, arg: Arg, value: Any, attrs: dict[str, Any]) -> list[Tensor]:
    if not arg.is_list:
        tensor = _convert_one(op_type, signature, arg, value, attrs)
        _infer_type(op_type, signature, arg, tensor, attrs)
        return [tensor]
    if isinstance(value, Tensor) or not hasattr(value, "__iter__"):
        raise TypeError(f"Expected list for '{arg.name}' argument to '{op_type}' Op, not {value!r}.")
    if arg.type_list_attr:
        wanted = attrs.get(arg.type_list_attr)
        items = list(value)
        if wanted is not None and len(wanted) != len(items):
            raise ValueError(f"Input '{arg.name}' of '{op_type}' takes {len(wanted)} tensors, got {len(items)}")
        tensors = [convert_to_tensor(v, None if wanted is None else wanted[i]) for i, v in enumerate(items)]
        if wanted is None:
            attrs[arg.type_list_attr] = [t.dtype.base_dtype for t in tensors]
        _check_allowed(op_type, signature, arg.type_list_attr, attrs[arg.type_list_attr])
        return tensors
    items = list(value)
    hint = next((v.dtype for v in items if isinstance(v, Tensor)), None)
    tensors = []
    for item in items:
        if hint is not None and arg.dtype is None and arg.type_attr not in attrs:
            attrs[arg.type_attr] = as_dtype(hint).base_dtype
        try:
            tensor = _convert_one(op_type, signature, arg, item, attrs)
        except (TypeError, ValueError) as e:
            raise TypeError(
                f"Tensors in list passed to '{arg.name}' of '{op_type}' Op have types "
                f"[{', '.join(_observed(v, arg) or '<NOT CONVERTIBLE TO TENSOR>' for v in items)}] that don't all "
                f"match. {e}"
            ) from e
        _infer_type(op_type, signature, arg, tensor, attrs)
        tensors.append(tensor)
    given = attrs.setdefault(arg.number_attr, len(tensors))
    if given != len(tensors):
        raise ValueError(
            f"List argument '{arg.name}' to '{op_type}' Op with length {len(tensors)} must match length {given} of "
            f"argument '{arg.number_attr}'."
        )
    minimum = signature.attr_by_name[arg.number_attr].minimum
    if minimum is not None and len(tensors) < minimum:
        raise ValueError(
            f"List argument '{arg.name}' to '{op_type}' Op with length {len(tensors)} shorter than minimum length "
            f"{minimum}."
        )
    return tensors


def _convert_one(op_type: str, signature: OpSignature, arg: Arg, value: Any, attrs: dict[str, Any]) -> Tensor:
    wanted: DType | None = arg.dtype or attrs.get(arg.type_attr)
    default = None
    if wanted is None:
        raw = signature.attr_by_name[arg.type_attr].default
        default = as_dtype(raw.type) if raw is not None else None
    try:
        tensor = convert_to_tensor(value, wanted, name=arg.name, as_ref=arg.is_ref, preferred_dtype=default)
    except (TypeError, ValueError) as e:
        if wanted is None or value is None:
            raise
        # What has a type of its own is of the wrong one, whatever refused to convert it.
        have = value.dtype.name if isinstance(value, Tensor) else None
        if have is None and isinstance(e, ValueError):
            have = _observed(value, arg)
        if have is not None:
            others = (
                f" that does not match expected type of {wanted.name}"
                if arg.dtype
                else (f" that does not match type {wanted.name} of argument '{_first_with(signature, arg)}'")
            )
            raise TypeError(f"Input '{arg.name}' of '{op_type}' Op has type {have}{others}.") from e
        raise type(e)(f"Input '{arg.name}' of '{op_type}' Op: {e}") from e
    if arg.is_ref and not tensor.dtype.is_ref:
        raise TypeError(f"'{op_type}' Op requires that input '{arg.name}' be a mutable tensor (e.g.: a tf.Variable)")
    return tensor


def _observed(value: Any, arg: Arg) -> str | None:
    """Find the type that a value has if none is asked of it; None if it becomes no tensor."""
    try:
        return convert_to_tensor(value, as_ref=arg.is_ref).dtype.base_dtype.name
    except (TypeError, ValueError):
        return None


def _first_with(signature: OpSignature, arg: Arg) -> str:
    return next(a.name for a in signature.inputs if a.type_attr == arg.type_attr)


def _infer_type(op_type: str, signature: OpSignature, arg: Arg, tensor: Tensor, attrs: dict[str, Any]) -> None:
    if not arg.type_attr:
        return
    attrs.setdefault(arg.type_attr, tensor.dtype.base_dtype)
    _check_allowed(op_type, signature, arg.type_attr, [tensor.dtype.base_dtype], arg.name)


def _check_allowed(op_type: str, signature: OpSignature, attr: str, types: list[DType], what: str = "") -> None:
    allowed = signature.attr_by_name[attr].allowed
    for dtype in types:
        if allowed and dtype not in allowed:
            raise TypeError(
                f"Value passed to parameter '{what or attr}' has DataType {dtype.name} not in list of allowed values: "
                f"{', '.join(t.name for t in allowed)} (op {op_type})"
            )


def _encode(op_type: str, signature: OpSignature, attrs: dict[str, Any]) -> dict[str, graph_pb2.AttrValue]:
    raw: dict[str, graph_pb2.AttrValue] = {}
    for attr in signature.attrs:
        if attr.name in attrs:
            value = attrs[attr.name]
            if attr.allowed and attr.kind == "string":
                word = value.decode() if isinstance(value, bytes) else str(value)
                if word not in attr.allowed:
                    raise ValueError(
                        f"Value for attr '{attr.name}' of \"{word}\" is not in the list of allowed values: "
                        f"{', '.join(map(repr, attr.allowed))} (op {op_type})"
                    )
            if attr.minimum is not None and attr.kind == "int" and int(value) < attr.minimum:
                raise ValueError(
                    f"Attr '{attr.name}' of '{op_type}' Op passed {value} less than minimum {attr.minimum}."
                )
            try:
                raw[attr.name] = encode_attr(attr.kind, value)
            except TypeError as e:
                raise TypeError(f"Attr '{attr.name}' of '{op_type}' Op: {e}") from e
        elif attr.default is not None:
            raw[attr.name] = attr.default
        elif attr.kind == "list(type)" and attr.name in signature.inferred_attrs:
            raw[attr.name] = encode_attr(attr.kind, [])
        else:
            raise TypeError(f"Missing attr '{attr.name}' of op {op_type}")
    return raw
