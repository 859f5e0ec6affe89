"""Shapes of tensors, and tensors in other shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras.backend.settings import floatx, image_data_format
from dtfctl.runtime.keras.backend.values import to_dense
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.variables import Variable


def shape(x: Any) -> Any:
    """Compute the shape of a tensor: int32."""
    return array_ops.shape(x)


def int_shape(x: Any) -> Any:
    """Return the known shape as a tuple, None where a size is unknown; None if the rank is."""
    found = getattr(x, "_keras_shape", None) or getattr(x, "shape", None)
    if found is None or (hasattr(found, "rank") and found.rank is None):
        return None
    return tuple(found.as_list()) if hasattr(found, "as_list") else tuple(found)


def ndim(x: Any) -> int | None:
    """Return the rank."""
    rank: int | None = x.shape.rank
    return rank


def dtype(x: Any) -> str:
    """Return the name of the type."""
    name: str = x.dtype.base_dtype.name
    return name


def count_params(x: Any) -> int:
    """Count the elements of a variable."""
    return int(np.prod(x.shape.as_list()))


zeros_like, ones_like, identity = array_ops.zeros_like, array_ops.ones_like, array_ops.identity
reshape, stop_gradient, one_hot, tile = array_ops.reshape, array_ops.stop_gradient, array_ops.one_hot, array_ops.tile


def cast(x: Any, dtype: Any) -> Tensor:
    """Convert to another type."""
    converted: Tensor = math_ops.cast(x, as_dtype(dtype))
    return converted


def cast_to_floatx(x: Any) -> Any:
    """Convert an array or tensor to the default type."""
    return math_ops.cast(x, as_dtype(floatx())) if isinstance(x, (Tensor, Variable)) else np.asarray(x, floatx())


def expand_dims(x: Any, axis: int = -1) -> Tensor:
    """Add an axis of one element."""
    return array_ops.expand_dims(x, axis)


def squeeze(x: Any, axis: int) -> Tensor:
    """Take an axis of one element away."""
    return array_ops.squeeze(x, [axis])


def permute_dimensions(x: Any, pattern: Any) -> Tensor:
    """Arrange the axes anew."""
    return array_ops.transpose(x, perm=pattern)


def transpose(x: Any) -> Tensor:
    """Turn the axes around."""
    return array_ops.transpose(x)


def flatten(x: Any) -> Tensor:
    """Make a vector."""
    return array_ops.reshape(x, [-1])


def batch_flatten(x: Any) -> Tensor:
    """Make a matrix of a row an example."""
    return array_ops.reshape(x, array_ops.stack([-1, math_ops.reduce_prod(array_ops.shape(x)[1:])]))


def repeat(x: Any, n: int) -> Tensor:
    """Repeat the rows of a matrix: [batch, d] -> [batch, n, d]."""
    return array_ops.tile(array_ops.expand_dims(x, 1), array_ops.stack([1, n, 1]))


def repeat_elements(x: Any, rep: int, axis: int) -> Tensor:
    """Repeat each element along an axis."""
    return array_ops.repeat(x, rep, axis=axis)


def concatenate(tensors: Any, axis: int = -1) -> Tensor:
    """Join tensors along an axis."""
    axis = axis % tensors[0].shape.rank if axis < 0 and tensors[0].shape.rank else axis
    return array_ops.concat([to_dense(t) for t in tensors], axis)


def stack(x: Any, axis: int = 0) -> Tensor:
    """Join tensors along a new axis."""
    return array_ops.stack(x, axis=axis)


def gather(reference: Any, indices: Any) -> Tensor:
    """Take rows."""
    return array_ops.gather(reference, indices)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "int32") -> Tensor:
    """Count from a start to before a stop."""
    if stop is None:
        start, stop = 0, start
    return math_ops.cast(math_ops.range(start, stop, step), as_dtype(dtype))


def reverse(x: Any, axes: Any) -> Tensor:
    """Turn axes around."""
    return array_ops.reverse(x, [axes] if isinstance(axes, int) else axes)


def temporal_padding(x: Any, padding: Any = (1, 1)) -> Tensor:
    """Pad the middle axis of [batch, steps, d] with zeros."""
    return array_ops.pad(x, [[0, 0], list(padding), [0, 0]])


def spatial_2d_padding(x: Any, padding: Any = ((1, 1), (1, 1)), data_format: str | None = None) -> Tensor:
    """Pad height and width with zeros."""
    middle = [list(padding[0]), list(padding[1])]
    first = (data_format or image_data_format()) == "channels_first"
    return array_ops.pad(x, [[0, 0], [0, 0], *middle] if first else [[0, 0], *middle, [0, 0]])


def spatial_3d_padding(x: Any, padding: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None) -> Tensor:
    """Pad depth, height and width with zeros."""
    middle = [list(ends) for ends in padding]
    first = (data_format or image_data_format()) == "channels_first"
    return array_ops.pad(x, [[0, 0], [0, 0], *middle] if first else [[0, 0], *middle, [0, 0]])
