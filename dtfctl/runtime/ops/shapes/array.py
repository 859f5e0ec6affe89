"""Static shapes of the array family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value, constant_value_as_shape
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, unknown_shape
from dtfctl.runtime.ops.shapes.indexing import strided_index

Dims = tuple[int | None, ...]


def _axis(value: Any, rank: int, op: Operation) -> int:
    at = int(value)
    if not -rank <= at < rank:
        raise ValueError(f"Axis {at} must be in the range [{-rank}, {rank}) for '{op.name}' (op: '{op.type}')")
    return at % rank


@register_shape(
    "CheckNumerics",
    "CheckNumericsV2",
    "DebugGradientIdentity",
    "DebugGradientRefIdentity",
    "DeepCopy",
    "FakeQuantWithMinMaxArgs",
    "FakeQuantWithMinMaxArgsGradient",
    "FakeQuantWithMinMaxVars",
    "FakeQuantWithMinMaxVarsPerChannel",
    "GuaranteeConst",
    "Identity",
    "InplaceAdd",
    "InplaceSub",
    "InplaceUpdate",
    "InvertPermutation",
    "MatrixBandPart",
    "BatchMatrixBandPart",
    "MatrixSetDiag",
    "MatrixSetDiagV2",
    "MatrixSetDiagV3",
    "BatchMatrixSetDiag",
    "OnesLike",
    "PreventGradient",
    "QuantizeAndDequantize",
    "QuantizeAndDequantizeV2",
    "QuantizeAndDequantizeV3",
    "QuantizeAndDequantizeV4",
    "RefIdentity",
    "Reverse",
    "ReverseSequence",
    "ReverseV2",
    "Roll",
    "Snapshot",
    "StopGradient",
    "TensorScatterAdd",
    "TensorScatterMax",
    "TensorScatterMin",
    "TensorScatterSub",
    "TensorScatterUpdate",
    "ScatterNdNonAliasingAdd",
    "TensorStridedSliceUpdate",
    "ZerosLike",
    "Dequantize",
)
def _unchanged(op: Operation) -> Any:
    return [op.inputs[0].shape]


@register_shape("IdentityN")
def _identity_n(op: Operation) -> Any:
    return [t.shape for t in op.inputs]


@register_shape("Const", "HostConst")
def _const(op: Operation) -> Any:
    return [TensorShape(op.attrs["value"].tensor.tensor_shape)]


@register_shape("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "ImmutableConst")
def _placeholder(op: Operation) -> Any:
    return [op.attr("shape")]


@register_shape("EnsureShape")
def _ensure_shape(op: Operation) -> Any:
    return [op.inputs[0].shape.merge_with(op.attr("shape"))]


@register_shape("ParallelConcat")
def _parallel_concat(op: Operation) -> Any:
    return [op.attr("shape")]


@register_shape("Shape")
def _shape(op: Operation) -> Any:
    return [[op.inputs[0].shape.rank]]


@register_shape("ShapeN")
def _shape_n(op: Operation) -> Any:
    return [[t.shape.rank] for t in op.inputs]


@register_shape("Size", "Rank", "IsResourceHandleRefCounting")
def _scalar(op: Operation) -> Any:
    return [[]]


@register_shape("Reshape")
def _reshape(op: Operation) -> Any:
    wanted = constant_value_as_shape(op.inputs[1]).dims_or_none
    source = op.inputs[0].shape
    if wanted is None:
        return [TensorShape(None)]
    count = source.num_elements()
    unknown = [i for i, d in enumerate(wanted) if d is None]
    value = constant_value(op.inputs[1])
    if count is None:
        return [wanted]
    known = 1
    for d in wanted:
        known *= 1 if d is None else d
    if not unknown and known != count:
        raise ValueError(
            f"Cannot reshape a tensor with {count} elements to shape {list(wanted)} ({known} elements) for "
            f"'{op.name}' (op: 'Reshape')"
        )
    if len(unknown) == 1 and value is not None and known:
        if count % known:
            raise ValueError(
                f"Dimension size must be evenly divisible by {known} but is {count} for '{op.name}' (op: 'Reshape')"
            )
        filled = list(wanted)
        filled[unknown[0]] = count // known
        return [filled]
    return [wanted]


@register_shape("Squeeze")
def _squeeze(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    chosen = op.attr("squeeze_dims") or ()
    if dims is None:
        return [TensorShape(None)]
    if not chosen:
        return [TensorShape(None) if None in dims else [d for d in dims if d != 1]]
    drop = {_axis(a, len(dims), op) for a in chosen}
    for a in drop:
        if dims[a] not in (None, 1):
            raise ValueError(f"Can not squeeze dim[{a}], expected a dimension of 1, got {dims[a]} for '{op.name}'")
    return [[d for i, d in enumerate(dims) if i not in drop]]


@register_shape("ExpandDims")
def _expand_dims(op: Operation) -> Any:
    dims, axis = op.inputs[0].shape.dims_or_none, constant_value(op.inputs[1])
    if dims is None:
        return [TensorShape(None)]
    if axis is None:
        return [unknown_shape(len(dims) + 1)]
    at = int(axis.reshape(()))
    if not -len(dims) - 1 <= at <= len(dims):
        raise ValueError(f"dim {at} not in the interval [{-len(dims) - 1}, {len(dims)}]. for '{op.name}'")
    at = at + len(dims) + 1 if at < 0 else at
    return [[*dims[:at], 1, *dims[at:]]]


@register_shape("BroadcastTo", "Fill", "Empty", "ScatterNd", "StridedSliceGrad")
def _from_shape_tensor(op: Operation) -> Any:
    position = {"BroadcastTo": 1, "Fill": 0, "Empty": 0, "ScatterNd": 2, "StridedSliceGrad": 0}[op.type]
    return [constant_value_as_shape(op.inputs[position])]


@register_shape("BroadcastArgs")
def _broadcast_args(op: Operation) -> Any:
    a, b = (t.shape.num_elements() for t in op.inputs)
    return [[None if a is None or b is None else max(a, b)]]


@register_shape("BroadcastGradientArgs", "ListDiff")
def _two_vectors(op: Operation) -> Any:
    return [[None], [None]]


@register_shape("Concat", "ConcatV2")
def _concat(op: Operation) -> Any:
    parts = op.inputs[1:] if op.type == "Concat" else op.inputs[:-1]
    axis = constant_value(op.inputs[0] if op.type == "Concat" else op.inputs[-1])
    rank = next((t.shape.rank for t in parts if t.shape.rank is not None), None)
    if rank is None:
        return [TensorShape(None)]
    if rank == 0:
        raise ValueError(f"Can't concatenate scalars (use tf.stack instead) for '{op.name}'")
    shapes = [t.shape.with_rank(rank).dims_or_none for t in parts]
    if axis is None:
        return [unknown_shape(rank)]
    at = _axis(axis, rank, op)
    out: list[int | None] = [None] * rank
    for d in range(rank):
        sizes = [s[d] for s in shapes if s is not None]
        if d == at:
            out[d] = None if None in sizes else sum(s for s in sizes if s is not None)
        else:
            known = {s for s in sizes if s is not None}
            if len(known) > 1:
                raise ValueError(
                    f"Dimension {d} in both shapes must be equal, but are {', '.join(map(str, sorted(known)))} for "
                    f"'{op.name}' (op: '{op.type}')"
                )
            out[d] = known.pop() if known else None
    return [out]


@register_shape("ConcatOffset")
def _concat_offset(op: Operation) -> Any:
    return [t.shape for t in op.inputs[1:]]


@register_shape("Pack")
def _pack(op: Operation) -> Any:
    shape = op.inputs[0].shape
    for tensor in op.inputs[1:]:
        try:
            shape = shape.merge_with(tensor.shape)
        except ValueError:
            raise ValueError(
                f"Dimension in both shapes must be equal, but are {shape} and {tensor.shape} for '{op.name}' "
                "(op: 'Pack')"
            ) from None
    dims = shape.dims_or_none
    if dims is None:
        return [TensorShape(None)]
    at = _axis(op.attr("axis"), len(dims) + 1, op)
    return [[*dims[:at], len(op.inputs), *dims[at:]]]


@register_shape("Unpack")
def _unpack(op: Operation) -> Any:
    dims, num = op.inputs[0].shape.dims_or_none, op.attr("num")
    if dims is None:
        return [TensorShape(None)] * num
    at = _axis(op.attr("axis"), len(dims), op)
    if dims[at] not in (None, num):
        raise ValueError(f"Dimension must be {num} but is {dims[at]} for '{op.name}' (op: 'Unpack')")
    return [[d for i, d in enumerate(dims) if i != at]] * num


@register_shape("Split")
def _split(op: Operation) -> Any:
    dims, num = op.inputs[1].shape.dims_or_none, op.attr("num_split")
    axis = constant_value(op.inputs[0])
    if dims is None:
        return [TensorShape(None)] * num
    if axis is None:
        return [unknown_shape(len(dims))] * num
    at = _axis(axis, len(dims), op)
    size = dims[at]
    if size is not None and size % num:
        raise ValueError(
            f"Dimension size must be evenly divisible by {num} but is {size} for '{op.name}' (op: 'Split')"
        )
    return [
        [
            None if i == at and size is None else size // num if i == at and size is not None else d
            for i, d in enumerate(dims)
        ]
    ] * num


@register_shape("SplitV")
def _split_v(op: Operation) -> Any:
    dims, num = op.inputs[0].shape.dims_or_none, op.attr("num_split")
    sizes, axis = constant_value(op.inputs[1]), constant_value(op.inputs[2])
    if dims is None:
        return [TensorShape(None)] * num
    if axis is None:
        return [unknown_shape(len(dims))] * num
    at = _axis(axis.reshape(()), len(dims), op)
    parts: list[int | None] = [None] * num
    if sizes is not None:
        listed = sizes.tolist()
        total = dims[at]
        rest = None if total is None else total - sum(s for s in listed if s >= 0)
        parts = [rest if s < 0 else s for s in listed]
    return [[*dims[:at], p, *dims[at + 1 :]] for p in parts]


@register_shape("Slice")
def _slice(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    begin, size = constant_value(op.inputs[1]), constant_value(op.inputs[2])
    if size is None:
        partial = constant_value_as_shape(op.inputs[2]).dims_or_none
        if dims is not None:
            return [unknown_shape(len(dims)).merge_with(partial)]
        return [TensorShape(partial)]
    if dims is None:
        return [[None if s < 0 else s for s in size.tolist()]]
    out: list[int | None] = []
    for i, (d, s) in enumerate(zip(dims, size.tolist())):
        b = None if begin is None else int(begin[i])
        if s == -1:
            out.append(None if d is None or b is None else d - b)
        else:
            if d is not None and b is not None and b + s > d:
                raise ValueError(
                    f"Slice goes past the end: begin[{i}] + size[{i}] ({b} + {s}) is greater than {d} for '{op.name}'"
                )
            out.append(s)
    return [out]


@register_shape("StridedSlice")
def _strided_slice(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    bounds = [constant_value(t) for t in op.inputs[1:4]]
    masks = tuple(int(op.attr(f"{m}_mask")) for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis"))
    if dims is None:
        return [TensorShape(None)]
    count = op.inputs[1].shape.num_elements()
    if any(b is None for b in bounds):
        if count is None:
            return [TensorShape(None)]
        zeros, ones = (0,) * count, (1,) * count
        full = (-1, -1, masks[2], masks[3], masks[4])
        strides = tuple(bounds[2].tolist()) if bounds[2] is not None else ones
        stand_in = tuple(1 if d is None else max(d, 1) for d in dims)
        index = strided_index(stand_in, zeros, zeros, strides, full)
        return [_indexed(dims, index, sliced_known=False)]
    begin, end, strides = (tuple(b.tolist()) for b in bounds if b is not None)
    # Unknown dimensions stand for one large enough that every index is inside.
    large = 1 << 40
    stand_in = tuple(large if d is None else d for d in dims)
    try:
        index = strided_index(stand_in, begin, end, strides, masks)  # type: ignore[arg-type]
    except InvalidArgumentError as e:
        raise ValueError(f"{e.message} for '{op.name}' (op: 'StridedSlice')") from None
    return [_indexed(dims, index, sliced_known=True)]


def _indexed(dims: Dims, index: tuple[Any, ...], sliced_known: bool) -> list[int | None]:
    out: list[int | None] = []
    at = 0
    for part in index:
        if part is Ellipsis:
            continue
        if part is None:
            out.append(1)
            continue
        d = dims[at]
        at += 1
        if isinstance(part, int):
            continue
        if part == slice(None):
            out.append(d)
        elif not sliced_known:
            out.append(None)
        elif d is None:
            # The slice's size does not depend on the dimension only when both ends count from the front and the
            # dimension is at least that large, which is not known: it stays unknown unless it is empty.
            out.append(0 if part == slice(0, 0) else None)
        else:
            out.append(len(range(*part.indices(d))))
    return [*out, *dims[at:]]


@register_shape("Gather")
def _gather(op: Operation) -> Any:
    params, indices = (t.shape.dims_or_none for t in op.inputs)
    if params is None or indices is None:
        return [TensorShape(None)]
    return [[*indices, *params[1:]]]


@register_shape("GatherV2")
def _gather_v2(op: Operation) -> Any:
    params, indices = op.inputs[0].shape.dims_or_none, op.inputs[1].shape.dims_or_none
    axis, batch = constant_value(op.inputs[2]), op.attr("batch_dims") or 0
    if params is None or indices is None:
        return [TensorShape(None)]
    if len(params) < 1:
        raise ValueError(f"Shape must be at least rank 1 but is rank 0 for '{op.name}' (op: 'GatherV2')")
    batch = batch + len(indices) if batch < 0 else batch
    if axis is None:
        return [unknown_shape(len(params) - 1 + len(indices) - batch)]
    at = _axis(axis, len(params), op)
    return [[*params[:at], *indices[batch:], *params[at + 1 :]]]


@register_shape("GatherNd")
def _gather_nd(op: Operation) -> Any:
    params, indices = (t.shape.dims_or_none for t in op.inputs)
    if params is None or indices is None or indices[-1] is None:
        return [TensorShape(None)]
    depth = indices[-1]
    if depth > len(params):
        raise ValueError(f"indices.shape[-1] must be <= params.rank, but saw indices shape: {indices} for '{op.name}'")
    return [[*indices[:-1], *params[depth:]]]


@register_shape("Transpose", "ConjugateTranspose")
def _transpose(op: Operation) -> Any:
    dims, perm = op.inputs[0].shape.dims_or_none, constant_value(op.inputs[1])
    if perm is None:
        rank = len(dims) if dims is not None else op.inputs[1].shape.num_elements()
        return [unknown_shape(rank)]
    if dims is None:
        return [unknown_shape(perm.size)]
    if perm.size != len(dims):
        raise ValueError(f"Dimension must be {len(dims)} but is {perm.size} for '{op.name}' (op: '{op.type}')")
    return [[dims[_axis(p, len(dims), op)] for p in perm.tolist()]]


@register_shape("Tile")
def _tile(op: Operation) -> Any:
    dims, multiples = op.inputs[0].shape.dims_or_none, constant_value_as_shape(op.inputs[1]).dims_or_none
    if dims is None:
        return [unknown_shape(None if multiples is None else len(multiples))]
    if multiples is None:
        return [unknown_shape(len(dims))]
    if len(multiples) != len(dims):
        raise ValueError(f"Shape must be rank {len(dims)} but is rank {len(multiples)} for '{op.name}' (op: 'Tile')")
    return [[None if d is None or m is None else d * m for d, m in zip(dims, multiples)]]


@register_shape("Pad", "PadV2", "MirrorPad", "MirrorPadGrad")
def _pad(op: Operation) -> Any:
    dims, pads = op.inputs[0].shape.dims_or_none, constant_value(op.inputs[1])
    if dims is None:
        rows = op.inputs[1].shape.dims_or_none
        return [unknown_shape(None if rows is None or rows[0] is None else rows[0])]
    if pads is None:
        return [unknown_shape(len(dims))]
    if pads.shape[0] != len(dims):
        raise ValueError(
            f"Shape must be rank {pads.shape[0]} but is rank {len(dims)} for '{op.name}' (op: '{op.type}')"
        )
    sign = -1 if op.type == "MirrorPadGrad" else 1
    return [[None if d is None else d + sign * int(p.sum()) for d, p in zip(dims, pads)]]


@register_shape("SpaceToDepth", "DepthToSpace")
def _space_depth(op: Operation) -> Any:
    dims = op.inputs[0].shape.with_rank(4).dims_or_none
    assert dims is not None
    block, layout = op.attr("block_size"), op.attr("data_format")
    n, h, w, c = dims if layout == b"NHWC" else (dims[0], dims[2], dims[3], dims[1])

    def scaled(d: int | None, by: int, up: bool) -> int | None:
        return None if d is None else d * by if up else d // by

    grow = op.type == "DepthToSpace"
    h, w, c = scaled(h, block, grow), scaled(w, block, grow), scaled(c, block * block, not grow)
    return [[n, h, w, c] if layout == b"NHWC" else [n, c, h, w]]


@register_shape("SpaceToBatchND", "BatchToSpaceND", "SpaceToBatch", "BatchToSpace")
def _space_batch(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    edges = constant_value(op.inputs[-1])
    if op.type.endswith("ND"):
        value = constant_value(op.inputs[1])
        block = None if value is None else value.tolist()
    else:
        block = [op.attr("block_size")] * 2
    if dims is None:
        return [TensorShape(None)]
    if block is None or edges is None:
        return [unknown_shape(len(dims))]
    out = list(dims)
    into_batch = op.type.startswith("Space")
    for i, b in enumerate(block):
        batch, size, edge = out[0], out[i + 1], int(edges[i].sum())
        if into_batch:
            out[0] = None if batch is None else batch * b
            out[i + 1] = None if size is None else (size + edge) // b
        else:
            out[0] = None if batch is None else batch // b
            out[i + 1] = None if size is None else size * b - edge
    return [out]


@register_shape("OneHot")
def _one_hot(op: Operation) -> Any:
    dims, depth = op.inputs[0].shape.dims_or_none, constant_value(op.inputs[1])
    if dims is None:
        return [TensorShape(None)]
    axis = op.attr("axis")
    at = len(dims) if axis == -1 else axis
    return [[*dims[:at], None if depth is None else int(depth), *dims[at:]]]


@register_shape("Where")
def _where(op: Operation) -> Any:
    return [[None, op.inputs[0].shape.rank]]


@register_shape("Unique", "UniqueWithCounts", "UniqueV2", "UniqueWithCountsV2")
def _unique(op: Operation) -> Any:
    rank = op.inputs[0].shape.rank
    y = [None] if rank == 1 else unknown_shape(rank)
    index: Any = op.inputs[0].shape if rank == 1 else [None]
    return [y, index, [None]][: len(op.outputs)]


@register_shape("LowerBound", "UpperBound")
def _bound(op: Operation) -> Any:
    return [op.inputs[1].shape]


@register_shape("UnravelIndex")
def _unravel(op: Operation) -> Any:
    size = op.inputs[1].shape.num_elements()
    return [TensorShape([size]).concatenate(op.inputs[0].shape)]


@register_shape("Diag")
def _diag(op: Operation) -> Any:
    return [op.inputs[0].shape.concatenate(op.inputs[0].shape)]


@register_shape("DiagPart")
def _diag_part(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [TensorShape(None) if dims is None else dims[: len(dims) // 2]]


@register_shape("MatrixDiag", "BatchMatrixDiag")
def _matrix_diag(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [TensorShape(None) if dims is None else [*dims, dims[-1]]]


@register_shape("MatrixDiagPart", "BatchMatrixDiagPart")
def _matrix_diag_part(op: Operation) -> Any:
    dims = op.inputs[0].shape.with_rank_at_least(2).dims_or_none
    if dims is None:
        return [TensorShape(None)]
    a, b = dims[-2:]
    return [[*dims[:-2], None if a is None or b is None else min(a, b)]]


def _diagonals(op: Operation, position: int) -> tuple[int, int] | None:
    value = constant_value(op.inputs[position])
    return None if value is None else (int(value.reshape(-1)[0]), int(value.reshape(-1)[-1]))


@register_shape("MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diag_part_v3(op: Operation) -> Any:
    dims, range_ = op.inputs[0].shape.with_rank_at_least(2).dims_or_none, _diagonals(op, 1)
    if dims is None or range_ is None:
        return [TensorShape(None)]
    low, high = range_
    rows, cols = dims[-2:]
    longest = None if rows is None or cols is None else min(rows + min(high, 0), cols - max(low, 0))
    return [[*dims[:-2], longest] if low == high else [*dims[:-2], high - low + 1, longest]]


@register_shape("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag_v3(op: Operation) -> Any:
    dims, range_ = op.inputs[0].shape.dims_or_none, _diagonals(op, 1)
    rows, cols = constant_value(op.inputs[2]), constant_value(op.inputs[3])
    if dims is None or range_ is None:
        return [TensorShape(None)]
    low, high = range_
    batch = dims[:-1] if low == high else dims[:-2]
    if rows is None or cols is None or dims[-1] is None:
        return [[*batch, None, None]]
    least_rows, least_cols = dims[-1] - min(high, 0), dims[-1] + max(low, 0)
    r, c = int(rows), int(cols)
    if r == -1 and c == -1:
        r = c = max(least_rows, least_cols)
    return [[*batch, least_rows if r == -1 else r, least_cols if c == -1 else c]]


@register_shape("EditDistance")
def _edit_distance(op: Operation) -> Any:
    size = op.inputs[2].shape.num_elements()
    return [unknown_shape(None if size is None else size - 1)]


@register_shape("Bitcast")
def _bitcast(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    have, want = op.inputs[0].dtype.size, dtypes.as_dtype(op.outputs[0].dtype).size
    if dims is None:
        return [TensorShape(None)]
    if have == want:
        return [dims]
    return [[*dims, have // want] if have > want else dims[:-1]]


@register_shape("ExtractImagePatches", "ExtractVolumePatches")
def _patches(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    if dims is None:
        return [TensorShape(None)]
    sizes, strides = op.attr("ksizes"), op.attr("strides")
    rates = op.attr("rates") or (1,) * len(sizes)
    out: list[int | None] = [dims[0]]
    volume = 1
    for d, size, stride, rate in zip(dims[1:-1], sizes[1:-1], strides[1:-1], rates[1:-1]):
        extent = (size - 1) * rate + 1
        volume *= size
        if d is None:
            out.append(None)
        else:
            out.append(-(-d // stride) if op.attr("padding") == b"SAME" else -(-(d - extent + 1) // stride))
    last = dims[-1]
    return [[*out, None if last is None else last * volume]]


@register_shape("QuantizeV2")
def _quantize(op: Operation) -> Any:
    return [op.inputs[0].shape, op.inputs[1].shape, op.inputs[2].shape]


@register_shape("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient")
def _fake_quant_gradient(op: Operation) -> Any:
    return [op.inputs[1].shape, op.inputs[2].shape, op.inputs[3].shape]


@register_shape("QuantizeAndDequantizeV4Grad")
def _quantize_grad(op: Operation) -> Any:
    return [op.inputs[1].shape, op.inputs[2].shape, op.inputs[3].shape]


@register_shape("StridedSliceAssign")
def _strided_slice_assign(op: Operation) -> Any:
    return [op.inputs[0].shape]


@register_shape("Fingerprint")
def _fingerprint(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [[None if dims is None else dims[0], 8]]


@register_shape("TileGrad")
def _tile_grad(op: Operation) -> Any:
    return [unknown_shape(op.inputs[0].shape.rank)]
