"""Values of tensors known while the graph is built: what static shape inference needs of shapes computed by ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.op_library import compute_constant
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.structural_ops import CONTROL_FLOW
from dtfctl.runtime.framework.tensor_shape import TensorShape

_MAX_DEPTH = 32
# Ops that what is computed for a static shape may be made of: graphs are large, and few of their shapes need it.
_MAX_OPS = 128
# No op of a program has such a name.
_RESULT = "_result"


def constant_value(tensor: Any, depth: int = 0) -> np.ndarray[Any, Any] | None:
    """Evaluate a tensor that depends on constants and static shapes alone; None for any other."""
    if isinstance(tensor, (np.ndarray, np.generic)):
        return np.asarray(tensor)
    if not isinstance(tensor, Tensor) or depth > _MAX_DEPTH:
        return None
    if tensor._value is not None:
        return np.asarray(tensor._value)
    evaluate = _EVALUATORS.get(tensor.op.type)
    return None if evaluate is None else evaluate(tensor.op, depth + 1)


def computed_value(tensor: Any) -> np.ndarray[Any, Any] | None:
    """Evaluate a tensor as shape functions do: what is made of constants alone is computed, whatever the ops are."""
    value = constant_value(tensor)
    if value is not None or not isinstance(tensor, Tensor):
        return value
    graph_def = _graph_of_constants(tensor)
    return None if graph_def is None else compute_constant(graph_def, _RESULT)


def _graph_of_constants(tensor: Tensor) -> graph_pb2.GraphDef | None:
    """Gather what a tensor is made of, and an Identity of it; None where that is not constants alone."""
    graph_def = graph_pb2.GraphDef()
    graph_def.node.add(name=_RESULT, op="Identity", input=[tensor.name]).attr["T"].CopyFrom(
        encode_attr("type", tensor.dtype)
    )
    seen: set[Operation] = set()
    wanted = [tensor]
    while wanted:
        made = wanted.pop()
        op = made.op
        if op in seen:
            continue
        seen.add(op)
        value = constant_value(made) if len(op.outputs) == 1 else None
        if value is not None:
            node = graph_def.node.add(name=op.name, op="Const")
            node.attr["dtype"].CopyFrom(encode_attr("type", made.dtype))
            node.attr["value"].CopyFrom(encode_attr("tensor", value))
            continue
        signature = op.signature
        if not op.inputs or signature.is_stateful or signature.takes_functions or op.type in CONTROL_FLOW:
            return None
        if len(seen) > _MAX_OPS:
            return None
        node = graph_def.node.add()
        node.CopyFrom(op.node_def)
        del node.input[:]
        node.input.extend(t.name for t in op.inputs)
        wanted.extend(op.inputs)
    return graph_def


def get_static_value(tensor: Any, partial: bool = False) -> np.ndarray[Any, Any] | None:
    """Evaluate a tensor that depends on constants and static shapes alone; None for any other.

    Args:
        partial: of scalars that are stacked give those that are known, and None for each other.
    """
    value = constant_value(tensor)
    stacked = isinstance(tensor, Tensor) and tensor.op.type == "Pack" and tensor.shape.rank == 1
    if value is None and partial and stacked:
        return np.array([constant_value(item) for item in tensor.op.inputs], dtype=object)
    return value


def constant_value_as_shape(tensor: Tensor) -> TensorShape:
    """Find the shape a 1-D integer tensor stands for, as far as it is known; its own static size gives the rank."""
    if isinstance(tensor, (list, tuple)):
        return TensorShape(list(tensor))
    value = computed_value(tensor)
    if value is not None:
        return TensorShape([None if d < 0 else int(d) for d in value.reshape(-1)])
    op = tensor.op
    if op.type == "Shape":
        return op.inputs[0].shape
    if op.type == "Pack" and op.attr("axis") == 0:
        return TensorShape([_dimension(t) for t in op.inputs])
    if op.type == "ConcatV2":
        out = TensorShape([])
        for part in op.inputs[:-1]:
            out = out.concatenate(constant_value_as_shape(part))
        return out
    if op.type == "StridedSlice" and not any(
        op.attr(m) for m in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    ):
        sliced = _sliced_shape(op)
        if sliced is not None:
            return sliced
    if op.type in ("Cast", "Identity"):
        return constant_value_as_shape(op.inputs[0])
    if op.type == "Reshape" and op.inputs[0].shape.rank == 1 and tensor.shape.rank == 1:
        return constant_value_as_shape(op.inputs[0])
    size = tensor.shape.dims_or_none
    return TensorShape(None) if size is None or size[0] is None else TensorShape([None] * size[0])


def _sliced_shape(op: Operation) -> TensorShape | None:
    bounds = [constant_value(t) for t in op.inputs[1:]]
    whole = constant_value_as_shape(op.inputs[0]).dims_or_none
    if whole is None or bounds[0] is None or bounds[1] is None or bounds[2] is None:
        return None
    begin = None if op.attr("begin_mask") & 1 else int(bounds[0][0])
    end = None if op.attr("end_mask") & 1 else int(bounds[1][0])
    return TensorShape(whole[slice(begin, end, int(bounds[2][0]))])


def _dimension(tensor: Tensor) -> int | None:
    value = constant_value(tensor)
    if value is None and tensor.op.type == "Unpack":
        dims = constant_value_as_shape(tensor.op.inputs[0]).dims_or_none
        return None if dims is None else dims[tensor.value_index]
    return None if value is None or value < 0 else int(value)


def _const(op: Operation, depth: int) -> Any:
    return op.attr("value")


def _shape(op: Operation, depth: int) -> Any:
    shape = op.inputs[0].shape
    return np.array(shape.known(), op.outputs[0].dtype.np) if shape.is_fully_defined() else None


def _size(op: Operation, depth: int) -> Any:
    count = op.inputs[0].shape.num_elements()
    return None if count is None else np.array(count, op.outputs[0].dtype.np)


def _rank(op: Operation, depth: int) -> Any:
    rank = op.inputs[0].shape.rank
    return None if rank is None else np.array(rank, np.int32)


def _with_inputs(function: Any) -> Any:
    def evaluate(op: Operation, depth: int) -> Any:
        values = []
        for tensor in op.inputs:
            value = constant_value(tensor, depth)
            if value is None:
                return None
            values.append(value)
        return function(op, *values)

    return evaluate


def _strided_slice(op: Operation, depth: int) -> Any:
    bounds = [constant_value(t, depth) for t in op.inputs[1:]]
    if any(b is None for b in bounds) or bounds[0] is None or bounds[0].size != 1:
        return None
    if op.attr("ellipsis_mask") or op.attr("new_axis_mask"):
        return None
    begin, end, stride = (int(b[0]) for b in bounds if b is not None)
    source = op.inputs[0]
    value = constant_value(source, depth)
    if value is None:
        return _element_of_partial_shape(op, begin)
    if op.attr("shrink_axis_mask"):
        return np.asarray(value[begin]) if -len(value) <= begin < len(value) else None
    first = None if op.attr("begin_mask") else begin
    last = None if op.attr("end_mask") else end
    return value[slice(first, last, stride)]


def _element_of_partial_shape(op: Operation, index: int) -> Any:
    source = op.inputs[0].op
    if source.type != "Shape" or not op.attr("shrink_axis_mask"):
        return None
    dims = source.inputs[0].shape.dims_or_none
    if dims is None or not -len(dims) <= index < len(dims) or dims[index] is None:
        return None
    return np.array(dims[index], op.outputs[0].dtype.np)


def _max(op: Operation, x: Any, axes: Any) -> Any:
    return np.asarray(x.max(tuple(axes.reshape(-1)), keepdims=bool(op.attr("keep_dims")))) if x.size else None


def _binary(function: Any) -> Any:
    return _with_inputs(lambda op, a, b: np.asarray(function(a, b)).astype(op.outputs[0].dtype.np))


_EVALUATORS: dict[str, Any] = {
    "Const": _const,
    "Shape": _shape,
    "Size": _size,
    "Rank": _rank,
    "StridedSlice": _strided_slice,
    "Identity": _with_inputs(lambda op, x: x),
    "Range": _with_inputs(lambda op, a, b, c: np.arange(a, b, c).astype(op.outputs[0].dtype.np) if c else None),
    "Cast": _with_inputs(lambda op, x: None if op.outputs[0].dtype.is_object else x.astype(op.outputs[0].dtype.np)),
    "Pack": _with_inputs(lambda op, *xs: np.stack(xs, op.attr("axis")) if len({x.shape for x in xs}) == 1 else None),
    "ConcatV2": _with_inputs(lambda op, *xs: np.concatenate(xs[:-1], int(xs[-1]))),
    "Fill": _with_inputs(lambda op, dims, x: np.full(dims, x) if dims.prod() < 1024 else None),
    "Reshape": _with_inputs(lambda op, x, s: x.reshape(s)),
    "Max": _with_inputs(_max),
    "BroadcastTo": _with_inputs(lambda op, x, s: np.broadcast_to(x, s) if s.prod() < 1024 else None),
    "ExpandDims": _with_inputs(lambda op, x, axis: np.expand_dims(x, int(axis))),
    "Squeeze": _with_inputs(lambda op, x: np.squeeze(x, tuple(op.attr("squeeze_dims")) or None)),
    "AddV2": _binary(np.add),
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Maximum": _binary(np.maximum),
    "Minimum": _binary(np.minimum),
    "FloorDiv": _with_inputs(lambda op, a, b: a // b if np.all(b) else None),
    "FloorMod": _with_inputs(lambda op, a, b: a % b if np.all(b) else None),
    "Neg": _with_inputs(lambda op, x: -x),
    "Prod": _with_inputs(
        lambda op, x, axis: np.asarray(x.prod(tuple(np.atleast_1d(axis)), keepdims=op.attr("keep_dims")))
    ),
    "Equal": _binary(np.equal),
    "Less": _binary(np.less),
    "Greater": _binary(np.greater),
    "LogicalNot": _with_inputs(lambda op, x: np.logical_not(x)),
}
