"""Iterators: a pass over a dataset that lives on a device, from one step to the next."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.framework.tensor_codec import object_scalar, register_variant
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import handle_key, handle_scalar, lookup
from dtfctl.runtime.kernels.dataset.core import (
    Dataset,
    Element,
    EndOfSequence,
    Iteration,
    Next,
    check_shapes,
    check_types,
    dataset_of,
    new_pass,
)
from dtfctl.runtime.kernels.dataset.draws import Draw, Draws
from dtfctl.runtime.kernels.dataset.external_state import require_no_external_state
from dtfctl.runtime.kernels.dataset.optional import Optional
from dtfctl.runtime.kernels.dataset.shuffle import Deleter
from dtfctl.runtime.kernels.dataset.string_handles import Typed, from_string_handle, to_string_handle
from dtfctl.runtime.kernels.promises import GIVES_ITERATOR, TAKES_NEXT
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_IDS = itertools.count()
_ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"


class Iterator(Typed):
    """The current pass, and what elements it must give."""

    type_name = "Iterator"

    def __init__(self, types: Sequence[DType], shapes: Sequence[TensorShape]) -> None:
        self.types, self.shapes = tuple(types), tuple(shapes)
        self._condition = threading.Condition()
        self._busy = False
        self._dataset: Dataset | None = None
        self._iteration: Iteration | None = None
        self._next: Next | None = None
        self._position = 0
        # What was looked at before it was asked for: an element, or the error there was instead.
        self._ahead: Element | Exception | None = None

    def start(self, dataset: Dataset, step: StepContext, draws: Sequence[Draw] = ()) -> None:
        """Begin a new pass, whose first random choices may be known.

        Raises:
            InvalidArgumentError: the dataset's elements are not what this iterator was declared to give.
        """
        check_types(self.types, dataset.types)
        check_shapes(self.shapes, dataset.shapes)
        iteration = new_pass(dataset, step, Draws(draws))
        following = dataset.iterate(iteration)
        self._acquire(step.cancellation)
        try:
            old = self._iteration
            self._dataset, self._iteration, self._next, self._position = dataset, iteration, following, 0
            self._ahead = None
        finally:
            self._release()
        if old is not None:
            old.close()

    def next(self, step: StepContext) -> Element:
        """Take the next element.

        Raises:
            OutOfRangeError: there is none.
            FailedPreconditionError: no pass was begun.
        """
        self._acquire(step.cancellation)
        try:
            found = self._take(step.cancellation) if self._ahead is None else self._ahead
            self._ahead = None
            if isinstance(found, Exception):
                raise found
            self._position += 1
            return found
        finally:
            self._release()

    def next_shapes(self, step: StepContext) -> tuple[tuple[int, ...], ...]:
        """Tell the shapes of what the next `next` gives, and make that; nothing where it gives nothing."""
        self._acquire(step.cancellation)
        try:
            if self._ahead is None:
                try:
                    self._ahead = self._take(step.cancellation)
                except FailedPreconditionError:
                    return ()
                except Exception as error:
                    self._ahead = error
            return () if isinstance(self._ahead, Exception) else tuple(value.shape for value in self._ahead)
        finally:
            self._release()

    def _take(self, cancellation: CancellationToken) -> Element:
        if self._next is None or self._iteration is None:
            raise FailedPreconditionError(
                "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
                "initializer operation for this iterator before getting the next element."
            )
        self._iteration.cancellation = cancellation
        try:
            return self._next()
        except EndOfSequence:
            raise OutOfRangeError("End of sequence") from None

    def state(self, step: StepContext) -> IteratorState:
        """Return where the pass stands: with the dataset, all there is to know of a deterministic one."""
        self._acquire(step.cancellation)
        try:
            return IteratorState(self._position, [] if self._iteration is None else self._iteration.draws.made())
        finally:
            self._release()

    def require_no_external_state(self) -> None:
        if self._dataset is not None:
            require_no_external_state(self._dataset)

    def restore(self, state: IteratorState, step: StepContext) -> None:
        """Begin the pass anew, choose as it did, and skip to where it stood."""
        if self._dataset is None:
            raise FailedPreconditionError(
                "Restoring an iterator requires it to be initialized first. Ensure that you have run the initializer "
                "operation for this iterator before restoring it."
            )
        if self._iteration is not None:
            self._iteration.draws.rewind()
        self.start(self._dataset, step, state.draws)
        for _ in range(state.position):
            self.next(step)

    def _acquire(self, cancellation: CancellationToken) -> None:
        with self._condition:
            cancellation.wait(self._condition, lambda: not self._busy)
            self._busy = True

    def _release(self) -> None:
        with self._condition:
            self._busy = False
            self._condition.notify_all()

    def close(self) -> None:
        if self._iteration is not None:
            self._iteration.close()


@register_kernel(("Iterator", "IteratorV2"), step=True, promises=GIVES_ITERATOR)
def iterator(k: KernelBuild) -> Kernel:
    types, shapes = k.attr("output_types"), k.attr("output_shapes")
    shared = k.text_attr("shared_name")
    name = f"{_ANONYMOUS}_{next(_IDS)}" if shared == _ANONYMOUS else shared or k.node.name
    handle = handle_scalar(k.device.name, k.container, name, Iterator.type_name)

    def run(step: StepContext) -> Any:
        found = step.resources.lookup_or_create(k.container, name, Iterator, lambda: Iterator(types, shapes))
        try:
            check_types(types, found.types)
            check_shapes(shapes, found.shapes)
        except InvalidArgumentError:
            if shared:
                raise
            # What nobody shares by a name is its graph's own: this one is left of another graph that a server had.
            step.resources.replace(k.container, name, Iterator(types, shapes))
        return handle

    return run


@register_kernel(("AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3"), step=True)
def anonymous_iterator(k: KernelBuild) -> Kernel:
    types, shapes = k.attr("output_types"), k.attr("output_shapes")
    with_deleter = k.node.op == "AnonymousIteratorV2"

    def run(step: StepContext) -> Any:
        name = f"_anonymous_iterator_{next(_IDS)}"
        step.resources.create(k.container, name, Iterator(types, shapes))
        handle = handle_scalar(k.device.name, k.container, name, Iterator.type_name)
        return (handle, Deleter(k.container, name).scalar()) if with_deleter else handle

    return run


@register_kernel("DeleteIterator", step=True)
def delete_iterator(k: KernelBuild) -> Kernel:
    return lambda step, handle, deleter: step.resources.delete(*handle_key(handle, "Iterator"))


@register_kernel("MakeIterator", step=True, blocking=True)
def make_iterator(k: KernelBuild) -> Kernel:
    def run(step: StepContext, dataset: Any, handle: Any) -> None:
        lookup(step, handle, Iterator).start(dataset_of(dataset), step)

    return run


@register_kernel("OneShotIterator", step=True, blocking=True, promises=GIVES_ITERATOR)
def one_shot_iterator(k: KernelBuild) -> Kernel:
    types, shapes, factory = k.attr("output_types"), k.attr("output_shapes"), k.attr("dataset_factory")
    name = k.resource_name
    handle = handle_scalar(k.device.name, k.container, name, Iterator.type_name)
    lock = threading.Lock()

    def run(step: StepContext) -> Any:
        with lock:
            if name not in step.resources.names(k.container):
                made = step.functions.call(factory, [], step)
                if len(made) != 1:
                    raise InvalidArgumentError("The `dataset_factory` function must return a single dataset.")
                fresh = Iterator(types, shapes)
                fresh.start(dataset_of(made[0]), step)
                step.resources.create(k.container, name, fresh)
        return handle

    return run


def _conform(element: Element, shapes: Sequence[TensorShape]) -> Element:
    if not all(shape.is_compatible_with(value.shape) for value, shape in zip(element, shapes)):
        check_shapes(shapes, [TensorShape(v.shape) for v in element])
    return element


@register_kernel(("IteratorGetNext", "IteratorGetNextSync"), step=True, blocking=True, promises=TAKES_NEXT)
def iterator_get_next(k: KernelBuild) -> Kernel:
    types, shapes = k.attr("output_types"), k.attr("output_shapes")

    def run(step: StepContext, handle: Any) -> Any:
        found = lookup(step, handle, Iterator)
        if found.types != tuple(types):
            check_types(types, found.types)
        return _conform(found.next(step), shapes)

    return run


@register_kernel("IteratorGetNextAsOptional", step=True, blocking=True)
def iterator_get_next_as_optional(k: KernelBuild) -> Kernel:
    def run(step: StepContext, handle: Any) -> Any:
        found = lookup(step, handle, Iterator)
        try:
            return object_scalar(Optional(found.next(step), found.types))
        except OutOfRangeError:
            return object_scalar(Optional(None, ()))

    return run


@register_kernel("IteratorToStringHandle", step=True)
def iterator_to_string_handle(k: KernelBuild) -> Kernel:
    return to_string_handle(Iterator)


@register_kernel(("IteratorFromStringHandle", "IteratorFromStringHandleV2"), step=True, promises=GIVES_ITERATOR)
def iterator_from_string_handle(k: KernelBuild) -> Kernel:
    return from_string_handle(k, Iterator)


@register_kernel(("IteratorGetDevice", "ExperimentalIteratorGetDevice"))
def iterator_get_device(k: KernelBuild) -> Kernel:
    return lambda handle: object_scalar(k.device.name.encode())


class IteratorState:
    """A saved position and the random choices that led to it, as they travel in checkpoints."""

    TYPE_NAME = "tensorflow::Iterator"

    def __init__(self, position: int, draws: Sequence[Draw] = ()) -> None:
        self.position, self.draws = position, draws

    def to_variant_proto(self) -> tensor_pb2.VariantTensorDataProto:
        packed = b"".join([self.position.to_bytes(8, "little"), *(draw.packed() for draw in self.draws)])
        return tensor_pb2.VariantTensorDataProto(type_name=self.TYPE_NAME, metadata=packed)

    @classmethod
    def from_variant_proto(cls, proto: tensor_pb2.VariantTensorDataProto) -> IteratorState:
        try:
            draws = Draw.unpacked(proto.metadata[8:])
        except ValueError:
            draws = None
        if len(proto.metadata) < 8 or draws is None:
            raise InvalidArgumentError("The saved iterator state is malformed or was written by another program")
        return cls(int.from_bytes(proto.metadata[:8], "little"), draws)


register_variant(IteratorState.TYPE_NAME, IteratorState.from_variant_proto)


# What `external_state_policy` says of functions with state: warn, ignore, or this.
_FAIL = 2


@register_kernel("SerializeIterator", step=True, blocking=True)
def serialize_iterator(k: KernelBuild) -> Kernel:
    strict = k.attr("external_state_policy", 0) == _FAIL

    def run(step: StepContext, handle: Any) -> Any:
        found = lookup(step, handle, Iterator)
        if strict:
            found.require_no_external_state()
        return object_scalar(found.state(step))

    return run


@register_kernel("DeserializeIterator", step=True, blocking=True)
def deserialize_iterator(k: KernelBuild) -> Kernel:
    def run(step: StepContext, handle: Any, state: Any) -> None:
        item = np.asarray(state, object).reshape(-1)[0]
        if not isinstance(item, IteratorState):
            raise InvalidArgumentError("DeserializeIterator needs what SerializeIterator gave")
        lookup(step, handle, Iterator).restore(item, step)

    return run
