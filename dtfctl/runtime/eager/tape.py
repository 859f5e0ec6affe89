"""`GradientTape`: remembers the ops that ran on what it watches, and differentiates them backwards.

The gradient functions are the graphs' (framework.registries): given the record of an op, they run ops, which tapes
around record in turn; so gradients of gradients need nothing more.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.eager.tensor import EagerOperation
from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.gradients import UnconnectedGradients, aggregate, as_dense, gradients
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.registries import find_gradient
from dtfctl.runtime.framework.structural_ops import FUNCTIONAL

if TYPE_CHECKING:
    from dtfctl.runtime.ops.variables import Variable

_USED_UP = "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"
# Their gradient functions say themselves what no gradient of an output means.


class _Tapes(threading.local):
    def __init__(self) -> None:
        self.active: list[GradientTape] = []


_tapes = _Tapes()


def record(op: EagerOperation) -> None:
    """Show an op that ran to every tape."""
    for tape in _tapes.active:
        tape._record(op)


def watching(tensors: Sequence[Tensor]) -> list[GradientTape]:
    """Return the tapes that want the gradient through an op on these tensors."""
    return [tape for tape in _tapes.active if tape._wants_any(tensors)]


class GradientTape:
    """Records while it is entered.

    Args:
        persistent: let `gradient` be called more than once.
        watch_accessed_variables: watch trainable variables when they are read.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._automatic = watch_accessed_variables
        self._clear()
        self._used = False

    def _clear(self) -> None:
        self._ops: list[EagerOperation] = []
        # By identity; the tensors are kept, so that an identity never changes hands.
        self._watched: dict[int, Tensor] = {}
        self._variables: dict[int, Any] = {}

    @property
    def is_persistent(self) -> bool:
        return self._persistent

    def __enter__(self) -> GradientTape:
        if self in _tapes.active:
            raise ValueError("Tape is still recording, This can happen if you try to re-enter an already-active tape.")
        if self._used:
            self._clear()
            self._used = False
        _tapes.active.append(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        if self in _tapes.active:
            _tapes.active.remove(self)

    def watch(self, tensor: Any) -> None:
        """Have gradients with respect to this tensor, variable, or structure of them."""
        for item in nest.flatten(tensor):
            source = getattr(item, "_gradient_source", item)
            if not isinstance(source, Tensor):
                raise ValueError(f"Passed in object {item!r} of type '{type(item).__name__}', not tf.Tensor")
            dtype = source.dtype.base_dtype
            if not (dtype.is_floating or dtype.is_complex or dtype is dtypes.resource):
                raise TypeError(f"The dtype of the watched tensor must be floating (e.g. tf.float32), got {dtype.name}")
            self._watched[id(source)] = source
            if item is not source:
                self._variables[id(source)] = item

    def watched_variables(self) -> tuple[Variable, ...]:
        """Return the variables watched, in the order they were first read."""
        return tuple(self._variables.values())

    def reset(self) -> None:
        """Forget what was recorded, as if the tape had been entered anew."""
        self._clear()

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Record nothing inside."""
        if self not in _tapes.active:
            raise ValueError("Tape is not recording.")
        _tapes.active.remove(self)
        try:
            yield
        finally:
            _tapes.active.append(self)

    def _wants(self, tensor: Tensor) -> bool:
        if id(tensor) in self._watched:
            return True
        variable = getattr(tensor, "_variable", None)
        owner = None if variable is None else variable()
        if owner is None or not self._automatic or not owner.trainable:
            return False
        self._watched[id(tensor)] = tensor
        self._variables[id(tensor)] = owner
        return True

    def _wants_any(self, tensors: Sequence[Tensor]) -> bool:
        # No short cut: each variable among them is watched from now on.
        return sum(self._wants(t) for t in tensors) > 0

    def _record(self, op: EagerOperation) -> None:
        if not self._wants_any(op._inputs):
            return
        produced = [t for t in op.outputs if _carries_gradient(t)]
        if produced:
            self._ops.append(op)
            for tensor in produced:
                self._watched[id(tensor)] = tensor

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: UnconnectedGradients = UnconnectedGradients.NONE,
    ) -> Any:
        """Derivatives of the sum of `target` with respect to `sources`, in the structure of `sources`.

        Raises:
            RuntimeError: called twice on a tape that is not persistent.
            LookupError: an op on the way has no gradient.
        """
        if self._used and not self._persistent:
            raise RuntimeError(_USED_UP)
        if not self._persistent and self in _tapes.active:
            _tapes.active.remove(self)
        flat_sources = nest.flatten(sources)
        targets = [t for t in nest.flatten(target) if t is not None]
        given = [None] * len(targets) if output_gradients is None else nest.flatten(output_gradients)
        if not context.get_default_graph().executes:
            found = gradients(targets, flat_sources, given, unconnected_gradients=unconnected_gradients)
            return nest.pack_sequence_as(sources, found) if nest.is_nested(sources) else found[0]
        self._used = not self._persistent
        tensors = [getattr(s, "_gradient_source", s) for s in flat_sources]
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise ValueError(f"Source of a gradient must be a tensor or variable, got {tensor!r}")
        found = self._backward([convert_to_tensor(t) for t in targets], tensors, given)
        if unconnected_gradients == UnconnectedGradients.ZERO:
            found = [apply_op("ZerosLike", x=x) if g is None else g for g, x in zip(found, flat_sources)]
        if not self._persistent:
            self._ops = []
        return nest.pack_sequence_as(sources, found) if nest.is_nested(sources) else found[0]

    def _backward(self, targets: list[Tensor], sources: list[Tensor], given: list[Any]) -> list[Any]:
        gathered: dict[int, list[Any]] = {}
        for target, grad in zip(targets, given):
            if id(target) in self._watched:
                first = apply_op("OnesLike", x=target) if grad is None else convert_to_tensor(grad, target.dtype)
                gathered.setdefault(id(target), []).append(first)
        wanted = {id(s) for s in sources}
        for op in reversed(list(self._ops)):
            out = [_total(gathered, t) for t in op.outputs]
            # A source's own gradient stays for the result; those of values in between are done with.
            for tensor in op.outputs:
                if id(tensor) not in wanted:
                    gathered.pop(id(tensor), None)
            if all(g is None for g in out):
                continue
            for tensor, grad in zip(op._inputs, _input_gradients(op, out)):
                if grad is not None and id(tensor) in self._watched:
                    gathered.setdefault(id(tensor), []).append(grad)
        return [_total(gathered, s) if id(s) in self._watched else None for s in sources]

    def jacobian(
        self,
        target: Tensor,
        sources: Any,
        unconnected_gradients: UnconnectedGradients = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Derivatives of each element of `target`: for each source a tensor of target.shape + source.shape.

        Args:
            unconnected_gradients: give None, or zeros, for a source that `target` does not depend on.
            parallel_iterations, experimental_use_pfor: change how TensorFlow computes it, and nothing here.

        Raises:
            RuntimeError: the tape is not persistent and was used before.
        """
        flat = nest.flatten(sources)
        rows = self._by_element(target, flat, range(target.shape.num_elements() or 0))
        out: list[Any] = []
        for position, source in enumerate(flat):
            column = [row[position] for row in rows]
            shape = [*target.shape.known(), *source.shape.known()]
            if any(g is None for g in column):
                out.append(_unconnected(shape, source, unconnected_gradients))
                continue
            out.append(apply_op("Reshape", tensor=apply_op("Pack", values=column, axis=0), shape=shape))
        return nest.pack_sequence_as(sources, out) if nest.is_nested(sources) else out[0]

    def batch_jacobian(
        self,
        target: Tensor,
        source: Tensor,
        unconnected_gradients: UnconnectedGradients = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Tensor | None:
        """Derivatives of the elements of each row by the same row of `source`.

        Returns:
            [batch, *target.shape[1:], *source.shape[1:]]; None, or zeros as `unconnected_gradients` says, if nothing
            leads from one to the other.

        Args:
            target: [batch, ...], each row of which depends on the same row of `source` only.
            source: [batch, ...].
            parallel_iterations, experimental_use_pfor: change how TensorFlow computes it, and nothing here.

        Raises:
            ValueError: they are not of as many rows.
            RuntimeError: the tape is not persistent and was used before.
        """
        rows, more = target.shape.known()[:1], source.shape.known()[:1]
        if not rows or rows != more:
            raise ValueError(f"batch_jacobian of {target.shape} by {source.shape}: they need as many rows each")
        size = target.shape[1:].num_elements() or 0
        columns = [found for (found,) in self._by_element(target, [source], [[i] * rows[0] for i in range(size)])]
        shape = [*target.shape.known(), *source.shape.known()[1:]]
        if any(column is None for column in columns):
            return _unconnected(shape, source, unconnected_gradients)
        if not columns:
            return apply_op("Fill", dims=shape, value=apply_op("Cast", x=0.0, DstT=source.dtype))
        return apply_op("Reshape", tensor=apply_op("Pack", values=columns, axis=1), shape=shape)

    def _by_element(self, target: Tensor, sources: list[Any], places: Sequence[Any]) -> list[Any]:
        """Derivatives by the sources, of those elements of `target` that stand at each place of a row."""
        if self._used and not self._persistent:
            raise RuntimeError(_USED_UP)
        persistent, self._persistent = self._persistent, True
        try:
            found = []
            for place in places:
                one_hot = apply_op("OneHot", indices=place, depth=len(places), on_value=1.0, off_value=0.0)
                seed = apply_op("Reshape", tensor=apply_op("Cast", x=one_hot, DstT=target.dtype), shape=target.shape)
                found.append(self.gradient(target, sources, seed))
            return found
        finally:
            self._persistent = persistent
            self._used = not persistent


def _carries_gradient(tensor: Tensor) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex or dtype in (dtypes.resource, dtypes.variant)


def _total(gathered: dict[int, list[Any]], tensor: Tensor) -> Any:
    grads = gathered.get(id(tensor))
    if not grads:
        return None
    if len(grads) > 1:
        grads[:] = [aggregate(grads)]
    return grads[0]


def _input_gradients(op: EagerOperation, grads: list[Any]) -> list[Any]:
    """Call the op's gradient function; nothing flows through an op without one."""
    function = op._gradient_function
    if function is None:
        override = op.attr("_gradient_op_type")
        function = find_gradient(override.decode() if override else op.type)
    if function is None:
        return []
    filled = list(grads)
    if op.type not in FUNCTIONAL:
        for i, (tensor, grad) in enumerate(zip(op.outputs, grads)):
            if grad is None and (tensor.dtype.is_floating or tensor.dtype.is_complex):
                filled[i] = apply_op("ZerosLike", x=tensor)
    result = function(op, *filled)
    found = list(result) if isinstance(result, (list, tuple)) else [result]
    if len(found) != len(op._inputs):
        raise ValueError(
            f"Num gradients {len(found)} generated for op {op.type} do not match num inputs {len(op._inputs)}"
        )
    return found


def dense(grads: Sequence[Any]) -> list[Tensor]:
    """Turn these gradients into tensors."""
    return [as_dense(g) for g in grads]


def _unconnected(shape: list[int], source: Tensor, wanted: UnconnectedGradients) -> Tensor | None:
    if UnconnectedGradients(wanted) is UnconnectedGradients.NONE:
        return None
    return apply_op("Fill", dims=shape, value=apply_op("Cast", x=0.0, DstT=source.dtype.base_dtype))
