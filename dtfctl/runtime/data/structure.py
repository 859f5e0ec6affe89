"""What a dataset's elements look like, and functions of elements as graph functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops.bodies import register_body
from dtfctl.runtime.ops.function import TensorSpec

_D = TypeVar("_D", bound="AnyDataset")


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
        leaves = nest.flatten(value)
        nested = tuple(v.structure if isinstance(v, AnyDataset) else None for v in leaves)
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
        if self.nested:
            flat = [_dataset_class(v, n) if n is not None else v for v, n in zip(flat, self.nested)]
        return nest.pack_sequence_as(self.template, flat)

    def described(self, leaves: tuple[Any, ...]) -> Any:
        return nest.pack_sequence_as(self.template, list(leaves))

    @property
    def attrs(self) -> dict[str, Any]:
        return {"output_types": list(self.types), "output_shapes": list(self.shapes)}


_GROUPS = ("autotune", "threading", "experimental_threading", "experimental_optimization", "experimental_distribute")


class Options:
    """Settings of a dataset, by any name, None until they are set; what they ask for is decided at run time here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in _GROUPS:
            return None
        group = Options()
        setattr(self, name, group)
        return group


class AnyDataset:
    """What structures know of a dataset; `Dataset` adds what is made of it.

    Attributes:
        variant: the tensor that stands for it in the graph.
        structure: types and shapes of its elements.
    """

    def __init__(self, variant: Tensor, structure: Structure) -> None:
        self.variant = variant
        self.structure = structure
        self.given_options: Any = None

    def _derived(self, op: str, structure: Structure | None = None, name: str | None = None, **arguments: Any) -> Self:
        result = structure or self.structure
        variant = apply_op(op, name, input_dataset=self.variant, **result.attrs, **arguments)
        made = type(self)(variant, result)
        made.given_options = self.given_options
        return made

    def options(self) -> Any:
        """Return the options that `with_options` gave last; empty ones where it was not called."""
        return Options() if self.given_options is None else self.given_options

    def cardinality(self, name: str | None = None) -> Tensor:
        """Count the elements, int64: tf.data.INFINITE_CARDINALITY or UNKNOWN_CARDINALITY where they are not finite
        or not counted ahead."""
        return apply_op("DatasetCardinality", name, input_dataset=self.variant)

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the element, of a dataset of one; a step fails with InvalidArgumentError where there are others."""
        out = apply_op_outputs("DatasetToSingleElement", name, dataset=self.variant, **self.structure.attrs)
        return self.structure.pack(out)

    def fingerprint(self) -> Tensor:
        """Compute a number, uint64, that datasets made in the same way share."""
        return apply_op("DatasetFingerprint", input_dataset=self.variant)

    @property
    def element_spec(self) -> Any:
        """The structure of an element, with a TensorSpec at each leaf."""
        pairs = zip(self.structure.shapes, self.structure.types)
        return self.structure.described(tuple(TensorSpec(shape, dtype) for shape, dtype in pairs))

    @property
    def output_classes(self) -> Any:
        nested = self.structure.nested or (None,) * len(self.structure.types)
        return self.structure.described(tuple(Tensor if inner is None else _dataset_class for inner in nested))

    @property
    def output_types(self) -> Any:
        return self.structure.described(self.structure.types)

    @property
    def output_shapes(self) -> Any:
        return self.structure.described(self.structure.shapes)


_dataset_class: type[AnyDataset] = AnyDataset


def leaves_are(cls: type[_D]) -> type[_D]:
    """Let datasets that are leaves of elements be of this class."""
    global _dataset_class
    _dataset_class = cls
    return cls


@dataclass(frozen=True)
class ElementFunction:
    """A traced function: its name as an attribute holds it, what it captured, and what it returns."""

    attr: graph_pb2.NameAttrList
    captured: list[Tensor]
    output: Structure


def _flat_value(value: Any) -> Any:
    return value.variant if isinstance(value, AnyDataset) else convert_to_tensor(value)


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


def as_structure(types: Any, shapes: Any = None) -> Structure:
    """Make a structure from the output_types and output_shapes that `Iterator.from_structure` takes."""
    leaves = [as_dtype(t) for t in nest.flatten(types)]
    if shapes is None:
        known = [TensorShape(None)] * len(leaves)
    elif len(leaves) == 1:
        known = [as_shape(shapes)]
    else:
        known = [as_shape(s) for s in (shapes.values() if isinstance(shapes, dict) else shapes)]
    return Structure(types, tuple(leaves), tuple(known))
