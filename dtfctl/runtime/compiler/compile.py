"""From a session's graph and a request to the parts of a step, one a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dtfctl.protocol import config_pb2
from dtfctl.runtime.compiler.devices import DeviceSet
from dtfctl.runtime.compiler.expand import expand
from dtfctl.runtime.compiler.optimize import Rewrites, optimize
from dtfctl.runtime.compiler.partition import split_by_task
from dtfctl.runtime.compiler.pause import collector_paused
from dtfctl.runtime.compiler.place import place
from dtfctl.runtime.compiler.prune import parse_tensor, prune
from dtfctl.runtime.framework.node_graph import NodeGraph


@dataclass(frozen=True)
class CompileOptions:
    """What of a session's ConfigProto shapes its compiled steps.

    Attributes:
        expand_all_calls: function calls, If, Case and While never stay one node; for tests of the expansion.
    """

    allow_soft_placement: bool = False
    graph_options: config_pb2.GraphOptions = field(default_factory=config_pb2.GraphOptions)
    expand_all_calls: bool = False

    @classmethod
    def from_config(cls, config: config_pb2.ConfigProto) -> CompileOptions:
        return cls(config.allow_soft_placement, config.graph_options)


@dataclass(frozen=True)
class PreparedGraph:
    """A session's whole graph, placed.

    Attributes:
        graph: as the client sent it, except that calls of functions that spread over devices are expanded.
        placement: full device name of every node of `graph`, by node name.
    """

    graph: NodeGraph
    placement: Mapping[str, str]

    def stateful(self) -> dict[str, str]:
        """Devices that must not change when the graph grows: give them to the next `prepare` as `pinned`."""
        return {n.name: self.placement[n.name] for n in self.graph if n.signature.is_stateful}


@dataclass(frozen=True)
class CompiledGraph:
    """A step, ready to be registered.

    Attributes:
        partitions: the part of each task, with ranks; tasks without nodes have none.
    """

    partitions: dict[str, NodeGraph]
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]


def prepare(
    graph: NodeGraph,
    devices: DeviceSet,
    options: CompileOptions | None = None,
    pinned: Mapping[str, str] | None = None,
) -> PreparedGraph:
    """Place a whole graph: once when a session is made, and again whenever it is extended.

    Args:
        graph: everything the client has sent; left as it is.
        pinned: `PreparedGraph.stateful()` of the time before.

    Raises:
        InvalidArgumentError: a node cannot be placed.
    """
    options = options or CompileOptions()
    with collector_paused():
        graph = expand(graph, options.expand_all_calls)
        return PreparedGraph(graph, place(graph, devices, pinned, options.allow_soft_placement))


def compile_step(
    prepared: PreparedGraph,
    feeds: Sequence[str],
    fetches: Sequence[str],
    targets: Sequence[str],
    devices: DeviceSet,
    options: CompileOptions | None = None,
    everywhere: bool = False,
    is_far: Callable[[str, str], bool] | None = None,
    seen: Callable[[str, NodeGraph], None] = lambda _name, _graph: None,
) -> CompiledGraph:
    """Compile the parts of the step that a request asks for.

    Args:
        everywhere: the client is at all tasks at once: feeds arrive where they are used, fetches leave where they are
            computed. By default all go through the master's task.
        is_far: see `split_by_task`.
        seen: is shown the step's graph after each pass.

    Raises:
        InvalidArgumentError, NotFoundError: the request is at fault, or a loop that crosses devices is malformed.
    """
    options = options or CompileOptions()
    client = devices.client
    with collector_paused():
        step = prune(
            prepared.graph,
            feeds,
            fetches,
            targets,
            client.name,
            client.incarnation,
            prepared.placement,
            devices.ends() if everywhere else None,
        )
        seen("pruned", step)
        rewrites = Rewrites.from_options(options.graph_options)
        optimize(step, [parse_tensor(t)[0] for t in targets], rewrites, seen)
        bfloat16 = options.graph_options.enable_bfloat16_sendrecv
        partitions = split_by_task(step, devices.incarnations(), bfloat16=bfloat16, is_far=is_far)
    return CompiledGraph(partitions, tuple(feeds), tuple(fetches), tuple(targets))
