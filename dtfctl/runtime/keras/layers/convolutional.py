"""Convolutions."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import activations, constraints, initializers, regularizers
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.layers.core import described, last_size
from dtfctl.runtime.keras.layers.spatial import checked_format, out_length
from dtfctl.runtime.ops import array_ops, nn_ops
from dtfctl.runtime.ops.input_spec import InputSpec
from dtfctl.runtime.ops.layer_arguments import sized


class Conv(Layer):
    """Base of convolutions, of `rank` axes."""

    rank = 2
    kernel: Any

    def __init__(
        self,
        filters: int | None,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._activity_regularizer = regularizers.get(activity_regularizer)
        if groups is None or groups <= 0:
            raise ValueError(f"The number of groups must be a positive integer. Received: groups={groups}.")
        if filters is not None and filters % groups:
            raise ValueError(
                "The number of filters must be evenly divisible by the number of groups. Received: "
                f"groups={groups}, filters={filters}."
            )
        self.filters, self.use_bias, self.groups = filters, use_bias, groups
        self.kernel_size = sized(kernel_size, self.rank, "kernel_size")
        self.strides = sized(strides, self.rank, "strides")
        self.padding = padding.lower()
        if self.padding not in ("valid", "same") and not (self.rank == 1 and self.padding == "causal"):
            raise ValueError(
                f'The `padding` argument must be "valid" or "same" ("causal" for Conv1D). Received: {padding}'
            )
        self.data_format = checked_format(data_format)
        self.dilation_rate = sized(dilation_rate, self.rank, "dilation_rate")
        self.activation = activations.get(activation)
        self.kernel_initializer, self.bias_initializer = (
            initializers.get(kernel_initializer),
            initializers.get(bias_initializer),
        )
        self.kernel_regularizer, self.bias_regularizer = (
            regularizers.get(kernel_regularizer),
            regularizers.get(bias_regularizer),
        )
        self.kernel_constraint, self.bias_constraint = (
            constraints.get(kernel_constraint),
            constraints.get(bias_constraint),
        )
        self.input_spec = InputSpec(ndim=self.rank + 2)
        self.bias: Any = None

    @property
    def _channel_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else 1

    def _kernel_shape(self, channels: int) -> tuple[int, ...]:
        if channels % self.groups:
            raise ValueError(
                "The number of input channels must be evenly divisible by the number of groups. Received "
                f"groups={self.groups}, but the input has {channels} channels."
            )
        return (*self.kernel_size, channels // self.groups, self.filters or 0)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        channels = last_size(input_shape, self._channel_axis)
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={self._channel_axis: channels})
        self._add_kernel("kernel", self._kernel_shape(channels))
        self._add_bias(self.filters or 0)
        self.built = True

    def _add_kernel(self, name: str, shape: Any) -> None:
        made = self.add_weight(
            name,
            shape,
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        setattr(self, name, made)

    def _add_bias(self, size: int) -> None:
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                [size],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def _padded(self, inputs: Any) -> tuple[Any, str]:
        """Pad steps for a causal convolution; how the convolution itself pads."""
        if self.padding != "causal":
            return inputs, self.padding
        left = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        last = self.data_format == "channels_last"
        return array_ops.pad(inputs, [[0, 0], [left, 0], [0, 0]] if last else [[0, 0], [0, 0], [left, 0]]), "valid"

    def _finish(self, outputs: Any, squeezed: int | None = None) -> Any:
        if self.use_bias:
            outputs = nn_ops.bias_add(outputs, self.bias, data_format=self._wire(2))
        if squeezed is not None:
            outputs = array_ops.squeeze(outputs, [squeezed])
        return outputs if self.activation is None else self.activation(outputs)

    def _wire(self, rank: int) -> str:
        last = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
        first = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
        return (last if self.data_format == "channels_last" else first)[rank]

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        inputs, padding = self._padded(inputs)
        outputs = nn_ops.convolution(
            inputs,
            convert_to_tensor(self.kernel),
            padding=padding.upper(),
            strides=list(self.strides),
            dilation_rate=list(self.dilation_rate),
            data_format=self._wire(self.rank),
        )
        return self._finish(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims = TensorShape(input_shape).as_list()
        last = self.data_format == "channels_last"
        spatial = dims[1:-1] if last else dims[2:]
        padding = "same" if self.padding == "causal" else self.padding
        sizes = [
            out_length(n, k, padding, s, d)
            for n, k, s, d in zip(spatial, self.kernel_size, self.strides, self.dilation_rate)
        ]
        return TensorShape([dims[0], *sizes, self.filters] if last else [dims[0], self.filters, *sizes])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        names = (
            "filters",
            "kernel_size",
            "strides",
            "padding",
            "data_format",
            "dilation_rate",
            "groups",
            "activation",
            "use_bias",
        )
        more = ("kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer")
        rest = ("activity_regularizer", "kernel_constraint", "bias_constraint")
        return {**super().get_config(), **described(self, *names, *more, *rest)}


class Conv1D(Conv):
    """Convolve over steps: [batch, steps, channels] -> [batch, new_steps, filters]."""

    rank = 1


class Conv2D(Conv):
    """Convolve images: [batch, height, width, channels] -> [batch, new_height, new_width, filters]."""


class Conv3D(Conv):
    """Convolve volumes: [batch, depth, height, width, channels] -> [..., filters]."""

    rank = 3


Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
