"""What a dataset's elements look like, and functions of elements as graph functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.bodies import register_body


@dataclass(frozen=True)
class Structure:
    """Types and shapes of the leaves, and a structure of as many leaves.

    Attributes:
        nested: for leaves that are datasets (windows), their structure, by position.
    """

    template: Any
    types: tuple[DType, ...]
    shapes: tuple[TensorShape, ...]
    nested: tuple[Structure | None, ...] = ()

    @classmethod
    def of(cls, value: Any) -> Structure:
        """Find the structure of tensors and datasets."""
        from dtfctl.runtime.data.dataset import Dataset

        leaves = nest.flatten(value)
        nested = tuple(v.structure if isinstance(v, Dataset) else None for v in leaves)
        return cls(
            value,
            tuple(dtypes.variant if n else v.dtype.base_dtype for v, n in zip(leaves, nested)),
            tuple(TensorShape([]) if n else v.shape for v, n in zip(leaves, nested)),
            nested if any(nested) else (),
        )

    def with_shapes(self, shapes: list[TensorShape]) -> Structure:
        return Structure(self.template, self.types, tuple(shapes), self.nested)

    def pack(self, flat: list[Any]) -> Any:
        """Make a structure of these leaves; variants of datasets become datasets again."""
        from dtfctl.runtime.data.dataset import wrap

        if self.nested:
            flat = [wrap(v, n) if n is not None else v for v, n in zip(flat, self.nested)]
        return nest.pack_sequence_as(self.template, flat)

    def described(self, leaves: tuple[Any, ...]) -> Any:
        return nest.pack_sequence_as(self.template, list(leaves))

    @property
    def attrs(self) -> dict[str, Any]:
        return {"output_types": list(self.types), "output_shapes": list(self.shapes)}


@dataclass(frozen=True)
class ElementFunction:
    """A traced function: its name as an attribute holds it, what it captured, and what it returns."""

    attr: graph_pb2.NameAttrList
    captured: list[Tensor]
    output: Structure


def _flat_value(value: Any) -> Any:
    from dtfctl.runtime.data.dataset import Dataset
    from dtfctl.runtime.framework.convert import convert_to_tensor

    return value.variant if isinstance(value, Dataset) else convert_to_tensor(value)


def trace(function: Callable[..., Any], *inputs: Structure, name: str = "Dataset_function") -> ElementFunction:
    """Make a graph function of `function`, called with one value an input;
    a lone tuple is spread over the arguments."""
    graph = FuncGraph(name)
    results: list[Structure] = []

    def body(*flat: Tensor) -> list[Any]:
        waiting = list(flat)
        values = []
        for structure in inputs:
            count = len(structure.types)
            values.append(structure.pack(waiting[:count]))
            del waiting[:count]
        spread = len(values) == 1 and type(values[0]) is tuple
        returned = function(*values[0]) if spread else function(*values)
        if isinstance(returned, list):
            returned = tuple(returned)
        tensors = nest.map_structure(lambda v: v if hasattr(v, "variant") else _flat_value(v), returned)
        results.append(Structure.of(tensors))
        return [_flat_value(v) for v in nest.flatten(tensors)]

    arguments = [
        graph.add_argument(dtype, shape, "arg")
        for structure in inputs
        for dtype, shape in zip(structure.types, structure.shapes)
    ]
    graph.trace(body, arguments)
    return ElementFunction(register_body(graph, graph.outer_graph), graph.external_captures, results[0])
