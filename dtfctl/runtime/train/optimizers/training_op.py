"""Optimizers whose update of a variable is one training op."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.operands import cast_to
from dtfctl.runtime.train.optimizer import Optimizer


def target_of(variable: Any) -> Any:
    """Return what a training op takes for a variable: its handle or its reference."""
    return variable.handle if variable._is_resource else variable._ref()


class OpOptimizer(Optimizer):
    """An optimizer whose update is one training op, named alike for reference and resource variables."""

    def _apply(self, grad: Tensor, var: Any) -> Any:
        """Update a variable of either kind."""
        raise NotImplementedError

    def _apply_rows(self, grad: Tensor, indices: Tensor, var: Any) -> Any:
        """Update rows of a variable of either kind."""
        raise NotImplementedError(f"{type(self).__name__} cannot apply sparse gradients")

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        return self._apply(grad, var)

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        return self._apply(grad, handle)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        return self._apply_rows(grad.values, grad.indices, var)

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        return self._apply_rows(grad, indices, handle)

    def _training_op(self, op: str, variable: Any, **inputs: Any) -> Operation:
        """Run `op` (such as "ApplyAdam") or its Resource form; tensors are cast to the variable's type."""
        dtype = variable.dtype.base_dtype
        kind = f"Resource{op}" if variable._is_resource else op
        arguments: dict[str, Any] = {}
        for key, value in inputs.items():
            held = isinstance(value, Tensor) and (value.dtype.is_ref or value.dtype.is_object)
            if held or key in ("indices", "global_step", "use_locking", "use_nesterov"):
                arguments[key] = value
            else:
                arguments[key] = cast_to(value, dtype)
        arguments.setdefault("use_locking", self._use_locking)
        return make_op(kind, **arguments)

    def _hyper(self, value: Any, name: str) -> Tensor:
        return convert_to_tensor(self._call_if_callable(value), name=name)
