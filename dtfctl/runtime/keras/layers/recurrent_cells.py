"""The cells of recurrent layers: one step each."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import activations, constraints, initializers, regularizers, state
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.layers.core import described
from dtfctl.runtime.keras.provided import Role, provided
from dtfctl.runtime.keras.registry import serialize_keras_object
from dtfctl.runtime.ops import array_ops, init_ops, math_ops, nn_ops
from dtfctl.runtime.ops.cond import smart_cond

_CELL = (
    *("units", "activation", "use_bias", "kernel_initializer", "recurrent_initializer", "bias_initializer"),
    *("kernel_regularizer", "recurrent_regularizer", "bias_regularizer", "kernel_constraint", "recurrent_constraint"),
    *("bias_constraint", "dropout", "recurrent_dropout"),
)


class AbstractRNNCell(Layer):
    """Base of the program's own cells: `call(inputs, states)` gives the output and the new states of a step."""

    def call(self, inputs: Any, states: Any) -> Any:
        """Compute the output and the new states of a step."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a step computes: define call")

    @property
    def state_size(self) -> Any:
        """How long the states are: a number, or a list of them."""
        raise NotImplementedError(f"{type(self).__name__} does not say how long its states are: define state_size")

    @property
    def output_size(self) -> Any:
        """How long the outputs are."""
        raise NotImplementedError(f"{type(self).__name__} does not say how long its outputs are: define output_size")

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Make states of zeros."""
        if inputs is not None:
            batch_size, dtype = array_ops.shape(inputs)[0], inputs.dtype

        def zeros(size: Any) -> Any:
            dims = size if isinstance(size, (list, tuple)) else [size]
            return array_ops.zeros(array_ops.stack([batch_size, *dims]), dtype)

        return nest.map_structure(zeros, self.state_size)


class GatedCell(Layer):
    """Base of the cells: kernels and biases of `gates` gates side by side."""

    gates = 1

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units, self.use_bias = units, use_bias
        self.activation = activations.get(activation)
        for name, value in (
            ("kernel", kernel_initializer),
            ("recurrent", recurrent_initializer),
            ("bias", bias_initializer),
        ):
            setattr(self, f"{name}_initializer", initializers.get(value))
        for name, value in (
            ("kernel", kernel_regularizer),
            ("recurrent", recurrent_regularizer),
            ("bias", bias_regularizer),
        ):
            setattr(self, f"{name}_regularizer", regularizers.get(value))
        for name, value in (
            ("kernel", kernel_constraint),
            ("recurrent", recurrent_constraint),
            ("bias", bias_constraint),
        ):
            setattr(self, f"{name}_constraint", constraints.get(value))
        self.dropout, self.recurrent_dropout = min(1.0, max(0.0, dropout)), min(1.0, max(0.0, recurrent_dropout))
        self.state_size: Any = units
        self.output_size: Any = units
        self.bias: Any = None
        self._masks: dict[str, Any] = {}

    def _weight(self, name: str, kind: str, shape: Any, initializer: Any = None) -> Any:
        return self.add_weight(
            name,
            shape,
            initializer=initializer or getattr(self, f"{kind}_initializer"),
            regularizer=getattr(self, f"{kind}_regularizer"),
            constraint=getattr(self, f"{kind}_constraint"),
        )

    def build(self, input_shape: Any) -> None:
        """Make kernels and bias."""
        size = TensorShape(input_shape).as_list()[-1]
        self.kernel = self._weight("kernel", "kernel", (size, self.units * self.gates))
        self.recurrent_kernel = self._weight("recurrent_kernel", "recurrent", (self.units, self.units * self.gates))
        if self.use_bias:
            self.bias = self._make_bias()
        self.built = True

    def _make_bias(self) -> Any:
        return self._weight("bias", "bias", (self.units * self.gates,))

    def forget_masks(self) -> None:
        """Draw masks anew in the next loop."""
        self._masks = {}

    def draw_masks(self, example: Any, hidden: Any, training: Any) -> None:
        """Draw the masks of dropout, which all steps of a loop share."""
        self.forget_masks()
        training = state.learning_phase() if training is None else training
        for kind, rate, like in (("input", self.dropout, example), ("state", self.recurrent_dropout, hidden)):
            if rate > 0:
                ones = array_ops.ones_like(like)
                masks = [
                    smart_cond(training, lambda: nn_ops.dropout(ones, rate=rate), lambda: ones)  # noqa: B023
                    for _ in range(self.gates)
                ]
                self._masks[kind] = masks

    def _input_kernels(self) -> list[Any]:
        return list(array_ops.split(self.kernel, self.gates, axis=1))

    def _state_kernels(self) -> list[Any]:
        return list(array_ops.split(self.recurrent_kernel, self.gates, axis=1))

    def _inputs(self, kind: str, value: Any) -> list[Any]:
        masks = self._masks.get(kind)
        return [value * m for m in masks] if masks else [value] * self.gates

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Make states of zeros."""
        if inputs is not None:
            batch_size, dtype = array_ops.shape(inputs)[0], inputs.dtype
        return nest.map_structure(lambda n: array_ops.zeros(array_ops.stack([batch_size, n]), dtype), self.state_size)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), **described(self, *_CELL)}


class SimpleRNNCell(GatedCell):
    """activation(inputs . kernel + bias + state . recurrent_kernel)."""

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """Compute the outputs and the new states of a step."""
        previous = states[0] if nest.is_nested(states) else states
        h = math_ops.matmul(self._inputs("input", inputs)[0], self.kernel)
        if self.use_bias:
            h = nn_ops.bias_add(h, self.bias)
        output = self.activation(h + math_ops.matmul(self._inputs("state", previous)[0], self.recurrent_kernel))
        return output, [output]


class GRUCell(GatedCell):
    """A gated recurrent unit: update, reset and candidate."""

    gates = 3

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        *args: Any,
        implementation: int = 1,
        reset_after: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, activation, *args, **kwargs)
        self.recurrent_activation, self.reset_after = activations.get(recurrent_activation), reset_after

    def _make_bias(self) -> Any:
        size = self.units * 3
        return self._weight("bias", "bias", (2, size) if self.reset_after else (size,))

    def _biases(self) -> list[Any]:
        """Return the biases of inputs and of the state."""
        return list(array_ops.unstack(self.bias)) if self.use_bias and self.reset_after else [self.bias, None]

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """Compute the outputs and the new states of a step."""
        previous = states[0] if nest.is_nested(states) else states
        n = self.units
        kernels, recurrent, biases = self._input_kernels(), self._state_kernels(), self._biases()
        xs = [math_ops.matmul(x, k) for x, k in zip(self._inputs("input", inputs), kernels)]
        if self.use_bias:
            xs = [nn_ops.bias_add(x, biases[0][i * n : (i + 1) * n]) for i, x in enumerate(xs)]
        hs = self._inputs("state", previous)

        def hidden(i: int, value: Any) -> Any:
            product = math_ops.matmul(value, recurrent[i])
            if self.reset_after and self.use_bias:
                product = nn_ops.bias_add(product, biases[1][i * n : (i + 1) * n])
            return product

        z = self.recurrent_activation(xs[0] + hidden(0, hs[0]))
        r = self.recurrent_activation(xs[1] + hidden(1, hs[1]))
        candidate = r * hidden(2, hs[2]) if self.reset_after else hidden(2, r * hs[2])
        new = self.activation(xs[2] + candidate)
        h = z * previous + (1 - z) * new
        return h, [h]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), **described(self, "recurrent_activation", "reset_after")}


class LSTMCell(GatedCell):
    """A long short-term memory: input, forget, candidate and output."""

    gates = 4

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        *args: Any,
        unit_forget_bias: bool = True,
        implementation: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, activation, *args, **kwargs)
        self.recurrent_activation = activations.get(recurrent_activation)
        self.unit_forget_bias = unit_forget_bias
        self.state_size = [units, units]

    def _make_bias(self) -> Any:
        if not self.unit_forget_bias:
            return super()._make_bias()

        def initial(shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
            n = self.units
            parts = [
                self.bias_initializer([n], dtype=dtype),  # type: ignore[attr-defined]
                init_ops.Ones()([n], dtype=dtype),
                self.bias_initializer([n * 2], dtype=dtype),  # type: ignore[attr-defined]
            ]
            return array_ops.concat(parts, 0)

        return self._weight("bias", "bias", (self.units * 4,), initial)

    def _biases(self) -> list[Any]:
        """Return the biases of the gates."""
        return list(array_ops.split(self.bias, 4, axis=0))

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """Compute the outputs and the new states of a step."""
        h, c = states
        xs = [math_ops.matmul(x, k) for x, k in zip(self._inputs("input", inputs), self._input_kernels())]
        if self.use_bias:
            xs = [nn_ops.bias_add(x, b) for x, b in zip(xs, self._biases())]
        recurrent = self._state_kernels()
        i, f, n, o = (x + math_ops.matmul(v, k) for x, v, k in zip(xs, self._inputs("state", h), recurrent))
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(n)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), **described(self, "recurrent_activation", "unit_forget_bias")}


class StackedRNNCells(Layer):
    """Cells one above the other."""

    def __init__(self, cells: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cells = list(cells)

    @property
    def state_size(self) -> Any:
        """The states of all cells."""
        return [c.state_size for c in self.cells]

    @property
    def output_size(self) -> Any:
        """How long the outputs are."""
        return getattr(self.cells[-1], "output_size", None)

    def build(self, input_shape: Any) -> None:
        """Make the cells' variables, each under its scope."""
        shape = TensorShape(input_shape).as_list()
        for cell in self.cells:
            if isinstance(cell, Layer) and not cell.built:
                with name_scope(cell.name):
                    cell.build(TensorShape(shape))
                    cell.built = True
            size = getattr(cell, "output_size", None) or nest.flatten(cell.state_size)[0]
            shape = [shape[0], size]
        self.built = True

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> Any:
        """Compute the outputs and the new states of a step."""
        new = []
        for cell, held in zip(self.cells, states):
            # Cells of `tf.nn.rnn_cell` take one state as it is.
            given = held if nest.is_nested(held) or hasattr(cell, "zero_state") else [held]
            inputs, after = cell(inputs, given)
            new.append(after if nest.is_nested(held) else after[0] if nest.is_nested(after) else after)
        return inputs, new

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "cells": [serialize_keras_object(c) for c in self.cells]}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make the layer that `get_config` described."""
        return cls(**{**config, "cells": [provided(Role.LAYER)(c, custom_objects) for c in config["cells"]]})
