"""Values of several replicas in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.convert import convert_to_tensor, register_tensor_conversion_function
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.base_variable import OPERATORS
from dtfctl.runtime.replication import contexts


class DistributedValues:
    """A value of each replica that this process has."""

    is_distributed_variable = False

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = tuple(values)

    @property
    def values(self) -> tuple[Any, ...]:
        return self._values

    @property
    def _primary(self) -> Any:
        return self._values[0]

    @property
    def _devices(self) -> tuple[str, ...]:
        return tuple(v.device for v in self._values)

    def _here(self) -> int | None:
        """Find which of the values is meant in the current context; None across replicas."""
        mode = contexts.current()
        if mode.updates is not None:
            return mode.updates
        return None if mode.replica is None else mode.replica.local_id

    def _get(self) -> Any:
        """Return the current replica's value."""
        here = self._here()
        return self._across() if here is None or here >= len(self._values) else self._values[here]

    def _across(self) -> Any:
        raise ValueError(
            f"It looks like you are using a {type(self).__name__} object while not inside a replica context, which is "
            "not supported. Use it in a function given to `strategy.run`, or `strategy.experimental_local_results`."
        )

    def __getitem__(self, item: Any) -> Any:
        return self._get()[item]

    @property
    def is_tensor_like(self) -> bool:
        return all(isinstance(v, Tensor) for v in self._values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}:{{" + ", ".join(f"{i}: {v!r}" for i, v in enumerate(self._values)) + "}"

    __str__ = __repr__


class PerReplica(DistributedValues):
    """Values that differ between replicas."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._here() is None:
            raise AttributeError(f"A value of several replicas has no {name}; one replica's has, within that replica")
        return getattr(self._get(), name)


class Mirrored(DistributedValues):
    """Values that are the same in all replicas."""

    def _across(self) -> Any:
        return self._primary

    def _as_graph_element(self) -> Any:
        element = self._get()
        convert = getattr(element, "_as_graph_element", None)
        return element if convert is None else convert()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._get(), name)


def _delegated(operator: str) -> Any:
    def method(self: DistributedValues, *args: Any) -> Any:
        return getattr(convert_to_tensor(self._get()), operator)(*args)

    method.__name__ = operator
    return method


for _kind in (PerReplica, Mirrored):
    for _operator in OPERATORS:
        setattr(_kind, _operator, _delegated(_operator))


def _to_tensor(value: DistributedValues, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Tensor:
    return convert_to_tensor(value._get(), dtype, name)


register_tensor_conversion_function((PerReplica, Mirrored), _to_tensor, priority=10)


def regroup(values: Sequence[Any], wrap: Any = PerReplica, always_wrap: bool = False) -> Any:
    """Turn a structure from each replica into one structure of values of all.

    What is the same object in all of them stays as it is; copies of a variable become that variable.

    Raises:
        AssertionError: the structures differ.
    """
    first = values[0]
    if isinstance(first, (list, tuple)):
        for other in values:
            assert isinstance(other, (list, tuple)) and len(other) == len(first), (
                f"Replicas gave structures of different lengths: {len(first)} and {other!r}"
            )
        items = [regroup(column, wrap, always_wrap) for column in zip(*values)]
        if isinstance(first, tuple):
            return type(first)(*items) if hasattr(first, "_fields") else tuple(items)
        return items
    if isinstance(first, Mapping):
        for other in values:
            assert isinstance(other, Mapping) and set(other) == set(first), (
                f"Replicas gave mappings of different keys: {sorted(map(str, first))} and {other!r}"
            )
        out = {key: regroup([v[key] for v in values], wrap, always_wrap) for key in first}
        return out if type(first) is dict else type(first)(out)  # type: ignore[call-arg]
    container = value_container(first)
    if all(v is first for v in values) and (container is not first or not always_wrap or is_distributed(first)):
        return container
    if container is not first and all(value_container(v) is container for v in values):
        return container
    return wrap(values)


def is_distributed(value: Any) -> bool:
    """Tell whether a value is a variable with a copy for each replica, or values of replicas."""
    return isinstance(value, DistributedValues) or getattr(value, "is_distributed_variable", False)


def value_container(value: Any) -> Any:
    """Return the variable that this is a copy of, or the value itself."""
    container = getattr(value, "_distributed_container", None) if not isinstance(value, DistributedValues) else None
    return value if container is None else container


def select_replica(index: int, structure: Any) -> Any:
    """Take one replica's values out of a structure; variables stay what they are."""
    return nest.map_structure(
        lambda x: x.values[index] if isinstance(x, DistributedValues) and len(x.values) > index else x, structure
    )


def local_results(value: Any) -> tuple[Any, ...]:
    """List the values of each replica of this process."""
    if isinstance(value, DistributedValues) or getattr(value, "is_distributed_variable", False):
        return tuple(value.values)
    return (value,)
