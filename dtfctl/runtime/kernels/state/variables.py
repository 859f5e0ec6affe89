"""Reference variables: VariableV2 and what reads and assigns them (TensorFlow's variable_ops, dense_update_ops)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError, OutOfRangeError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.promises import LETS_GO
from dtfctl.runtime.kernels.registry import CPU_GPU, INDICES, NUMBERS, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text
from dtfctl.runtime.kernels.variable import Variable


def _new_variable(k: KernelBuild, name: str) -> Variable:
    shape = k.attr("shape") or TensorShape(None)
    variable = Variable(k.dtype("dtype"), shape, name)
    if shape.num_elements() == 0:
        # A tensor without elements has nothing to initialize: TensorFlow counts it as initialized.
        variable.assign(k.xp.zeros(shape.known(), variable.dtype.np))
    return variable


@register_kernel(("VariableV2", "Variable"), devices=CPU_GPU)
def variable_v2(k: KernelBuild) -> Kernel:
    resources, container, key = k.resources, k.container, k.resource_name
    # (removals before it was looked up, the variable)
    known: tuple[int, Variable | None] = (-1, None)

    def kernel() -> Variable:
        nonlocal known
        removals, variable = known
        if variable is None or removals != resources.removals:
            removals = resources.removals
            variable = resources.lookup_or_create(container, key, Variable, lambda: _new_variable(k, k.node.name))
            known = removals, variable
        return variable

    return kernel


@register_kernel("TemporaryVariable", step=True, devices=CPU_GPU)
def temporary_variable(k: KernelBuild) -> Kernel:
    name = k.text_attr("var_name") or k.node.name

    def kernel(step: StepContext) -> Variable:
        shape = (k.attr("shape") or TensorShape(None)).known()
        variable = Variable(k.dtype("dtype"), TensorShape(shape), k.node.name)
        variable.assign(k.xp.zeros(shape, variable.dtype.np))
        step.step_resources.create("temporary_variable", f"{name}/{step.frame}", variable)
        return variable

    return kernel


@register_kernel("DestroyTemporaryVariable", step=True, devices=CPU_GPU)
def destroy_temporary_variable(k: KernelBuild) -> Kernel:
    name = k.text_attr("var_name")
    if not name:
        raise InvalidArgumentError("Missing var_name attribute", k.node.name)

    def kernel(step: StepContext, ref: Variable) -> Any:
        value = ref.read()
        try:
            step.step_resources.delete("temporary_variable", f"{name}/{step.frame}")
        except NotFoundError:
            raise NotFoundError(f"Resource __per_step_{step.step_id}/{name} does not exist.") from None
        return value

    return kernel


@register_kernel("IsVariableInitialized", devices=CPU_GPU, host_outputs=("is_initialized",))
def is_variable_initialized(k: KernelBuild) -> Kernel:
    return lambda ref: np.bool_(ref.is_initialized)


def _current_shape(variable: Variable) -> tuple[int, ...]:
    if variable.is_initialized:
        return tuple(variable.read().shape)
    dims = variable.shape.dims_or_none
    return () if dims is None else tuple(-1 if d is None else d for d in dims)


@register_kernel("Assign", devices=CPU_GPU)
def assign(k: KernelBuild) -> Kernel:
    validate = k.attr("validate_shape", True)

    def kernel(ref: Variable, value: Any) -> Variable:
        with ref.lock:
            if validate:
                shape = _current_shape(ref)
                if shape != value.shape:
                    raise InvalidArgumentError(
                        "Assign requires shapes of both tensors to match. "
                        f"lhs shape= {shape_text(shape)} rhs shape= {shape_text(value.shape)}"
                    )
            ref.assign(value)
        return ref

    return kernel


@register_kernel(("AssignAdd", "AssignSub"), devices=CPU_GPU, promises=LETS_GO, T=NUMBERS)
def assign_update(k: KernelBuild) -> Kernel:
    function = k.xp.add if k.node.op == "AssignAdd" else k.xp.subtract

    def kernel(ref: Variable, value: Any) -> Variable:
        with ref.lock:
            if ref.read().shape != value.shape:
                raise InvalidArgumentError("Parameters and update must be the same size")
            ref.update(lambda now, then: function(now, value, out=then))
        return ref

    return kernel


def count_up(variable: Variable, limit: int) -> Any:
    """Increment a scalar and return what it was.

    Raises:
        OutOfRangeError: it is at the limit already.
        InvalidArgumentError: it is no scalar.
    """
    with variable.lock:
        before = variable.read()
        if before.ndim:
            raise InvalidArgumentError(f"input is not a scalar: {shape_text(before.shape)}")
        if before >= limit:
            raise OutOfRangeError(f"Reached limit of {limit}")
        variable.assign(np.asarray(before + before.dtype.type(1)))
    return before


@register_kernel("CountUpTo", T=INDICES)
def count_up_to(k: KernelBuild) -> Kernel:
    limit = k.attr("limit")
    return lambda ref: count_up(ref, limit)
