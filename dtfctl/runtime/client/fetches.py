"""From any structure of fetches to lists of names, and from the values back to that structure."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.spans import Span
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue

_MOST_NAMES = 3


class SparseTensorValue(NamedTuple):
    """Value of a SparseTensor: fetched as, or fed for, one.

    Attributes:
        indices: int64 [n, rank]; values: [n]; dense_shape: int64 [rank].
    """

    indices: Any
    values: Any
    dense_shape: Any


class IndexedSlicesValue(NamedTuple):
    """Value of an IndexedSlices; `dense_shape` is None where the slices have none."""

    values: Any
    indices: Any
    dense_shape: Any = None


# (elements of a fetch, how their values become its value)
Expansion = tuple[Sequence[Any], Callable[[list[Any]], Any]]


@dataclass(frozen=True)
class Conversion:
    """How values of a user's type are fetched and fed."""

    kind: type
    fetch: Callable[[Any], Expansion]
    feed: Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None
    feed_names: Callable[[Any], Sequence[Any]] | None


def _slices_parts(slices: Any) -> list[Any]:
    parts = [slices.values, slices.indices]
    return parts if slices.dense_shape is None else [*parts, slices.dense_shape]


def _ragged_value(parts: list[Any]) -> RaggedTensorValue:
    value, *nested = parts
    for splits in reversed(nested):
        value = RaggedTensorValue(value, splits)
    return value  # type: ignore[no-any-return]


def _ragged_feed(key: RaggedTensor, value: Any) -> Sequence[tuple[Any, Any]]:
    if not isinstance(value, RaggedTensorValue):
        raise TypeError(f"A RaggedTensor is fed with a tf.ragged.RaggedTensorValue, not {value!r}")
    if value.ragged_rank != key.ragged_rank:
        raise ValueError(f"A value of ragged rank {value.ragged_rank} is fed for {key.ragged_rank} of {key}")
    return list(zip(key.components(), [value.flat_values, *value.nested_row_splits], strict=True))


_CONVERSIONS: list[Conversion] = [
    Conversion(
        RaggedTensor,
        lambda t: (t.components(), _ragged_value),
        _ragged_feed,
        lambda t: t.components(),
    ),
    Conversion(
        SparseTensor,
        lambda t: ([t.indices, t.values, t.dense_shape], lambda vs: SparseTensorValue(*vs)),
        lambda t, v: list(zip([t.indices, t.values, t.dense_shape], v)),
        lambda t: [t.indices, t.values, t.dense_shape],
    ),
    Conversion(
        IndexedSlices,
        lambda t: (_slices_parts(t), lambda vs: IndexedSlicesValue(*vs)),
        lambda t, v: list(zip(_slices_parts(t), v)),
        _slices_parts,
    ),
]


def register_session_run_conversion_functions(
    tensor_type: type,
    fetch_function: Callable[[Any], Expansion],
    feed_function: Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None = None,
    feed_function_for_partial_run: Callable[[Any], Sequence[Any]] | None = None,
) -> None:
    """Let `Session.run` fetch and feed objects of `tensor_type` (TF1's function of that name).

    Raises:
        ValueError: the type, or a subclass of it, is registered already.
    """
    if any(issubclass(c.kind, tensor_type) for c in _CONVERSIONS):
        raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    conversion = Conversion(tensor_type, fetch_function, feed_function, feed_function_for_partial_run)
    _CONVERSIONS.insert(0, conversion)


def conversion_of(value: Any) -> Conversion | None:
    for conversion in _CONVERSIONS:
        if isinstance(value, conversion.kind):
            return conversion
    return None


Build = Callable[[Sequence[Any]], Any]


class FetchPlan:
    """What to run for a structure of fetches, and how its result is put together.

    Attributes:
        elements: the distinct tensors and operations in it.
        tensors: the distinct tensors; targets: the distinct operations.
        build: the result, from the values of `elements` (None for operations).
    """

    def __init__(self, graph: Graph, fetches: Any) -> None:
        self.elements: list[Tensor | Operation] = []
        self._position: dict[Tensor | Operation, int] = {}
        self._graph = graph
        self.build: Build = self._map(fetches)
        for element in self.elements:
            if not graph.is_fetchable(element):
                op = element.op if isinstance(element, Tensor) else element
                raise ValueError(f"Operation {op.name!r} has been marked as not fetchable.")
        self.tensors = [e for e in self.elements if isinstance(e, Tensor)]
        self.targets = [e for e in self.elements if isinstance(e, Operation)]
        self.names = [t.name for t in self.tensors]
        self.target_names = [op.name for op in self.targets]
        self.positions = [self._position[t] for t in self.tensors]
        # True when the result is the value of the one tensor.
        self.is_single = type(fetches) is Tensor
        # True when the values of `tensors` are those of `elements`.
        self.only_tensors = not self.targets

    def results(self, values: Sequence[Any]) -> Any:
        """Build the result from the values of `tensors`."""
        if self.only_tensors:
            return self.build(values)
        spread: list[Any] = [None] * len(self.elements)
        for position, value in zip(self.positions, values):
            spread[position] = value
        return self.build(spread)

    def _map(self, fetch: Any) -> Build:
        if fetch is None:
            raise TypeError(f'Argument `fetch` = {fetch} has invalid type "{type(fetch).__name__}". Cannot be None')
        if isinstance(fetch, (list, tuple)):
            return self._map_sequence(fetch)
        if isinstance(fetch, Mapping):
            return self._map_mapping(fetch)
        if hasattr(type(fetch), "__attrs_attrs__"):
            kind = type(fetch)
            parts = [self._map(getattr(fetch, a.name)) for a in kind.__attrs_attrs__]
            return lambda values: kind(*[p(values) for p in parts])
        conversion = conversion_of(fetch)
        if conversion is not None:
            elements, contract = conversion.fetch(fetch)
            positions = [self._add(e) for e in elements]
            return lambda values: contract([values[p] for p in positions])
        position = self._add(fetch)
        return lambda values: values[position]

    def _map_sequence(self, fetch: Any) -> Build:
        parts = [self._map(f) for f in fetch]
        kind = type(fetch)
        if isinstance(fetch, list):
            return lambda values: [p(values) for p in parts]
        if kind is tuple:
            return lambda values: tuple(p(values) for p in parts)
        return lambda values: kind(*[p(values) for p in parts])

    def _map_mapping(self, fetch: Any) -> Build:
        parts = {k: self._map(v) for k, v in fetch.items()}
        kind = type(fetch)
        if isinstance(fetch, collections.defaultdict):
            factory = fetch.default_factory
            return lambda values: collections.defaultdict(factory, {k: p(values) for k, p in parts.items()})
        return lambda values: kind((k, p(values)) for k, p in parts.items())

    def _add(self, fetch: Any) -> int:
        element = self._element(fetch)
        position = self._position.get(element)
        if position is None:
            position = self._position[element] = len(self.elements)
            self.elements.append(element)
        return position

    def _element(self, fetch: Any) -> Tensor | Operation:
        try:
            return self._graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
        except TypeError as e:
            raise TypeError(
                f'Argument `fetch` = {fetch} has invalid type "{type(fetch).__name__}" must be a string or Tensor. '
                f"({e})"
            ) from None
        except (ValueError, KeyError) as e:
            text = e.args[0] if e.args else e
            raise ValueError(f"Argument `fetch` = {fetch} cannot be interpreted as a Tensor. ({text})") from None


def described(fetches: Any) -> str:
    """Write in short what is fetched, for a person who looks at a timeline.

    >>> described({"loss": "loss:0", "step": ["a:0", "b:0", "c:0", "d:0"]})
    'loss:0, a:0, b:0, ...'
    """
    names: list[str] = []
    stack = [fetches]
    while stack and len(names) <= _MOST_NAMES:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        else:
            names.append(item if isinstance(item, str) else str(getattr(item, "name", type(item).__name__)))
    return ", ".join([*names[:_MOST_NAMES], *(["..."] if len(names) > _MOST_NAMES else [])])


def role_of(fetches: Any) -> str:
    """Tell "enqueue" for an operation that fills a queue, as threads run it beside those that train; else nothing."""
    return Span.ENQUEUE if str(getattr(fetches, "type", "")).startswith("QueueEnqueue") else ""
