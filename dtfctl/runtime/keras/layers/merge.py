"""Layers of several inputs."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras.backend.numeric import batch_dot
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops


class _Merge(Layer):
    """Base of layers that join inputs element by element."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 1:
            raise ValueError("A merge layer should be called on a list of inputs.")
        rank = max(t.shape.rank or 0 for t in inputs)
        out = None
        for t in inputs:
            while (t.shape.rank or 0) < rank:
                t = array_ops.expand_dims(t, 1)
            out = t if out is None else self._join(out, t)
        return out

    def _join(self, a: Any, b: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say how two inputs are joined")

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs: where all inputs have one and are kept."""
        masks = mask if isinstance(mask, (list, tuple)) else []
        if not masks or any(m is None for m in masks):
            return None
        out = masks[0]
        for m in masks[1:]:
            out = math_ops.logical_and(out, m)
        return out

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        return TensorShape(input_shape[0])


class Add(_Merge):
    """The sum of inputs."""

    def _join(self, a: Any, b: Any) -> Any:
        return a + b


class Subtract(_Merge):
    """The difference of two inputs."""

    def _join(self, a: Any, b: Any) -> Any:
        return a - b


class Multiply(_Merge):
    """The product of inputs."""

    def _join(self, a: Any, b: Any) -> Any:
        return a * b


class Maximum(_Merge):
    """The largest of inputs."""

    def _join(self, a: Any, b: Any) -> Any:
        return math_ops.maximum(a, b)


class Minimum(_Merge):
    """The smallest of inputs."""

    def _join(self, a: Any, b: Any) -> Any:
        return math_ops.minimum(a, b)


class Average(Add):
    """The mean of inputs."""

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return super().call(inputs) / len(inputs)


class Concatenate(_Merge):
    """Inputs one after the other along an axis."""

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise ValueError("A `Concatenate` layer should be called on a list of at least 2 inputs")
        return array_ops.concat(list(inputs), self.axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs: none, unless all inputs have one and other axes are joined."""
        masks = mask if isinstance(mask, (list, tuple)) else []
        rank = inputs[0].shape.rank
        if not masks or any(m is None for m in masks) or self.axis % rank != rank - 1:
            return None
        return super().compute_mask(inputs, mask)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims = [TensorShape(s).as_list() for s in input_shape]
        sizes: list[Any] = [d[self.axis] for d in dims]
        dims[0][self.axis] = None if None in sizes else sum(sizes)
        return TensorShape(dims[0])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "axis": self.axis}


class Dot(_Merge):
    """The products of two inputs' examples over an axis of each."""

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axes, self.normalize = axes, normalize

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        a, b = inputs
        first, second = (self.axes, self.axes) if isinstance(self.axes, int) else self.axes
        if self.normalize:
            a, b = nn_ops.l2_normalize(a, axis=first), nn_ops.l2_normalize(b, axis=second)
        return batch_dot(a, b, [first, second])

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs: there is none."""
        return None

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "axes": self.axes, "normalize": self.normalize}


def add(inputs: Any, **kwargs: Any) -> Any:
    """Add inputs."""
    return Add(**kwargs)(inputs)


def subtract(inputs: Any, **kwargs: Any) -> Any:
    """Subtract the second input from the first."""
    return Subtract(**kwargs)(inputs)


def multiply(inputs: Any, **kwargs: Any) -> Any:
    """Multiply inputs."""
    return Multiply(**kwargs)(inputs)


def maximum(inputs: Any, **kwargs: Any) -> Any:
    """Find the largest of inputs."""
    return Maximum(**kwargs)(inputs)


def minimum(inputs: Any, **kwargs: Any) -> Any:
    """Find the smallest of inputs."""
    return Minimum(**kwargs)(inputs)


def average(inputs: Any, **kwargs: Any) -> Any:
    """Average inputs."""
    return Average(**kwargs)(inputs)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Any:
    """Join inputs along an axis."""
    return Concatenate(axis=axis, **kwargs)(inputs)


def dot(inputs: Any, axes: Any, normalize: bool = False, **kwargs: Any) -> Any:
    """Multiply two inputs' examples over an axis of each."""
    return Dot(axes=axes, normalize=normalize, **kwargs)(inputs)
