"""Asynchronous training whose next step's parameters come while this one computes."""

from __future__ import annotations

from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.structural_ops import AHEAD_ATTR
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train.session_run_hook import SessionRunHook

_READS = frozenset({"ReadVariableOp", "Identity"})
# What a read passes through beside its variable.
_PASSES = frozenset({"Identity", "CompressedTransfer"})


class PrefetchParametersHook(SessionRunHook):
    """Has each step compute with the parameters that were fetched during the one before it, and fetch the next one's.

    The worker keeps a copy of every trainable variable that it reads whole and that is in another task; a step begins
    with the copies at once, and what it fetches meanwhile is what the variables were when it began: gradients are of
    values that lack the worker's own last update. Rows that are looked up on the ps are as new as ever. Copies are
    fetched anew where a session begins. The hook changes the default graph, which must have its train op by then
    (`minimize` or `apply_gradients`), for asynchronous training: in synchronous training it delays what it computes
    with by a step. Where no trainable variable is in another task it changes nothing.

    Attributes:
        variables: those that are fetched ahead.

    Raises:
        ValueError: the graph has no train op.
    """

    def __init__(self) -> None:
        self.variables: list[Any] = []
        self._fetch: Any = None

    def begin(self) -> None:
        graph = context.get_default_graph()
        train_ops = [_operation(op) for op in graph.get_collection(GraphKeys.TRAIN_OP)]
        if not train_ops:
            raise ValueError(
                "There is no train op to fetch the next step's parameters beside: make one by an optimizer's minimize "
                "or apply_gradients before the session"
            )
        consumers: dict[Tensor, list[tuple[Operation, int]]] = {}
        for op in graph.get_operations():
            for index, tensor in enumerate(op.inputs):
                consumers.setdefault(tensor, []).append((op, index))
        fetches: list[Operation] = []
        with graph.name_scope(None), graph.control_dependencies(None):
            for variable in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES):
                made = _fetch_ahead(variable, consumers)
                fetches += made
                if made:
                    self.variables.append(variable)
            # One op in each task says that all are there.
            together = []
            for device in dict.fromkeys(op.device for op in fetches):
                with (
                    graph.device(None),
                    graph.device(device),
                    graph.control_dependencies([op for op in fetches if op.device == device]),
                ):
                    together.append(make_op("NoOp", name="parameters_are_fetched"))
            self._fetch = group(*together, name="fetch_parameters")
        for op in train_ops:
            op._add_control_inputs(together)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._fetch)


def _operation(op: Any) -> Operation:
    return op.op if isinstance(op, Tensor) else op


def _task(device: str) -> tuple[str, int] | None:
    spec = DeviceSpec.from_string(device)
    return None if spec.job is None else (spec.job, spec.task or 0)


def _fetch_ahead(variable: Any, consumers: dict[Tensor, list[tuple[Operation, int]]]) -> list[Operation]:
    """Make a copy of a variable in each other task that reads it, and have those read that; what fetches it anew."""
    home = _task(variable.device)
    beside = f"loc:@{variable.op.name}".encode()
    if home is None:
        return []
    source = variable.handle if variable._is_resource else variable._as_graph_element()
    values = [
        op.outputs[0]
        for op, _ in consumers.get(source, ())
        # What is read behind something else is read for a reason.
        if op.type in _READS and not op.control_inputs and _task(op.device) in (home, None)
    ]
    used: dict[str, list[tuple[Operation, int]]] = {}
    sent: dict[str, Tensor] = {}
    for value in values:
        for op, index in consumers.get(value, ()):
            where = _task(op.device)
            if where in (home, None) or beside in op.colocation_groups():
                if op.type in _PASSES:
                    values.append(op.outputs[0])
                continue
            used.setdefault(op.device, []).append((op, index))
            sent.setdefault(op.device, value)
    return [_copy(variable, sent[device], device, uses) for device, uses in used.items()]


def _copy(variable: Any, value: Tensor, device: str, uses: list[tuple[Operation, int]]) -> Operation:
    graph = context.get_default_graph()
    with graph.colocate_with(None, ignore_existing=True), graph.device(None), graph.device(device):
        copy = Variable(
            lambda: init_ops.Zeros()(variable.shape, variable.dtype.base_dtype),
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
            name=f"{variable.op.name}/fetched",
            dtype=variable.dtype.base_dtype,
            use_resource=True,
        )
        now = apply_op("Identity", input=copy.value(), name=f"{variable.op.name}/fetched_before")
        for op, index in uses:
            op._update_input(index, now)
        with graph.control_dependencies([now.op]):
            assigned: Operation = copy.assign(value, read_value=False)
        assigned._set_attr(AHEAD_ATTR, graph_pb2.AttrValue(b=True))
    return assigned
