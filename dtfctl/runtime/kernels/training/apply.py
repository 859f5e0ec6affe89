"""Apply*, SparseApply* and their Resource forms: check inputs, lock the variables, run the rule on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
)
from dtfctl.runtime.framework.op_signature import OpSignature, known_signature
from dtfctl.runtime.kernels.cuda.arrays import CUDA_FLOATS
from dtfctl.runtime.kernels.promises import LETS_GO, UPDATES_ROWS
from dtfctl.runtime.kernels.registry import COMPLEX, CPU_GPU, FLOATS, GPU, INDICES, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text, variable_finder
from dtfctl.runtime.kernels.state.scatter_update import rounds
from dtfctl.runtime.kernels.training import rules
from dtfctl.runtime.kernels.training.gpu_rows import GPU_ROW_RULES, apply_rows_on_gpu
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.memory.held_value import change_all

Rule = Callable[..., None]

# Arguments of sparse ops that are on the device where the variables are.
_TENSORS = ("grad", "indices")

_RULES: dict[str, tuple[Rule, bool]] = {
    # op core name -> (rule, takes complex numbers)
    "GradientDescent": (rules.gradient_descent, True),
    "Momentum": (rules.momentum, True),
    "KerasMomentum": (rules.keras_momentum, True),
    "Adam": (rules.adam, True),
    "AdamWithAmsgrad": (rules.adam_with_amsgrad, False),
    "AdaMax": (rules.ada_max, False),
    "Adagrad": (rules.adagrad, True),
    "AdagradV2": (rules.adagrad, True),
    "AdagradDA": (rules.adagrad_da, False),
    "Adadelta": (rules.adadelta, True),
    "RMSProp": (rules.rms_prop, True),
    "CenteredRMSProp": (rules.centered_rms_prop, True),
    "AddSign": (rules.add_sign, False),
    "PowerSign": (rules.power_sign, False),
    "ProximalGradientDescent": (rules.proximal_gradient_descent, False),
    "ProximalAdagrad": (rules.proximal_adagrad, False),
    "Ftrl": (rules.ftrl, False),
    "FtrlV2": (rules.ftrl, False),
}
# Rules that are others for whole variables than for rows.
_OF_ALL: dict[Rule, Rule] = {rules.ftrl: rules.ftrl_of_all}
_FLAGS = ("use_nesterov", "update_slots", "multiply_linear_by_lr")
_REGULARIZATION = {"l1": "l1 regularization strength", "l2": "l2 regularization strength"}


@contextmanager
def _locked(variables: Sequence[Variable]) -> Iterator[None]:
    """Hold the locks of all, taken in one order everywhere so that two updates cannot wait for each other."""
    held = sorted(set(variables), key=id)
    for variable in held:
        variable.lock.acquire()
    try:
        yield
    finally:
        for variable in reversed(held):
            variable.lock.release()


def _variables(k: KernelBuild, count: int, by_handle: bool) -> Callable[[Sequence[Any]], list[Variable]]:
    if not by_handle:
        return lambda inputs: list(inputs[:count])
    find = variable_finder(k)

    def look_up(inputs: Sequence[Any]) -> list[Variable]:
        try:
            return [find(handle) for handle in inputs[:count]]
        except NotFoundError:
            raise InternalError("Invalid variable reference.") from None

    return look_up


def _check_scalars(names: Sequence[str], values: Sequence[Any], signs: bool, allow_zero_lr: bool) -> None:
    for name, value in zip(names, values):
        shown = _REGULARIZATION.get(name, "l2 shrinkage regularization strength" if "shrink" in name else name)
        shape = np.shape(value)
        if shape:
            raise InvalidArgumentError(f"{shown} is not a scalar: {shape_text(shape)}")
        if not signs:
            continue
        if name == "lr" and not (value > 0 or (allow_zero_lr and value == 0)):
            raise InvalidArgumentError("lr is not a positive scalar: []")
        if name in ("l1", "l2", "l2_shrinkage") and not value >= 0:
            raise InvalidArgumentError(f"{shown} is not a non-negative scalar: []")
        if name == "lr_power" and not value <= 0:
            raise InvalidArgumentError("lr_power is not a non-positive scalar: []")


def _check_slots(names: Sequence[str], variables: Sequence[Variable], by_handle: bool) -> tuple[int, ...]:
    for variable in variables:
        if by_handle and not variable.is_initialized:
            raise FailedPreconditionError(f"Attempting to use uninitialized variables: {variable.name}")
    shapes = [tuple(v.read().shape) for v in variables]
    for name, shape in zip(names[1:], shapes[1:]):
        if shape != shapes[0]:
            raise InvalidArgumentError(
                f"var and {name} do not have the same shape{shape_text(shapes[0])} {shape_text(shape)}"
            )
    return shapes[0]


def _factory(rule: Rule, core: str, sparse: bool, by_handle: bool) -> Callable[[KernelBuild], Kernel]:
    proximal = core in ("ProximalAdagrad", "Ftrl", "FtrlV2")

    def factory(k: KernelBuild) -> Kernel:
        names = [arg.name for arg in k.node.signature.inputs]
        count = len(_variable_args(k.node.signature))
        find = _variables(k, count, by_handle)
        delta_name = "delta" if "delta" in names else "grad"
        grad_at = names.index(delta_name)
        indices_at = names.index("indices") if sparse else -1
        scalar_at = [i for i in range(count, len(names)) if i not in (grad_at, indices_at)]
        scalar_names = [names[i] for i in scalar_at]
        flags = {name: bool(k.attr(name)) for name in _FLAGS if k.attr(name) is not None}
        allow_zero_lr = flags.get("multiply_linear_by_lr", False)
        xp = k.xp
        scalar = np.ndarray.item if xp is np else None

        def hyper(inputs: Sequence[Any]) -> dict[str, Any]:
            values = [inputs[i] for i in scalar_at]
            _check_scalars(scalar_names, values, proximal, allow_zero_lr)
            if scalar is not None:
                values = [v[()] for v in values]
            return dict(zip(scalar_names, values))

        def dense(*inputs: Any) -> Variable | None:
            variables = find(inputs)
            with _locked(variables), np.errstate(all="ignore"):
                shape = _check_slots(names, variables, by_handle)
                scalars = hyper(inputs)
                grad = inputs[grad_at]
                if grad.shape != shape:
                    raise InvalidArgumentError(
                        f"var and {delta_name} do not have the same shape{shape_text(shape)} {shape_text(grad.shape)}"
                    )
                _apply_to_all(rule, xp, variables, {"grad": grad, **scalars, **flags})
            return None if by_handle else variables[0]

        def by_rows(*inputs: Any) -> Variable | None:
            variables = find(inputs)
            with _locked(variables), np.errstate(all="ignore"):
                shape = _check_slots(names, variables, by_handle)
                if not shape:
                    raise InvalidArgumentError("var must be at least 1 dimensional")
                scalars = hyper(inputs)
                if core == "ProximalGradientDescent" and "lr" in scalars:
                    scalars["alpha"] = scalars.pop("lr")
                grad, indices = inputs[grad_at], inputs[indices_at]
                _check_rows(shape, grad, indices)
                if xp is not np:
                    settings = {**scalars, **flags}
                    change_all(variables, lambda *arrays: apply_rows_on_gpu(xp, core, arrays, grad, indices, settings))
                    return None if by_handle else variables[0]
                _check_indices(shape, indices)
                if indices.size:
                    settings = {**scalars, **flags}
                    change_all(
                        variables, lambda *arrays: _apply_rows(xp, rule, arrays, grad, indices, settings), indices
                    )
            return None if by_handle else variables[0]

        return by_rows if sparse else dense

    return factory


def _variable_args(signature: OpSignature) -> list[str]:
    """List the names of the arguments that are variables; they come first."""
    return [a.name for a in signature.inputs if a.is_ref or (a.dtype is not None and a.dtype.kind == "resource")]


def _check_rows(shape: tuple[int, ...], grad: Any, indices: Any) -> None:
    if indices.ndim != 1:
        raise InvalidArgumentError("indices must be one-dimensional")
    if grad.ndim != len(shape):
        raise InvalidArgumentError("grad must have the same number of dimensions as var")
    for d in range(1, len(shape)):
        if grad.shape[d] != shape[d]:
            raise InvalidArgumentError(f"var and grad must match in dimension {d}")
    if grad.shape[0] != indices.size:
        raise InvalidArgumentError("grad must be the same size as indices in the first dimension.")
    if 0 in shape[1:]:
        raise InvalidArgumentError("Inner dimension should be greater than zero.")


def _check_indices(shape: tuple[int, ...], indices: Any) -> None:
    bad = (indices < 0) | (indices >= shape[0])
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise InvalidArgumentError(f"Index {indices[at]} at offset {at} in indices is out of range")


def _apply_to_all(rule: Rule, xp: Any, variables: Sequence[Variable], settings: dict[str, Any]) -> None:
    """Change the slots in place, and write the variable's next value beside one that somebody holds."""
    var, *slots = variables
    if var in slots:
        change_all(variables, lambda *arrays: rule(xp, *arrays, out=arrays[0], **settings))
    elif slots:
        change_all(slots, lambda *held: var.update(lambda now, then: rule(xp, now, *held, out=then, **settings)))
    else:
        var.update(lambda now, then: rule(xp, now, out=then, **settings))


def _apply_rows(xp: Any, rule: Rule, arrays: Sequence[Any], grad: Any, indices: Any, settings: dict[str, Any]) -> None:
    for positions in rounds(indices):
        chosen = indices[positions]
        rows = [array.take(chosen, axis=0) for array in arrays]
        rule(xp, *rows, grad=grad[positions], out=rows[0], **settings)
        for array, row in zip(arrays, rows):
            array[chosen] = row


def _register() -> None:
    for core, (rule, takes_complex) in _RULES.items():
        types = FLOATS + COMPLEX if takes_complex else FLOATS
        for prefix in ("", "Resource"):
            for sparse in (False, True):
                op = f"{prefix}{'Sparse' if sparse else ''}Apply{core}"
                signature = known_signature(op)
                if signature is None:
                    continue
                factory = _factory(rule if sparse else _OF_ALL.get(rule, rule), core, sparse, bool(prefix))
                if sparse:
                    register_kernel(op, promises=UPDATES_ROWS, T=types, Tindices=INDICES)(factory)
                    if core in GPU_ROW_RULES:
                        on_host = tuple(a.name for a in signature.inputs if a.name not in _TENSORS and not a.is_ref)
                        register_kernel(op, devices=GPU, host_inputs=on_host, T=CUDA_FLOATS, Tindices=INDICES)(factory)
                else:
                    handles = tuple(_variable_args(signature)) if prefix else ()
                    register_kernel(op, devices=CPU_GPU, host_inputs=handles, promises=LETS_GO, T=types)(factory)


_register()
