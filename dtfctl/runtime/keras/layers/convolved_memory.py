"""Long short-term memories whose gates are convolutions."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras.layers.core import described, last_size
from dtfctl.runtime.keras.layers.recurrent import _CellLayer
from dtfctl.runtime.keras.layers.recurrent_cells import LSTMCell
from dtfctl.runtime.keras.layers.spatial import checked_format, out_length
from dtfctl.runtime.ops import array_ops, nn_ops
from dtfctl.runtime.ops.layer_arguments import sized


class ConvLSTMCell(LSTMCell):
    """Base of long short-term memories whose gates are convolutions of inputs and of the state, over `rank` axes."""

    rank = 2

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
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
        super().__init__(
            filters,
            activation,
            recurrent_activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            unit_forget_bias=unit_forget_bias,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            **kwargs,
        )
        self.filters = filters
        self.kernel_size = sized(kernel_size, self.rank, "kernel_size")
        self.strides = sized(strides, self.rank, "strides")
        self.padding = padding.lower()
        if self.padding not in ("valid", "same"):
            raise ValueError(f'The `padding` argument must be "valid" or "same". Received: {padding}')
        self.data_format = checked_format(data_format)
        self.dilation_rate = sized(dilation_rate, self.rank, "dilation_rate")

    def build(self, input_shape: Any) -> None:
        """Make kernels and bias, and learn how large the states are."""
        last = self.data_format == "channels_last"
        channels = last_size(input_shape, -1 if last else 1)
        first = 1 if last else 2
        lengths = [last_size(input_shape, first + i) for i in range(self.rank)]
        grown = [
            out_length(n, k, self.padding, s, d)
            for n, k, s, d in zip(lengths, self.kernel_size, self.strides, self.dilation_rate)
        ]
        shape = TensorShape([*grown, self.filters] if last else [self.filters, *grown])
        self.state_size, self.output_size = [shape, shape], shape.as_list()
        size = self.filters * self.gates
        self.kernel = self._weight("kernel", "kernel", (*self.kernel_size, channels, size))
        self.recurrent_kernel = self._weight("recurrent_kernel", "recurrent", (*self.kernel_size, self.filters, size))
        if self.use_bias:
            self.bias = self._make_bias()
        self.built = True

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Make states of zeros."""
        if inputs is not None:
            batch_size, dtype = array_ops.shape(inputs)[0], inputs.dtype
        dims = array_ops.stack([batch_size, *self.state_size[0].as_list()])
        return [array_ops.zeros(dims, dtype) for _ in range(2)]

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        """Compute the outputs and the new states of a step."""
        h, c = states
        last = ("NWC", "NHWC", "NDHWC")[self.rank - 1]
        wire = last if self.data_format == "channels_last" else f"NC{last[1:-1]}"
        xs = [
            nn_ops.convolution(
                x,
                kernel,
                padding=self.padding.upper(),
                strides=list(self.strides),
                dilation_rate=list(self.dilation_rate),
                data_format=wire,
            )
            for x, kernel in zip(self._inputs("input", inputs), array_ops.split(self.kernel, 4, axis=-1))
        ]
        if self.use_bias:
            biases = array_ops.split(self.bias, 4, axis=0)
            xs = [nn_ops.bias_add(x, bias, data_format=wire) for x, bias in zip(xs, biases)]
        hs = [
            nn_ops.convolution(value, kernel, padding="SAME", strides=[1] * self.rank, data_format=wire)
            for value, kernel in zip(self._inputs("state", h), array_ops.split(self.recurrent_kernel, 4, axis=-1))
        ]
        i, f, n, o = (x + value for x, value in zip(xs, hs))
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(n)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        config = super().get_config()
        config.pop("units")
        return {
            **config,
            **described(self, "filters", "kernel_size", "strides", "padding", "data_format", "dilation_rate"),
        }


class ConvLSTM1DCell(ConvLSTMCell):
    """A long short-term memory of sequences."""

    rank = 1


class ConvLSTM2DCell(ConvLSTMCell):
    """A long short-term memory of images."""


class ConvLSTM3DCell(ConvLSTMCell):
    """A long short-term memory of volumes."""

    rank = 3


class _ConvLSTM(_CellLayer):
    _scopes_cell = False

    def __init__(self, filters: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(filters, *args, **kwargs)


class ConvLSTM1D(_ConvLSTM):
    """A long short-term memory over sequences: [batch, steps, length, channels] -> [..., filters]."""

    cell_class = ConvLSTM1DCell


class ConvLSTM2D(_ConvLSTM):
    """A long short-term memory over images: [batch, steps, height, width, channels] -> [..., filters]."""

    cell_class = ConvLSTM2DCell


class ConvLSTM3D(_ConvLSTM):
    """A long short-term memory over volumes: [batch, steps, depth, height, width, channels] -> [..., filters]."""

    cell_class = ConvLSTM3DCell
