"""Iterators over datasets."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dtfctl.runtime.data.one_shot import dataset_factory
from dtfctl.runtime.data.optional import Optional
from dtfctl.runtime.data.structure import AnyDataset, Structure, as_structure
from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.errors import OutOfRangeError
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.ragged_ops.mapping import RaggedTensorSpec


class Iterator:
    """A pass over a dataset, kept on a task between steps."""

    def __init__(self, resource: Tensor, initializer: Operation | None, structure: Structure) -> None:
        self._resource = resource
        self._initializer = initializer
        self._structure = structure

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: str | None = None, output_classes: Any = None
    ) -> Iterator:
        """Make an iterator that `make_initializer` can start on any dataset of these types."""
        structure = as_structure(output_types, output_shapes, output_classes)
        resource = apply_op("IteratorV2", container="", shared_name=shared_name or "", **structure.attrs)
        return Iterator(resource, None, structure)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """Find the iterator a fed handle names."""
        structure = as_structure(output_types, output_shapes, output_classes)
        text = convert_to_tensor(string_handle, dtypes.string)
        resource = apply_op("IteratorFromStringHandleV2", string_handle=text, **structure.attrs)
        return Iterator(resource, None, structure)

    @property
    def resource(self) -> Tensor:
        """The handle of the iterator on its task."""
        return self._resource

    # As TensorFlow's own modules, and some programs, know it.
    _iterator_resource = resource

    @property
    def initializer(self) -> Operation:
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    @property
    def output_types(self) -> Any:
        return self._structure.legacy_types

    @property
    def output_shapes(self) -> Any:
        return self._structure.legacy_shapes

    @property
    def output_classes(self) -> Any:
        return self._structure.legacy_classes

    @property
    def element_spec(self) -> Any:
        """The structure of an element, with what describes each leaf: a TensorSpec, or another spec."""
        return self._structure.spec

    def make_initializer(self, dataset: AnyDataset, name: str | None = None) -> Operation:
        """Make an op that begins a pass over `dataset`.

        Raises:
            TypeError: its elements have other types.
        """
        for what in ("classes", "types"):
            mine, theirs = (getattr(each, f"output_{what}") for each in (self, dataset))
            if not _alike(mine, theirs):
                raise TypeError(f"Expected output {what} {mine!r} but got dataset with output {what} {theirs!r}.")
        with (
            name_scope(name, "make_initializer") as scope,
            context.get_default_graph().colocate_with(self._resource.op),
        ):
            return make_op("MakeIterator", scope, dataset=dataset.variant, iterator=self._resource)

    def get_next(self, name: str | None = None) -> Any:
        """Take the next element; OutOfRangeError when there is none."""
        flat = apply_op_outputs("IteratorGetNext", name, iterator=self._resource, **self._structure.attrs)
        for tensor, shape in zip(flat, self._structure.shapes):
            tensor.set_shape(shape)
        return self._structure.pack(flat)

    def get_next_as_optional(self, name: str | None = None) -> Optional:
        """Take the next element, as an optional that has no value when there is none."""
        structure = self._structure
        found = apply_op("IteratorGetNextAsOptional", name, iterator=self._resource, **structure.attrs)
        found.set_shape([])
        return Optional(found, structure)

    def __iter__(self) -> Generator[Any, None, None]:
        if not context.get_default_graph().executes:
            raise TypeError("'Iterator' object is not iterable in a graph; use get_next().")
        return self.elements()

    def elements(self) -> Generator[Any, None, None]:
        """Yield every element that is left, where ops run eagerly; the iterator is released at the end."""
        try:
            while True:
                try:
                    element = self.get_next()
                except OutOfRangeError:
                    return
                yield element
        finally:
            make_op("DestroyResourceOp", resource=self._resource)

    def string_handle(self, name: str | None = None) -> Tensor:
        return apply_op("IteratorToStringHandle", name, resource_handle=self._resource)


def _alike(mine: Any, theirs: Any) -> bool:
    """Compare classes or types of leaves; how long the rows of ragged ones are does not matter."""
    kinds = [
        [leaf.ragged_rank if isinstance(leaf, RaggedTensorSpec) else leaf for leaf in nest.flatten(each)]
        for each in (mine, theirs)
    ]
    return kinds[0] == kinds[1]


def make_initializable_iterator(dataset: AnyDataset, shared_name: str | None = None) -> Iterator:
    """Make an iterator whose `initializer` begins (or restarts) the pass."""
    structure = dataset.structure
    with context.get_default_graph().colocate_with(dataset.variant.op):
        resource = apply_op("IteratorV2", container="", shared_name=shared_name or "", **structure.attrs)
        initializer: Operation = make_op("MakeIterator", dataset=dataset.variant, iterator=resource)
    return Iterator(resource, initializer, structure)


def make_one_shot_iterator(dataset: AnyDataset) -> Iterator:
    """Make an iterator that starts when first used.

    Raises:
        ValueError: the dataset depends on a placeholder, variable or table of the graph.
    """
    if context.get_default_graph().executes:
        return make_initializable_iterator(dataset)
    factory = dataset_factory(dataset)
    resource = apply_op("OneShotIterator", dataset_factory=factory, **dataset.structure.attrs)
    return Iterator(resource, None, dataset.structure)
