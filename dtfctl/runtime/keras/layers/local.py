"""Convolutions whose kernel is another at each place."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras.backend.convolving import local_conv
from dtfctl.runtime.keras.layers.convolutional import Conv
from dtfctl.runtime.keras.layers.core import described, last_size
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.input_spec import InputSpec


class LocallyConnected(Conv):
    """Base of convolutions with a kernel of its own for each place, of `rank` axes.

    Args:
        implementation: what form the kernel has: 1 for one matrix a place, 2 for a matrix of all inputs by all outputs
            whose other entries count for nothing, 3 for the entries of that matrix that count.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        implementation: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
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
        if implementation not in (1, 2, 3):
            raise ValueError(f"Unrecognized implementation mode: {implementation}.")
        if self.padding != "valid" and implementation == 1:
            raise ValueError(
                f'Invalid border mode for {type(self).__name__} (only "valid" is supported if implementation is 1): '
                f"{padding}"
            )
        self.implementation = implementation

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        channels = last_size(input_shape, self._channel_axis)
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={self._channel_axis: channels})
        self._channels = channels
        first = 1 if self.data_format == "channels_last" else 2
        self._spatial = [last_size(input_shape, first + i) for i in range(self.rank)]
        grown = TensorShape(self.compute_output_shape(input_shape)).as_list()[first : first + self.rank]
        self._grown = [int(n or 0) for n in grown]
        if min(self._grown) <= 0:
            raise ValueError(
                f"One of the dimensions in the output is <= 0 due to downsampling in {self.name}. Consider increasing "
                f"the input size. Received input shape {input_shape}"
            )
        filters = self.filters or 0
        if self.implementation == 1:
            places, reach = int(np.prod(self._grown)), int(np.prod(self.kernel_size))
            self._add_kernel("kernel", (places, reach * channels, filters))
        elif self.implementation == 2:
            self._mask = self._ordered(self._connected()[..., None, None]).astype(np.float32)
            shape = self._ordered(np.zeros([*self._spatial, *self._grown, channels, filters], np.bool_)).shape
            self._add_kernel("kernel", shape)
        else:
            all_of = np.broadcast_to(
                self._connected()[..., None, None], [*self._spatial, *self._grown, channels, filters]
            )
            inputs = int(np.prod(self._spatial)) * channels
            whole = self._ordered(all_of).reshape([inputs, -1])
            # Row by row of outputs, as TensorFlow has the entries.
            self._entries = np.argwhere(whole.T)
            self._add_kernel("kernel", (len(self._entries),))
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                (*self._grown, filters),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.built = True

    def _connected(self) -> Any:
        """Say which place of the inputs each place of the outputs sees: [*inputs, *outputs]."""
        found = np.zeros([*self._spatial, *self._grown], np.bool_)
        for place in itertools.product(*(range(n) for n in self._grown)):
            seen = []
            for at, length, size, stride in zip(place, self._spatial, self.kernel_size, self.strides):
                left = at * stride
                if self.padding == "same":
                    left -= size // 2
                    seen.append(range(max(0, left), min(length, left + size)))
                else:
                    seen.append(range(left, left + size))
            for other in itertools.product(*seen):
                found[(*other, *place)] = True
        return found

    def _ordered(self, values: Any) -> Any:
        """Put [*inputs, *outputs, channels, filters] in the order that the data have."""
        n = self.rank
        inputs, outputs, channels, filters = range(n), range(n, 2 * n), 2 * n, 2 * n + 1
        last = self.data_format == "channels_last"
        order = [*inputs, channels, *outputs, filters] if last else [channels, *inputs, filters, *outputs]
        return values.transpose(order)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        last = self.data_format == "channels_last"
        dims = [*self._grown, self.filters or 0] if last else [self.filters or 0, *self._grown]
        if self.implementation == 1:
            outputs = local_conv(inputs, self.kernel, self.kernel_size, self.strides, self._grown, self.data_format)
        else:
            flat = array_ops.reshape(inputs, [-1, int(np.prod(inputs.shape.as_list()[1:]))])
            outputs = array_ops.reshape(math_ops.matmul(flat, self._matrix()), [-1, *dims])
        if self.use_bias:
            order = [*range(self.rank + 1)] if last else [self.rank, *range(self.rank)]
            outputs = outputs + array_ops.expand_dims(array_ops.transpose(self.bias, order), 0)
        return outputs if self.activation is None else self.activation(outputs)

    def _matrix(self) -> Any:
        """Make the matrix of all inputs by all outputs."""
        outputs = int(np.prod(self._grown)) * (self.filters or 0)
        kernel = convert_to_tensor(self.kernel)
        if self.implementation == 2:
            return array_ops.reshape(self._mask * kernel, [-1, outputs])
        inputs = int(np.prod(self._spatial)) * self._channels
        return array_ops.transpose(array_ops.scatter_nd(self._entries, kernel, [outputs, inputs]))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        config = super().get_config()
        for name in ("dilation_rate", "groups"):
            config.pop(name)
        return {**config, **described(self, "implementation")}


class LocallyConnected1D(LocallyConnected):
    """Convolve steps with a kernel of its own for each place."""

    rank = 1


class LocallyConnected2D(LocallyConnected):
    """Convolve images with a kernel of its own for each place."""
