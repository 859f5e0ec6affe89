"""Kernels whose time is told apart from that of computing: they wait for input, for others, or for a disk."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.spans import Span, clock, note
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild

_OPS: dict[Span, tuple[str, ...]] = {
    Span.INPUT: (
        "IteratorGetNext",
        "IteratorGetNextSync",
        "IteratorGetNextAsOptional",
        "MultiDeviceIteratorGetNextFromShard",
        "RecordInput",
    ),
    Span.READ: ("ReaderRead", "ReaderReadV2", "ReaderReadUpTo", "ReaderReadUpToV2", "ReadFile"),
    Span.ENQUEUE: (
        "QueueEnqueue",
        "QueueEnqueueV2",
        "QueueEnqueueMany",
        "QueueEnqueueManyV2",
        "BarrierInsertMany",
    ),
    Span.STAGE: ("Stage", "MapStage"),
    Span.QUEUE: (
        "QueueDequeue",
        "QueueDequeueV2",
        "QueueDequeueMany",
        "QueueDequeueManyV2",
        "QueueDequeueUpTo",
        "QueueDequeueUpToV2",
        "BarrierTakeMany",
        "Unstage",
        "MapUnstage",
        "AccumulatorTakeGradient",
        "ResourceAccumulatorTakeGradient",
        "SparseAccumulatorTakeGradient",
    ),
    Span.CHECKPOINT: ("Save", "SaveV2", "SaveSlices", "Restore", "RestoreV2", "RestoreSlice", "MergeV2Checkpoints"),
}
_WAITED_FOR = (Span.INPUT, Span.QUEUE)
_KINDS = {op: kind for kind, ops in _OPS.items() for op in ops}


def noted(build: KernelBuild, kernel: Kernel, takes_step: bool) -> Kernel:
    """Have a kernel noted as a span, if it is one of these."""
    kind = _kind(build.node.op)
    if kind is None:
        return kernel
    name = build.node.name

    def run(*args: Any) -> Any:
        began = clock()
        try:
            return kernel(*args)
        finally:
            _note(kind, name, began, args[0] if takes_step else None)

    return run


def note_input(name: str, began: int, step: StepContext) -> None:
    """Note that a step has waited for an element since `began` (ns of `clock`), as the kernel of a node would."""
    _note(Span.INPUT, name, began, step)


def _note(kind: Span, name: str, began: int, step: StepContext | None) -> None:
    # What fills a queue has time: only who empties it waits for input.
    ahead = kind in _WAITED_FOR and step is not None and step.feeds_others
    note(Span.READ if ahead else kind, name, began, step.step_id if step is not None else 0)


def _kind(op: str) -> Span | None:
    # Those that only start something take no time.
    if op.startswith("Collective") and "Start" not in op and "Communicator" not in op and "Group" not in op:
        return Span.COLLECTIVE
    return _KINDS.get(op)
