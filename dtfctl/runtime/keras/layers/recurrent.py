"""Recurrent layers: the loop of a cell over steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import regularizers
from dtfctl.runtime.keras.backend.values import batch_set_value
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.layers.core import described
from dtfctl.runtime.keras.layers.recurrent_cells import GatedCell, GRUCell, LSTMCell, SimpleRNNCell, StackedRNNCells
from dtfctl.runtime.keras.provided import Role, provided
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.layer_arguments import snake_case
from dtfctl.runtime.ops.tensor_array_ops import TensorArray
from dtfctl.runtime.ops.while_loop import while_loop


class RNN(Layer):
    """A cell over the steps of [batch, steps, d], or of [steps, batch, d] with `time_major`.

    Args:
        cell: has `call(inputs, states)` and `state_size`; a list of cells is a stack of them.
        return_sequences: give the outputs of all steps, not of the last.
        return_state: give the last states too.
        go_backwards: begin with the last step.
        stateful: begin with the states that the batch before ended with.
    """

    _scopes_cell = True

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.cell: Any = StackedRNNCells(cell) if isinstance(cell, (list, tuple)) else cell
        self.return_sequences, self.return_state, self.go_backwards = return_sequences, return_state, go_backwards
        self.stateful, self.unroll, self.time_major = stateful, unroll, time_major
        self.supports_masking = True
        self._kept: list[Any] = []
        self._constants: dict[str, Any] = {}

    @property
    def states(self) -> list[Any]:
        """The states that are kept between batches."""
        return self._kept

    def build(self, input_shape: Any) -> None:
        """Make the cell's variables."""
        shape = TensorShape(input_shape[0] if isinstance(input_shape, list) else input_shape).as_list()
        if isinstance(self.cell, Layer) and not self.cell.built:
            with name_scope(self.cell.name) if self._scopes_cell else nullcontext():
                self.cell.build(TensorShape([shape[0], *shape[2:]]))
                self.cell.built = True
        if self.stateful:
            batch = shape[1] if self.time_major else shape[0]
            if batch is None:
                raise ValueError("If a RNN is stateful, it needs to know its batch size: give `batch_input_shape`.")
            sizes = nest.flatten(self.cell.state_size)
            self._kept = [
                self.add_weight(f"state_{i}", (batch, *_dims(n)), initializer="zeros", trainable=False, collections=[])
                for i, n in enumerate(sizes)
            ]
            for _ in sizes:
                self._non_trainable_weights.pop()
            for i in range(len(sizes)):
                self._trackables.pop(f"state_{i}", None)
        self.built = True

    def reset_states(self, states: Any = None) -> None:
        """Set the states that are kept to zero, or to these."""
        if not self.stateful:
            raise AttributeError("Layer must be stateful.")
        given = nest.flatten(states) if states is not None else [np.zeros(v.shape.as_list()) for v in self._kept]
        batch_set_value(list(zip(self._kept, given)))

    def __call__(self, inputs: Any, initial_state: Any = None, constants: Any = None, **kwargs: Any) -> Any:
        if isinstance(inputs, (list, tuple)) and initial_state is None:
            inputs, initial_state = inputs[0], list(inputs[1:]) or None
        if constants is not None:
            kwargs["constants"] = list(constants) if isinstance(constants, (list, tuple)) else [constants]
        if initial_state is not None:
            kwargs["initial_state"] = (
                list(initial_state) if isinstance(initial_state, (list, tuple)) else [initial_state]
            )
        return super().__call__(inputs, **kwargs)

    def _begin(self, inputs: Any, initial_state: Any) -> Any:
        if initial_state is not None:
            return (
                nest.pack_sequence_as(self.cell.state_size, nest.flatten(initial_state))
                if nest.is_nested(self.cell.state_size)
                else [initial_state[0]]
            )
        if self.stateful:
            values = [v.value() for v in self._kept]
            return (
                nest.pack_sequence_as(self.cell.state_size, values) if nest.is_nested(self.cell.state_size) else values
            )
        batch = array_ops.shape(inputs)[1 if self.time_major else 0]
        dtype = inputs.dtype.base_dtype
        begin = getattr(self.cell, "get_initial_state", None)
        if begin is not None:
            found = begin(inputs=None, batch_size=batch, dtype=dtype)
        else:
            found = nest.map_structure(
                lambda n: array_ops.zeros(array_ops.stack([batch, n]), dtype), self.cell.state_size
            )
        return found if nest.is_nested(found) else [found]

    def call(
        self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None, constants: Any = None
    ) -> Any:
        """Compute the outputs for inputs; the cell sees `constants` in all steps."""
        self._constants = {} if constants is None else {"constants": list(constants)}
        begun = self._begin(inputs, initial_state)
        flat_begun = nest.flatten(begun)
        steps = inputs if self.time_major else _swapped(inputs)
        if mask is not None:
            mask = mask[0] if isinstance(mask, list) else mask
            mask = mask if self.time_major else _swapped(mask)
        if self.go_backwards:
            steps = array_ops.reverse(steps, [0])
            mask = None if mask is None else array_ops.reverse(mask, [0])
        for cell in getattr(self.cell, "cells", [self.cell]):
            if isinstance(cell, GatedCell):
                cell.draw_masks(steps[0], flat_begun[0], training)
        last, outputs, states = self._loop(steps, begun, mask)
        for cell in getattr(self.cell, "cells", [self.cell]):
            if isinstance(cell, GatedCell):
                cell.forget_masks()
        if self.stateful:
            for kept, value in zip(self._kept, nest.flatten(states)):
                self.add_update(kept.assign(value))
        if self.return_sequences:
            result = outputs if self.time_major else _swapped(outputs)
        else:
            result = last
        return [result, *nest.flatten(states)] if self.return_state else result

    def _step(self, x: Any, states: Any) -> tuple[Any, Any]:
        cell: Any = self.cell
        own = self._constants
        output, new = cell.call(x, states, **own) if isinstance(cell, GatedCell) else cell(x, states, **own)
        return output, new if nest.is_nested(new) else [new]

    def _loop(self, steps: Any, begun: Any, mask: Any) -> tuple[Any, Any, Any]:
        count = array_ops.shape(steps)[0]
        inputs = TensorArray(steps.dtype.base_dtype, size=count).unstack(steps)
        outputs = TensorArray(steps.dtype.base_dtype, size=count)
        masks = None if mask is None else TensorArray(dtypes.bool_, size=count).unstack(mask)
        size = getattr(self.cell, "output_size", None) or nest.flatten(self.cell.state_size)[0]
        batch = array_ops.shape(steps)[1]
        rest = list(size) if isinstance(size, (list, tuple)) else [size]
        zero = array_ops.zeros(array_ops.stack([batch, *rest]), steps.dtype.base_dtype)
        element = steps.shape[1:]

        def body(time: Any, written: Any, previous: Any, *flat: Any) -> Any:
            x = inputs.read(time)
            x.set_shape(element)
            states = nest.pack_sequence_as(begun, list(flat))
            output, new = self._step(x, states)
            flat_new = nest.flatten(new)
            if masks is not None:
                kept = masks.read(time)
                for _ in range(len(rest)):
                    kept = array_ops.expand_dims(kept, -1)
                output = array_ops.where_v2(kept, output, previous)
                flat_new = [array_ops.where_v2(kept, n, o) for n, o in zip(flat_new, flat)]
            for old, value in zip(flat, flat_new):
                value.set_shape(old.shape)
            return (time + 1, written.write(time, output), output, *flat_new)

        static = steps.shape.as_list()
        zero.set_shape([static[1], *rest])
        flat_begun = nest.flatten(begun)
        for value, n in zip(flat_begun, nest.flatten(self.cell.state_size)):
            if isinstance(n, (int, TensorShape)):
                value.set_shape([static[1], *_dims(n)])
        found = while_loop(
            lambda time, *_: math_ops.less(time, count),
            body,
            (array_ops.zeros([], dtypes.int32), outputs, zero, *flat_begun),
            maximum_iterations=count,
        )
        stacked = found[1].stack()
        stacked.set_shape([static[0], static[1], *rest])
        last = found[2]
        last.set_shape([static[1], *rest])
        return last, stacked, nest.pack_sequence_as(begun, list(found[3:]))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs: that of the inputs, if all steps are given."""
        mask = mask[0] if isinstance(mask, list) else mask
        first = mask if self.return_sequences else None
        return [first, *([None] * len(nest.flatten(self.cell.state_size)))] if self.return_state else first

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims = TensorShape(input_shape[0] if isinstance(input_shape, list) else input_shape).as_list()
        size = getattr(self.cell, "output_size", None) or nest.flatten(self.cell.state_size)[0]
        steps = [dims[1]] if self.return_sequences else []
        shape = TensorShape([dims[0], *steps, *_dims(size)])
        if not self.return_state:
            return shape
        return [shape, *(TensorShape([dims[0], *_dims(n)]) for n in nest.flatten(self.cell.state_size))]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        from dtfctl.runtime.keras import registry

        names = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major")
        cell = registry.serialize_keras_object(self.cell)
        return {**super().get_config(), **described(self, *names), "cell": cell}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make the layer that `get_config` described."""
        config = dict(config)
        if "cell" in config:
            config["cell"] = provided(Role.LAYER)(config["cell"])
        return cls(**config)


def _dims(size: Any) -> list[Any]:
    """Give the sizes of a state, but the batch's."""
    return [size] if isinstance(size, int) else list(TensorShape(size).as_list())


def _swapped(tensor: Any) -> Any:
    """Exchange batch and steps."""
    rank = tensor.shape.rank
    return array_ops.transpose(tensor, [1, 0, *range(2, rank)])


_LOOP = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major")


class _CellLayer(RNN):
    """Base of layers that make their own cell."""

    cell_class: Any

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        activity = kwargs.pop("activity_regularizer", None)
        own = {k: kwargs.pop(k) for k in (*_LOOP, "name", "trainable") if k in kwargs}
        shapes = ("input_shape", "batch_input_shape", "input_dim", "weights", "dtype", "batch_size")
        own |= {k: kwargs.pop(k) for k in shapes if k in kwargs}
        if "input_length" in kwargs:
            own["input_shape"] = (kwargs.pop("input_length"), own.pop("input_dim"))
        elif "input_dim" in own:
            own["input_shape"] = (None, own.pop("input_dim"))
        trainable: dict[str, Any] = {"trainable": own["trainable"]} if "trainable" in own else {}
        super().__init__(
            self.cell_class(units, *args, name=snake_case(self.cell_class.__name__), **trainable, **kwargs), **own
        )
        self._activity_regularizer = regularizers.get(activity)

    def __getattr__(self, name: str) -> Any:
        cell = self.__dict__.get("cell")
        if cell is not None and not name.startswith("_") and hasattr(cell, name):
            return getattr(cell, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        config = super().get_config()
        config.pop("cell")
        cell = self.cell.get_config()
        own = {k: v for k, v in cell.items() if k not in ("name", "trainable", "dtype")}
        return {**own, **described(self, "activity_regularizer"), **config}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make the layer that `get_config` described."""
        return cls(**config)


def per_gate(kernels: Any, gates: int, change: Callable[[Any], Any]) -> Any:
    """Change the kernel of each gate, which are side by side."""
    return np.hstack([change(kernel) for kernel in np.hsplit(kernels, gates)])


def of_cudnn(kernel: Any) -> Any:
    """Arrange a kernel of inputs that cuDNN has as [units, inputs], row after row, as [inputs, units]."""
    return kernel.reshape(kernel.shape[::-1]).T


class SimpleRNN(_CellLayer):
    """A fully-connected recurrent layer."""

    cell_class = SimpleRNNCell


class GRU(_CellLayer):
    """A layer of gated recurrent units (Cho et al., 2014)."""

    cell_class = GRUCell

    def _adapted(self, values: list[Any]) -> list[Any]:
        units = self.cell.units
        if len(values) != 3 or values[2].shape != (6 * units,):
            return values
        if not self.cell.reset_after:
            raise ValueError(f"The weights are CuDNNGRU's: {self.name} has to be a GRU with reset_after=True")
        kernel, recurrent, bias = values
        return [per_gate(kernel, 3, of_cudnn), per_gate(recurrent, 3, np.transpose), bias.reshape(2, -1)]


class LSTM(_CellLayer):
    """A layer of long short-term memories (Hochreiter & Schmidhuber, 1997)."""

    cell_class = LSTMCell

    def _adapted(self, values: list[Any]) -> list[Any]:
        units = self.cell.units
        if len(values) != 3 or values[2].shape != (8 * units,):
            return values
        kernel, recurrent, bias = values
        biases = bias[: 4 * units] + bias[4 * units :]
        return [per_gate(kernel, 4, of_cudnn), per_gate(recurrent, 4, np.transpose), biases]
