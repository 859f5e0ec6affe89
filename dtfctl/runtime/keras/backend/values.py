"""Variables, their values in Keras's session, and steps as functions of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.convert import SparseTensor, constant as make_constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.keras import state
from dtfctl.runtime.keras.backend.settings import floatx
from dtfctl.runtime.keras.state import get_session
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.logging_ops import Print
from dtfctl.runtime.ops.sparse_ops.conversion import sparse_tensor_to_dense
from dtfctl.runtime.ops.variables import Variable


def variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Any:
    """Make a variable that Keras initializes."""
    made = Variable(
        convert_to_tensor(value, dtype or floatx()) if not callable(value) else value,
        dtype=as_dtype(dtype or floatx()),
        name=name,
        constraint=constraint,
        use_resource=True,
    )
    state.track_variable(made)
    return made


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Tensor:
    """Make a constant, of the default type."""
    return make_constant(value, dtype or floatx(), shape, name=name or "Const")


def placeholder(
    shape: Any = None, ndim: int | None = None, dtype: Any = None, sparse: bool = False, name: str | None = None
) -> Any:
    """Make a tensor that is fed."""
    shape = (None,) * ndim if shape is None and ndim else shape
    make = array_ops.sparse_placeholder if sparse else array_ops.placeholder
    return make(as_dtype(dtype or floatx()), shape=shape, name=name)


def is_keras_tensor(x: Any) -> bool:
    """Tell whether a tensor comes from a layer of a functional model."""
    if not isinstance(x, (Tensor, Variable, SparseTensor)):
        raise ValueError(f"Unexpectedly found an instance of type `{type(x)}`. Expected a symbolic tensor instance.")
    return hasattr(x, "_keras_history")


def is_sparse(tensor: Any) -> bool:
    """Tell whether it is a SparseTensor."""
    return isinstance(tensor, SparseTensor)


def to_dense(tensor: Any) -> Any:
    """Make a dense tensor of a sparse one."""
    return sparse_tensor_to_dense(tensor) if is_sparse(tensor) else tensor


def get_value(x: Any) -> Any:
    """Read a variable or tensor in Keras's session."""
    return x if isinstance(x, (np.ndarray, int, float)) else get_session().run(x)


def batch_get_value(tensors: Sequence[Any]) -> list[Any]:
    """Read several variables at once."""
    return list(get_session().run(list(tensors))) if tensors else []


def set_value(x: Any, value: Any) -> None:
    """Assign a value to a variable, in Keras's session."""
    batch_set_value([(x, value)])


def batch_set_value(tuples: Iterable[tuple[Any, Any]]) -> None:
    """Assign values to variables, in one step of Keras's session."""
    ops, feeds = [], {}
    for x, value in tuples:
        array = np.asarray(value, dtype=x.dtype.base_dtype.as_numpy_dtype)
        if not hasattr(x, "_assign_placeholder"):
            with x.graph.as_default(), x.graph.name_scope(None), x.graph.control_dependencies(None):
                x._assign_placeholder = array_ops.placeholder(x.dtype.base_dtype, shape=[None] * array.ndim)
                x._assign_op = x.assign(x._assign_placeholder, read_value=False)
        ops.append(x._assign_op)
        feeds[x._assign_placeholder] = array
    if ops:
        get_session().run(ops, feeds)


def eval(x: Any) -> Any:
    """Compute the value of a tensor in Keras's session."""
    return get_value(to_dense(x))


def print_tensor(x: Any, message: str = "") -> Any:
    """Print a tensor whenever it is computed, and pass it on."""
    return Print(x, [x], message=message)


def update(x: Any, new_x: Any) -> Any:
    """Make an op that assigns."""
    return x.assign(new_x)


def update_add(x: Any, increment: Any) -> Any:
    """Make an op that adds to a variable."""
    return x.assign_add(increment)


def update_sub(x: Any, decrement: Any) -> Any:
    """Make an op that subtracts from a variable."""
    return x.assign_sub(decrement)


def moving_average_update(x: Any, value: Any, momentum: Any) -> Any:
    """Make an op that moves a variable towards a value."""
    with name_scope("AssignMovingAvg"):
        rate = convert_to_tensor(1.0 - momentum, x.dtype.base_dtype, name="decay")
        return x.assign_sub((x - math_ops.cast(value, x.dtype.base_dtype)) * rate)


class Function:
    """A step of Keras's session as a function of the values of some tensors; `function` makes one."""

    def __init__(self, inputs: Any, outputs: Any, updates: Any = None, name: str | None = None) -> None:
        self.inputs, self.outputs = nest.flatten(inputs), nest.flatten(outputs)
        self._nested = outputs
        with control_dependencies([o for o in self.outputs[:1] if isinstance(o, (Tensor, Operation))]):
            assigned = [u[0].assign(u[1]).op if isinstance(u, tuple) else getattr(u, "op", u) for u in updates or ()]
            self.updates_op = group(*assigned)
        self._fetches: list[Any] = [*self.outputs, self.updates_op]

    def __call__(self, inputs: Any) -> Any:
        values = nest.flatten(inputs)
        session = get_session()
        feeds = {}
        for tensor, value in zip(self.inputs, values, strict=True):
            if value is None:
                continue
            if not isinstance(value, (np.ndarray, tuple)) and not is_sparse(tensor):
                value = np.asarray(value, tensor.dtype.base_dtype.as_numpy_dtype)
            feeds[tensor] = value
        fetched = session.run(self._fetches, feeds)[: len(self.outputs)]
        if isinstance(self._nested, (list, tuple)):
            return nest.pack_sequence_as(self._nested, fetched)
        return fetched[0] if fetched else None


def function(inputs: Any, outputs: Any, updates: Any = None, name: str | None = None, **kwargs: Any) -> Function:
    """Make a function of values: it feeds `inputs` and fetches `outputs`, and runs the updates.

    Raises:
        ValueError: another argument is given.
    """
    if kwargs:
        raise ValueError(f"tf.keras.backend.function: {sorted(kwargs)[0]} is not supported; use Session.run")
    return Function(inputs, outputs, updates, name)


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Make a variable of zeros."""
    return variable(np.zeros(shape), dtype, name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Make a variable of ones."""
    return variable(np.ones(shape), dtype, name)


def eye(size: int, dtype: Any = None, name: str | None = None) -> Any:
    """Make a variable that is an identity matrix."""
    return variable(np.eye(size), dtype, name)
