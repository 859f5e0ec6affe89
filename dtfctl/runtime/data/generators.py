"""Datasets of what a Python generator yields, in the client's own process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfctl.runtime.client.script_ops import py_func
from dtfctl.runtime.data.leaves import Leaf, RaggedLeaf, SparseLeaf
from dtfctl.runtime.data.structure import Structure, trace
from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops.function import TensorSpec
from dtfctl.runtime.ops.ragged_ops.mapping import RaggedTensorSpec
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor
from dtfctl.runtime.ops.sparse_ops.spec import SparseTensorSpec


def described(output_types: Any, output_shapes: Any, output_signature: Any) -> Structure:
    """Give the structure of elements, by their types and shapes or by a structure of specs.

    Raises:
        TypeError: neither or both are given, or the signature has something else than specs of tensors, sparse or
            ragged ones.
    """
    if output_signature is not None:
        if output_types is not None or output_shapes is not None:
            raise TypeError(
                "The `output_types` and `output_shapes` arguments can not be used together with the "
                "`output_signature` argument."
            )
        for spec in nest.flatten(output_signature):
            if not isinstance(spec, (TensorSpec, SparseTensorSpec, RaggedTensorSpec)):
                raise TypeError(f"`output_signature` must contain `tf.TensorSpec` objects but found {type(spec)}.")
        return Structure.of(_tupled(output_signature))
    if output_types is None:
        raise TypeError("Either `output_signature` or `output_types` must be specified.")
    template = _tupled(output_types)
    types = tuple(as_dtype(t) for t in nest.flatten(template))
    shapes = (
        tuple(as_shape(s) for s in nest.flatten_up_to(template, _tupled(output_shapes)))
        if output_shapes is not None
        else ()
    )
    return Structure(template, types, shapes or (TensorShape(None),) * len(types))


def generator_dataset(generator: Callable[..., Any], structure: Structure, args: tuple[Any, ...]) -> Tensor:
    """Make the variant of the dataset that calls `generator(*args)` for each pass over it.

    Raises:
        TypeError: `generator` is no function.
    """
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    given = [convert_to_tensor(a) for a in args]
    numbers = itertools.count()
    running: dict[int, Iterator[Any]] = {}

    def start(*values: Any) -> Any:
        number = next(numbers)
        running[number] = iter(generator(*values))
        return np.int64(number)

    def following(number: Any) -> Any:
        return _element(next(running[int(number)]), structure)

    def finish(number: Any) -> Any:
        running.pop(int(number), None)
        return np.int64(0)

    def make() -> Any:
        number = py_func(start, given, dtypes.int64)
        number.set_shape([])
        return number

    def step(number: Tensor) -> Any:
        kinds = [component for leaf in structure.leaves for component in _components(*leaf)]
        values = iter(py_func(following, [number], kinds))
        return tuple(_made(values, *leaf) for leaf in structure.leaves)

    def end(number: Tensor) -> Any:
        return py_func(finish, [number], dtypes.int64)

    state = Structure(0, (dtypes.int64,), (TensorShape([]),))
    first, second, last = trace(make), trace(step, state), trace(end, state)
    return apply_op(
        "GeneratorDataset",
        init_func_other_args=first.captured,
        next_func_other_args=second.captured,
        finalize_func_other_args=last.captured,
        init_func=first.attr,
        next_func=second.attr,
        finalize_func=last.attr,
        **structure.attrs,
    )


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _element(value: Any, structure: Structure) -> list[Any]:
    """Check one element's leaves and return them.

    Raises:
        TypeError: it has another structure, or a leaf is of another type or shape than was said.
    """
    leaves = _leaves(structure.template, value)
    out: list[Any] = []
    for leaf, (dtype, shape, kind) in zip(leaves, structure.leaves, strict=True):
        if isinstance(kind, SparseLeaf):
            parts = _parts_of(leaf, ("indices", "values", "dense_shape"), kind.spec)
            out.extend(np.asarray(part, dtype.np) for part, dtype in zip(parts, _components(dtype, shape, kind)))
        elif isinstance(kind, RaggedLeaf) and kind.spec.ragged_rank:
            splits, values = _parts_of(leaf, ("nested_row_splits", "flat_values"), kind.spec)
            parts = [*splits, values]
            out.extend(np.asarray(part, dtype.np) for part, dtype in zip(parts, _components(dtype, shape, kind)))
        elif isinstance(kind, RaggedLeaf):
            out.append(_array(leaf, kind.spec.dtype, kind.spec.shape))
        else:
            out.append(_array(leaf, dtype, shape))
    return out


def _array(leaf: Any, dtype: DType, shape: TensorShape) -> Any:
    try:
        array = np.asarray(leaf, object) if dtype.is_object else np.asarray(leaf, dtype.np)
    except (TypeError, ValueError):
        raise TypeError(
            f"`generator` yielded an element that could not be converted to the expected type. The expected type "
            f"was {dtype.name}, but the yielded element was {leaf!r}."
        ) from None
    if not shape.is_compatible_with(TensorShape(array.shape)):
        raise TypeError(
            f"`generator` yielded an element of shape {array.shape} where an element of shape {shape} was expected."
        )
    return array


def _parts_of(leaf: Any, names: tuple[str, ...], spec: Any) -> list[Any]:
    """Take a sparse or ragged value apart."""
    if not all(hasattr(leaf, name) for name in names):
        raise TypeError(
            f"`generator` yielded an element that could not be converted to the expected type. The expected type was "
            f"{spec!r}, but the yielded element was {leaf!r}."
        )
    return [getattr(leaf, name) for name in names]


def _components(dtype: DType, shape: TensorShape, kind: Leaf | None) -> list[DType]:
    """List the types of the arrays that a leaf is yielded as."""
    if isinstance(kind, SparseLeaf):
        return [dtypes.int64, kind.spec.dtype, dtypes.int64]
    if isinstance(kind, RaggedLeaf):
        return [kind.spec.row_splits_dtype] * kind.spec.ragged_rank + [kind.spec.dtype]
    return [dtype]


def _made(values: Iterator[Tensor], dtype: DType, shape: TensorShape, kind: Leaf | None) -> Any:
    """Put what was yielded of a leaf into the tensor that it travels in."""
    if isinstance(kind, SparseLeaf):
        indices, flat, dense_shape = (next(values) for _ in range(3))
        for part, rank in ((indices, 2), (flat, 1), (dense_shape, 1)):
            part.set_shape([None] * rank)
        return kind.pack(SparseTensor(indices, flat, dense_shape))
    if isinstance(kind, RaggedLeaf):
        spec = kind.spec
        splits = [next(values) for _ in range(spec.ragged_rank)]
        for part in splits:
            part.set_shape([None])
        flat = next(values)
        flat.set_shape(spec.shape[spec.ragged_rank :])
        return kind.pack(RaggedTensor.from_nested_row_splits(flat, splits, validate=False) if splits else flat)
    value = next(values)
    value.set_shape(shape)
    return value


def _leaves(template: Any, value: Any) -> list[Any]:
    try:
        return nest.flatten_up_to(template, value)
    except (TypeError, ValueError) as e:
        raise TypeError(
            f"`generator` yielded an element that did not match the expected structure. The expected structure was "
            f"{template}, but the yielded element was {value!r}."
        ) from e
