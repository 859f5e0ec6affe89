"""Gradients of a pipeline: stage by stage from the last to the first, added up over micro-batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.gradients import aggregate, as_dense, gradients
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.pipelines.microbatches import Call
from dtfctl.runtime.pipelines.stages import Devices, StagePart
from dtfctl.runtime.pipelines.units import copy


class Backward:
    """Makes the gradients of one micro-batch after the other, and adds them up where their variables are used.

    Args:
        variables: those that gradients are wanted of.
    """

    def __init__(self, devices: Devices, variables: Sequence[Any]) -> None:
        self._devices, self._variables = devices, variables
        self._graph = context.get_default_graph()
        count = len(devices.names)
        # By stage and variable.
        self._dense: list[dict[int, Tensor]] = [{} for _ in range(count)]
        self._sparse: list[dict[int, list[IndexedSlices]]] = [{} for _ in range(count)]

    def add(self, call: Call, parts: Sequence[StagePart], weight: Any, again: Sequence[bool]) -> list[list[Operation]]:
        """Make the gradients of a micro-batch, and return the ops that each stage has of it.

        Args:
            weight: of its loss in that of the batch.
            again: by stage, whether it computes its activations again before.
        """
        flowing: dict[Tensor, list[Any]] = {}
        made: list[list[Operation]] = [[] for _ in parts]
        for stage in reversed(range(len(parts))):
            known = len(self._graph.get_operations())
            with self._on(stage):
                results = self._one(stage, call, parts[stage], weight, again[stage], flowing)
            made[stage] = _needed(results, self._graph.get_operations()[known:])
        return made

    @contextlib.contextmanager
    def _on(self, stage: int) -> Iterator[None]:
        graph = self._graph
        with graph.control_dependencies(None), graph.device(None), graph.device(self._devices.names[stage]):
            yield

    def _one(
        self, stage: int, call: Call, part: StagePart, weight: Any, again: bool, flowing: dict[Tensor, list[Any]]
    ) -> list[Any]:
        """Make what a stage does backwards, and return the gradients that others wait for."""
        ys = [t for t in part.outputs if t in flowing]
        starts: list[Any] = [aggregate([as_dense(g) for g in flowing[t]]) for t in ys]
        if call.loss.op in part.ops:
            ys.append(call.loss)
            start = convert_to_tensor(weight) if not isinstance(weight, float) else weight
            starts.append(_cast(start, call.loss))
        if not ys:
            return []
        if again:
            renewed = copy(part.ops, f"again_{stage}")
            ys = [renewed.get(t, t) for t in ys]
        xs = [t for t in part.inputs if t.dtype.base_dtype.is_floating or t.dtype.base_dtype.is_complex]
        own = self._used_by(part)
        wanted = [*xs, *(self._variables[i] for i in own)]
        if not wanted:
            return []
        found = gradients(ys, wanted, grad_ys=starts, stop_gradients=part.inputs)
        for x, grad in zip(xs, found):
            if grad is not None:
                flowing.setdefault(x, []).append(grad)
        sums = [
            self._accumulate(stage, i, grad) for i, grad in zip(own, found[len(xs) :], strict=True) if grad is not None
        ]
        return [grad for grad in found[: len(xs)] if grad is not None] + sums

    def _used_by(self, part: StagePart) -> list[int]:
        """List the variables that a stage reads, or what is computed of them outside of all micro-batches."""
        inside, seen = set(part.ops), set()
        stack = [t.op for op in part.ops for t in op.inputs if t not in part.inputs and t.op not in inside]
        while stack:
            op = stack.pop()
            if op not in seen:
                seen.add(op)
                stack += [t.op for t in op.inputs]
        return [i for i, variable in enumerate(self._variables) if _source_of(variable) in seen]

    def _accumulate(self, stage: int, variable: int, grad: Any) -> Any:
        if isinstance(grad, IndexedSlices):
            self._sparse[stage].setdefault(variable, []).append(grad)
            return grad
        before = self._dense[stage].get(variable)
        self._dense[stage][variable] = grad if before is None else apply_op("AddV2", x=before, y=grad)
        return self._dense[stage][variable]

    def sums(self) -> list[Any]:
        """Return each variable's gradient, a Tensor or IndexedSlices; None where the loss does not depend on it."""
        results: list[Any] = []
        for i, variable in enumerate(self._variables):
            found: list[Any] = []
            for stage in range(len(self._dense)):
                own: list[Any] = list(self._sparse[stage].get(i, ()))
                if i in self._dense[stage]:
                    own.append(self._dense[stage][i])
                if own:
                    with self._on(stage):
                        found.append(aggregate(own))
            if len(found) > 1:
                with self._graph.control_dependencies(None), self._graph.colocate_with(variable.op, True):
                    found = [aggregate(found)]
            results.append(found[0] if found else None)
        return results


def _flows(tensor: Tensor) -> bool:
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex


def _needed(results: Sequence[Any], made: Sequence[Operation]) -> list[Operation]:
    """List those of some ops that results are computed by: gradients are made that nobody wants."""
    inside, needed = set(made), set()
    stack = [t.op for r in results for t in ([r.values, r.indices] if isinstance(r, IndexedSlices) else [r])]
    while stack:
        op = stack.pop()
        if op in inside and op not in needed:
            needed.add(op)
            stack += [t.op for t in op.inputs]
            stack += op.control_inputs
    return [op for op in made if op in needed]


def _source_of(variable: Any) -> Operation:
    handle: Tensor | None = getattr(variable, "_gradient_source", None)
    source: Operation = variable.op if handle is None else handle.op
    return source


def _cast(weight: Any, loss: Tensor) -> Tensor:
    dtype = loss.dtype.base_dtype
    if isinstance(weight, float):
        value: Tensor = convert_to_tensor(weight, dtype)
    else:
        value = weight if weight.dtype == dtype else apply_op("Cast", x=weight, DstT=dtype)
    if loss.shape.rank is None:
        # The loss is a scalar, which is not known of it.
        value = apply_op("Reshape", tensor=value, shape=apply_op("Shape", input=loss))
    return value
