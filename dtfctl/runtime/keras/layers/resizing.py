"""Layers that make images and steps larger or smaller: padding, cropping, repeating."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.layers.core import described
from dtfctl.runtime.keras.layers.spatial import checked_format
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.image_ops import resizing
from dtfctl.runtime.ops.input_spec import InputSpec
from dtfctl.runtime.ops.layer_arguments import sized


class ZeroPadding2D(Layer):
    """Pad images with zeros: one number, (height, width), or ((top, bottom), (left, right))."""

    def __init__(self, padding: Any = (1, 1), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        pair = (padding, padding) if isinstance(padding, int) else padding
        self.padding = tuple((p, p) if isinstance(p, int) else tuple(p) for p in pair)
        self.data_format, self.input_spec = checked_format(data_format), InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        middle = [list(p) for p in self.padding]
        last = self.data_format == "channels_last"
        return array_ops.pad(inputs, [[0, 0], *middle, [0, 0]] if last else [[0, 0], [0, 0], *middle])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "padding": self.padding, "data_format": self.data_format}


class ZeroPadding1D(Layer):
    """Pad steps with zeros."""

    def __init__(self, padding: Any = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.padding, self.input_spec = sized(padding, 2, "padding"), InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return array_ops.pad(inputs, [[0, 0], list(self.padding), [0, 0]])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "padding": self.padding}


class UpSampling2D(Layer):
    """Repeat rows and columns of images."""

    def __init__(
        self, size: Any = (2, 2), data_format: str | None = None, interpolation: str = "nearest", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.size, self.data_format = sized(size, 2, "size"), checked_format(data_format)
        self.interpolation, self.input_spec = interpolation, InputSpec(ndim=4)
        if interpolation not in ("nearest", "bilinear"):
            raise ValueError('`interpolation` argument should be one of `"nearest"` or `"bilinear"`.')

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        last = self.data_format == "channels_last"
        x = inputs if last else array_ops.transpose(inputs, [0, 2, 3, 1])
        known = x.shape.as_list()[1:3]
        sizes = array_ops.shape(x)[1:3] * convert_to_tensor(list(self.size))
        nearest = self.interpolation == "nearest"
        resize = resizing.resize_nearest_neighbor if nearest else resizing.resize_bilinear
        x = resize(x, sizes, half_pixel_centers=True)
        x.set_shape([None, *(None if n is None else n * s for n, s in zip(known, self.size)), None])
        return x if last else array_ops.transpose(x, [0, 3, 1, 2])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), **described(self, "size", "data_format", "interpolation")}


class UpSampling1D(Layer):
    """Repeat steps."""

    def __init__(self, size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size, self.input_spec = int(size), InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return array_ops.repeat(inputs, self.size, axis=1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "size": self.size}


class Cropping2D(Layer):
    """Cut rows and columns off images."""

    def __init__(self, cropping: Any = ((0, 0), (0, 0)), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        pair = (cropping, cropping) if isinstance(cropping, int) else cropping
        self.cropping = tuple((c, c) if isinstance(c, int) else tuple(c) for c in pair)
        self.data_format, self.input_spec = checked_format(data_format), InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        (top, bottom), (left, right) = self.cropping
        rows, columns = slice(top, -bottom or None), slice(left, -right or None)
        return inputs[:, rows, columns, :] if self.data_format == "channels_last" else inputs[:, :, rows, columns]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "cropping": self.cropping, "data_format": self.data_format}


class Cropping1D(Layer):
    """Cut steps off."""

    def __init__(self, cropping: Any = (1, 1), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cropping, self.input_spec = sized(cropping, 2, "cropping"), InputSpec(ndim=3)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        first, last = self.cropping
        return inputs[:, first : -last or None, :]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "cropping": self.cropping}


def _ends(value: Any) -> tuple[tuple[int, ...], ...]:
    """Write a number, one for each axis or pairs as what is done to both ends of each of three axes."""
    three = (value,) * 3 if isinstance(value, int) else value
    return tuple((v, v) if isinstance(v, int) else tuple(v) for v in three)


class ZeroPadding3D(Layer):
    """Pad volumes with zeros: one number, one for each axis, or pairs for both ends of each."""

    def __init__(self, padding: Any = (1, 1, 1), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.padding = _ends(padding)
        self.data_format, self.input_spec = checked_format(data_format), InputSpec(ndim=5)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        middle = [list(p) for p in self.padding]
        last = self.data_format == "channels_last"
        return array_ops.pad(inputs, [[0, 0], *middle, [0, 0]] if last else [[0, 0], [0, 0], *middle])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "padding": self.padding, "data_format": self.data_format}


class Cropping3D(Layer):
    """Cut slices off volumes."""

    def __init__(self, cropping: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cropping = _ends(cropping)
        self.data_format, self.input_spec = checked_format(data_format), InputSpec(ndim=5)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        a, b, c = (slice(first, -last or None) for first, last in self.cropping)
        return inputs[:, a, b, c, :] if self.data_format == "channels_last" else inputs[:, :, a, b, c]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "cropping": self.cropping, "data_format": self.data_format}


class UpSampling3D(Layer):
    """Repeat the slices of volumes along each axis."""

    def __init__(self, size: Any = (2, 2, 2), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size, self.data_format = sized(size, 3, "size"), checked_format(data_format)
        self.input_spec = InputSpec(ndim=5)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        begin = 1 if self.data_format == "channels_last" else 2
        for axis, times in enumerate(self.size, begin):
            inputs = array_ops.repeat(inputs, times, axis=axis)
        return inputs

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), **described(self, "size", "data_format")}
