"""Convolutions of each channel by itself that then mix the channels."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.keras import constraints, initializers, regularizers
from dtfctl.runtime.keras.layers.convolutional import Conv
from dtfctl.runtime.keras.layers.core import described, last_size
from dtfctl.runtime.ops import array_ops, nn_ops


class SeparableConv(Conv):
    """Base of convolutions of each channel by itself that then mix the channels, of `rank` axes."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation=activation,
            use_bias=use_bias,
            bias_initializer=bias_initializer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            bias_constraint=bias_constraint,
            **kwargs,
        )
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.pointwise_initializer = initializers.get(pointwise_initializer)
        self.depthwise_regularizer = regularizers.get(depthwise_regularizer)
        self.pointwise_regularizer = regularizers.get(pointwise_regularizer)
        self.depthwise_constraint = constraints.get(depthwise_constraint)
        self.pointwise_constraint = constraints.get(pointwise_constraint)

    def build(self, input_shape: Any) -> None:
        """Make kernels and bias."""
        channels = last_size(input_shape, self._channel_axis)
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        mixed = (*[1] * self.rank, channels * self.depth_multiplier, self.filters)
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel",
            shape,
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel",
            mixed,
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
        )
        self._add_bias(self.filters or 0)
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        names = ("depth_multiplier", "depthwise_initializer", "pointwise_initializer", "depthwise_regularizer")
        more = ("pointwise_regularizer", "depthwise_constraint", "pointwise_constraint")
        return {**super().get_config(), **described(self, *names, *more)}


class SeparableConv2D(SeparableConv):
    """Convolve each channel of images by itself, then mix the channels."""

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        last = self.data_format == "channels_last"
        outputs = nn_ops.separable_conv2d(
            inputs,
            convert_to_tensor(self.depthwise_kernel),
            convert_to_tensor(self.pointwise_kernel),
            strides=[1, *self.strides, 1] if last else [1, 1, *self.strides],
            padding=self.padding.upper(),
            rate=list(self.dilation_rate),
            data_format=self._wire(2),
        )
        return self._finish(outputs)


class SeparableConv1D(SeparableConv):
    """Convolve each channel of steps by itself, then mix the channels."""

    rank = 1

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        last = self.data_format == "channels_last"
        inputs, padding = self._padded(inputs)
        images = array_ops.expand_dims(inputs, 1 if last else 2)
        outputs = nn_ops.separable_conv2d(
            images,
            array_ops.expand_dims(convert_to_tensor(self.depthwise_kernel), 0),
            array_ops.expand_dims(convert_to_tensor(self.pointwise_kernel), 0),
            strides=[1, *self.strides * 2, 1] if last else [1, 1, *self.strides * 2],
            padding=padding.upper(),
            rate=[1, *self.dilation_rate],
            data_format=self._wire(2),
        )
        return self._finish(outputs, squeezed=1 if last else 2)


SeparableConvolution1D, SeparableConvolution2D = SeparableConv1D, SeparableConv2D
