"""What a cell of a recurrent network is, and what programs that write their own take from it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.array_ops.creation import zeros
from dtfctl.runtime.ops.layer_arguments import snake_case
from dtfctl.runtime.ops.variable_scope import get_variable, get_variable_scope, variable_scope
from dtfctl.runtime.ops.variables import Variable

Activation = Callable[[Tensor], Tensor]


class LSTMStateTuple(NamedTuple):
    """Cell state and output."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        return self.c.dtype


class RNNCell:
    """One step: `output, new_state = cell(inputs [batch, n], state)`. Variables are made on the first call.

    Subclasses define `state_size`, `output_size` and `call`.
    """

    # Whether TensorFlow's is a layer, which enters no scope but its own.
    _is_layer = False

    # For cells that do not call this constructor from theirs.
    _name: str | None = None
    _trainable, built = True, False
    _reuse: Any = None
    _given_scope: Any = None
    _dtype: Any = None
    _built_scope: Any = None
    variables: Sequence[Any] = ()

    def __init__(
        self, trainable: bool = True, name: str | None = None, dtype: Any = None, reuse: Any = None, **kwargs: Any
    ) -> None:
        """Take what every layer takes; a subclass may give `_reuse` and `_scope`, as those of TensorFlow's cells do."""
        self._reuse, self._given_scope = kwargs.pop("_reuse", reuse), kwargs.pop("_scope", None)
        if kwargs:
            raise TypeError(f"Keyword argument not understood: {next(iter(kwargs))}")
        self._name, self._trainable = name, trainable
        self._dtype = None if dtype is None else as_dtype(dtype)
        self.variables = []

    def __deepcopy__(self, memo: dict[int, Any]) -> RNNCell:
        """Copy what the cell was made with: the copy makes or looks up variables where it is called first."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            if name in ("built", "_built_scope"):
                continue
            of_graph = any(isinstance(leaf, (Tensor, Variable)) for leaf in nest.flatten(value))
            made.__dict__[name] = [] if name == "variables" else value if of_graph else copy.deepcopy(value, memo)
        return made

    @property
    def state_size(self) -> Any:
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        raise NotImplementedError

    @property
    def name(self) -> str:
        return self._name or snake_case(type(self).__name__)

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def scope_name(self) -> str:
        if self._built_scope is None:
            raise ValueError(f"No name available for layer scope: {self.name} has not been called yet")
        return str(self._built_scope.name)

    @property
    def trainable_variables(self) -> list[Any]:
        return [v for v in self.variables if v.trainable]

    weights = property(lambda self: self.variables)
    trainable_weights = property(lambda self: self.trainable_variables)

    def build(self, input_shape: Any) -> None:
        """Make variables with `add_variable`, for subclasses that do so before they are called."""

    def add_variable(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool = True,
        constraint: Any = None,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Get a variable of this cell, under its scope."""
        variable = get_variable(
            name,
            shape,
            dtype or self._dtype or dtypes.float32,
            initializer,
            regularizer,
            trainable and self._trainable,
            constraint=constraint,
            partitioner=partitioner,
            **kwargs,
        )
        self.variables = [*self.variables, variable]
        return variable

    add_weight = add_variable

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Tensor, Any]:
        tensor = nest.map_structure(convert_to_tensor, inputs)
        if self._built_scope is not None:
            inside = variable_scope(self._built_scope, reuse=True, auxiliary_name_scope=False)
            with inside, name_scope(self._built_scope.original_name_scope or None):
                return self.call(tensor, state)
        reuse, name = self._reuse, self.name
        scope = self._given_scope if scope is None else scope
        # TensorFlow enters the scope around once more for cells that are no layers: their ops have its name twice.
        around = None if self._is_layer or scope is not None else get_variable_scope().name.split("/")[-1]
        # A name of its own in the scope around, unless it is to be shared, as TensorFlow's layers have.
        with (
            name_scope(around) if around else contextlib.nullcontext(),
            variable_scope(scope or name if reuse else scope, name, reuse=reuse) as opened,
        ):
            if not self.built:
                self.build(nest.map_structure(lambda t: t.shape, tensor))
                self.built = True
            known = len(_made(opened))
            result = self.call(tensor, state)
            if not self.variables:
                self.variables = _made(opened)[known:]
            self._built_scope = opened
            return result

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Make zeros for a batch of these inputs, or of this size and type; ValueError where neither is given."""
        if inputs is not None:
            inputs = convert_to_tensor(inputs)
            known = inputs.shape.as_list()[0]
            sizes = apply_op("Shape", input=inputs, out_type=dtypes.int32) if known is None else None
            batch_size = known if sizes is None else apply_op("GatherV2", params=sizes, indices=0, axis=constant(0))
            dtype = inputs.dtype if dtype is None else dtype
        if batch_size is None or dtype is None:
            raise ValueError("batch_size and dtype must be given where inputs are not")
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Make zeros in the structure of the state, [batch_size, size] each."""
        with name_scope(f"{type(self).__name__}ZeroState"):
            return nest.map_structure(lambda size: zero_state_of(batch_size, size, as_dtype(dtype)), self.state_size)


def _made(scope: Any) -> list[Any]:
    return list(scope.global_variables())


def zero_state_of(batch_size: Any, size: Any, dtype: Any) -> Tensor:
    """Make zeros of [batch_size, *size], statically as far as that is known."""
    shape, dims = _state_shape(batch_size, size)
    out: Tensor = zeros(apply_op("ConcatV2", values=shape, axis=0), dtype)
    # TensorFlow makes these ops once more to find the static shape: what follows is numbered after them.
    _state_shape(batch_size, size)
    out.set_shape(dims)
    return out


def _state_shape(batch_size: Any, size: Any) -> tuple[list[Tensor], list[int | None]]:
    """Give two parts of a state's shape, and what is known of it."""
    known: list[int | None] = [None]
    if isinstance(batch_size, (int, np.integer)):
        batch = constant([int(batch_size)], dtypes.int32)
        known = [int(batch_size)]
    else:
        batch = apply_op("ExpandDims", input=convert_to_tensor(batch_size, dtypes.int32), dim=0)
    if isinstance(size, Tensor):
        # As many as a memory has places, which only a step knows.
        return [batch, apply_op("Reshape", tensor=size, shape=[-1])], [*known, None]
    dims = list(TensorShape(size).known())
    return [batch, constant(dims, dtypes.int32)], [*known, *dims]
