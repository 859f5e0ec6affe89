"""Python values to tensors: constants, conversion functions, and two composites: sparse tensors and slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.composite import CompositeTensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_codec import encode_repeated, encode_tensor
from dtfctl.runtime.framework.tensor_shape import Dimension, TensorShape, as_shape

ConversionFunction = Callable[[Any, DType | None, str | None, bool], Any]
_CONVERSIONS: list[tuple[int, int, Any, ConversionFunction]] = []


class IndexedSlices(CompositeTensor):
    """Rows of a larger tensor: `values[i]` belongs at row `indices[i]`. What the gradient of a gather is.

    Attributes:
        values: [n, ...]; indices: [n], integers; dense_shape: the larger tensor's shape, a 1-D tensor or None.
    """

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape = dense_shape

    def __neg__(self) -> IndexedSlices:
        # As gradients are negated: that of `-x` where rows of it are gathered.
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    @property
    def name(self) -> str:
        return self.values.name

    @property
    def device(self) -> str:
        return self.values.device

    @property
    def op(self) -> Any:
        return self.values.op

    @property
    def graph(self) -> Any:
        return self.values.graph

    @property
    def shape(self) -> TensorShape:
        from dtfctl.runtime.framework.constant_value import constant_value_as_shape

        return TensorShape(None) if self.dense_shape is None else constant_value_as_shape(self.dense_shape)

    def get_shape(self) -> TensorShape:
        return self.shape

    @property
    def differentiated(self) -> Tensor:
        return self.values

    def components(self) -> list[Any]:
        parts = [self.values, self.indices]
        return parts if self.dense_shape is None else [*parts, self.dense_shape]

    def with_components(self, components: Iterator[Any]) -> IndexedSlices:
        values, indices = next(components), next(components)
        return IndexedSlices(values, indices, None if self.dense_shape is None else next(components))

    def component_shapes(self, invariant: TensorShape | None) -> list[TensorShape]:
        if invariant is None:
            return [t.shape for t in self.components()]
        return [invariant, invariant[:1], TensorShape([invariant.rank])][: len(self.components())]

    def __repr__(self) -> str:
        return f"IndexedSlices(indices={self.indices!r}, values={self.values!r})"


class SparseTensor(CompositeTensor):
    """A sparse tensor in coordinate form.

    Attributes:
        indices: int64 [n, rank]; values: [n]; dense_shape: int64 [rank].
        known_shape: what is known of the shape beyond what the graph tells of `dense_shape`.
    """

    known_shape: TensorShape | None = None

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        graph = context.get_default_graph()
        with graph.name_scope("SparseTensor"):
            self.indices: Tensor = convert_to_tensor(indices, dtypes.int64, name="indices")
            self.values: Tensor = convert_to_tensor(values, name="values")
            self.dense_shape: Tensor = convert_to_tensor(dense_shape, dtypes.int64, name="dense_shape")
        self.indices.shape.with_rank(2)
        self.values.shape.with_rank(1)
        self.dense_shape.shape.with_rank(1)

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        value = sparse_tensor_value
        return value if isinstance(value, cls) else cls(value.indices, value.values, value.dense_shape)

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    @property
    def op(self) -> Any:
        return self.values.op

    @property
    def graph(self) -> Any:
        return self.values.graph

    @property
    def shape(self) -> TensorShape:
        from dtfctl.runtime.framework.constant_value import constant_value_as_shape

        found = constant_value_as_shape(self.dense_shape)
        return found if self.known_shape is None else found.merge_with(self.known_shape)

    def get_shape(self) -> TensorShape:
        return self.shape

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        from dtfctl.runtime.framework.operation import _session_for

        return _session_for(self.graph, session).run(self, feed_dict)

    def consumers(self) -> list[Any]:
        return list(dict.fromkeys(op for each in self.components() for op in each.consumers()))

    def with_values(self, new_values: Any) -> SparseTensor:
        """Give one with other values in the same places."""
        return SparseTensor(self.indices, new_values, self.dense_shape)

    @property
    def differentiated(self) -> Tensor:
        return self.values

    def components(self) -> list[Any]:
        return [self.indices, self.values, self.dense_shape]

    def with_components(self, components: Iterator[Any]) -> SparseTensor:
        return SparseTensor(next(components), next(components), next(components))

    def component_shapes(self, invariant: TensorShape | None) -> list[TensorShape]:
        # The invariant of a sparse tensor is the shape of its `dense_shape`, with TensorFlow.
        rank = self.shape.rank if invariant is None else invariant.with_rank(1).as_list()[0]
        return [TensorShape([None, rank]), TensorShape([None]), TensorShape([rank])]

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self.indices}, values={self.values}, dense_shape={self.dense_shape})"


def register_tensor_conversion_function(base_type: Any, conversion_func: Any, priority: int = 100) -> None:
    """Let `convert_to_tensor` take objects of `base_type`; lower priority runs first.

    `conversion_func(value, dtype=None, name=None, as_ref=False)` returns a tensor or NotImplemented.
    """

    def adapted(value: Any, dtype: DType | None, name: str | None, as_ref: bool) -> Any:
        return conversion_func(value, dtype=dtype, name=name, as_ref=as_ref)

    _CONVERSIONS.append((priority, len(_CONVERSIONS), base_type, adapted))
    _CONVERSIONS.sort(key=lambda c: c[:2])


def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
    dtype_hint: Any = None,
    *,
    as_ref: bool = False,
) -> Tensor:
    """Convert a tensor, variable, array, number, string, nested list of those, or a registered type to a tensor.

    Raises:
        ValueError: the value is a tensor of another type than `dtype`, or ragged.
        TypeError: nothing converts it.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    hint = preferred_dtype if dtype_hint is None else dtype_hint
    if isinstance(value, Tensor):
        graph = context.get_default_graph()
        tensor = value if value.graph is graph else graph.capture(value)
        if wanted is not None and tensor.dtype.base_dtype is not wanted.base_dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {wanted.name} for Tensor with dtype {tensor.dtype.name}: {tensor!r}"
            )
        return tensor
    for _, _, base_type, function in _CONVERSIONS:
        if isinstance(value, base_type):
            if wanted is None and hint is not None:
                try:
                    result = function(value, as_dtype(hint), name, as_ref)
                except (TypeError, ValueError):
                    result = NotImplemented
                if result is not NotImplemented:
                    return result  # type: ignore[no-any-return]
            result = function(value, wanted, name, as_ref)
            if result is not NotImplemented:
                return result  # type: ignore[no-any-return]
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        return _pack(value, wanted, name)
    if wanted is None and hint is not None and _fits(value, as_dtype(hint)):
        try:
            return constant(value, as_dtype(hint), name=name or "Const")
        except (TypeError, ValueError):
            pass
    return constant(value, wanted, name=name or "Const")


def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Convert a value to a tensor; IndexedSlices and sparse tensors stay what they are.

    Raises:
        ValueError: these are of another type than `dtype`.
    """
    if not isinstance(value, (IndexedSlices, SparseTensor)):
        return convert_to_tensor(value, dtype, name)
    if dtype is not None and as_dtype(dtype).base_dtype is not value.dtype.base_dtype:
        raise ValueError(f"Tensor conversion requested dtype {as_dtype(dtype).name} for one of {value.dtype.name}")
    return value


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Convert a value to a tensor; a SparseTensor, or its value, to a SparseTensor.

    Raises:
        RuntimeError: a SparseTensor is of another type than `dtype`.
    """
    if type(value).__name__ == "SparseTensorValue":
        value = SparseTensor(*value)
    if not isinstance(value, SparseTensor):
        return convert_to_tensor(value, dtype, name)
    if dtype is not None and as_dtype(dtype).base_dtype is not value.dtype.base_dtype:
        raise RuntimeError(f"Sparse dtype mismatch. Requested: {as_dtype(dtype).name}, Actual: {value.dtype.name}")
    return value


def _fits(value: Any, dtype: dtypes.DType) -> bool:
    """Tell whether an array of integers stays the same numbers in that type; True for what is no such array."""
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "iu" or not dtype.is_integer:
        return True
    if np.can_cast(value.dtype, dtype.as_numpy_dtype) or not value.size:
        return True
    limits = np.iinfo(dtype.as_numpy_dtype)
    return bool(limits.min <= value.min() and value.max() <= limits.max)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_tensor(v) for v in value)
    return isinstance(value, Tensor) or any(isinstance(value, c[2]) for c in _CONVERSIONS if c[2] is not object)


def _pack(value: Sequence[Any], dtype: DType | None, name: str | None) -> Tensor:
    if dtype is None:
        dtype = _first_dtype(value)
    graph = context.get_default_graph()
    if any(isinstance(v, (list, tuple)) and _holds_tensor(v) for v in value):
        with graph.name_scope(name or "packed") as name:
            items = [
                _pack(v, dtype, str(i))
                if isinstance(v, (list, tuple)) and _holds_tensor(v)
                else convert_to_tensor(v, dtype)
                for i, v in enumerate(value)
            ]
    else:
        items = [convert_to_tensor(v, dtype) for v in value]
    element = items[0].dtype.base_dtype
    if dtype is None:
        items = [convert_to_tensor(item, element) for item in items]
    attrs = {
        "N": encode_attr("int", len(items)),
        "T": encode_attr("type", element),
        "axis": encode_attr("int", 0),
    }
    return graph.add_op(get_signature("Pack"), items, attrs, name=name or "packed").outputs[0]


def _first_dtype(value: Any) -> DType | None:
    for item in value:
        if isinstance(item, (list, tuple)):
            found = _first_dtype(item)
            if found is not None:
                return found
        elif hasattr(item, "dtype") and not isinstance(item, (np.ndarray, np.generic)):
            return as_dtype(item.dtype).base_dtype
    return None


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False
) -> Tensor:
    """Make a constant tensor.

    Args:
        value: anything numpy understands, strings included.
        dtype: element type; inferred when None (Python floats are float32, integers int32 when they fit).
        shape: the result's shape; a single value is repeated to fill it.

    Raises:
        TypeError: the value does not fit the dtype; ValueError: it does not fit the shape.
    """
    wanted = None if dtype is None else as_dtype(dtype).base_dtype
    graph = context.get_default_graph()
    array = to_array(value, wanted, strict=graph.executes)
    dtype = wanted or as_dtype(array.dtype)
    dims = array.shape if shape is None else as_shape(shape).known()
    if array.size == 1 and prod(dims) > 1 and not (dtype.is_object or verify_shape or graph.executes):
        proto = encode_repeated(array.reshape(-1)[0], dims, dtype)
    else:
        array = _shaped(array, dims, verify_shape)
        if graph.executes:
            return graph.constant(array, dtype)  # type: ignore[attr-defined,no-any-return]
        proto = encode_tensor(array, dtype)
    op = graph.add_op(
        get_signature("Const"),
        [],
        {"value": encode_attr("tensor", proto), "dtype": encode_attr("type", dtype)},
        name=name,
    )
    return op.outputs[0]


def _shaped(array: np.ndarray[Any, Any], shape: tuple[int, ...], verify: bool) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape, dtype=np.int64))
    if array.shape == shape:
        return array
    if verify:
        raise TypeError(f"Expected Tensor's shape: {shape}, got {array.shape}.")
    if array.size == count:
        return array.reshape(shape)
    if 0 < array.size < count:
        flat = array.reshape(-1)
        return np.concatenate([flat, np.full(count - flat.size, flat[-1], flat.dtype)]).reshape(shape)
    raise ValueError(f"Too many elements provided. Takes at most {count}, but got {array.size}")


def to_array(value: Any, dtype: DType | None = None, *, strict: bool = False) -> np.ndarray[Any, Any]:
    """Convert to a numpy array of `dtype`, or of the type TensorFlow infers; strings become object arrays of bytes.

    Args:
        strict: numpy's numbers are not cut to fit a type either, as graphs do and eager TensorFlow does not.

    Raises:
        TypeError: an element does not fit the type; ValueError: the nesting is ragged.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind in "SUO":
            return _string_array(array, dtype)
        return array if dtype is None else _cast(array, dtype, value, strict)
    if dtype is dtypes.string or isinstance(value, (str, bytes)):
        return _string_array(_object_array(value), dtype)
    if isinstance(value, (TensorShape, Dimension)):
        value = value.as_list() if isinstance(value, TensorShape) else value.value
        if value is None or (isinstance(value, list) and None in value):
            raise ValueError(f"Cannot convert a partially known TensorShape {value} to a Tensor.")
        dtype = dtype or dtypes.int32
    try:
        array = np.asarray(_plain(value))
    except ValueError as e:
        raise ValueError(f"Can't convert non-rectangular Python sequence to Tensor: {value!r}") from e
    if array.dtype.kind in "SUO":
        if value is None:
            raise ValueError("None values not supported.")
        if array.dtype.kind == "O" and not all(isinstance(v, (str, bytes)) for v in array.reshape(-1)):
            raise TypeError(f"Failed to convert elements of {value!r} to Tensor. Consider casting to a supported type.")
        return _string_array(_object_array(value), dtype)
    if dtype is None:
        if array.dtype == np.float64 and not _holds_numpy(value):
            return array.astype(np.float32)
        if array.dtype == np.int64 and not _holds_numpy(value):
            info = np.iinfo(np.int32)
            if array.size == 0 or (array.min() >= info.min and array.max() <= info.max):
                return array.astype(np.float32 if array.size == 0 and isinstance(value, (list, tuple)) else np.int32)
        return array.astype(np.float32) if array.size == 0 and array.dtype == np.float64 else array
    return _cast(array, dtype, value, True)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, Dimension):
        if value.value is None:
            raise ValueError("Cannot convert an unknown Dimension to a Tensor")
        return value.value
    return value.as_list() if isinstance(value, TensorShape) else value


def _holds_numpy(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_numpy(v) for v in value)
    return isinstance(value, (np.ndarray, np.generic))


def _cast(array: np.ndarray[Any, Any], dtype: DType, original: Any, strict: bool) -> np.ndarray[Any, Any]:
    if array.dtype == dtype.np:
        return array
    if dtype.is_object:
        raise TypeError(f"Expected {dtype.name}, but got {original!r} of type '{array.dtype}'.")
    python = not isinstance(original, (np.ndarray, np.generic))
    floats_to_ints = array.dtype.kind in "fc" and (dtype.is_integer or dtype.is_bool)
    mixes_bool = python and array.size and (array.dtype.kind == "b") != dtype.is_bool
    complex_to_real = array.dtype.kind == "c" and not dtype.is_complex
    if strict and array.size and (floats_to_ints or mixes_bool or complex_to_real):
        raise TypeError(f"Cannot convert {original!r} to EagerTensor of dtype {dtype.name}: Expected {dtype.name}.")
    if dtype.is_integer and array.size and array.dtype.kind in "iu" and python:
        low, high = dtype.min, dtype.max
        if array.min() < low or array.max() > high:
            raise TypeError(f"Value {original!r} does not fit {dtype.name}")
    return (array.real if complex_to_real else array).astype(dtype.np)


def _object_array(value: Any) -> np.ndarray[Any, Any]:
    shape: list[int] = []
    probe = value
    while isinstance(probe, (list, tuple)):
        shape.append(len(probe))
        if not probe:
            break
        probe = probe[0]
    out = np.empty(shape, object)
    if not shape:
        out[()] = value
        return out
    flat: list[Any] = []

    def walk(item: Any, depth: int) -> None:
        if depth == len(shape):
            flat.append(item)
            return
        if not isinstance(item, (list, tuple)) or len(item) != shape[depth]:
            raise ValueError(f"Can't convert non-rectangular Python sequence to Tensor: {value!r}")
        for child in item:
            walk(child, depth + 1)

    walk(value, 0)
    out.reshape(-1)[:] = flat
    return out


def _string_array(array: np.ndarray[Any, Any], dtype: DType | None) -> np.ndarray[Any, Any]:
    if dtype is not None and dtype is not dtypes.string:
        raise TypeError(f"Expected {dtype.name}, but got a value of type 'str' or 'bytes'.")
    out = np.empty(array.shape, object)
    flat = out.reshape(-1)
    for i, item in enumerate(array.reshape(-1).tolist()):
        if isinstance(item, str):
            flat[i] = item.encode()
        elif isinstance(item, bytes):
            flat[i] = item
        else:
            raise TypeError(f"Expected string, but got {item!r} of type '{type(item).__name__}'.")
    return flat.reshape(array.shape)
