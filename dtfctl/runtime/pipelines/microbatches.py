"""Cutting a batch into micro-batches, and calling a function for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import variable_scope
from dtfctl.runtime.strategies.shared_variables import shared_creator


@dataclass
class Batch:
    """A batch in parts.

    Attributes:
        parts: the arguments of each micro-batch, structured as those of the whole.
        weights: the part of the batch's examples that each micro-batch has.
    """

    parts: list[Any]
    weights: list[Any]


@dataclass
class Call:
    """What a function has built for one micro-batch.

    Attributes:
        inputs: the tensors it was given.
        ops: what it has made, inputs first.
        scope: the prefix of their names.
    """

    loss: Tensor
    inputs: list[Tensor]
    ops: list[Operation]
    scope: str


def split(args: Sequence[Any], count: int) -> Batch:
    """Cut the first dimension of all tensors into parts as equal as can be; scalars go to all parts.

    Raises:
        ValueError: there is no batch, tensors have different numbers of rows, or fewer than there are parts.
    """
    given = [convert_to_tensor(value) for value in nest.flatten(args)]
    batched = [t for t in given if t.shape.rank != 0]
    if not batched:
        raise ValueError("None of the arguments has a first dimension to cut into micro-batches")
    known = {rows for t in batched if t.shape.rank and (rows := t.shape.as_list()[0]) is not None}
    if len(known) > 1:
        raise ValueError(f"The arguments have different numbers of examples: {sorted(known)}")
    rows = next(iter(known), None)
    if rows is not None and rows < count:
        raise ValueError(f"A batch of {rows} examples cannot be cut into {count} micro-batches: take fewer")
    if count == 1:
        return Batch([nest.pack_sequence_as(args, given)], [1.0])
    even = rows is not None and rows % count == 0 and all(t.shape.rank for t in batched)
    bounds = [] if even else _bounds(batched, count)
    columns: list[Sequence[Any]] = []
    for tensor in given:
        if tensor.shape.rank == 0:
            columns.append([tensor] * count)
            continue
        with context.get_default_graph().colocate_with(tensor.op, ignore_existing=True):
            columns.append(_even(tensor, count) if even else _uneven(tensor, bounds))
    parts = [nest.pack_sequence_as(args, list(row)) for row in zip(*columns, strict=True)]
    if even:
        return Batch(parts, [1.0 / count] * count)
    with context.get_default_graph().colocate_with(batched[0].op, ignore_existing=True):
        sizes = [apply_op("Sub", x=b, y=a) for a, b in pairwise(bounds)]
        whole = apply_op("Cast", x=bounds[-1], DstT=dtypes.float64)
        weights = [apply_op("RealDiv", x=apply_op("Cast", x=n, DstT=dtypes.float64), y=whole) for n in sizes]
    return Batch(parts, weights)


def _even(tensor: Tensor, count: int) -> list[Tensor]:
    axis = convert_to_tensor(0, dtypes.int32)
    found: list[Tensor] = make_op("Split", split_dim=axis, value=tensor, num_split=count).outputs
    return found


def _bounds(tensors: Sequence[Tensor], count: int) -> list[Tensor]:
    """Make the row at which each part begins, and the number of all rows."""
    with context.get_default_graph().colocate_with(tensors[0].op, ignore_existing=True):
        rows = _rows(tensors[0])
        enough = apply_op("GreaterEqual", x=rows, y=convert_to_tensor(count, dtypes.int32))
        message = f"A batch has fewer examples than there are micro-batches ({count}); it has"
        checks = [make_op("Assert", condition=enough, data=[convert_to_tensor(message), rows])]
    for other in tensors[1:]:
        with context.get_default_graph().colocate_with(other.op, ignore_existing=True):
            same = apply_op("Equal", x=_rows(other), y=rows)
            text = "Arguments have different numbers of examples"
            checks.append(make_op("Assert", condition=same, data=[convert_to_tensor(text), rows, _rows(other)]))
    with (
        context.get_default_graph().colocate_with(tensors[0].op, ignore_existing=True),
        context.get_default_graph().control_dependencies(checks),
    ):
        rows = apply_op("Identity", input=rows)
        parts = convert_to_tensor(count, dtypes.int32)
        return [
            apply_op("FloorDiv", x=apply_op("Mul", x=rows, y=convert_to_tensor(i, dtypes.int32)), y=parts)
            for i in range(count + 1)
        ]


def _rows(tensor: Tensor) -> Tensor:
    shape = apply_op("Shape", input=tensor)
    found: Tensor = apply_op("StridedSlice", input=shape, begin=[0], end=[1], strides=[1], shrink_axis_mask=1)
    return found


def _uneven(tensor: Tensor, bounds: Sequence[Tensor]) -> list[Tensor]:
    one = convert_to_tensor([1], dtypes.int32)
    parts = []
    for begin, end in pairwise(bounds):
        first, last = (apply_op("Reshape", tensor=b, shape=one) for b in (begin, end))
        part = apply_op("StridedSlice", input=tensor, begin=first, end=last, strides=one)
        if tensor.shape.rank is not None:
            part.set_shape([None, *tensor.shape.as_list()[1:]])
        parts.append(part)
    return parts


class Calls:
    """Calls a function for one micro-batch after the other, with the first one's variables and names."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._graph = context.get_default_graph()
        self._scopes = variable_scope.open_scopes()
        self._after: Any = None
        self._scope = self._graph.get_name_scope()
        self._shared: dict[str, list[Any]] = {}
        self._count = 0

    def next(self, args: Sequence[Any]) -> Call:
        """Call the function for the next micro-batch.

        Raises:
            ValueError: it returned something else than a scalar of a floating type.
        """
        index, graph = self._count, self._graph
        self._count += 1
        summaries = list(graph.get_collection(GraphKeys.SUMMARIES))
        known = len(graph.get_operations())
        variable_scope.take_scopes(self._scopes)
        if index:
            again: Any = variable_scope.variable_scope(self._scopes[0], reuse=True, auxiliary_name_scope=False)
            prefix = f"{self._scope}/" if self._scope else ""
            name = f"{prefix}microbatch_{index}/"
        else:
            again = variable_scope.variable_scope(self._scopes[0], auxiliary_name_scope=False)
            name = f"{self._scope}/" if self._scope else ""
        with (
            graph.name_scope(name or None),
            again,
            graph.variable_creator_scope(shared_creator(self._shared, index)),
        ):
            loss = convert_to_tensor(self._function(*args))
        if not index:
            self._after = variable_scope.open_scopes()
        variable_scope.take_scopes((self._scopes[0], self._after[1]))
        if index and GraphKeys.SUMMARIES in graph.get_all_collection_keys():
            # Others say the same under other names.
            graph.get_collection_ref(GraphKeys.SUMMARIES)[:] = summaries
        if not loss.dtype.base_dtype.is_floating or loss.shape.rank not in (0, None):
            raise ValueError(
                f"The function must return its micro-batch's loss, a scalar of a floating type, the mean over its "
                f"examples; got {loss!r}"
            )
        inputs = [t for t in nest.flatten(args) if isinstance(t, Tensor)]
        return Call(loss, inputs, graph.get_operations()[known:], name)
