"""From a feed_dict to arrays by tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dtfctl.runtime.client.fetches import conversion_of
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_codec import to_bytes


def convert_feeds(graph: Graph, feed_dict: Mapping[Any, Any]) -> dict[Tensor, np.ndarray[Any, Any]]:
    """Find the tensors meant by the keys, and convert the values to their types. The arrays are nobody else's.

    Raises:
        TypeError: a key is no tensor of the graph, or a value does not fit the type.
        ValueError: a value does not fit the static shape, or the tensor may not be fed.
    """
    out: dict[Tensor, np.ndarray[Any, Any]] = {}
    for key, value in _flatten(feed_dict):
        for part, part_value in _expand(key, value):
            tensor = part if type(part) is Tensor and part.graph is graph else _as_tensor(graph, part)
            out[tensor] = _convert(graph, tensor, part_value, key)
    return out


class FeedConverter:
    """Converts the values of one tensor, again and again.

    Raises (when called):
        TypeError, ValueError: see `convert_feeds`.
    """

    __slots__ = ("_graph", "_numpy_type", "_shape", "_sizes", "_tensor")

    def __init__(self, graph: Graph, tensor: Tensor) -> None:
        self._graph = graph
        self._tensor = tensor
        dtype = tensor.dtype.base_dtype
        self._numpy_type = None if dtype.is_object else dtype.np
        self._shape = tensor.shape
        dims = self._shape.dims_or_none
        # The only shape that fits, if there is one.
        self._sizes = dims if dims and None not in dims else None

    def __call__(self, value: Any) -> Any:
        if (
            value.__class__ is np.ndarray
            and value.dtype is self._numpy_type
            and value.shape == self._sizes
            and self._tensor.shape is self._shape
        ):
            return value.copy()
        array = _convert(self._graph, self._tensor, value, self._tensor)
        # Operators deal with numpy's scalars much faster than with arrays without dimensions.
        return array if array.ndim or self._numpy_type is None else array[()]


def feed_tensors(graph: Graph, feeds: Any) -> list[Tensor]:
    """Find the tensors of a list of feed keys (for partial runs).

    Raises:
        TypeError, ValueError, KeyError: a key is no tensor of the graph.
    """
    out: list[Tensor] = []
    for key in feeds if isinstance(feeds, (list, tuple)) else [feeds]:
        conversion = conversion_of(key)
        parts = [key] if conversion is None or conversion.feed_names is None else conversion.feed_names(key)
        for part in parts:
            tensor = graph.as_graph_element(part, allow_tensor=True, allow_operation=False)
            assert isinstance(tensor, Tensor)
            out.append(tensor)
    return out


def _flatten(feed_dict: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the items, with a tuple or list as key matched to the same structure of values."""
    for key, value in feed_dict.items():
        if isinstance(key, (tuple, list)):
            yield from _match(key, value, key)
        else:
            yield key, value


def _match(key: Any, value: Any, whole: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(key, (tuple, list)):
        yield key, value
        return
    if not isinstance(value, (tuple, list)) or len(value) != len(key):
        raise ValueError(f"Could not flatten dictionary. Key {whole} and its value have different structures.")
    for k, v in zip(key, value):
        yield from _match(k, v, whole)


def _expand(key: Any, value: Any) -> Any:
    if type(key) is Tensor:
        return ((key, value),)
    conversion = conversion_of(key)
    if conversion is None:
        return ((key, value),)
    if conversion.feed is None:
        raise TypeError(f'{key} in argument `feed_dict` has invalid type "{type(key).__name__}"')
    return conversion.feed(key, value)


def _as_tensor(graph: Graph, key: Any) -> Tensor:
    try:
        tensor = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
    except Exception as e:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {e.args[0] if e.args else e}") from None
    assert isinstance(tensor, Tensor)
    return tensor


def _convert(graph: Graph, tensor: Tensor, value: Any, key: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, Tensor):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, "
            f"lists, numpy ndarrays, or TensorHandles. For reference, the tensor object was {value} which was passed "
            f"to the argument `feed_dict` with key {key}."
        )
    dtype = tensor.dtype.base_dtype
    numpy_type = dtype.as_numpy_dtype
    if type(value) is int and not dtype.is_object and _changes(value, numpy_type):
        raise TypeError(
            f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type {numpy_type}. Try "
            "explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
        )
    if dtype.kind == "string":
        array = _strings(value)
    elif dtype.is_object:
        array = _objects(value)
    else:
        # A copy: the caller may change its array while the value lives on in a queue or a variable.
        array = np.array(value, dtype.np)
    if not _fits(tensor.shape.dims_or_none, array.shape):
        raise ValueError(
            f"Cannot feed value of shape {array.shape} for Tensor {tensor.name}, which has shape {tensor.shape}"
        )
    if not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor.name} may not be fed.")
    return array


def _fits(dims: tuple[int | None, ...] | None, shape: tuple[int, ...]) -> bool:
    """Tell whether a concrete shape is what a static one allows."""
    if dims is None:
        return True
    return len(dims) == len(shape) and all(d is None or d == size for d, size in zip(dims, shape))


def _changes(value: int, numpy_type: Any) -> bool:
    """Tell whether the type cannot hold an integer exactly."""
    try:
        return bool(np.array(value).astype(numpy_type) != value)
    except (OverflowError, TypeError):
        return True


def _strings(value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value, dtype=object)
    out = np.empty(array.shape, object)
    out.reshape(-1)[:] = [to_bytes(v) for v in array.reshape(-1).tolist()]
    return out


def _objects(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray):
        return value.astype(object)
    out = np.empty((), object)
    out[()] = value
    return out
