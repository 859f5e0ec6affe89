"""Functions on arrays with TF1's names and argument orders, and indexing of tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import Dimension, TensorShape, as_shape

newaxis = None


# --- placeholders and pass-through ---


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor that every run must feed."""
    return apply_op("Placeholder", name, dtype=dtype, shape=as_shape(shape))  # type: ignore[no-any-return]


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    return apply_op("PlaceholderWithDefault", name, input=input, shape=as_shape(shape))  # type: ignore[no-any-return]


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A SparseTensor to feed; the shape is fed too unless it is given."""
    base = name or "Placeholder"
    rank = None
    if shape is None:
        dense: Tensor = placeholder(dtypes.int64, [None], name=f"{base}/shape")
    else:
        dims = [-1 if d is None else int(d) for d in (as_shape(shape).as_list())]
        rank = len(dims)
        known = constant(dims, dtypes.int64, name=f"{base}/shape/Const")
        dense = placeholder_with_default(known, [rank], name=f"{base}/shape") if -1 in dims else known
    return SparseTensor(
        placeholder(dtypes.int64, [None, rank], name=f"{base}/indices"),
        placeholder(dtype, [None], name=f"{base}/values"),
        dense,
    )


def identity(input: Any, name: str | None = None) -> Any:
    if isinstance(input, IndexedSlices):
        return IndexedSlices(identity(input.values, name), input.indices, input.dense_shape)
    if isinstance(input, SparseTensor):
        return SparseTensor(input.indices, identity(input.values, name), input.dense_shape)
    return apply_op("Identity", name, input=input)


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    return apply_op("IdentityN", name, input=list(input))  # type: ignore[no-any-return]


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    return apply_op("StopGradient", name, input=input)  # type: ignore[no-any-return]


def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Tensor:
    return apply_op("PreventGradient", name, input=input, message=message)  # type: ignore[no-any-return]


def guarantee_const(input: Any, name: str | None = None) -> Tensor:
    return apply_op("GuaranteeConst", name, input=input)  # type: ignore[no-any-return]


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    return apply_op("CheckNumerics", name, tensor=tensor, message=message)  # type: ignore[no-any-return]


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    return apply_op("EnsureShape", name, input=x, shape=as_shape(shape))  # type: ignore[no-any-return]


def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    return apply_op("Bitcast", name, input=input, type=type)  # type: ignore[no-any-return]


# --- shapes ---


def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32, optimize: bool = True) -> Tensor:
    """The shape of a tensor; a constant when it is known statically."""
    with name_scope(name, "Shape") as scope:
        if isinstance(input, SparseTensor):
            return apply_op("Cast", scope, x=input.dense_shape, DstT=out_type)  # type: ignore[no-any-return]
        x = convert_to_tensor(input)
        if optimize and x.shape.is_fully_defined():
            return constant(list(x.shape.known()), out_type, name=scope)
        return apply_op("Shape", scope, input=x, out_type=out_type)  # type: ignore[no-any-return]


def shape_n(input: Sequence[Any], out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    return apply_op("ShapeN", name, input=list(input), out_type=out_type)  # type: ignore[no-any-return]


def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    with name_scope(name, "Size") as scope:
        if isinstance(input, SparseTensor):
            dims = apply_op("Cast", x=input.dense_shape, DstT=out_type)
            return apply_op("Prod", scope, input=dims, reduction_indices=[0])  # type: ignore[no-any-return]
        x = convert_to_tensor(input)
        count = x.shape.num_elements()
        if count is not None:
            return constant(count, out_type, name=scope)
        return apply_op("Size", scope, input=x, out_type=out_type)  # type: ignore[no-any-return]


def rank(input: Any, name: str | None = None) -> Tensor:
    with name_scope(name, "Rank") as scope:
        if isinstance(input, SparseTensor):
            return apply_op("Size", scope, input=input.dense_shape)  # type: ignore[no-any-return]
        x = convert_to_tensor(input)
        if x.shape.rank is not None:
            return constant(x.shape.rank, dtypes.int32, name=scope)
        return apply_op("Rank", scope, input=x)  # type: ignore[no-any-return]


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    if isinstance(shape, (list, tuple)) and not len(shape):
        shape = np.zeros(0, np.int32)
    return apply_op("Reshape", name, tensor=tensor, shape=_index_tensor(shape))  # type: ignore[no-any-return]


def _index_tensor(value: Any) -> Any:
    """A list of ints, Dimensions and scalar tensors as something convertible to an integer tensor."""
    if isinstance(value, (list, tuple)) and not any(isinstance(v, Tensor) for v in value):
        value = [v.value if isinstance(v, Dimension) else v for v in value]
        array = np.asarray(value)
        if array.dtype.kind in "iu":
            big = array.size and (array.max() > 2**31 - 1 or array.min() < -(2**31))
            return array.astype(np.int64 if big else np.int32)
        if array.size == 0:
            return array.astype(np.int32)
    return value


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    axis = squeeze_dims if axis is None else axis
    if axis is None:
        dims: list[int] = []
    else:
        dims = [int(axis)] if isinstance(axis, (int, np.integer)) else [int(a) for a in axis]
    return apply_op("Squeeze", name, input=input, squeeze_dims=dims)  # type: ignore[no-any-return]


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return apply_op("ExpandDims", name, input=input, dim=axis)  # type: ignore[no-any-return]


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    return apply_op("BroadcastTo", name, input=input, shape=_index_tensor(shape))  # type: ignore[no-any-return]


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    x = convert_to_tensor(_index_tensor(shape_x))
    return apply_op("BroadcastArgs", s0=x, s1=convert_to_tensor(_index_tensor(shape_y), x.dtype))  # type: ignore[no-any-return]


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    from dtfctl.runtime.framework.tensor_shape import broadcast_static

    return broadcast_static(as_shape(shape_x), as_shape(shape_y))


# --- making tensors ---


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    return apply_op("Fill", name, dims=_index_tensor(dims), value=value)  # type: ignore[no-any-return]


def _filled(value: int, python_name: str) -> Callable[..., Tensor]:
    def function(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
        wanted = as_dtype(dtype).base_dtype
        item: Any = {dtypes.bool_: bool(value), dtypes.string: ""}.get(wanted, value)
        with name_scope(name, python_name) as scope:
            if not isinstance(shape, Tensor):
                try:
                    known = as_shape(shape)
                    if known.is_fully_defined() and (known.num_elements() or 0) < 1000:
                        return constant(item, wanted, shape=known, name=scope)
                except (TypeError, ValueError):
                    pass
            dims = convert_to_tensor(_index_tensor(shape), name="shape")
            if not dims.dtype.is_integer:
                dims = convert_to_tensor(_index_tensor(shape), dtypes.int32)
            dims = reshape(dims, [-1])
            return apply_op("Fill", scope, dims=dims, value=constant(item, wanted))  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = python_name
    function.__doc__ = f"A tensor of {python_name}."
    return function


zeros, ones = _filled(0, "zeros"), _filled(1, "ones")


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Zeros of a tensor's shape."""
    with name_scope(name, "zeros_like") as scope:
        x = convert_to_tensor(tensor, name="tensor")
        wanted = x.dtype.base_dtype if dtype is None else as_dtype(dtype)
        if optimize and x.shape.is_fully_defined() and x.dtype.base_dtype is not dtypes.variant:
            return zeros(x.shape, wanted, name=scope)
        if wanted is not x.dtype.base_dtype:
            return zeros(shape(x), wanted, name=scope)
        return apply_op("ZerosLike", scope, x=x)  # type: ignore[no-any-return]


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
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
    """1 (or on_value) where an index points, 0 (or off_value) elsewhere."""
    with name_scope(name, "one_hot") as scope:
        on = None if on_value is None else convert_to_tensor(on_value, dtype)
        off = (
            None if off_value is None else convert_to_tensor(off_value, dtype or (on.dtype if on is not None else None))
        )
        given = on if on is not None else off
        wanted = as_dtype(dtype) if dtype else dtypes.float32 if given is None else given.dtype.base_dtype
        if wanted in (dtypes.string,) and (on is None or off is None):
            raise TypeError("Need both on_value and off_value of type string")
        on = constant(1, wanted, name="on_value") if on is None else on
        off = constant(0, wanted, name="off_value") if off is None else off
        if on.dtype.base_dtype is not off.dtype.base_dtype:
            raise TypeError(f"dtype {on.dtype.name} of on_value does not match dtype {off.dtype.name} of off_value")
        return apply_op(  # type: ignore[no-any-return]
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
    """Identity matrices."""
    with name_scope(name, "eye") as scope:
        columns = num_rows if num_columns is None else num_columns
        batch = [] if batch_shape is None else batch_shape
        square = num_columns is None or columns is num_rows
        least = num_rows if square else apply_op("Minimum", x=num_rows, y=columns)
        if isinstance(least, Tensor) or isinstance(batch, Tensor):
            dims = concat([convert_to_tensor(_index_tensor(batch), dtypes.int32), stack([least])], 0)
        else:
            dims = convert_to_tensor(np.array([*batch, int(least)], np.int32))
        diagonal = ones(dims, dtype)
        if square:
            return matrix_diag(diagonal, name=scope)
        shape_ = concat([convert_to_tensor(_index_tensor(batch), dtypes.int32), stack([num_rows, columns])], 0)
        return matrix_set_diag(zeros(shape_, dtype), diagonal, name=scope)


# --- joining and splitting ---


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        return identity(values[0], name=name)  # type: ignore[no-any-return]
    return apply_op("ConcatV2", name, values=list(values), axis=axis)  # type: ignore[no-any-return]


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape along a new axis; a constant when everything is Python."""
    if axis == 0:
        try:
            return convert_to_tensor(values, name=name) if not _has_tensors(values) else _stacked(values, axis, name)
        except (TypeError, ValueError):
            pass
    return _stacked(values, axis, name)


def _has_tensors(values: Any) -> bool:
    return any(not isinstance(v, (int, float, np.ndarray, np.generic, str, bytes, list, tuple)) for v in values)


def _stacked(values: Any, axis: int, name: str) -> Tensor:
    items = list(values)
    hint = next((v.dtype.base_dtype for v in items if isinstance(v, Tensor)), None)
    return apply_op("Pack", name, values=[convert_to_tensor(v, hint) for v in items], axis=axis)  # type: ignore[no-any-return]


def parallel_stack(values: Sequence[Any], name: str = "parallel_stack") -> Tensor:
    with name_scope(name) as scope:
        tensors = [expand_dims(convert_to_tensor(v), 0) for v in values]
        whole = TensorShape([len(tensors)]).concatenate(tensors[0].shape[1:])
        return apply_op("ParallelConcat", scope, values=tensors, shape=whole)  # type: ignore[no-any-return]


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    value = convert_to_tensor(value)
    if num is None:
        dims = value.shape.dims_or_none
        if dims is not None:
            if not -len(dims) <= axis < len(dims):
                raise ValueError(f"Argument `axis` = {axis} not in [{-len(dims)}, {len(dims)})")
            num = dims[axis]
    if num is None:
        raise ValueError(f"Cannot infer argument `num` from shape {value.shape}")
    return apply_op("Unpack", name, value=value, num=num, axis=axis)  # type: ignore[no-any-return]


def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Into equal parts (a number) or parts of the given sizes."""
    if isinstance(num_or_size_splits, (int, np.integer)):
        return apply_op("Split", name, split_dim=axis, value=value, num_split=int(num_or_size_splits))  # type: ignore[no-any-return]
    sizes = convert_to_tensor(_index_tensor(num_or_size_splits))
    if sizes.shape.rank == 0:
        raise ValueError("Rank-0 tensors are not supported as the num_or_size_splits argument to split.")
    if num is None:
        num = sizes.shape.num_elements()
        if num is None:
            raise ValueError("Cannot infer argument `num` from shape; give it")
    return apply_op("SplitV", name, value=value, size_splits=sizes, split_dim=axis, num_split=num)  # type: ignore[no-any-return]


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    return apply_op("Tile", name, input=input, multiples=_index_tensor(multiples))  # type: ignore[no-any-return]


def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Each element `repeats` times (a number, or one for each position along the axis)."""
    with name_scope(name, "Repeat"):
        x = convert_to_tensor(input)
        if axis is None:
            x, axis = reshape(x, [-1]), 0
        counts = convert_to_tensor(repeats, dtypes.int32)
        length = strided_slice(shape(x), [axis], [axis + 1], [1], shrink_axis_mask=1)
        counts = apply_op("BroadcastTo", input=counts, shape=stack([length]))
        longest = apply_op("Maximum", x=apply_op("Max", input=counts, reduction_indices=[0]), y=0)
        mask = sequence_mask(counts, longest)
        places = tile(expand_dims(apply_op("Range", start=0, limit=length, delta=1), 1), stack([1, longest]))
        return gather(x, boolean_mask(places, mask), axis=axis)


# --- slicing ---


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    begin = convert_to_tensor(_index_tensor(begin), name="begin")
    size_ = convert_to_tensor(_index_tensor(size), begin.dtype.base_dtype, name="size")
    return apply_op("Slice", name, input=input_, begin=begin, size=size_)  # type: ignore[no-any-return]


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    begin = convert_to_tensor(_index_tensor(begin), name="begin")
    if strides is None:
        strides = ones_like(begin)
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "ellipsis_mask": ellipsis_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    out: Tensor = apply_op(
        "StridedSlice",
        name,
        input=input_,
        begin=begin,
        end=convert_to_tensor(_index_tensor(end), begin.dtype.base_dtype),
        strides=convert_to_tensor(_index_tensor(strides), begin.dtype.base_dtype),
        **masks,
    )
    if var is not None:

        def assign(value: Any, name: str | None = None) -> Any:
            common = {"begin": begin, "end": end, "strides": strides, **masks}
            handle = getattr(var, "handle", None)
            if handle is not None:
                return apply_op("ResourceStridedSliceAssign", name, ref=handle, value=value, **common)
            return apply_op(
                "StridedSliceAssign", name, ref=var._ref() if hasattr(var, "_ref") else var, value=value, **common
            )

        out.assign = assign  # type: ignore[attr-defined]
    return out


def _slice_helper(tensor: Any, item: Any, var: Any = None) -> Tensor:
    """tensor[item]: integers, slices, ..., tf.newaxis, and boolean masks."""
    if isinstance(item, Tensor) and item.dtype.base_dtype is dtypes.bool_:
        return boolean_mask(tensor, item)
    if isinstance(item, np.ndarray) and item.dtype == np.bool_:
        return boolean_mask(tensor, item)
    items = list(item) if isinstance(item, (list, tuple)) else [item]
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    masks: dict[str, Any] = dict.fromkeys(
        ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
    )
    for i, part in enumerate(items):
        bit = 1 << i
        if isinstance(part, builtins.slice):
            begin.append(0 if part.start is None else part.start)
            end.append(0 if part.stop is None else part.stop)
            strides.append(1 if part.step is None else part.step)
            masks["begin_mask"] |= bit if part.start is None else 0
            masks["end_mask"] |= bit if part.stop is None else 0
        elif part is Ellipsis:
            begin.append(0)
            end.append(0)
            strides.append(1)
            masks["ellipsis_mask"] |= bit
        elif part is None:
            begin.append(0)
            end.append(0)
            strides.append(1)
            masks["new_axis_mask"] |= bit
        else:
            _check_index(part)
            begin.append(part)
            end.append(part + 1)
            strides.append(1)
            masks["shrink_axis_mask"] |= bit
    with name_scope(None, "strided_slice") as scope:
        if begin:
            packed = [_pack_indices(v) for v in (begin, end, strides)]
            wide = any(getattr(p, "dtype", None) == dtypes.int64 for p in packed if isinstance(p, Tensor))
            if wide:
                packed = [apply_op("Cast", x=p, DstT=dtypes.int64) for p in packed]
        else:
            packed = [constant([], dtypes.int32) for _ in builtins.range(3)]
        begins, ends, steps = packed
        return strided_slice(tensor, begins, ends, steps, var=var, name=scope, **masks)


def _check_index(part: Any) -> None:
    if isinstance(part, (int, np.integer, Dimension)) and not isinstance(part, bool):
        return
    dtype = getattr(part, "dtype", None)
    if dtype is not None and as_dtype(dtype).base_dtype in (dtypes.int16, dtypes.int32, dtypes.int64):
        rank_ = getattr(getattr(part, "shape", None), "rank", 0)
        if rank_ in (0, None):
            return
    raise TypeError(
        "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are "
        f"valid indices, got {part!r}"
    )


def _pack_indices(values: list[Any]) -> Any:
    if any(isinstance(v, Tensor) for v in values):
        return _stacked(values, 0, "stack")
    return _index_tensor([int(v) for v in values])


Tensor._override_operator("__getitem__", _slice_helper)


def _iterate(tensor: Tensor) -> Any:
    dims = tensor.shape.dims_or_none
    if not dims or dims[0] is None:
        raise TypeError(
            f"Tensor objects are not iterable when the first dimension is unknown ({tensor.name}). Use tf.unstack, "
            "tf.map_fn or indexing."
        )
    return iter([tensor[i] for i in builtins.range(dims[0])])


# --- gather and scatter ---


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """Rows of params; of a resource variable only those rows are read."""
    if axis is None:
        axis = batch_dims
    sparse_read = getattr(params, "sparse_read", None)
    known = constant_value(axis) if isinstance(axis, Tensor) else np.asarray(axis)
    if sparse_read is not None and known is not None and int(known) == 0 and batch_dims == 0:
        return sparse_read(indices, name=name)  # type: ignore[no-any-return]
    return apply_op("GatherV2", name or "GatherV2", params=params, indices=indices, axis=axis, batch_dims=batch_dims)  # type: ignore[no-any-return]


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    indices = convert_to_tensor(indices)
    if indices.shape.rank is None:
        raise ValueError("batch_gather does not allow indices with unknown shape.")
    return gather(params, indices, axis=indices.shape.rank - 1, batch_dims=indices.shape.rank - 1, name=name)


def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Tensor:
    if batch_dims:
        raise ValueError("gather_nd with batch_dims is not supported here; fold the batch into the indices")
    read = getattr(params, "gather_nd", None)
    if read is not None and not isinstance(params, Tensor):
        return read(indices, name=name)  # type: ignore[no-any-return]
    return apply_op("GatherNd", name, params=params, indices=indices)  # type: ignore[no-any-return]


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    indices = convert_to_tensor(indices)
    wanted = (
        convert_to_tensor(_index_tensor(shape), indices.dtype.base_dtype) if not isinstance(shape, Tensor) else shape
    )
    return apply_op("ScatterNd", name, indices=indices, updates=updates, shape=wanted)  # type: ignore[no-any-return]


def _tensor_scatter(op_type: str) -> Callable[..., Tensor]:
    def function(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, name, tensor=tensor, indices=indices, updates=updates)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = op_type
    return function


tensor_scatter_update, tensor_scatter_add = _tensor_scatter("TensorScatterUpdate"), _tensor_scatter("TensorScatterAdd")
tensor_scatter_sub = _tensor_scatter("TensorScatterSub")
tensor_scatter_max, tensor_scatter_min = _tensor_scatter("TensorScatterMax"), _tensor_scatter("TensorScatterMin")
tensor_scatter_nd_update, tensor_scatter_nd_add = tensor_scatter_update, tensor_scatter_add


def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: Any = None) -> Tensor:
    """Elements (or rows) where the mask is true."""
    with name_scope(name):
        x, m = convert_to_tensor(tensor), convert_to_tensor(mask)
        mask_rank = m.shape.rank
        if mask_rank == 0:
            raise ValueError("mask cannot be scalar.")
        if mask_rank is None:
            raise ValueError("Number of mask dimensions must be specified, even if some dimensions are None.")
        at = 0 if axis is None else int(axis)
        if at < 0:
            if x.shape.rank is None:
                raise ValueError("A negative axis needs a tensor of known rank")
            at += x.shape.rank
        x.shape[at : at + mask_rank].assert_is_compatible_with(m.shape)
        dims = shape(x)
        count = apply_op("Prod", input=dims[at : at + mask_rank], reduction_indices=[0])
        flat = reshape(x, concat([dims[:at], stack([count]), dims[at + mask_rank :]], 0))
        known = x.shape.dims_or_none
        if known is not None:
            flat.set_shape([*known[:at], None, *known[at + mask_rank :]])
        chosen = squeeze(apply_op("Where", input=reshape(m, [-1])), axis=[1])
        return gather(flat, chosen, axis=at)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """x where the condition holds, else y (shapes equal, or a vector of rows); without them the indices."""
    if x is None and y is None:
        return apply_op("Where", name, input=condition)  # type: ignore[no-any-return]
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    from dtfctl.runtime.ops.math_ops import _like

    x, y = _like(x, y)
    return apply_op("Select", name, condition=condition, t=x, e=y)  # type: ignore[no-any-return]


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Like `where`, with broadcasting."""
    if x is None and y is None:
        return apply_op("Where", name, input=condition)  # type: ignore[no-any-return]
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    from dtfctl.runtime.ops.math_ops import _like

    x, y = _like(x, y)
    return apply_op("SelectV2", name, condition=condition, t=x, e=y)  # type: ignore[no-any-return]


# --- rearranging ---


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """Axes in another order; reversed when perm is None."""
    with name_scope(name) as scope:
        x = convert_to_tensor(a)
        op_type = "ConjugateTranspose" if conjugate and x.dtype.is_complex else "Transpose"
        if perm is None:
            known = x.shape.rank
            if known is not None:
                perm = np.arange(known - 1, -1, -1, dtype=np.int32)
            else:
                last = apply_op("Sub", x=rank(x), y=1)
                perm = apply_op("Sub", x=last, y=apply_op("Range", start=0, limit=rank(x), delta=1))
        return apply_op(op_type, scope, x=x, perm=_index_tensor(perm))  # type: ignore[no-any-return]


def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    with name_scope(name):
        x = convert_to_tensor(a)
        known = x.shape.rank
        if known is None:
            n = rank(x)
            perm: Any = concat([apply_op("Range", start=0, limit=n - 2, delta=1), stack([n - 1, n - 2])], 0)
        else:
            if known < 2:
                raise ValueError(f"Argument `a` should be a (batch) matrix with rank >= 2. Found: {x.shape}")
            perm = [*builtins.range(known - 2), known - 1, known - 2]
        return transpose(x, perm, conjugate=conjugate)


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    return apply_op("InvertPermutation", name, x=x)  # type: ignore[no-any-return]


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    return apply_op("ReverseV2", name, tensor=tensor, axis=_index_tensor(axis))  # type: ignore[no-any-return]


reverse_v2 = reverse


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    seq = seq_dim if seq_axis is None else seq_axis
    batch = batch_dim if batch_axis is None else batch_axis
    return apply_op(  # type: ignore[no-any-return]
        "ReverseSequence", name, input=input, seq_lengths=seq_lengths, seq_dim=seq, batch_dim=batch or 0
    )


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    return apply_op("Roll", name, input=input, shift=shift, axis=axis)  # type: ignore[no-any-return]


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0
) -> Tensor:
    mode = mode.upper()
    if mode == "CONSTANT":
        if not isinstance(constant_values, Tensor) and np.isscalar(constant_values) and constant_values == 0:
            return apply_op("Pad", name, input=tensor, paddings=paddings)  # type: ignore[no-any-return]
        return apply_op("PadV2", name, input=tensor, paddings=paddings, constant_values=constant_values)  # type: ignore[no-any-return]
    if mode in ("REFLECT", "SYMMETRIC"):
        return apply_op("MirrorPad", name, input=tensor, paddings=paddings, mode=mode)  # type: ignore[no-any-return]
    raise ValueError(f"Value of argument `mode` expected to be one of CONSTANT, REFLECT, SYMMETRIC. Received {mode}")


def space_to_depth(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    return apply_op("SpaceToDepth", name, input=input, block_size=block_size, data_format=data_format)  # type: ignore[no-any-return]


def depth_to_space(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    return apply_op("DepthToSpace", name, input=input, block_size=block_size, data_format=data_format)  # type: ignore[no-any-return]


def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    return apply_op("SpaceToBatchND", name, input=input, block_shape=block_shape, paddings=paddings)  # type: ignore[no-any-return]


def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    return apply_op("BatchToSpaceND", name, input=input, block_shape=block_shape, crops=crops)  # type: ignore[no-any-return]


def space_to_batch(
    input: Any, paddings: Any, block_size: int | None = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    return space_to_batch_nd(input, [block_size] * 2 if block_shape is None else block_shape, paddings, name)


def batch_to_space(input: Any, crops: Any, block_size: int, name: str | None = None, block_shape: Any = None) -> Tensor:
    return batch_to_space_nd(input, [block_size] * 2 if block_shape is None else block_shape, crops, name)


# --- search ---


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    return tuple(apply_op("Unique", name, x=x, out_idx=out_idx))


def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    return tuple(apply_op("UniqueWithCounts", name, x=x, out_idx=out_idx))


def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> Any:
    return tuple(apply_op("ListDiff", name, x=x, y=y, out_idx=index_dtype))


listdiff = setdiff1d


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool_, name: str | None = None) -> Tensor:
    """[..., maxlen]: true before each length."""
    with name_scope(name, "SequenceMask"):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            top = apply_op("Max", input=reshape(lengths, [-1]), reduction_indices=[0])
            maxlen = apply_op("Maximum", x=constant(0, lengths.dtype.base_dtype), y=top)
        else:
            maxlen = convert_to_tensor(maxlen, dtype_hint=lengths.dtype.base_dtype)
            maxlen = apply_op("Cast", x=maxlen, DstT=lengths.dtype.base_dtype)
        zero, one = constant(0, lengths.dtype.base_dtype), constant(1, lengths.dtype.base_dtype)
        row = apply_op("Range", start=zero, limit=maxlen, delta=one)
        result = apply_op("Less", x=row, y=expand_dims(lengths, -1))
        wanted = as_dtype(dtype)
        return result if wanted is dtypes.bool_ else apply_op("Cast", x=result, DstT=wanted)  # type: ignore[no-any-return]


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Where each value would be inserted, row by row."""
    if side not in ("left", "right"):
        raise ValueError(f"Argument `side` must be either 'right' or 'left'. Received: `side` = '{side}'")
    rows = convert_to_tensor(sorted_sequence)
    wanted = convert_to_tensor(values, rows.dtype.base_dtype)
    n, m = shape(rows)[-1], shape(wanted)[-1]
    op_type = "LowerBound" if side == "left" else "UpperBound"
    out = apply_op(
        op_type,
        name,
        sorted_inputs=reshape(rows, stack([-1, n])),
        values=reshape(wanted, stack([-1, m])),
        out_type=out_type,
    )
    return reshape(out, shape(wanted))


def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    return apply_op("UnravelIndex", name, indices=indices, dims=dims)  # type: ignore[no-any-return]


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """Coordinate arrays of vectors."""
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


# --- diagonals ---


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    return apply_op("Diag", name, diagonal=diagonal)  # type: ignore[no-any-return]


def diag_part(input: Any, name: str | None = None) -> Tensor:
    return apply_op("DiagPart", name, input=input)  # type: ignore[no-any-return]


def matrix_diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    diagonal = convert_to_tensor(diagonal)
    if diagonal.dtype.base_dtype is dtypes.bool_ and padding_value == 0:
        padding_value = False
    return apply_op(  # type: ignore[no-any-return]
        "MatrixDiagV3",
        name,
        diagonal=diagonal,
        k=k,
        num_rows=num_rows,
        num_cols=num_cols,
        padding_value=convert_to_tensor(padding_value, diagonal.dtype.base_dtype),
        align=align,
    )


def matrix_diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    x = convert_to_tensor(input)
    if x.dtype.base_dtype is dtypes.bool_ and padding_value == 0:
        padding_value = False
    return apply_op(  # type: ignore[no-any-return]
        "MatrixDiagPartV3",
        name,
        input=x,
        k=k,
        padding_value=convert_to_tensor(padding_value, x.dtype.base_dtype),
        align=align,
    )


def matrix_set_diag(input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    return apply_op("MatrixSetDiagV3", name, input=input, diagonal=diagonal, k=k, align=align)  # type: ignore[no-any-return]


def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    low = convert_to_tensor(num_lower, None if isinstance(num_lower, Tensor) else dtypes.int64)
    return apply_op(  # type: ignore[no-any-return]
        "MatrixBandPart",
        name,
        input=input,
        num_lower=low,
        num_upper=convert_to_tensor(num_upper, low.dtype.base_dtype),
    )


# --- patches, distance, quantization ---


def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: str | None = None,
    name: str | None = None,
    sizes: Any = None,
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "ExtractImagePatches",
        name,
        images=images,
        ksizes=ksizes if sizes is None else sizes,
        strides=strides,
        rates=rates,
        padding=padding,
    )


def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Tensor:
    hypothesis, truth = SparseTensor.from_value(hypothesis), SparseTensor.from_value(truth)
    return apply_op(  # type: ignore[no-any-return]
        "EditDistance",
        name,
        hypothesis_indices=hypothesis.indices,
        hypothesis_values=hypothesis.values,
        hypothesis_shape=hypothesis.dense_shape,
        truth_indices=truth.indices,
        truth_values=truth.values,
        truth_shape=truth.dense_shape,
        normalize=normalize,
    )


def fake_quant_with_min_max_args(
    inputs: Any, min: float = -6, max: float = 6, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "FakeQuantWithMinMaxArgs", name, inputs=inputs, min=min, max=max, num_bits=num_bits, narrow_range=narrow_range
    )


def fake_quant_with_min_max_vars(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "FakeQuantWithMinMaxVars", name, inputs=inputs, min=min, max=max, num_bits=num_bits, narrow_range=narrow_range
    )


def fake_quant_with_min_max_vars_per_channel(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "FakeQuantWithMinMaxVarsPerChannel",
        name,
        inputs=inputs,
        min=min,
        max=max,
        num_bits=num_bits,
        narrow_range=narrow_range,
    )


# --- clipping ---


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """t with every element moved into [min, max]."""
    with name_scope(name, "clip_by_value") as scope:
        values = t.values if isinstance(t, IndexedSlices) else convert_to_tensor(t, name="t")
        kind = values.dtype.base_dtype
        low = apply_op("Minimum", x=values, y=convert_to_tensor(clip_value_max, kind))
        out = apply_op("Maximum", scope, x=low, y=convert_to_tensor(clip_value_min, kind))
        return IndexedSlices(out, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else out


tensor_scatter_nd_sub = tensor_scatter_sub
tensor_scatter_nd_max, tensor_scatter_nd_min = tensor_scatter_max, tensor_scatter_min


def extract_volume_patches(input: Any, ksizes: Any, strides: Any, padding: str, name: str | None = None) -> Tensor:
    return apply_op("ExtractVolumePatches", name, input=input, ksizes=ksizes, strides=strides, padding=padding)  # type: ignore[no-any-return]


def fingerprint(data: Any, method: Any = "farmhash64", name: str | None = None) -> Tensor:
    return apply_op("Fingerprint", name, data=data, method=method)  # type: ignore[no-any-return]


def quantize_v2(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:
    """(quantized, its lowest float, its highest float)."""
    out = apply_op(
        "QuantizeV2",
        name,
        input=input,
        min_range=min_range,
        max_range=max_range,
        T=T,
        mode=mode,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
        ensure_minimum_range=ensure_minimum_range,
    )
    return builtins.tuple(out)


quantize = quantize_v2


def dequantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: Any = dtypes.float32,
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "Dequantize",
        name,
        input=input,
        min_range=min_range,
        max_range=max_range,
        mode=mode,
        axis=-1 if axis is None else axis,
        narrow_range=narrow_range,
        dtype=dtype,
    )


def quantize_and_dequantize(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    return apply_op(  # type: ignore[no-any-return]
        "QuantizeAndDequantizeV2",
        name,
        input=input,
        input_min=input_min,
        input_max=input_max,
        signed_input=signed_input,
        num_bits=num_bits,
        range_given=range_given,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
    )


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(paddings, crops) that make an input divisible into blocks; computed while building, from known values."""
    sizes, blocks = (
        np.asarray(v) if known is None else known
        for v, known in ((v, constant_value(v) if isinstance(v, Tensor) else None) for v in (input_shape, block_shape))
    )
    base = np.zeros((len(blocks), 2), np.int32) if base_paddings is None else np.asarray(base_paddings)
    full = sizes + base.sum(axis=1)
    extra = (-full) % blocks
    paddings = np.stack([base[:, 0], base[:, 1] + extra], axis=1).astype(np.int32)
    crops = np.stack([np.zeros_like(extra), extra], axis=1).astype(np.int32)
    with name_scope(name, "required_space_to_batch_paddings"):
        return constant(paddings, name="paddings"), constant(crops, name="crops")
