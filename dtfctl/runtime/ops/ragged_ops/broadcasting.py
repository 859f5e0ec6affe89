"""Ragged operands with equal rows, for functions of each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import control_dependencies
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import (
    RaggedTensor,
    convert_to_tensor_or_ragged_tensor,
    match_row_splits_dtypes,
)
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue
from dtfctl.runtime.ops.ragged_ops.row_partition import RowPartition

_SIZES = (
    "tf.ragged.map_flat_values requires that the output of `op` have the same outer-dimension size as flat_values of "
    "any ragged inputs"
)


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a function to the innermost values of ragged tensors that are cut into equal rows.

    Ragged tensors among the arguments, and in lists of them, stand for their `flat_values`. Without any of them the
    function is called with the arguments as they are.

    Raises:
        ValueError: what the function gives is not one value for each; InvalidArgumentError (in a step): rows differ.
    """
    found: list[RaggedTensor] = []

    def gather(value: Any) -> Any:
        if isinstance(value, RaggedTensorValue):
            value = convert_to_tensor_or_ragged_tensor(value)
        if isinstance(value, RaggedTensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            return [gather(v) for v in value]
        return value

    given = [gather(a) for a in args]
    named = {k: gather(v) for k, v in kwargs.items()}
    if not found:
        return op(*args, **kwargs)
    found = match_row_splits_dtypes(*found)
    first = found[0]
    flats = iter([t.flat_values for t in found])

    def flat(value: Any) -> Any:
        if isinstance(value, RaggedTensor):
            return next(flats)
        return [flat(v) for v in value] if isinstance(value, list) else value

    with control_dependencies(_equal_rows(found)):
        result = op(*[flat(a) for a in given], **{k: flat(v) for k, v in named.items()})
    rows = first.flat_values.shape.dims_or_none
    if isinstance(result, Tensor) and result.shape.rank == 0:
        raise ValueError(f"{_SIZES}: the output is a scalar")
    if isinstance(result, Tensor) and rows and rows[0] is not None and result.shape.rank:
        size = result.shape.as_list()[0]
        if size is not None and size != rows[0]:
            raise ValueError(f"{_SIZES}. (output shape: {result.shape}; expected outer dimension size: {rows[0]})")
    return first.with_flat_values(result)


def _equal_rows(tensors: Sequence[RaggedTensor]) -> list[Any]:
    """Make the checks that ragged tensors are cut into the same rows; none where they share their splits.

    Raises:
        ValueError: they have different ragged ranks.
    """
    first = tensors[0]
    checks = []
    for other in tensors[1:]:
        if other.ragged_rank != first.ragged_rank:
            raise ValueError("All ragged inputs must have the same ragged_rank.")
        for a, b in zip(first.nested_row_splits, other.nested_row_splits):
            if a is not b:
                checks.append(check_ops.assert_equal(a, b, message="Inputs must have identical ragged splits"))
    return [c for c in checks if getattr(c, "type", "NoOp") != "NoOp"]


def broadcast_together(*operands: Any) -> list[Any]:
    """Let ragged operands have the same rows; what is dense and broadcasts along the innermost values stays dense.

    Raises:
        ValueError: a rank is unknown; InvalidArgumentError (in a step): rows do not fit each other.
    """
    tensors = match_row_splits_dtypes(*operands)
    ragged = [t for t in tensors if isinstance(t, RaggedTensor)]
    if all(_same_partitions(ragged[0], t) for t in ragged[1:]) and all(
        isinstance(t, RaggedTensor) or _is_inner(t, ragged[0]) for t in tensors
    ):
        return tensors
    ranks = [t.shape.rank for t in tensors]
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(ranks):
        raise ValueError("Unable to broadcast: unknown rank")
    rank = max(known)
    depth = max(t.ragged_rank + rank - t.shape.rank for t in ragged)
    kind = ragged[0].row_splits.dtype.base_dtype
    whole = [t for t in tensors if isinstance(t, RaggedTensor) or not _fits_inside(t, rank, depth)]
    made = iter(_broadcast([_with_depth(t, rank, depth, kind) for t in whole], depth))
    return [next(made) if any(t is w for w in whole) else t for t in tensors]


def _same_partitions(a: RaggedTensor, b: RaggedTensor) -> bool:
    return a.ragged_rank == b.ragged_rank and all(x is y for x, y in zip(a.nested_row_splits, b.nested_row_splits))


def _is_inner(tensor: Tensor, ragged: RaggedTensor) -> bool:
    """Tell whether a dense tensor broadcasts along the dimensions of each innermost value."""
    rank, flat = tensor.shape.rank, ragged.flat_values.shape.rank
    return rank == 0 or (rank is not None and flat is not None and rank < flat)


def _fits_inside(tensor: Any, rank: int, depth: int) -> bool:
    return bool(tensor.shape.rank < rank - depth)


def _with_depth(tensor: Any, rank: int, depth: int, kind: Any) -> RaggedTensor:
    """Add outer dimensions of size 1 up to the rank, and take uniform ones as ragged up to the depth."""
    for _ in range(rank - tensor.shape.rank):
        if isinstance(tensor, RaggedTensor):
            splits = array_ops.stack([constant(0, kind), tensor.nrows()])
            tensor = RaggedTensor.from_row_splits(tensor, splits, validate=False)
        else:
            tensor = array_ops.expand_dims(tensor, 0)
    deep: RaggedTensor = deepened(tensor, depth, kind)
    return deep


def deepened(tensor: Any, depth: int, kind: Any) -> Any:
    """Take uniform dimensions as ragged ones, up to that many."""
    if not isinstance(tensor, RaggedTensor):
        return RaggedTensor.from_tensor(tensor, ragged_rank=depth, row_splits_dtype=kind) if depth else tensor
    missing = depth - tensor.ragged_rank
    if missing <= 0:
        return tensor
    flat = RaggedTensor.from_tensor(tensor.flat_values, ragged_rank=missing, row_splits_dtype=kind)
    return tensor.with_flat_values(flat)


def _broadcast(tensors: list[RaggedTensor], depth: int) -> list[RaggedTensor]:
    """Repeat rows of dimensions of size 1, from the outermost in; `places` are each result's values among its own."""
    kind = tensors[0].row_splits.dtype.base_dtype
    zero, one = constant(0, kind), constant(1, kind)
    counts = [t.nrows() for t in tensors]
    rows = _common(counts)
    checks = _fitting(counts, rows)
    places = [
        array_ops.where_v2(math_ops.equal(c, one), array_ops.zeros_like(math_ops.range(rows)), math_ops.range(rows))
        for c in counts
    ]
    partitions: list[RowPartition] = []
    for level in range(depth):
        own = [t._nested_row_partitions[level] for t in tensors]
        with control_dependencies(checks):
            lengths = [array_ops.gather(p.row_lengths(), at) for p, at in zip(own, places)]
        single = [math_ops.reduce_all(math_ops.equal(p.row_lengths(), one)) for p in own]
        joint = lengths[-1]
        for length, alone in zip(reversed(lengths[:-1]), reversed(single[:-1])):
            joint = array_ops.where_v2(alone, joint, length)
        checks = []
        for length, alone in zip(lengths, single):
            fits = math_ops.logical_or(alone, math_ops.reduce_all(math_ops.equal(length, joint)))
            what = ["Unable to broadcast: dimension size mismatch in dimension", level + 1, "lengths=", length]
            checks.append(check_ops.Assert(fits, [*what, "dim_size=", joint]))
        checks = [c for c in checks if c is not None]
        with control_dependencies(checks):
            partition = RowPartition.from_row_lengths(joint, validate=False)
            offsets = partition.offsets_in_rows()
            rowids = partition.value_rowids()
        places = [
            array_ops.gather(array_ops.gather(p.row_starts(), at), rowids) + array_ops.where_v2(alone, zero, offsets)
            for p, at, alone in zip(own, places, single)
        ]
        partitions.append(partition)
    return [
        RaggedTensor._from_nested_row_partitions(array_ops.gather(t.flat_values, at), partitions)
        for t, at in zip(tensors, places)
    ]


def _common(counts: list[Tensor]) -> Tensor:
    joint = counts[-1]
    for count in reversed(counts[:-1]):
        joint = array_ops.where_v2(math_ops.equal(count, constant(1, count.dtype.base_dtype)), joint, count)
    return joint


def _fitting(counts: list[Tensor], rows: Tensor) -> list[Any]:
    one = constant(1, rows.dtype.base_dtype)
    checks = []
    for count in counts:
        fits = math_ops.logical_or(math_ops.equal(count, one), math_ops.equal(count, rows))
        checks.append(
            check_ops.Assert(fits, ["Unable to broadcast: dimension size mismatch in dimension 0", count, rows])
        )
    return [c for c in checks if c is not None]


def of_elements(function: Callable[..., Any], operands: Sequence[Any], call: Callable[..., Any]) -> Any:
    """Apply a function of broadcast operands to ragged ones.

    Args:
        call: takes the operands as dense tensors and calls `function`.
    """
    first = next(o for o in operands if isinstance(o, RaggedTensor))
    tensors = [
        o
        if isinstance(o, RaggedTensor)
        else convert_to_tensor_or_ragged_tensor(o, None if _is_typed(o) else _type_for(o, first), name="operand")
        for o in operands
    ]
    same = broadcast_together(*tensors)
    rows = next(t for t in same if isinstance(t, RaggedTensor))
    flat = [t.flat_values if isinstance(t, RaggedTensor) else t for t in same]
    return rows.with_flat_values(call(*flat))


def _is_typed(value: Any) -> bool:
    return isinstance(value, (Tensor, RaggedTensor, RaggedTensorValue))


def _type_for(value: Any, beside: RaggedTensor) -> Any:
    """Give what has no type of its own that of the ragged operand, where it fits."""
    try:
        convert_to_tensor(value, beside.dtype.base_dtype)
    except (TypeError, ValueError):
        return None
    return beside.dtype.base_dtype
