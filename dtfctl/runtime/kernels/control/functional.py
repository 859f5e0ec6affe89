"""Ops that run functions: calls, and functional If, Case, While and For.

Bodies run as plans of their own inside the step, on the same device; nothing is lowered to Switch and Merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError, UnimplementedError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import PreparedFunction, StepContext
from dtfctl.runtime.kernels.control.own_list import own, released
from dtfctl.runtime.kernels.control.tensor_list import shape_text
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel


def _prepare(k: KernelBuild, attr: str) -> PreparedFunction:
    function = k.attr(attr)
    if not isinstance(function, graph_pb2.NameAttrList):
        raise InvalidArgumentError(f"Attribute '{attr}' of '{k.node.op}' is not a function", k.node.name)
    return k.function_caller.prepare(function)


def truth(value: Any) -> bool:
    """Read a tensor as a condition: a scalar is true unless zero or empty, any other when it has elements."""
    if value.ndim:
        return bool(value.size > 0)
    item = value.item()
    return len(item) > 0 if isinstance(item, bytes) else bool(item)


@register_kernel("ToBool", devices=CPU_GPU)
def to_bool(k: KernelBuild) -> Kernel:
    return lambda value: np.array(truth(value))


@register_kernel(("PartitionedCall", "StatefulPartitionedCall"), devices=CPU_GPU, step=True)
def partitioned_call(k: KernelBuild) -> Kernel:
    body = _prepare(k, "f")
    return lambda step, *inputs: body(inputs, step)


@register_kernel("RemoteCall", devices=CPU_GPU, step=True)
def remote_call(k: KernelBuild) -> Kernel:
    """Calls on this device only: a function that should run elsewhere is placed there by the compiler."""
    body, here = _prepare(k, "f"), k.device.spec

    def run(step: StepContext, target: Any, *inputs: Any) -> Any:
        name = target.item().decode()
        if name and not _matches(DeviceSpec.from_string(name), here):
            raise UnimplementedError(
                f"RemoteCall to {name} from {step.device.name}: calls to another device are not supported; place the "
                "function's nodes with tf.device instead"
            )
        return body(inputs, step)

    return run


def _matches(wanted: DeviceSpec, device: DeviceSpec) -> bool:
    fields = ("job", "replica", "task", "device_type", "device_index")
    return all(getattr(wanted, f) in (None, getattr(device, f)) for f in fields)


@register_kernel(("If", "StatelessIf", "_If"), devices=CPU_GPU, step=True)
def if_op(k: KernelBuild) -> Kernel:
    then, otherwise = _prepare(k, "then_branch"), _prepare(k, "else_branch")

    def run(step: StepContext, condition: Any, *inputs: Any) -> Any:
        return then(inputs, step) if truth(condition) else otherwise(inputs, step)

    return run


@register_kernel(("Case", "StatelessCase"), devices=CPU_GPU, step=True, host_inputs=("branch_index",))
def case_op(k: KernelBuild) -> Kernel:
    branches = [k.function_caller.prepare(f) for f in k.attr("branches")]

    def run(step: StepContext, index: Any, *inputs: Any) -> Any:
        i = int(index)
        return branches[i if 0 <= i < len(branches) else -1](inputs, step)

    return run


def _goes_on(outputs: Sequence[Any]) -> bool:
    if len(outputs) != 1:
        raise InvalidArgumentError(f"Expected a single scalar from the condition, but got {len(outputs)} tensors.")
    return truth(outputs[0])


@register_kernel(("While", "StatelessWhile", "_While"), devices=CPU_GPU, step=True)
def while_op(k: KernelBuild) -> Kernel:
    condition, body = _prepare(k, "cond"), _prepare(k, "body")
    lists: frozenset[int] | None = None
    iteration: PreparedFunction | None = None

    def run(step: StepContext, *inputs: Any) -> Any:
        nonlocal lists, iteration
        if lists is None:
            iteration = body.then(condition)
            lists = body.lists_of_loop(condition)
        values: Sequence[Any] = own(inputs, lists) if lists else inputs
        check = step.cancellation.check
        goes_on = _goes_on(condition(values, step))
        while goes_on:
            check()
            if iteration is not None:
                *values, last = iteration(values, step)
                goes_on = truth(last)
            else:
                values = body(values, step)
            if len(values) != len(inputs):
                raise InvalidArgumentError(f"While loop body returned {len(values)} arguments. Expected: {len(inputs)}")
            if iteration is None:
                goes_on = _goes_on(condition(values, step))
        return released(values, lists) if lists else values

    return run


@register_kernel("For", devices=CPU_GPU, step=True, host_inputs=("start", "limit", "delta"))
def for_op(k: KernelBuild) -> Kernel:
    body = _prepare(k, "body")

    def run(step: StepContext, start: Any, limit: Any, delta: Any, *inputs: Any) -> Any:
        for name, value in (("start", start), ("limit", limit), ("delta", delta)):
            if value.ndim:
                raise InvalidArgumentError(f"{name} must be a scalar")
        if delta == 0 and start != limit:
            raise InvalidArgumentError("delta must not be zero")
        if (delta > 0 and start > limit) or (delta < 0 and start < limit):
            raise InvalidArgumentError(f"Invalid start/limit/delta: {int(start)} {int(limit)} {int(delta)}")
        values: Sequence[Any] = inputs
        for i in range(int(start), int(limit), int(delta) or 1):
            step.cancellation.check()
            values = body([np.array(i, np.int32), *values], step)
            if len(values) != len(inputs):
                raise InvalidArgumentError(f"For loop body returned {len(values)} arguments. Expected: {len(inputs)}")
        return values

    return run


@register_kernel("SymbolicGradient", devices=CPU_GPU, step=True)
def symbolic_gradient(k: KernelBuild) -> Kernel:
    """Call the function's registered gradient function, or what its body's ops give (compiler.differentiate)."""
    body = k.function_caller.prepare(graph_pb2.NameAttrList(name=k.node.op, attr={"f": k.node.raw_attrs["f"]}))
    return lambda step, *inputs: body(inputs, step)


@register_kernel("MapDefun", step=True)
def map_defun(k: KernelBuild) -> Kernel:
    """Call a function on every row of its arguments; rows of the results are stacked."""
    body = _prepare(k, "f")
    count = len(k.attr("Targuments"))
    types, shapes = k.attr("output_types"), k.attr("output_shapes")
    if len(types) != len(shapes):
        raise InvalidArgumentError("Length of output_shapes and output_types must match.", k.node.name)

    def run(step: StepContext, *inputs: Any) -> Any:
        rows, captured = inputs[:count], inputs[count:]
        size = _common_rows(rows)
        results = []
        for i in range(size):
            step.cancellation.check()
            results.append(body([r[i, ...] for r in rows] + list(captured), step))
        return [_stacked(c, [r[c] for r in results], t, s) for c, (t, s) in enumerate(zip(types, shapes))]

    return run


def _common_rows(rows: Sequence[Any]) -> int:
    for i, value in enumerate(rows):
        if not value.ndim:
            raise InvalidArgumentError(f"All inputs must have rank at least 1. Input {i} has a rank of 0.")
        if value.shape[0] != rows[0].shape[0]:
            raise InvalidArgumentError(
                f"All inputs must have the same dimension 0. Input {i} has leading dimension {value.shape[0]}, while "
                f"all previous inputs have leading dimension {rows[0].shape[0]}"
            )
    return int(rows[0].shape[0])


def _stacked(output: int, values: list[Any], dtype: DType, declared: TensorShape) -> Any:
    shape = declared
    for value in values:
        if value.dtype != dtype.np:
            raise InvalidArgumentError(
                f"Mismatch in function return type and expected output type for output: {output}"
            )
        if not shape.is_compatible_with(value.shape):
            raise InvalidArgumentError(
                f"Mismatch in function retval shape, {shape_text(value.shape)}, and expected output shape, "
                f"{shape_text(shape)}."
            )
        shape = TensorShape(value.shape)
    if not values:
        known = shape.known() if shape.is_fully_defined() else (0,)
        return np.empty((0, *known), dtype.np)
    return np.stack(values)


@register_kernel("DeviceIndex", devices=CPU_GPU)
def device_index(k: KernelBuild) -> Kernel:
    names = [n.decode() for n in k.attr("device_names")]
    kind = k.device.device_type
    index = np.array(names.index(kind) if kind in names else len(names), np.int32)
    return lambda: index


@register_kernel("FakeParam", devices=CPU_GPU)
def fake_param(k: KernelBuild) -> Kernel:
    """Stands for an output only the other branch of an If gives; never read."""
    dtype, shape = k.dtype("dtype"), k.attr("shape")
    known = shape.known() if shape.is_fully_defined() else (0,)
    value = np.empty(known, object) if dtype.is_object else np.zeros(known, dtype.np)
    return lambda: value


@register_kernel(("_ArrayToList", "_ListToArray"), devices=CPU_GPU)
def pass_list(k: KernelBuild) -> Kernel:
    given, wanted = len(k.node.input_types), len(k.node.output_types)
    if given != wanted:
        raise InternalError(f"#inputs != #outputs : {given} vs. {wanted}")
    return lambda *inputs: inputs
