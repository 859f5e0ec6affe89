"""A session's graph and how the compiler is asked to turn a signature into partitions, one a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from dtfctl.protocol import config_pb2, device_pb2, graph_pb2
from dtfctl.runtime.compiler.compile import CompileOptions, PreparedGraph, compile_step, prepare
from dtfctl.runtime.compiler.devices import DeviceInfo, DeviceSet
from dtfctl.runtime.compiler.pause import collector_paused
from dtfctl.runtime.compiler.place import placement_log
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError, UnavailableError
from dtfctl.runtime.framework.node_graph import Node, NodeGraph, parse_input

log = logging.getLogger(__name__)


def _job_and_index(device: str) -> tuple[str | None, int | None]:
    try:
        spec = DeviceSpec.from_string(device)
    except ValueError:
        return None, None  # who uses it says what is wrong with it
    return spec.job, spec.task


class SessionGraph:
    """All nodes a client has sent, placed. The caller sees to it that one thread at a time is in here.

    Args:
        devices: all the session may use.
        task: the master's own.
        away: tasks whose devices are missing for now, and why: what needs these can be done later.
        is_far: whether two tasks are on different hosts; by default all are.
    """

    def __init__(
        self,
        devices: Iterable[device_pb2.DeviceAttributes],
        task: str,
        config: config_pb2.ConfigProto,
        away: Mapping[str, str] | None = None,
        is_far: Callable[[str, str], bool] | None = None,
    ) -> None:
        self.graph = NodeGraph()
        self._away = {_job_and_index(name): (name, why) for name, why in (away or {}).items()}
        self._devices = DeviceSet([DeviceInfo.from_proto(d) for d in devices], task)
        self._is_far = is_far
        self._options = CompileOptions.from_config(config)
        self._log_placement = config.log_device_placement
        self._prepared = PreparedGraph(self.graph, {})

    def extend(self, graph_def: graph_pb2.GraphDef) -> None:
        """Add nodes and place them; stateful ones that are there stay where they are.

        Raises:
            OpError: the GraphDef is malformed or cannot be placed; nothing is added.
        """
        pinned = self._prepared.stateful()
        with collector_paused():
            added = self.graph.extend(graph_def)
            try:
                self._prepared = prepare(self.graph, self._devices, self._options, pinned)
            except OpError as error:
                added.undo(self.graph)
                if isinstance(error, InvalidArgumentError):
                    self._explain(added.nodes, error)
                raise
        if self._log_placement:
            new = {node.name for node in added.nodes}
            for line in placement_log(self._prepared.graph, self._prepared.placement):
                if line.partition(":")[0] in new:
                    log.warning("%s", line)

    def _explain(self, nodes: Iterable[Node], error: InvalidArgumentError) -> None:
        """Raise UnavailableError where nodes ask for a device of a task that is lost for now."""
        if not self._away:
            return
        for device in {node.device for node in nodes if node.device}:
            found = self._away.get(_job_and_index(device))
            if found is not None:
                raise UnavailableError(f"{found[0]} is lost for now ({found[1]}): {error.message}") from error

    def compile(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], everywhere: bool = False
    ) -> dict[str, NodeGraph]:
        """Compile a signature to partitions by task.

        Args:
            everywhere: see `compile_step`.

        Raises:
            OpError: the signature is at fault.
        """
        return compile_step(
            self._prepared, feeds, fetches, targets, self._devices, self._options, everywhere, self._is_far
        ).partitions

    def tensor_type(self, name: str) -> DType | None:
        """Find the base element type of a tensor by name, None when there is no such tensor."""
        try:
            node_name, index = parse_input(name)
        except InvalidArgumentError:
            return None
        node = self.graph.find(node_name)
        if node is None or not 0 <= index < len(node.output_types):
            return None
        return node.output_types[index].base_dtype
