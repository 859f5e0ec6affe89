"""Iterators over datasets."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dtfctl.runtime.data.one_shot import dataset_factory
from dtfctl.runtime.data.structure import AnyDataset, Structure, as_structure
from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.errors import OutOfRangeError
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.function import TensorSpec


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
        _dense_only(output_classes)
        structure = as_structure(output_types, output_shapes)
        resource = apply_op("IteratorV2", container="", shared_name=shared_name or "", **structure.attrs)
        return Iterator(resource, None, structure)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """Find the iterator a fed handle names."""
        _dense_only(output_classes)
        structure = as_structure(output_types, output_shapes)
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
        return self._structure.described(self._structure.types)

    @property
    def output_shapes(self) -> Any:
        return self._structure.described(self._structure.shapes)

    @property
    def output_classes(self) -> Any:
        return self._structure.described(tuple(Tensor for _ in self._structure.types))

    @property
    def element_spec(self) -> Any:
        """The structure of an element, with a TensorSpec at each leaf."""
        pairs = zip(self._structure.shapes, self._structure.types)
        return self._structure.described(tuple(TensorSpec(shape, dtype) for shape, dtype in pairs))

    def make_initializer(self, dataset: AnyDataset, name: str | None = None) -> Operation:
        """Make an op that begins a pass over `dataset`.

        Raises:
            TypeError: its elements have other types.
        """
        if dataset.structure.types != self._structure.types:
            raise TypeError(
                f"Expected output types {self.output_types!r} but got dataset with output types "
                f"{dataset.output_types!r}."
            )
        with context.get_default_graph().colocate_with(self._resource.op):
            return make_op("MakeIterator", name, dataset=dataset.variant, iterator=self._resource)

    def get_next(self, name: str | None = None) -> Any:
        """Take the next element; OutOfRangeError when there is none."""
        flat = apply_op_outputs("IteratorGetNext", name, iterator=self._resource, **self._structure.attrs)
        for tensor, shape in zip(flat, self._structure.shapes):
            tensor.set_shape(shape)
        return self._structure.pack(flat)

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


def _dense_only(output_classes: Any) -> None:
    for kind in nest.flatten(output_classes):
        if kind not in (None, Tensor):
            raise ValueError(
                f"elements of datasets are tensors here, not {kind.__name__}: give the components, and make it of them"
            )


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
