"""Convolutions that are transposed: they make axes longer."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras.layers.convolutional import Conv
from dtfctl.runtime.ops import array_ops, nn_ops
from dtfctl.runtime.ops.layer_arguments import grown_length, sized


class ConvTranspose(Conv):
    """Base of transposed convolutions, of `rank` axes.

    Args:
        output_padding: how much longer an axis is made than it need be; as long as strides make it when None.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        groups: int = 1,
        **kwargs: Any,
    ) -> None:
        if groups != 1:
            raise NotImplementedError(f"{type(self).__name__} has one group here: use several layers, and concatenate")
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            groups=groups,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            **kwargs,
        )
        if self.padding == "causal":
            raise ValueError(f'The `padding` argument must be "valid" or "same". Received: {padding}')
        self.output_padding = None if output_padding is None else sized(output_padding, self.rank, "output_padding")
        for stride, more in zip(self.strides, self.output_padding or ()):
            if stride <= more:
                raise ValueError(
                    f"Strides must be greater than output padding. Received strides={self.strides}, "
                    f"output_padding={self.output_padding}."
                )

    def _kernel_shape(self, channels: int) -> tuple[int, ...]:
        return (*self.kernel_size, self.filters or 0, channels)

    def _grown(self, length: Any, axis: int) -> Any:
        if length is None:
            return None
        size, stride = (self.kernel_size[axis] - 1) * self.dilation_rate[axis] + 1, self.strides[axis]
        if self.output_padding is None:
            return grown_length(length, size, stride, self.padding)
        cut = 2 * (size // 2) if self.padding == "same" else 0
        return (length - 1) * stride + size - cut + self.output_padding[axis]

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        last = self.data_format == "channels_last"
        first = 1 if last else 2
        known, dynamic = inputs.shape.as_list(), array_ops.shape(inputs)
        grown = [self._grown(known[first + i] or dynamic[first + i], i) for i in range(self.rank)]
        dims = [dynamic[0], *grown, self.filters] if last else [dynamic[0], self.filters, *grown]
        transpose = (nn_ops.conv1d_transpose, nn_ops.conv2d_transpose, nn_ops.conv3d_transpose)[self.rank - 1]
        outputs = transpose(
            inputs,
            convert_to_tensor(self.kernel),
            array_ops.stack(dims),
            [1, *self.strides, 1] if last else [1, 1, *self.strides],
            self.padding.upper(),
            self._wire(self.rank),
            dilations=[1, *self.dilation_rate, 1] if last else [1, 1, *self.dilation_rate],
        )
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._finish(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims = TensorShape(input_shape).as_list()
        last = self.data_format == "channels_last"
        sizes = [self._grown(n, i) for i, n in enumerate(dims[1:-1] if last else dims[2:])]
        return TensorShape([dims[0], *sizes, self.filters] if last else [dims[0], self.filters, *sizes])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "output_padding": self.output_padding}


class Conv1DTranspose(ConvTranspose):
    """Convolve transposed: [batch, steps, channels] -> longer sequences of `filters` channels."""

    rank = 1


class Conv2DTranspose(ConvTranspose):
    """Convolve transposed: [batch, height, width, channels] -> larger images of `filters` channels."""


class Conv3DTranspose(ConvTranspose):
    """Convolve transposed: [batch, depth, height, width, channels] -> larger volumes of `filters` channels."""

    rank = 3


Convolution1DTranspose, Convolution2DTranspose = Conv1DTranspose, Conv2DTranspose
Convolution3DTranspose = Conv3DTranspose
