"""New tensors: filled, one-hot, identity matrices, masks and grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import as_shape
from dtfctl.runtime.ops.array_ops.diagonals import matrix_diag
from dtfctl.runtime.ops.array_ops.joining import concat, stack
from dtfctl.runtime.ops.array_ops.shapes import expand_dims, index_tensor, reshape, shape, size
from dtfctl.runtime.ops.op_defs.array import matrix_set_diag


def _no_layout(layout: Any) -> None:
    if layout is not None:
        raise ValueError("there are no DTensor layouts here: leave `layout` out, and place ops by tf.device")


def fill(dims: Any, value: Any, name: str | None = None, layout: None = None) -> Tensor:
    """Make a tensor of shape `dims`, every element `value`."""
    _no_layout(layout)
    return apply_op("Fill", name, dims=index_tensor(dims), value=value)


def _filled(value: int, python_name: str) -> Callable[..., Tensor]:
    def function(shape: Any, dtype: Any = dtypes.float32, name: str | None = None, layout: None = None) -> Tensor:
        _no_layout(layout)
        wanted = as_dtype(dtype).base_dtype
        item: Any = {dtypes.bool_: bool(value), dtypes.string: ""}.get(wanted, value)
        with name_scope(name, python_name) as scope:
            if not isinstance(shape, Tensor):
                try:
                    known = as_shape(shape)
                    if known.is_fully_defined():
                        if (known.num_elements() or 0) < 1000:
                            return constant(item, wanted, shape=known, name=scope)
                        shape = convert_to_tensor(index_tensor(list(known.known())), name="shape_as_tensor")
                except (TypeError, ValueError):
                    pass
            dims = shape if isinstance(shape, Tensor) else convert_to_tensor(index_tensor(shape), name="packed")
            if not dims.dtype.is_integer:
                dims = convert_to_tensor(index_tensor(shape), dtypes.int32)
            if not dims.shape.rank:
                dims = reshape(dims, [-1])
            return apply_op("Fill", scope, dims=dims, value=constant(item, wanted))

    function.__name__ = function.__qualname__ = python_name
    function.__doc__ = f"A tensor of {python_name}."
    return function


zeros, ones = _filled(0, "zeros"), _filled(1, "ones")


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Make zeros in a tensor's shape."""
    with name_scope(name, "zeros_like") as scope:
        x = convert_to_tensor(tensor, name="tensor")
        wanted = x.dtype.base_dtype if dtype is None else as_dtype(dtype)
        if optimize and x.shape.is_fully_defined() and x.dtype.base_dtype is not dtypes.variant:
            return zeros(x.shape, wanted, name=scope)
        if wanted is not x.dtype.base_dtype:
            return zeros(shape(x), wanted, name=scope)
        return apply_op("ZerosLike", scope, x=x)


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Make ones in a tensor's shape."""
    with name_scope(name, "ones_like") as scope:
        x = convert_to_tensor(tensor, name="tensor")
        out = ones(shape(x, optimize=optimize), x.dtype.base_dtype if dtype is None else dtype, name=scope)
        out.set_shape(x.shape)
        return out


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Set 1 (or on_value) where an index points, 0 (or off_value) elsewhere."""
    with name_scope(name, "one_hot") as scope:
        on = None if on_value is None else convert_to_tensor(on_value, preferred_dtype=dtype)
        off = None if off_value is None else convert_to_tensor(off_value, preferred_dtype=dtype)
        given = on if on is not None else off
        wanted = as_dtype(dtype) if dtype else dtypes.float32 if given is None else given.dtype.base_dtype
        for name_of, value in (("on_value", on), ("off_value", off)):
            if dtype and value is not None and value.dtype.base_dtype is not wanted:
                raise TypeError(f"dtype {value.dtype.base_dtype} of {name_of} does not match dtype parameter {wanted}")
        if wanted in (dtypes.string,) and (on is None or off is None):
            raise TypeError("Need both on_value and off_value of type string")
        on = constant(1, wanted, name="on_value") if on is None else on
        off = constant(0, wanted, name="off_value") if off is None else off
        if on.dtype.base_dtype is not off.dtype.base_dtype:
            raise TypeError(
                f"dtype {on.dtype.base_dtype} of on_value does not match dtype {off.dtype.base_dtype} of off_value"
            )
        return apply_op(
            "OneHot",
            scope,
            indices=indices,
            depth=depth,
            on_value=on,
            off_value=off,
            axis=-1 if axis is None else axis,
        )


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Make identity matrices."""
    with name_scope(name, "eye"):
        columns = num_rows if num_columns is None else num_columns
        batch = [] if batch_shape is None else batch_shape
        square = num_columns is None or columns is num_rows
        least = num_rows if square else apply_op("Minimum", x=num_rows, y=columns)
        if isinstance(least, Tensor) or isinstance(batch, Tensor):
            dims = concat([convert_to_tensor(index_tensor(batch), dtypes.int32), stack([least])], 0)
        else:
            dims = convert_to_tensor(np.array([*batch, int(least)], np.int32))
        diagonal = ones(dims, dtype)
        if square:
            return matrix_diag(diagonal, name="diag")
        shape_ = concat([convert_to_tensor(index_tensor(batch), dtypes.int32), stack([num_rows, columns])], 0)
        return matrix_set_diag(zeros(shape_, dtype), diagonal, name="set_diag")


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool_, name: str | None = None) -> Tensor:
    """Make a mask [..., maxlen] that is true before each length."""
    with name_scope(name, "SequenceMask"):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            top = apply_op("Max", input=reshape(lengths, [-1]), reduction_indices=[0])
            maxlen = apply_op("Maximum", x=constant(0, lengths.dtype.base_dtype), y=top)
        else:
            maxlen = convert_to_tensor(maxlen, dtype_hint=lengths.dtype.base_dtype)
            maxlen = apply_op("Cast", x=maxlen, DstT=lengths.dtype.base_dtype)
        zero, one = constant(0, lengths.dtype.base_dtype), constant(1, lengths.dtype.base_dtype)
        row = apply_op("Range", "Range", start=zero, limit=maxlen, delta=one)
        result = apply_op("Less", x=row, y=expand_dims(lengths, -1))
        wanted = as_dtype(dtype)
        return result if wanted is dtypes.bool_ else apply_op("Cast", x=result, DstT=wanted)


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """Make coordinate arrays of vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'")
    with name_scope(name):
        n = len(args)
        vectors = [convert_to_tensor(a) for a in args]
        placed = [reshape(v, [1] * i + [-1] + [1] * (n - i - 1)) for i, v in enumerate(vectors)]
        sizes = [size(v) for v in vectors]
        if indexing == "xy" and n > 1:
            placed[0] = reshape(placed[0], [1, -1] + [1] * (n - 2))
            placed[1] = reshape(placed[1], [-1, 1] + [1] * (n - 2))
            sizes[0], sizes[1] = sizes[1], sizes[0]
        whole = stack(sizes)
        return [apply_op("BroadcastTo", input=p, shape=whole) for p in placed]
