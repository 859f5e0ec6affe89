"""Where graphs come from: the masters of a cluster, and files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from dtfctl.net.tls import Identity
from dtfctl.protocol import config_pb2, device_pb2, graph_pb2, graphs_pb2
from dtfctl.runtime.compiler.compile import CompileOptions
from dtfctl.runtime.compiler.devices import DeviceInfo, DeviceSet
from dtfctl.runtime.framework.device_spec import DeviceSpec, device_name, task_name
from dtfctl.runtime.framework.errors import NotFoundError, UnavailableError
from dtfctl.runtime.inspect.files import read_graph
from dtfctl.runtime.inspect.stages import Stage, sinks, stages
from dtfctl.runtime.profiler.capture import Target
from dtfctl.runtime.services.graph_service import NAME
from dtfctl.runtime.services.grpc_tools import channel_to

ANSWER_S = 30.0
_MOST_NAMES = 6


@dataclass(frozen=True)
class Step:
    """What a step is fed, fetches and runs."""

    feeds: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    everywhere: bool = False

    def __str__(self) -> str:
        names = [*self.fetches, *self.targets]
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        said = ", ".join(names[:_MOST_NAMES]) + more or "nothing"
        return f"{said} fed {', '.join(self.feeds)}" if self.feeds else said


@dataclass(frozen=True)
class Source:
    """A graph, and what it is compiled with.

    Attributes:
        name: what people call it.
        master: the task that leads its steps.
        steps: those that were asked for; of a file, all that it does.
    """

    name: str
    graph: graph_pb2.GraphDef
    devices: Sequence[device_pb2.DeviceAttributes]
    master: str
    config: config_pb2.ConfigProto = field(default_factory=config_pb2.ConfigProto)
    steps: Sequence[Step] = ()

    def stages(self, step: Step) -> list[Stage]:
        """Compile a step; see `stages`. Raises OpError."""
        devices = DeviceSet([DeviceInfo.from_proto(device) for device in self.devices], self.master)
        options = CompileOptions.from_config(self.config)
        return stages(self.graph, devices, options, step.feeds, step.fetches, step.targets, step.everywhere)

    def longest(self) -> Step:
        """Find the step that needs most of the graph: of a training job, the one that trains.

        Raises:
            NotFoundError: none was asked for yet.
        """
        if not self.steps:
            raise NotFoundError(f"{self.name} has run no step yet")
        inputs = {node.name: [text.lstrip("^").partition(":")[0] for text in node.input] for node in self.graph.node}
        return max(self.steps, key=lambda step: _needed(step, inputs))


def _needed(step: Step, inputs: Mapping[str, Sequence[str]]) -> int:
    fed = {name.partition(":")[0] for name in step.feeds}
    seen: set[str] = set()
    stack = [name.partition(":")[0] for name in (*step.fetches, *step.targets)]
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            if name not in fed:
                stack += inputs.get(name, ())
    return len(seen)


def from_cluster(targets: Iterable[Target], identity: Identity | None, job: str) -> Source:
    """Ask tasks for the graph of a job: the largest of the first master that has any.

    Args:
        job: its id; "": any.

    Raises:
        NotFoundError: no task has one. UnavailableError: none answers.
    """
    problems = []
    for target in targets:
        with contextlib.ExitStack() as ways:
            channel = channel_to(target.address, identity, target.server_name, ways)
            ways.callback(channel.close)
            call = channel.unary_unary(
                f"/{NAME}/Get",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=graphs_pb2.GraphsAnswer.FromString,
            )
            try:
                answer = call(graphs_pb2.GraphQuestion(job=job), timeout=ANSWER_S, wait_for_ready=True)
            except grpc.RpcError as e:
                problems.append(f"{target.name}: {e.details() or e.code().name}")
                continue
            if answer.session:
                # Of several that are alike the newest: what the others were made of may be gone.
                newest = reversed(answer.session)
                session = max(newest, key=lambda told: (len(told.step) > 0, len(told.graph.node)))
                return _of_session(session, target.name)
    if problems:
        raise UnavailableError("; ".join(problems[:3]))
    raise NotFoundError(f"no task has a graph of job {job}" if job else "no task has a graph")


def _of_session(told: graphs_pb2.SessionGraphs, task: str) -> Source:
    steps = [Step(tuple(s.feed), tuple(s.fetch), tuple(s.target), s.everywhere) for s in told.step]
    name = f"{told.job or 'a session'} at {task}"
    return Source(name, told.graph, list(told.device), told.master, told.config, steps)


def from_file(path: Path, tasks: Mapping[str, int]) -> Source:
    """Read a graph that lies in a file, or in a SavedModel's folder; see `read_graph`.

    Args:
        tasks: how many there are by role; empty: those that the graph names, else this process alone.

    Raises:
        InvalidArgumentError: it holds none. OSError: it cannot be read.
    """
    graph = read_graph(path)
    named = _tasks_in(graph, tasks)
    devices = _devices(graph, named)
    master = next((task for task in named if task[0] in ("chief", "worker", "master")), named[0])
    step = Step(targets=tuple(sinks(graph)))
    return Source(path.name, graph, devices, task_name(*master), steps=[step])


def _specs(graph: graph_pb2.GraphDef) -> list[DeviceSpec]:
    found = []
    for text in {node.device for node in graph.node if node.device}:
        with contextlib.suppress(ValueError):
            found.append(DeviceSpec.from_string(text))
    return found


def _tasks_in(graph: graph_pb2.GraphDef, tasks: Mapping[str, int]) -> list[tuple[str, int]]:
    named = {(job, index) for job, count in tasks.items() for index in range(count)}
    if not named:
        named = {(spec.job, spec.task or 0) for spec in _specs(graph) if spec.job is not None}
    return sorted(named) or [("localhost", 0)]


def _devices(graph: graph_pb2.GraphDef, tasks: Sequence[tuple[str, int]]) -> list[device_pb2.DeviceAttributes]:
    kinds = {("CPU", 0)}
    for spec in _specs(graph):
        if spec.device_type is not None:
            kinds.add((spec.device_type, spec.device_index or 0))
    return [
        device_pb2.DeviceAttributes(name=device_name(job, index, kind, number), device_type=kind, incarnation=1)
        for job, index in tasks
        for kind, number in sorted(kinds)
    ]
