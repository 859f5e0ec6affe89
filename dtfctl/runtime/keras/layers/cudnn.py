"""Recurrent layers whose variables lie as cuDNN has them; they run on every device, as the others do."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.keras.layers.core import described
from dtfctl.runtime.keras.layers.recurrent import _CellLayer, per_gate
from dtfctl.runtime.keras.layers.recurrent_cells import GRUCell, LSTMCell
from dtfctl.runtime.ops import array_ops, init_ops

_CONFIG = (
    *("units", "kernel_initializer", "recurrent_initializer", "bias_initializer", "kernel_regularizer"),
    *("recurrent_regularizer", "bias_regularizer", "kernel_constraint", "recurrent_constraint", "bias_constraint"),
)


class _CuDNNCell:
    """What cells have in common whose kernels are written for each gate as [units, inputs], row after row."""

    units: int
    gates: int
    kernel: Any
    recurrent_kernel: Any

    def _input_kernels(self) -> list[Any]:
        size = self.kernel.shape.as_list()[0]
        parts = array_ops.split(self.kernel, self.gates, axis=1)
        return [array_ops.transpose(array_ops.reshape(part, [self.units, size])) for part in parts]

    def _state_kernels(self) -> list[Any]:
        return [array_ops.transpose(part) for part in array_ops.split(self.recurrent_kernel, self.gates, axis=1)]


class _CuDNNLSTMCell(_CuDNNCell, LSTMCell):
    def __init__(self, units: int, unit_forget_bias: bool = True, **kwargs: Any) -> None:
        super().__init__(units, recurrent_activation="sigmoid", unit_forget_bias=unit_forget_bias, **kwargs)

    def _make_bias(self) -> Any:
        zeros: Any = self.bias_initializer  # type: ignore[attr-defined]

        def initial(shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
            n = self.units
            parts = [zeros([n * 5], dtype=dtype), init_ops.Ones()([n], dtype=dtype), zeros([n * 2], dtype=dtype)]
            return array_ops.concat(parts, 0)

        return self._weight("bias", "bias", (self.units * 8,), initial if self.unit_forget_bias else None)

    def _biases(self) -> list[Any]:
        parts = array_ops.split(self.bias, 8, axis=0)
        return [of_input + of_state for of_input, of_state in zip(parts[:4], parts[4:])]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return described(self, *_CONFIG, "unit_forget_bias")


class _CuDNNGRUCell(_CuDNNCell, GRUCell):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, recurrent_activation="sigmoid", reset_after=True, **kwargs)

    def _make_bias(self) -> Any:
        return self._weight("bias", "bias", (self.units * 6,))

    def _biases(self) -> list[Any]:
        return list(array_ops.split(self.bias, 2, axis=0))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return described(self, *_CONFIG)


def _for_cudnn(kernel: Any) -> Any:
    """Write a kernel of inputs, [inputs, units], as cuDNN has it: [units, inputs], row after row."""
    return kernel.T.reshape(kernel.shape)


class _CuDNNLayer(_CellLayer):
    _scopes_cell = False

    def call(
        self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None, constants: Any = None
    ) -> Any:
        """Compute the outputs for inputs."""
        if mask is not None:
            raise ValueError(f"Masking is not supported for {type(self).__name__}: use LSTM or GRU")
        return super().call(inputs, None, training, initial_state, constants)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        config = super().get_config()
        config.pop("unroll")
        return config


class CuDNNLSTM(_CuDNNLayer):
    """A layer of long short-term memories with variables as cuDNN has them: two biases, [8 * units]."""

    cell_class = _CuDNNLSTMCell

    def _adapted(self, values: list[Any]) -> list[Any]:
        if len(values) != 3 or values[2].shape != (4 * self.cell.units,):
            return values
        kernel, recurrent, bias = values
        halves = np.tile(0.5 * bias, 2)
        return [per_gate(kernel, 4, _for_cudnn), per_gate(recurrent, 4, np.transpose), halves]

    def __init__(
        self,
        units: int,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            unit_forget_bias=unit_forget_bias,
            **kwargs,
        )


class CuDNNGRU(_CuDNNLayer):
    """A layer of gated recurrent units with variables as cuDNN has them: two biases, [6 * units]."""

    cell_class = _CuDNNGRUCell

    def _adapted(self, values: list[Any]) -> list[Any]:
        units = self.cell.units
        if len(values) == 3 and values[2].shape == (3 * units,):
            raise ValueError(f"The weights of a GRU with reset_after=False do not fit {self.name}")
        if len(values) != 3 or values[2].shape != (2, 3 * units):
            return values
        kernel, recurrent, bias = values
        return [per_gate(kernel, 3, _for_cudnn), per_gate(recurrent, 3, np.transpose), bias.reshape(-1)]

    def __init__(
        self,
        units: int,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            **kwargs,
        )
