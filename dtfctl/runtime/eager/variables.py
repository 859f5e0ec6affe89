"""Variables of an eager program: resource variables that have their value from the start."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from dtfctl.runtime.eager.kernels import EagerKernels
from dtfctl.runtime.eager.tensor import EagerTensor
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import NotFoundError
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.resource_variable import ResourceVariable


class EagerVariable(ResourceVariable):
    """A variable initialised when it is made; its storage ends with the last reference to it.

    Inside a function that is being traced it behaves as any resource variable, through its captured handle.
    """

    def _build(self, initial_value: Any, dtype: Any, name: str | None, validate_shape: bool, shape: Any) -> None:
        graph: Any = context.get_default_graph()
        kernels: EagerKernels = graph.kernels
        with name_scope(name, "Variable") as scope:
            value = self._make_initial(initial_value, dtype, scope, validate_shape, shape)
            shared = kernels.unique(scope.rstrip("/"))
            handle = make_op(
                "VarHandleOp", name=scope, dtype=self._dtype, shape=self._shape, shared_name=shared
            ).outputs[0]
        assert isinstance(handle, EagerTensor)
        handle._handle_data = (self._dtype, self._shape)
        handle._variable = weakref.ref(self)
        self.handle = handle
        self._name = f"{scope.rstrip('/')}:0"
        weakref.finalize(handle, _release, kernels, graph._scopes.container, shared)
        make_op("AssignVariableOp", resource=handle, value=value, dtype=self._dtype)
        # The value lives in the variable; a second reference would make every update copy it.
        self._initial_value = None
        self.initializer = make_op("NoOp")

    def numpy(self) -> Any:
        """Return the value now: a copy as an array, or a numpy scalar."""
        value = self.value()
        if not isinstance(value, EagerTensor):
            raise NotImplementedError("numpy() is only available when eager execution is enabled.")
        return value.numpy()

    def _after(self, op: Operation) -> ResourceVariable:
        return self if context.get_default_graph().executes else super()._after(op)

    def _as_graph_element(self) -> Tensor:
        return self.value()

    @property
    def initial_value(self) -> Tensor:
        """The value now: what something derived from this variable starts with."""
        return self.value()

    def initialized_value(self) -> Tensor:
        return self.value()

    def load(self, value: Any, session: Any = None) -> None:
        self.assign(value)

    def eval(self, session: Any = None) -> Any:
        raise NotImplementedError("eval() is not supported when eager execution is enabled, use .numpy()")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        value = np.asarray(self.numpy())
        return value if dtype is None else value.astype(dtype)

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __repr__(self) -> str:
        shape = tuple(self._shape.as_list()) if self._shape.rank is not None else "<unknown>"
        return f"<tf.Variable '{self.name}' shape={shape} dtype={self.dtype.name}, numpy={self.numpy()!r}>"

    __str__ = __repr__
    __hash__ = ResourceVariable.__hash__


def _release(kernels: EagerKernels, container: str, name: str) -> None:
    try:
        kernels.resources.delete(container, name)
    except NotFoundError:
        return  # The program destroyed it itself.
