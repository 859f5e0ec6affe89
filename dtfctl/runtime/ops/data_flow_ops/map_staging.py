"""A store of tuples by number, between the stages of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.data_flow_ops.components import as_types


class MapStagingArea:
    """A store of tuples by an int64 key, of which single components may be put in and taken out.

    Args:
        ordered: take the smallest key where none is named; else any.
        capacity: elements, memory_limit: bytes it holds at most; 0 for no bound.

    Raises:
        ValueError: shapes or names are not as many as types.
    """

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        ordered: bool = False,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        self.dtypes = as_types(dtypes)
        for what, given in (("shapes", shapes), ("names", names)):
            if given is not None and len(given) != len(self.dtypes):
                raise ValueError(f"StagingArea {what} must be the same length as dtypes")
        self.shapes = [TensorShape(s) for s in shapes or [None] * len(self.dtypes)]
        self.names = None if names is None else list(names)
        self.name = shared_name or context.get_default_graph().unique_name("MapStagingArea")
        self.capacity, self.memory_limit = capacity, memory_limit
        self._kind = "OrderedMap" if ordered else "Map"

    @property
    def _place(self) -> dict[str, Any]:
        return {"shared_name": self.name, "capacity": self.capacity, "memory_limit": self.memory_limit}

    def _chosen(self, vals: Any, indices: Sequence[int] | None) -> tuple[list[Any], list[int]]:
        if isinstance(vals, Mapping):
            if self.names is None:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if not set(vals) <= set(self.names):
                raise ValueError(
                    "Keys in dictionary to put do not match names of staging area. "
                    f"Dictionary: {sorted(vals)}Queue: {sorted(self.names)}"
                )
            at = [i for i, n in enumerate(self.names) if n in vals]
            return [vals[self.names[i]] for i in at], at
        if self.names is not None:
            raise ValueError("You must enqueue a dictionary in a staging area with names")
        if indices is None:
            raise ValueError("Indices must be supplied when inserting a list of tensors")
        vals = list(vals) if isinstance(vals, (list, tuple)) else [vals]
        if len(indices) != len(vals):
            raise ValueError(f"Number of indices {len(indices)} doesn't match number of values {len(vals)}")
        if len(vals) > len(self.dtypes):
            raise ValueError(f"Unexpected number of inputs {len(vals)} vs {len(self.dtypes)}")
        return vals, [int(i) for i in indices]

    def put(self, key: Any, vals: Any, indices: Sequence[int] | None = None, name: str | None = None) -> Operation:
        """Make an op that puts components of a key's tuple in: a dictionary by name, or a list with `indices`.

        Raises:
            ValueError: what is put in does not fit types, shapes or names.
        """
        values, at = self._chosen(vals, indices)
        tensors = []
        for value, i in zip(values, at, strict=True):
            tensor = convert_to_tensor(value)
            if tensor.dtype.base_dtype != self.dtypes[i]:
                raise ValueError(
                    f"Datatypes do not match. Received val.dtype {tensor.dtype} and dtype {self.dtypes[i]}"
                )
            tensor.shape.assert_is_compatible_with(self.shapes[i])
            tensors.append(tensor)
        return make_op(
            f"{self._kind}Stage",
            name or f"{self.name}_put",
            key=key,
            indices=at,
            values=tensors,
            dtypes=self.dtypes,
            **self._place,
        )

    def _wanted(self, indices: Any) -> list[int]:
        if indices is None:
            return list(range(len(self.dtypes)))
        if not isinstance(indices, (list, tuple)):
            raise TypeError(f"Invalid indices type {type(indices)}")
        if not indices:
            raise ValueError("Empty indices")
        if all(isinstance(i, str) for i in indices):
            if self.names is None:
                raise ValueError(
                    f"String indices provided {indices}, but this Staging Area was not created with names."
                )
            if not set(indices) <= set(self.names):
                raise ValueError(f"Named index not in Staging Area names {self.names}")
            return [self.names.index(n) for n in indices]
        if not all(isinstance(i, int) for i in indices):
            raise TypeError(f"Mixed types in indices {indices}. May only be str or int")
        return list(indices)

    def _result(self, tensors: Sequence[Tensor], indices: Sequence[int]) -> Any:
        for tensor, i in zip(tensors, indices, strict=True):
            tensor.set_shape(self.shapes[i])
        if self.names is not None:
            return {self.names[i]: t for t, i in zip(tensors, indices, strict=True)}
        return list(tensors)

    def _read(self, op: str, key: Any, indices: Any, name: str) -> Any:
        at = self._wanted(indices)
        kinds = [self.dtypes[i] for i in at]
        out = apply_op_outputs(f"{self._kind}{op}", name, key=key, indices=at, dtypes=kinds, **self._place)
        return self._result(out, at)

    def peek(self, key: Any, indices: Any = None, name: str | None = None) -> Any:
        """Return components of a key's tuple, which stays; the step waits for it."""
        return self._read("Peek", key, indices, name or f"{self.name}_pop")

    def get(self, key: Any = None, indices: Any = None, name: str | None = None) -> tuple[Any, Any]:
        """Take (key, components) of a key's tuple, or of any that is whole; the step waits for it."""
        if key is not None:
            return key, self._read("Unstage", key, indices, name or f"{self.name}_get")
        at = self._wanted(indices)
        key, *out = apply_op_outputs(
            f"{self._kind}UnstageNoKey",
            name or f"{self.name}_get_nokey",
            indices=at,
            dtypes=[self.dtypes[i] for i in at],
            **self._place,
        )
        return key, self._result(out, at)

    def size(self, name: str | None = None) -> Tensor:
        """Count the tuples that are whole."""
        return apply_op(f"{self._kind}Size", name or f"{self.name}_size", dtypes=self.dtypes, **self._place)

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Count the tuples that lack a component."""
        name = name or f"{self.name}_incomplete_size"
        return apply_op(f"{self._kind}IncompleteSize", name, dtypes=self.dtypes, **self._place)

    def clear(self, name: str | None = None) -> Operation:
        """Make an op that empties the store."""
        return make_op(f"{self._kind}Clear", name or f"{self.name}_clear", dtypes=self.dtypes, **self._place)
