"""Datasets and their iterators.

A dataset is an immutable description, held in variant tensors. `iterate` makes an independent pass over it: a function
that gives the next element (a tuple of arrays) or raises `EndOfSequence`. Such a function stays usable after any other
error, as TensorFlow's iterators do.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from dtfctl.errors import Signal
from dtfctl.protocol import dataset_options_pb2, graph_pb2
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.context import PreparedFunction, StepContext
from dtfctl.runtime.kernels.data_flow.handles import shape_text, type_text
from dtfctl.runtime.kernels.dataset.draws import Draws

Element = tuple[Any, ...]
Next = Callable[[], Element]
Access = Callable[[int], Element]
INFINITE, UNKNOWN = -1, -2
# Of a component that is held, besides its items.
_HELD_BYTES = 100


class EndOfSequence(Signal):
    """There are no more elements."""


class Iteration:
    """What all functions of one pass share.

    Attributes:
        cancellation: of the step that asks for the next element, or of the background thread that does.
        deterministic: parallel datasets that are not told otherwise keep the order of elements.
        draws: the random choices of the pass.
    """

    def __init__(
        self, step: StepContext, cancellation: CancellationToken, deterministic: bool = True, draws: Draws | None = None
    ) -> None:
        self.step = step
        self.cancellation = cancellation
        self.deterministic = deterministic
        self.draws = draws or Draws()
        self._closers: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._closed = False

    def background(self) -> Iteration:
        """Make the context of a thread that works ahead; it stops when this pass is closed."""
        token = CancellationToken()
        child = Iteration(self.step, token, self.deterministic, self.draws)

        def stop() -> None:
            token.cancel()
            child.close()

        self.on_close(stop)
        return child

    def on_close(self, action: Callable[[], None]) -> None:
        with self._lock:
            if not self._closed:
                self._closers.append(action)
                return
        action()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            actions, self._closers = self._closers, []
        for action in actions:
            action()


class Function:
    """A user's function with the inputs it captured, callable on elements.

    It is bound to the library of the session that built the dataset, which may outlive that session's step.
    """

    def __init__(self, step: StepContext, function: graph_pb2.NameAttrList, captured: Sequence[Any]) -> None:
        self._prepared: PreparedFunction = step.functions.prepare(function)
        self._functions = step.functions
        self._captured = list(captured)
        self._handle = step.session_handle
        self._collectives = step.collectives

    def __call__(self, iteration: Iteration, element: Sequence[Any]) -> Element:
        base = iteration.step
        resources = ResourceManager()
        step = StepContext(
            secrets.randbits(56) | 1,
            base.device,
            base.resources,
            resources,
            iteration.cancellation,
            base.rendezvous,
            self._functions,
            session_handle=self._handle,
            collectives=self._collectives,
        )
        try:
            outputs = self._prepared([*element, *self._captured], step)
        finally:
            if len(resources):
                resources.clear()
        return tuple(np.asarray(o) if isinstance(o, np.generic) else o for o in outputs)


@dataclass(frozen=True)
class Origin:
    """The op that made a dataset, and what it got."""

    op: str
    attrs: Mapping[str, graph_pb2.AttrValue]
    library: FunctionLibrary
    inputs: tuple[Any, ...]


class Dataset:
    """Base of all datasets.

    Attributes:
        types, shapes: of an element's components.
        options: serialized `Options`, those of the datasets it is made of first; of equal ones the last counts, as
            always when messages stand one after the other.
        origin: None for a dataset that another one is made of.
    """

    types: tuple[DType, ...] = ()
    shapes: tuple[TensorShape, ...] = ()
    options: bytes = b""
    origin: Origin | None = None

    def iterate(self, iteration: Iteration) -> Next:
        raise NotImplementedError

    def cardinality(self) -> int:
        """Number of elements; INFINITE or UNKNOWN."""
        return UNKNOWN

    def require_access(self) -> None:
        """Do nothing if `access` can be asked for.

        Raises:
            OpError: elements can only be had one after the other.
        """
        name = type(self).__name__.removesuffix("Dataset")
        raise FailedPreconditionError(f"{name} does not support random access.")

    def access(self, iteration: Iteration) -> Access:
        """Make a function that gives the element at a place in [0, cardinality), in any order."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"<{type(self).__name__}>"

    def scalar(self) -> Any:
        """Make the variant tensor that holds this dataset."""
        return object_scalar(self)


def new_pass(dataset: Dataset, step: StepContext, draws: Draws | None = None) -> Iteration:
    """Make the context of a pass over `dataset` from its beginning, with what the dataset's options say about it.

    Raises:
        InvalidArgumentError: the options are no message.
    """
    try:
        options = dataset_options_pb2.DatasetOptions.FromString(dataset.options)
    except DecodeError as e:
        raise InvalidArgumentError("Could not parse the options of the dataset") from e
    deterministic = options.deterministic if options.HasField("deterministic") else True
    return Iteration(step, step.cancellation, deterministic, draws)


def dataset_of(value: Any) -> Dataset:
    """Take the dataset out of a variant input.

    Raises:
        InvalidArgumentError: there is none.
    """
    item = value.reshape(-1)[0] if value.size == 1 else None
    if not isinstance(item, Dataset):
        raise InvalidArgumentError("Dataset tensor must be a scalar of dtype DT_VARIANT holding a dataset.")
    return item


def scalar_of(value: Any, name: str) -> Any:
    """Read a scalar argument as a Python value.

    Raises:
        InvalidArgumentError: it is no scalar.
    """
    if value.shape != ():
        raise InvalidArgumentError(f"{name} must be a scalar")
    return value.reshape(-1)[0] if value.dtype == object else value.item()


def check_types(expected: Sequence[DType], actual: Sequence[DType]) -> None:
    if len(expected) != len(actual):
        raise InvalidArgumentError(
            f"Number of components does not match: expected {len(expected)} types but got {len(actual)}."
        )
    for i, (want, have) in enumerate(zip(expected, actual)):
        if want is not have:
            raise InvalidArgumentError(
                f"Data type mismatch at component {i}: expected {type_text(want)} but got {type_text(have)}."
            )


def check_shapes(expected: Sequence[TensorShape], actual: Sequence[TensorShape]) -> None:
    if len(expected) != len(actual):
        raise InvalidArgumentError(
            f"Number of components does not match: expected {len(expected)} shapes but got {len(actual)}."
        )
    for i, (want, have) in enumerate(zip(expected, actual)):
        if not want.is_compatible_with(have):
            raise InvalidArgumentError(
                f"Incompatible shapes at component {i}: expected {shape_text(want)} but got {shape_text(have)}."
            )


def rows_of(value: Any) -> list[Any]:
    """Slices along axis 0, each an array, 0-d ones too."""
    return [value[i, ...] for i in range(value.shape[0])]


def element_bytes(element: Element) -> int:
    """Count about what an element takes that is held."""
    return sum(_HELD_BYTES + int(getattr(c, "nbytes", 0)) for c in element)


def stack_elements(elements: Sequence[Element]) -> Element:
    """Stack elements of equal shapes to one batch.

    Raises:
        InvalidArgumentError: shapes differ.
    """
    out = []
    for c, first in enumerate(elements[0]):
        parts = [e[c] for e in elements]
        for i, part in enumerate(parts):
            if part.shape != first.shape:
                raise InvalidArgumentError(
                    f"Cannot batch tensors with different shapes in component {c}. First element had shape "
                    f"{shape_text(first.shape)} and element {i} had shape {shape_text(part.shape)}."
                )
        if first.dtype == object:
            batch: Any = np.empty((len(parts), *first.shape), object)
            for i, part in enumerate(parts):
                batch[i] = part[()] if part.ndim == 0 else part
        else:
            admit((len(parts), *first.shape), first.dtype.itemsize)
            batch = np.stack(parts)
        out.append(batch)
    return tuple(out)


def drain(dataset: Dataset, iteration: Iteration) -> Any:
    """Yield the rest of a dataset, element by element."""
    advance = dataset.iterate(iteration)
    while True:
        try:
            element = advance()
        except EndOfSequence:
            return
        iteration.cancellation.check()
        yield element
