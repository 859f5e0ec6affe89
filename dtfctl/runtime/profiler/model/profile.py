"""`tf.profiler.profile` and `tf.profiler.Profiler`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dtfctl.protocol import config_pb2, tfprof_output_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.profiler.model.advice import advice_on
from dtfctl.runtime.profiler.model.nodes import nodes_of
from dtfctl.runtime.profiler.model.options import Options, ProfileOptionBuilder, complete
from dtfctl.runtime.profiler.model.report import report
from dtfctl.runtime.profiler.model.saved import PPROF_FIGURES, to_profile_proto, write_pprof
from dtfctl.runtime.profiler.model.views import by_code, by_inputs, by_op, by_scope, to_graph_proto, to_multi_proto
from dtfctl.runtime.profiler.timeline import Timeline

_VIEWS = {"scope": by_scope, "graph": by_inputs, "op": by_op, "code": by_code}
Proto = tfprof_output_pb2.GraphNodeProto | tfprof_output_pb2.MultiGraphNodeProto


def profile(
    graph: Graph | None = None,
    run_meta: config_pb2.RunMetadata | None = None,
    op_log: Any = None,
    cmd: str = "scope",
    options: Mapping[str, Any] | int | None = None,
) -> Proto:
    """Show what a graph holds and, with the metadata of a traced step, what its nodes took.

    Args:
        graph: the default graph if None.
        run_meta: of a run with FULL_TRACE; without it there are no times and no memory.
        cmd: "scope" for a tree of name scopes, "graph" for one of inputs, "code" for one of the program's lines,
            "op" for a list by type of op.
        options: as `ProfileOptionBuilder` makes them; by default the parameters of trainable variables.

    Returns:
        A GraphNodeProto, or for "op" and "code" a MultiGraphNodeProto. The text goes where `options["output"]` says.

    Raises:
        InvalidArgumentError: a command or option is not known.
        UnimplementedError: `op_log`.
    """
    if op_log is not None:
        raise UnimplementedError("tf.profiler takes no op_log: choose nodes by op, device or name in the options")
    return _profile(graph or context.get_default_graph(), [] if run_meta is None else [run_meta], cmd, options)


def _profile(
    graph: Graph, steps: Sequence[config_pb2.RunMetadata], cmd: str, asked: Mapping[str, Any] | int | None
) -> Proto:
    if cmd not in _VIEWS:
        raise InvalidArgumentError(f"unknown cmd: {cmd}")
    given = asked if isinstance(asked, Mapping) else ProfileOptionBuilder.trainable_variables_parameter()
    options = complete(given)
    kind, _, rest = options["output"].partition(":")
    if kind not in ("stdout", "file", "timeline", "pprof", "none", ""):
        raise UnimplementedError(f"tf.profiler writes no {kind}: use stdout, a file, a timeline or pprof")
    file = rest.removeprefix("outfile=")
    if kind in ("file", "timeline", "pprof") and not file:
        raise InvalidArgumentError(f"output={options['output']!r} names no file")
    if kind == "pprof" and (cmd != "code" or len(set(options["select"]) & PPROF_FIGURES) != 1):
        raise InvalidArgumentError(f"pprof takes the view by code, of one of: {', '.join(sorted(PPROF_FIGURES))}")
    root = _VIEWS[cmd](nodes_of(graph, steps).values(), options)
    if kind == "timeline":
        if not steps:
            raise InvalidArgumentError("A timeline needs the metadata of a traced step")
        Path(file).write_text(Timeline(steps[-1].step_stats).generate_chrome_trace_format())
    elif kind == "pprof":
        (figure,) = set(options["select"]) & PPROF_FIGURES
        write_pprof(root, figure, Path(file))
    elif kind == "file":
        Path(file).write_text(report(cmd, root, options))
    elif kind != "none":
        sys.stdout.write(report(cmd, root, options))
    return to_multi_proto(root) if cmd in ("op", "code") else to_graph_proto(root)


class Profiler:
    """Profiles of several steps of a graph.

    Args:
        graph: the default graph if None.
    """

    def __init__(self, graph: Graph | None = None, op_log: Any = None) -> None:
        if op_log is not None:
            raise UnimplementedError("tf.profiler takes no op_log: choose nodes by op, device or name in the options")
        self._graph = graph or context.get_default_graph()
        self._steps: dict[int, list[config_pb2.RunMetadata]] = {}

    def add_step(self, step: int, run_meta: config_pb2.RunMetadata) -> None:
        """Add the metadata of a traced step; several of one number are looked at together."""
        self._steps.setdefault(step, []).append(run_meta)

    def profile_name_scope(self, options: Options) -> Proto:
        return self._view("scope", options)

    def profile_graph(self, options: Options) -> Proto:
        return self._view("graph", options)

    def profile_operations(self, options: Options) -> Proto:
        return self._view("op", options)

    def profile_python(self, options: Options) -> Proto:
        return self._view("code", options)

    def advise(self, options: Mapping[str, Any]) -> tfprof_output_pb2.AdviceProto:
        """Look over the steps that were added, see `tf.profiler.advise`."""
        return advice_on(self._graph, self._every(), options)

    def serialize_to_string(self) -> bytes:
        """Write the graph and the steps that were added as a ProfileProto, which TensorFlow's tools read."""
        return to_profile_proto(nodes_of(self._graph, self._every()), self._steps).SerializeToString()

    def _every(self) -> list[config_pb2.RunMetadata]:
        return [metadata for added in self._steps.values() for metadata in added]

    def _view(self, cmd: str, options: Options) -> Proto:
        step = options.get("step", -1)
        if step >= 0 and step not in self._steps:
            raise InvalidArgumentError(f"Step {step} was not added; these were: {sorted(self._steps)}")
        return _profile(self._graph, self._steps[step] if step >= 0 else self._every(), cmd, options)
