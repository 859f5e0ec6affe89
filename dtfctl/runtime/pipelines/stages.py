"""Which stage each op of a micro-batch belongs to, and what goes from one stage to another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.structural_ops import VARIABLES
from dtfctl.runtime.pipelines.microbatches import Call

# What costs nothing and holds nothing back: it may run as early as it can.
FREE = frozenset(("Const", "Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs", "NoOp"))


@dataclass
class StagePart:
    """What a stage does forwards for one micro-batch.

    Attributes:
        ops: in the order in which they were made.
        inputs: tensors of earlier stages, and of the micro-batch itself.
        outputs: tensors that later stages use.
    """

    ops: list[Operation] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)


class Devices:
    """The devices of a pipeline's stages, the first stage's first."""

    def __init__(self, names: Sequence[str]) -> None:
        self._specs = [DeviceSpec.from_string(name) for name in names]
        self.names = tuple(spec.to_string() for spec in self._specs)
        if not names:
            raise ValueError("A pipeline needs at least one device")
        for i, spec in enumerate(self._specs):
            for j, other in enumerate(self._specs[:i]):
                if not spec.conflicts(other):
                    raise ValueError(
                        f"Stages {j} and {i} are on the same device: {names[j]!r} and {names[i]!r}. Give each stage "
                        "a device of its own"
                    )

    def stage_of(self, device: str) -> int | None:
        """Find the stage whose device a name means; None where it means none."""
        if not device:
            return None
        spec = DeviceSpec.from_string(device)
        for i, own in enumerate(self._specs):
            if own.matches(spec):
                return i
        return None


def relevant_ops(call: Call) -> tuple[list[Operation], set[Operation]]:
    """List the ops that a call's loss is computed by, in order, and tell which of them depend on the micro-batch.

    Random ops, and what else has a state that is not a variable's, count as dependent.
    """
    made = set(call.ops)
    needed: set[Operation] = set()
    stack = [call.loss.op]
    while stack:
        op = stack.pop()
        if op in needed or op not in made:
            continue
        needed.add(op)
        stack += [t.op for t in op.inputs]
        stack += op.control_inputs
    # Variables are among the ops, made in an order of their own.
    order = [op for op in call.ops if op in needed]
    sources = {t.op for t in call.inputs}
    dependent: set[Operation] = set()
    for op in _inputs_first(order):
        if _has_own_state(op) or any(s in dependent or s in sources for s in _sources(op)):
            dependent.add(op)
    return order, dependent


def _sources(op: Operation) -> Iterable[Operation]:
    yield from (t.op for t in op.inputs)
    yield from op.control_inputs


def _inputs_first(ops: Sequence[Operation]) -> list[Operation]:
    """Sort ops by when they were made, which is after their inputs but for control inputs that were added later."""
    return sorted(ops, key=lambda op: op._id)


def _has_own_state(op: Operation) -> bool:
    if not op.signature.is_stateful or op.type in VARIABLES:
        return False
    tensors = [*op.inputs, *op.outputs]
    return not any(t.dtype.name == "resource" or t.dtype.is_ref for t in tensors)


def place(
    call: Call, order: Sequence[Operation], dependent: Collection[Operation], devices: Devices
) -> dict[Operation, int]:
    """Find each op's stage by its device, and give those without one the device of the stage that they belong to.

    That is the last stage among their inputs, and where none of these has one, the first that uses them.

    Raises:
        ValueError: an op that depends on the micro-batch is on another device, or uses what a later stage computes.
    """
    stages: dict[Operation, int] = {}
    unplaced: list[Operation] = []
    for op in order:
        at = devices.stage_of(op.device)
        if at is None and op.device and op in dependent:
            raise ValueError(
                f"{op.name} ({op.type}) is on {op.device}, which is the device of none of the pipeline's stages "
                f"({', '.join(devices.names)}); put it into `with pipeline.stage(i)`"
            )
        if at is not None:
            stages[op] = at
            continue
        before = [stages[t.op] for t in op.inputs if t.op in stages and t.op in dependent]
        if before and op in dependent:
            stages[op] = max(before)
            op._set_device(devices.names[stages[op]])
        elif not op.device:
            unplaced.append(op)
    users: dict[Operation, list[int]] = {}
    for op in reversed(order):
        if op not in stages and op in unplaced and users.get(op):
            stages[op] = min(users[op])
            op._set_device(devices.names[stages[op]])
        elif op not in stages and op in dependent:
            stages[op] = 0
            op._set_device(devices.names[0])
        if op in stages:
            for source in _sources(op):
                users.setdefault(source, []).append(stages[op])
    for op in order:
        for source in _sources(op):
            if source in dependent and op in dependent and stages[source] > stages[op]:
                raise ValueError(
                    f"{op.name} ({op.type}) of stage {stages[op]} uses {source.name} of stage {stages[source]}: "
                    "stages use what earlier ones have computed, not later ones"
                )
    return stages


def parts_of(
    call: Call, order: Sequence[Operation], dependent: Collection[Operation], stages: dict[Operation, int], count: int
) -> list[StagePart]:
    """Divide the ops that depend on a micro-batch among the stages, with what goes from one to another."""
    parts = [StagePart() for _ in range(count)]
    given = set(call.inputs)
    for op in order:
        if op not in dependent:
            continue
        at = stages[op]
        part = parts[at]
        part.ops.append(op)
        for tensor in op.inputs:
            from_elsewhere = tensor.op in dependent and stages[tensor.op] != at
            if not from_elsewhere and tensor not in given:
                continue
            if tensor not in part.inputs:
                part.inputs.append(tensor)
            if from_elsewhere and tensor not in parts[stages[tensor.op]].outputs:
                parts[stages[tensor.op]].outputs.append(tensor)
    return parts
