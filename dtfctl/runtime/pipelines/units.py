"""Units of work of a stage: made to begin when the one before has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtfctl.runtime.compiler.optimize import PLAIN_PLAN
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.pipelines.schedules import Unit
from dtfctl.runtime.pipelines.stages import FREE


def chain(work: Sequence[tuple[Unit, Sequence[Operation]]], device: str, is_sparing: bool) -> None:
    """Let each unit of a stage begin when the one before has ended, by control dependencies on its device.

    Args:
        is_sparing: the stage's values are to be given up as soon as they can be, rather than kept in buffers.
    """
    before: Operation | None = None
    for unit, ops in work:
        firsts, lasts = _ends(ops)
        if not lasts:
            continue
        if before is not None:
            for op in firsts:
                op._add_control_input(before)
        graph = context.get_default_graph()
        kind = "forward" if unit.is_forward else "backward"
        placed = graph.device(None), graph.device(device)
        with graph.control_dependencies(None), placed[0], placed[1], graph.control_dependencies(lasts):
            before = make_op("NoOp", name=f"{kind}_{unit.microbatch}_done")
        if is_sparing:
            before._set_attr(PLAIN_PLAN, encode_attr("bool", True))


def _ends(ops: Sequence[Operation]) -> tuple[list[Operation], list[Operation]]:
    """List the ops that need none, and those that none needs, of the others; what is free does not count."""
    solid = [op for op in ops if op.type not in FREE]
    inside = set(solid)
    used: set[Operation] = set()
    firsts = []
    for op in solid:
        own = [s for s in _sources(op) if s in inside]
        used.update(own)
        if not own and (op.inputs or op.signature.is_stateful):
            firsts.append(op)
    return firsts, [op for op in solid if op not in used]


def _sources(op: Operation) -> Iterator[Operation]:
    yield from (t.op for t in op.inputs)
    yield from op.control_inputs


def copy(ops: Sequence[Operation], prefix: str) -> dict[Tensor, Tensor]:
    """Make ops once more, from the same inputs, to compute again what they give.

    What has a state, as random ops have, is not run twice: its results are used again.

    Returns:
        for each of their tensors the new one.

    Raises:
        NotImplementedError: there is control flow among them.
    """
    graph = context.get_default_graph()
    again: dict[Tensor, Tensor] = {}
    with graph.control_dependencies(None):
        for op in ops:
            if op.signature.is_stateful or op.type in FREE:
                continue
            if op._bodies is not None or op.type in ("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"):
                raise NotImplementedError(
                    f"{op.name} ({op.type}) cannot be computed again: a pipeline with recompute=True has no control "
                    "flow in its stages"
                )
            inputs = [again.get(t, t) for t in op.inputs]
            new = graph.add_op(op.signature, inputs, op.attrs, name=f"{prefix}/{op.type}", compute_device=False)
            new._set_device(op.device)
            new._gradient_function = op._gradient_function
            for old_output, output in zip(op.outputs, new.outputs, strict=True):
                output.set_shape(old_output.shape)
                again[old_output] = output
    return again
