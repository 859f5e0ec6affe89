"""Convolutions of each channel by itself."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.keras import constraints, initializers, regularizers
from dtfctl.runtime.keras.layers.convolutional import Conv
from dtfctl.runtime.keras.layers.core import described, last_size
from dtfctl.runtime.ops import array_ops, nn_ops


class DepthwiseConv(Conv):
    """Base of convolutions of each channel by itself, of `rank` axes."""

    depthwise_kernel: Any

    def __init__(
        self,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            filters=None,
            kernel_size=kernel_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            dilation_rate=dilation_rate,
            activation=activation,
            use_bias=use_bias,
            bias_initializer=bias_initializer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            bias_constraint=bias_constraint,
            **kwargs,
        )
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = self.kernel_initializer = initializers.get(depthwise_initializer)
        self.depthwise_regularizer = self.kernel_regularizer = regularizers.get(depthwise_regularizer)
        self.depthwise_constraint = self.kernel_constraint = constraints.get(depthwise_constraint)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        channels = last_size(input_shape, self._channel_axis)
        self.filters = channels * self.depth_multiplier
        self._add_kernel("depthwise_kernel", (*self.kernel_size, channels, self.depth_multiplier))
        self._add_bias(self.filters)
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        config = super().get_config()
        for name in ("filters", "kernel_initializer", "kernel_regularizer", "kernel_constraint"):
            config.pop(name)
        names = ("depth_multiplier", "depthwise_initializer", "depthwise_regularizer", "depthwise_constraint")
        return {**config, **described(self, *names)}


class DepthwiseConv2D(DepthwiseConv):
    """Convolve each channel by itself: -> [batch, new_height, new_width, channels * depth_multiplier]."""

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        last = self.data_format == "channels_last"
        outputs = nn_ops.depthwise_conv2d(
            inputs,
            convert_to_tensor(self.depthwise_kernel),
            [1, *self.strides, 1] if last else [1, 1, *self.strides],
            self.padding.upper(),
            rate=list(self.dilation_rate),
            data_format=self._wire(2),
        )
        return self._finish(outputs)


class DepthwiseConv1D(DepthwiseConv):
    """Convolve each channel by itself: -> [batch, new_steps, channels * depth_multiplier]."""

    rank = 1

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        last = self.data_format == "channels_last"
        inputs, padding = self._padded(inputs)
        axis = 1 if last else 2
        outputs = nn_ops.depthwise_conv2d(
            array_ops.expand_dims(inputs, axis),
            array_ops.expand_dims(convert_to_tensor(self.depthwise_kernel), 0),
            [1, *self.strides * 2, 1] if last else [1, 1, *self.strides * 2],
            padding.upper(),
            rate=[1, *self.dilation_rate],
            data_format=self._wire(2),
        )
        return self._finish(outputs, squeezed=axis)
