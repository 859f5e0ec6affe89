"""What a dataset's elements look like, and functions of elements as graph functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.data.leaves import Leaf, leaf_of, legacy_leaf, register_leaf
from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops.bodies import register_body
from dtfctl.runtime.ops.function import TensorSpec

if TYPE_CHECKING:
    from dtfctl.runtime.data.dataset import Dataset

_D = TypeVar("_D", bound="AnyDataset")


@dataclass(frozen=True)
class Structure:
    """Types and shapes of the tensors that the leaves travel as, and a structure of as many leaves.

    Attributes:
        kinds: by position, what is known of leaves that are no tensors: datasets, sparse ones and others. Empty where
            all are tensors.
    """

    template: Any
    types: tuple[DType, ...]
    shapes: tuple[TensorShape, ...]
    kinds: tuple[Leaf | None, ...] = ()

    @classmethod
    def of(cls, value: Any) -> Structure:
        """Find the structure of tensors, datasets and others that travel in a tensor, or of what describes them."""
        leaves = nest.flatten(value)
        kinds = tuple(leaf_of(v) for v in leaves)
        return cls(
            value,
            tuple(dtypes.variant if k else v.dtype.base_dtype for v, k in zip(leaves, kinds)),
            tuple(k.carrier_shape if k else v.shape for v, k in zip(leaves, kinds)),
            kinds if any(kinds) else (),
        )

    @classmethod
    def of_leaves(cls, template: Any, parts: Sequence[tuple[DType, TensorShape, Leaf | None]]) -> Structure:
        """Make a structure of what is known of each leaf."""
        kinds = tuple(kind for _, _, kind in parts)
        types = tuple(dtypes.variant if k else t for t, _, k in parts)
        shapes = tuple(k.carrier_shape if k else s for _, s, k in parts)
        return cls(template, types, shapes, kinds if any(kinds) else ())

    @classmethod
    def of_dataset(cls, element: Structure) -> Structure:
        """Describe a dataset of such elements, as an element."""
        return cls(0, (dtypes.variant,), (TensorShape([]),), (DatasetLeaf(element),))

    @classmethod
    def joined(cls, template: Any, parts: Sequence[Structure]) -> Structure:
        """Put the leaves of several structures side by side."""
        return cls.of_leaves(template, [leaf for part in parts for leaf in part.leaves])

    @property
    def leaves(self) -> list[tuple[DType, TensorShape, Leaf | None]]:
        """What is known of each leaf: its type and shape, and its kind where it is no tensor."""
        return list(zip(self.types, self.shapes, self.kinds or (None,) * len(self.types)))

    @property
    def dense(self) -> bool:
        """Whether all leaves are tensors, or datasets."""
        return all(kind is None or isinstance(kind, DatasetLeaf) for kind in self.kinds)

    @property
    def dataset(self) -> Structure | None:
        """The structure of the elements, where this is a dataset."""
        kind = self.kinds[0] if len(self.kinds) == 1 else None
        return kind.element if isinstance(kind, DatasetLeaf) else None

    def with_shapes(self, shapes: list[TensorShape]) -> Structure:
        return Structure(self.template, self.types, tuple(shapes), self.kinds)

    def with_leaves(self, change: Callable[[TensorShape], TensorShape], of_kind: Callable[[Leaf], Leaf]) -> Structure:
        """Change the shapes of tensors, and what is known of other leaves."""
        parts = [(t, s if k else change(s), of_kind(k) if k else None) for t, s, k in self.leaves]
        return Structure.of_leaves(self.template, parts)

    def batched(self, size: int | None) -> Structure:
        """Describe `size` elements stacked into one."""
        lead = TensorShape([size])
        return self.with_leaves(lambda shape: lead.concatenate(shape), lambda kind: kind.batched(size))

    def unbatched(self) -> Structure:
        """Describe the slices along the first axis."""
        return self.with_leaves(lambda shape: shape[1:], lambda kind: kind.unbatched())

    def common(self, other: Structure) -> Structure:
        """Describe elements of this or the other structure.

        Raises:
            TypeError: a leaf is of another kind or type there.
        """
        parts = []
        for (dtype, shape, kind), (other_dtype, theirs, other_kind) in zip(self.leaves, other.leaves, strict=True):
            if kind is None and (other_kind is not None or dtype != other_dtype):
                raise TypeError(f"Two datasets have incompatible types: {self.spec!r} and {other.spec!r}")
            shape = shape.most_specific_compatible_shape(theirs)
            parts.append((dtype, shape, kind.common(other_kind) if kind else None))
        return Structure.of_leaves(self.template, parts)

    def flat(self, value: Any) -> list[Tensor]:
        """List the tensors that the leaves of `value` travel as."""
        pairs = zip(nest.flatten(value), self.kinds or (None,) * len(self.types))
        return [_flat_value(leaf) if kind is None else kind.pack(leaf) for leaf, kind in pairs]

    def flat_rows(self, value: Any) -> list[Tensor]:
        """List tensors along whose first axis are the rows of the leaves of `value`.

        Raises:
            ValueError: a leaf has no rows.
        """
        pairs = zip(nest.flatten(value), self.kinds or (None,) * len(self.types))
        return [_flat_value(leaf) if kind is None else kind.pack_rows(leaf) for leaf, kind in pairs]

    def pack(self, flat: list[Any]) -> Any:
        """Make a structure of these tensors; variants become again what they hold."""
        if self.kinds:
            flat = [v if kind is None else kind.unpack(v) for v, kind in zip(flat, self.kinds)]
        return nest.pack_sequence_as(self.template, flat)

    def described(self, leaves: tuple[Any, ...]) -> Any:
        return nest.pack_sequence_as(self.template, list(leaves))

    @property
    def attrs(self) -> dict[str, Any]:
        return {"output_types": list(self.types), "output_shapes": list(self.shapes)}

    # How programs ask for it.

    @property
    def spec(self) -> Any:
        """The structure with what describes each leaf."""
        return self.described(tuple(TensorSpec(s, t) if k is None else k.spec for t, s, k in self.leaves))

    @property
    def legacy_types(self) -> Any:
        return self.described(tuple(t if k is None else k.legacy_type for t, _, k in self.leaves))

    @property
    def legacy_shapes(self) -> Any:
        return self.described(tuple(s if k is None else k.legacy_shape for _, s, k in self.leaves))

    @property
    def legacy_classes(self) -> Any:
        return self.described(tuple(Tensor if k is None else k.legacy_class for _, _, k in self.leaves))


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
        """The structure of an element, with what describes each leaf: a TensorSpec, or another spec."""
        return self.structure.spec

    @property
    def output_classes(self) -> Any:
        return self.structure.legacy_classes

    @property
    def output_types(self) -> Any:
        return self.structure.legacy_types

    @property
    def output_shapes(self) -> Any:
        return self.structure.legacy_shapes


_dataset_class: type[AnyDataset] = AnyDataset


def leaves_are(cls: type[_D]) -> type[_D]:
    """Let datasets that are leaves of elements be of this class."""
    global _dataset_class
    _dataset_class = cls
    return cls


def new_dataset(variant: Tensor, structure: Structure) -> Dataset:
    """Make a dataset of the variant that stands for it in the graph."""
    return _dataset_class(variant, structure)  # type: ignore[return-value]


class DatasetSpec:
    """Structure of the elements of a dataset that is an element itself."""

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        self.element_spec, self.dataset_shape = element_spec, as_shape(dataset_shape)

    @property
    def value_type(self) -> type:
        return _dataset_class

    @classmethod
    def from_value(cls, value: AnyDataset) -> DatasetSpec:
        """Describe a dataset."""
        return cls(value.element_spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r}, {self.dataset_shape!r})"


@dataclass(frozen=True)
class DatasetLeaf(Leaf):
    """A dataset that is a leaf of the elements of another, as windows have it."""

    element: Structure

    @property
    def spec(self) -> Any:
        return DatasetSpec(self.element.spec)

    @property
    def carrier_shape(self) -> TensorShape:
        return TensorShape([])

    @property
    def legacy_type(self) -> Any:
        return dtypes.variant

    @property
    def legacy_shape(self) -> Any:
        return TensorShape([])

    @property
    def legacy_class(self) -> Any:
        return _dataset_class

    def pack(self, value: Any) -> Tensor:
        variant: Tensor = value.variant
        return variant

    def unpack(self, variant: Tensor) -> Any:
        return new_dataset(variant, self.element)


register_leaf(AnyDataset, lambda dataset: DatasetLeaf(dataset.structure))
register_leaf(DatasetSpec, lambda spec: DatasetLeaf(Structure.of(spec.element_spec)))


@dataclass(frozen=True)
class ElementFunction:
    """A traced function: its name as an attribute holds it, what it captured, and what it returns."""

    attr: graph_pb2.NameAttrList
    captured: list[Tensor]
    output: Structure


def _flat_value(value: Any) -> Any:
    leaf = leaf_of(value)
    return convert_to_tensor(value) if leaf is None else leaf.pack(value)


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
        tensors = nest.map_structure(lambda v: convert_to_tensor(v) if leaf_of(v) is None else v, returned)
        results.append(Structure.of(tensors))
        return [_flat_value(v) for v in nest.flatten(tensors)]

    arguments = [
        graph.add_argument(dtype, shape, "arg")
        for structure in inputs
        for dtype, shape in zip(structure.types, structure.shapes)
    ]
    graph.trace(body, arguments)
    return ElementFunction(register_body(graph, graph.outer_graph), graph.external_captures, results[0])


def as_structure(types: Any, shapes: Any = None, classes: Any = None) -> Structure:
    """Make a structure from what `Iterator.from_structure` takes: output_types, output_shapes and output_classes."""
    leaves = [t if leaf_of(t) else as_dtype(t) for t in nest.flatten(types)]
    if shapes is None:
        known = [TensorShape(None)] * len(leaves)
    else:
        known = [s if leaf_of(s) else as_shape(s) for s in nest.flatten_up_to(types, shapes)]
    of_class = [None] * len(leaves) if classes is None else nest.flatten(classes)
    parts = [(t, s, legacy_leaf(c, t, s)) for t, s, c in zip(leaves, known, of_class, strict=True)]
    return Structure.of_leaves(types, parts)
