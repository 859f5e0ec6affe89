"""Which gradients and parameters of a graph are made smaller on their way between hosts, and how."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any
from weakref import WeakKeyDictionary

from dtfctl.runtime.compression import parse_codec
from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.base_variable import Variable
from dtfctl.runtime.ops.init_ops import zeros_initializer
from dtfctl.runtime.ops.lookup_ops import MutableHashTable

VARIABLE = "DTF_COMPRESSION"
"""The environment variable with the Compression of graphs that set none, as JSON: a cluster file's `compression`."""
STATES = "transfer_states"
"""The collection with the TransferState of each variable of the chief's graph whose codec keeps one."""
_STATELESS = ("bfloat16", "float16", "int8")


@dataclass(frozen=True)
class Compression:
    """How dense 32-bit floats are sent between tasks of different hosts.

    Args:
        gradients: the codec of what is sent to be applied to a variable: "none", "float16", "bfloat16", "int8",
            "onebit", "topk" or "powersgd", with parameters as in "topk:ratio=0.01,momentum=0.9,warmup=100".
        parameters: the codec of what is read of a trainable variable: "none", "float16", "bfloat16" or "int8".
        variables: exceptions, by pattern of the variable's name ("embedding/*"), the first that matches; each has
            `gradients` and `parameters`, or one of them.
        least: variables of fewer elements are sent as they are.
        always: between tasks of one host, too. Shared memory is faster than any codec, so this is for trying.

    Raises:
        InvalidArgumentError: there is no such codec or parameter of one.
    """

    gradients: str = "none"
    parameters: str = "none"
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    least: int = 4096
    always: bool = False

    def __post_init__(self) -> None:
        for rule in (self.__dict__, *self.variables.values()):
            check_codec("gradients", rule.get("gradients", "none"))
            check_codec("parameters", rule.get("parameters", "none"))
        for pattern, rule in self.variables.items():
            for key in rule.keys() - {"gradients", "parameters"}:
                raise InvalidArgumentError(
                    f"compression of '{pattern}': there is no '{key}', but gradients, parameters"
                )

    def of(self, variable: Any) -> Compression:
        """Find what holds for one variable."""
        name = variable.op.name
        for pattern, rule in self.variables.items():
            if fnmatchcase(name, pattern):
                return replace(
                    self,
                    gradients=rule.get("gradients", self.gradients),
                    parameters=rule.get("parameters", self.parameters),
                    variables={},
                )
        return self

    def fits(self, variable: Any) -> bool:
        count = variable.shape.num_elements()
        return variable.dtype.base_dtype is dtypes.float32 and count is not None and count >= self.least


def check_codec(what: str, text: str) -> None:
    """Refuse a codec that is not there, or not for this.

    Raises:
        InvalidArgumentError: that, and which there are.
    """
    if text == "none":
        return
    try:
        codec = parse_codec(text)
    except InvalidArgumentError as e:
        raise InvalidArgumentError(f"compression: {what}: {e.message}, and none") from None
    if what == "parameters" and codec.name not in _STATELESS:
        raise InvalidArgumentError(
            f"compression: parameters can be sent as {', '.join(_STATELESS)}, not as {codec.name}: what that leaves "
            "out would have to be known to every reader"
        )


_NOTHING = Compression()
_by_graph: WeakKeyDictionary[Any, Compression] = WeakKeyDictionary()
_from_environment: dict[str, Compression] = {}


def compress_transfers(
    gradients: str = "none",
    parameters: str = "none",
    variables: Mapping[str, Mapping[str, str]] | None = None,
    least: int = Compression.least,
    always: bool = False,
) -> None:
    """Have gradients and parameters of the default graph sent smaller between hosts; for what is built from now on.

    Args: as those of `Compression`.

    Raises:
        InvalidArgumentError: there is no such codec or parameter of one.
    """
    _by_graph[context.get_default_graph()] = Compression(gradients, parameters, variables or {}, least, always)


def compression() -> Compression:
    """Find what holds for the default graph: what was set for it, else what the environment says."""
    found = _by_graph.get(context.get_default_graph())
    if found is not None:
        return found
    text = os.environ.get(VARIABLE, "")
    if not text:
        return _NOTHING
    if text not in _from_environment:
        try:
            _from_environment[text] = Compression(**json.loads(text))
        except (ValueError, TypeError) as e:
            raise InvalidArgumentError(f"{VARIABLE} is not what a cluster file's `compression` says: {e}") from e
    return _from_environment[text]


def compressed_parameter(variable: Any, value: Tensor) -> Tensor:
    """Give what is read of a variable the form in which it is sent to other hosts. Call beside the variable."""
    policy = compression()
    # Others are slots and statistics, which are read where they are.
    if policy is _NOTHING or not variable.trainable:
        return value
    rule = policy.of(variable)
    if rule.parameters == "none" or not rule.fits(variable):
        return value
    sent: Tensor = apply_op(
        "CompressedTransfer",
        value=value,
        state=[],
        codec=rule.parameters,
        shape=variable.shape,
        always=rule.always,
        name="sent",
    )
    return sent


def compressed_gradient(variable: Any, gradient: Tensor, optimizer: Any) -> Tensor:
    """Give a gradient that is sent to another task to be applied there the form in which it is sent.

    What a codec keeps from one step to the next is a variable beside who sends. That of the chief is a variable of the
    graph, and in its checkpoints; those of other workers get there by way of tables (train/transfer_states.py), and
    come back with the initializer of tables.

    Raises:
        ValueError: momentum is asked of the codec, and the optimizer may have its own.
    """
    policy = compression()
    if policy is _NOTHING or gradient.dtype.base_dtype is not dtypes.float32:
        return gradient
    rule = policy.of(variable)
    if rule.gradients == "none" or not rule.fits(variable):
        return gradient
    sender, receiver = DeviceSpec.from_string(gradient.op.device), DeviceSpec.from_string(variable.device)
    if receiver.job is None or (sender.job, sender.task) == (receiver.job, receiver.task):
        return gradient
    graph = context.get_default_graph()
    here = DeviceSpec(sender.job, sender.replica, sender.task, "CPU", 0).to_string() if sender.job else None
    state: list[Any] = []
    with graph.colocate_with(None, ignore_existing=True), graph.device(None), graph.device(here):
        codec = parse_codec(rule.gradients)
        if getattr(codec, "momentum", 0) and optimizer.may_have_momentum:
            raise ValueError(
                f"{rule.gradients} has momentum of its own: apply its gradients by a GradientDescentOptimizer, "
                f"not {type(optimizer).__name__}"
            )
        size = codec.state_size(variable.shape.known())
        if size:
            state = [_state_of(variable, size, f"/job:{sender.job}/task:{sender.task}", _is_chief(sender))]
        with graph.name_scope(f"{variable.op.name}/"):
            sent: Tensor = apply_op(
                "CompressedTransfer",
                value=gradient,
                state=state,
                codec=rule.gradients,
                shape=variable.shape,
                always=rule.always,
                name="compressed_gradient",
            )
    return sent


@dataclass(frozen=True)
class TransferState:
    """What a codec keeps for one variable beside each worker.

    Attributes:
        variable: the variable's name; `device`: where it is, and the table with it.
        size: floats that are kept.
        worker: whose graph this is, as "/job:worker/task:0".
    """

    variable: str
    device: str
    size: int
    worker: str

    def table(self) -> MutableHashTable:
        """Make the table by worker in the default graph; all of that name on that device are the same."""
        graph = context.get_default_graph()
        with graph.colocate_with(None, ignore_existing=True), graph.device(None), graph.device(self.device):
            default = zeros_initializer()([self.size], dtypes.float32)
            name = f"{self.variable}/Compression_others"
            return MutableHashTable(dtypes.string, dtypes.float32, default, shared_name=name, name=name)

    def reference(self, worker: str) -> Tensor:
        """Refer to what a worker keeps, from a graph that has no such variable."""
        name = f"{self.variable}/Compression"
        with context.get_default_graph().device(f"{worker}/device:CPU:0"):
            found: Tensor = apply_op(
                "VariableV2", shape=[self.size], dtype=dtypes.float32, shared_name=name, name=f"{name}_of_worker"
            )
        return found


def _is_chief(sender: DeviceSpec) -> bool:
    """Tell whether who builds the graph is who saves it."""
    try:
        has_chief = "chief" in json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    except (ValueError, AttributeError):
        has_chief = False
    return not sender.task and (sender.job == "chief" or not has_chief)


def _state_of(variable: Any, size: int, worker: str, is_chief: bool) -> Tensor:
    initial = zeros_initializer()
    graph = context.get_default_graph()
    collections = [GraphKeys.GLOBAL_VARIABLES] if is_chief else []
    with graph.name_scope(""):
        kept = Variable(
            lambda: initial([size], dtypes.float32),
            trainable=False,
            collections=collections,
            name=f"{variable.op.name}/Compression",
            dtype=dtypes.float32,
            use_resource=False,
        )
        reference: Tensor = kept._as_graph_element()
        state = TransferState(variable.op.name, variable.device, size, worker)
        if is_chief:
            graph.add_to_collection(STATES, state)
        else:
            graph.add_to_collection(GraphKeys.TABLE_INITIALIZERS, _take_back(state, reference))
    return reference


def _take_back(state: TransferState, reference: Tensor) -> Operation:
    """Have this worker's state, where one was restored, taken out of the table."""
    table = state.table()
    me = constant([state.worker], dtypes.string)
    keys, _ = table.export()
    values = table.lookup(me)
    with context.get_default_graph().control_dependencies([keys.op, values.op]):
        removed = table.remove(me)
    with context.get_default_graph().control_dependencies([removed]):
        return make_op("RestoreTransferState", state=reference, worker=me, keys=keys, values=values)
