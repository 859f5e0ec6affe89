"""Poolings: the largest or the mean of windows, or of whole images."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.layers.core import described
from dtfctl.runtime.keras.layers.spatial import checked_format, out_length
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops
from dtfctl.runtime.ops.input_spec import InputSpec
from dtfctl.runtime.ops.layer_arguments import sized


class _Pooling(Layer):
    """Base of poolings over `rank` axes."""

    rank = 2
    largest = True

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pool_size = sized(pool_size, self.rank, "pool_size")
        self.strides = sized(pool_size if strides is None else strides, self.rank, "strides")
        self.padding, self.data_format = padding.lower(), checked_format(data_format)
        if self.padding not in ("valid", "same"):
            raise ValueError(f'The `padding` argument must be "valid" or "same". Received: {padding}')
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        last = self.data_format == "channels_last"
        size, strides = list(self.pool_size), list(self.strides)
        x = inputs
        if self.rank == 1:
            x = array_ops.expand_dims(inputs, 2 if last else 3)
            size, strides = [*size, 1], [*strides, 1]
        wide = self.rank == 3
        function: Any = (
            (nn_ops.max_pool3d if wide else nn_ops.max_pool)
            if self.largest
            else (nn_ops.avg_pool3d if wide else nn_ops.avg_pool)
        )
        wire = ("NDHWC" if last else "NCDHW") if wide else ("NHWC" if last else "NCHW")
        outputs = function(
            x,
            ksize=[1, *size, 1] if last else [1, 1, *size],
            strides=[1, *strides, 1] if last else [1, 1, *strides],
            padding=self.padding.upper(),
            data_format=wire,
        )
        return array_ops.squeeze(outputs, [2 if last else 3]) if self.rank == 1 else outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims = TensorShape(input_shape).as_list()
        last = self.data_format == "channels_last"
        spatial = dims[1:-1] if last else dims[2:]
        sizes = [out_length(n, k, self.padding, s) for n, k, s in zip(spatial, self.pool_size, self.strides)]
        return TensorShape([dims[0], *sizes, dims[-1]] if last else [dims[0], dims[1], *sizes])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), **described(self, "pool_size", "strides", "padding", "data_format")}


class MaxPooling1D(_Pooling):
    """The largest of windows of steps."""

    rank = 1


class MaxPooling2D(_Pooling):
    """The largest of windows of images."""


class MaxPooling3D(_Pooling):
    """The largest of windows of volumes."""

    rank = 3


class AveragePooling1D(_Pooling):
    """The mean of windows of steps."""

    rank = 1
    largest = False


class AveragePooling2D(_Pooling):
    """The mean of windows of images."""

    largest = False


class AveragePooling3D(_Pooling):
    """The mean of windows of volumes."""

    rank = 3
    largest = False


class _GlobalPooling(Layer):
    """Base of poolings over whole examples: [batch, ..., channels] -> [batch, channels].

    Args:
        keepdims: leave the axes, of one element.
    """

    rank = 2
    largest = True

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format, self.input_spec = checked_format(data_format), InputSpec(ndim=self.rank + 2)
        self.keepdims = keepdims

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        begin = 1 if self.data_format == "channels_last" else 2
        axes = list(range(begin, begin + self.rank))
        reduce = math_ops.reduce_max if self.largest else math_ops.reduce_mean
        return reduce(inputs, axis=axes, keepdims=self.keepdims)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims = TensorShape(input_shape).as_list()
        last = self.data_format == "channels_last"
        kept = [1] * self.rank if self.keepdims else []
        return TensorShape([dims[0], *kept, dims[-1]] if last else [dims[0], dims[1], *kept])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "data_format": self.data_format, "keepdims": self.keepdims}


class GlobalMaxPooling1D(_GlobalPooling):
    """The largest over all steps."""

    rank = 1


class GlobalMaxPooling2D(_GlobalPooling):
    """The largest over whole images."""


class GlobalAveragePooling2D(_GlobalPooling):
    """The mean over whole images."""

    largest = False


class GlobalMaxPooling3D(_GlobalPooling):
    """The largest over whole volumes."""

    rank = 3


class GlobalAveragePooling3D(_GlobalPooling):
    """The mean over whole volumes."""

    rank = 3
    largest = False


class GlobalAveragePooling1D(_GlobalPooling):
    """The mean over all steps; masked ones do not count."""

    rank = 1
    largest = False

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(data_format, **kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the outputs for inputs."""
        if mask is None:
            return super().call(inputs)
        axis = 1 if self.data_format == "channels_last" else 2
        weights = array_ops.expand_dims(math_ops.cast(mask, inputs.dtype), 2 if axis == 1 else 1)
        total, count = (
            math_ops.reduce_sum(each, axis=axis, keepdims=self.keepdims) for each in (inputs * weights, weights)
        )
        return total / count

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs: there is none."""
        return None


MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D = GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D
GlobalAvgPool1D, GlobalAvgPool2D = GlobalAveragePooling1D, GlobalAveragePooling2D
GlobalAvgPool3D = GlobalAveragePooling3D
