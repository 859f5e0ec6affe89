"""`tf.profiler.advise`: look a profile over for what TensorFlow's checkers find."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dtfctl.protocol import config_pb2, tfprof_output_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.profiler.model.nodes import Figures, Node, nodes_of
from dtfctl.runtime.profiler.model.options import complete
from dtfctl.runtime.profiler.model.report import time_of
from dtfctl.runtime.profiler.model.views import Place, by_code, by_op, by_scope

_EVERYTHING = {"account_type_regexes": [".*"], "start_name_regexes": [".*"], "show_name_regexes": [".*"]}
_BY_TIME = complete({**_EVERYTHING, "max_depth": 100, "min_micros": 1, "order_by": "micros", "select": ["micros"]})
_OPS = {**_BY_TIME, "max_depth": 3}
_SCOPES = {**_BY_TIME, "min_micros": 100}
# How many of a kind are told, how deep lines of code are followed, and which take too little to be worth it.
_MOST, _DEEPEST, _LEAST_US = 3, 3, 1000
# From which part on a device is used well.
_USED_WELL = 0.5


def advise(
    graph: Graph | None = None, run_meta: config_pb2.RunMetadata | None = None, options: Any = 0
) -> tfprof_output_pb2.AdviceProto:
    """Look for what is slow or set up badly, and print it.

    Args:
        graph: the default graph if None.
        run_meta: of a run with FULL_TRACE; without it only how ops are set up is looked at.
        options: a dict with the names of the checkers to run, each with an empty dict: `ExpensiveOperationChecker`,
            `OperationChecker`, `AcceleratorUtilizationChecker`. By default all of them.

    Returns:
        What each checker reports, by its name.

    Raises:
        InvalidArgumentError: there is no such checker, or it is given options, of which none has any.
    """
    return advice_on(graph or context.get_default_graph(), [] if run_meta is None else [run_meta], options)


def advice_on(
    graph: Graph, steps: Sequence[config_pb2.RunMetadata], options: Mapping[str, Any] | int | None
) -> tfprof_output_pb2.AdviceProto:
    """Run checkers over a graph and its traced steps, see `advise`."""
    asked = ALL_ADVICE if options == 0 else options or {}
    assert isinstance(asked, Mapping)
    for name, own in asked.items():
        if name not in ALL_ADVICE:
            raise InvalidArgumentError(f"unknown checker: {name}; there are {', '.join(ALL_ADVICE)}")
        if own:
            raise InvalidArgumentError(f"{name} has no options, and is given {sorted(own)}")
    nodes = [*nodes_of(graph, steps).values()]
    advice = tfprof_output_pb2.AdviceProto()
    for name, check in _CHECKERS.items():
        if name in asked:
            advice.checkers[name].reports.extend(check(nodes, steps))
    for name in sorted(advice.checkers):
        sys.stdout.write(f"\n{name}:\n" + "".join(f"{text}\n" for text in advice.checkers[name].reports))
    return advice


def _accelerators(nodes: Sequence[Node], steps: Sequence[config_pb2.RunMetadata]) -> list[str]:
    """Say what part of the newest step each GPU computes in."""
    lasting: dict[str, list[int]] = {}
    computing: dict[str, int] = {}
    known = {node.name for node in nodes}
    for device in steps[-1].step_stats.dev_stats if steps else ():
        name = device.device.lower()
        if "/device:gpu" in name:
            for stats in device.node_stats:
                if stats.node_name in known:
                    start, spent = stats.all_start_micros, max(stats.op_end_rel_micros, 1)
                    lasting.setdefault(name, []).extend((start, start + max(stats.all_end_rel_micros, spent)))
                    computing[name] = computing.get(name, 0) + spent
    told: list[str] = []
    for name, times in sorted(lasting.items()):
        share = computing[name] / max(max(times) - min(times), 1)
        told.append(f"device: {name} {'' if share >= _USED_WELL else 'low '}utilization: {share:.2f}")
    return told


def _operations(nodes: Sequence[Node], steps: Sequence[config_pb2.RunMetadata]) -> list[str]:
    """Say which ops are set up badly."""
    told: list[str] = []
    # As TensorFlow judges it: by the name of the first version alone.
    if any("BatchNorm" in node.name for node in nodes) and not any("FusedBatchNorm" in node.types for node in nodes):
        told.append("Maybe use faster FusedBatchNorm instead of BatchNorm")
    if any(_is_nhwc(node) and any("gpu:" in device for device in node.devices) for node in nodes):
        told.append("Found operation using NHWC data_format on GPU. Maybe NCHW is faster.")
    return told


def _is_nhwc(node: Node) -> bool:
    try:
        return node.made_by is not None and node.made_by.get_attr("data_format") in ("NHWC", b"NHWC")
    except ValueError:
        return False


def _expensive(nodes: Sequence[Node], steps: Sequence[config_pb2.RunMetadata]) -> list[str]:
    """Say which types of ops, scopes and lines of the program take most of the time."""
    found = [_types(by_op(nodes, _OPS))] if steps else []
    found += [_scopes(by_scope(nodes, _SCOPES)), _lines(by_code(nodes, _BY_TIME))]
    return ["\n".join(lines) for lines in found if lines is not None]


def _types(root: Place) -> list[str] | None:
    told: list[str] = []
    place = root
    while place.children and len(told) < _MOST:
        place = place.children[0]
        share = 100.0 * place.own.micros / (root.total.micros + 1e-10)
        told.append(f"top {len(told) + 1} operation type: {place.name}, {_times(place.own)} ({share:.2f}%)")
    return told or None


def _scopes(root: Place) -> list[str] | None:
    shown = root.children[:_MOST]
    told = [f"top {number} graph node: {place.name}, {_times(place.own)}" for number, place in enumerate(shown, 1)]
    return told or None


def _lines(root: Place) -> list[str] | None:
    """Follow the calls of the program from where they part: what all have in common is said by none."""
    place = root
    while len(place.children) == 1:
        place = place.children[0]
    return [*_below(place, 0)] if place.children else None


def _below(place: Place, depth: int) -> list[str]:
    told: list[str] = []
    if len(place.children) > 1 and depth <= _DEEPEST:
        for child in place.children[:_MOST]:
            if child.total.micros >= _LEAST_US:
                told += [f"{'  ' * depth}{child.name}, {_times(child.total)}", *_below(child, depth + 1)]
    return told


def _times(figures: Figures) -> str:
    cpu, accelerator, both = map(time_of, (figures.cpu_micros, figures.accelerator_micros, figures.micros))
    return f"cpu: {cpu}, accelerator: {accelerator}, total: {both}"


_CHECKERS: Mapping[str, Callable[[Sequence[Node], Sequence[config_pb2.RunMetadata]], list[str]]] = {
    "AcceleratorUtilizationChecker": _accelerators,
    "OperationChecker": _operations,
    "ExpensiveOperationChecker": _expensive,
}
ALL_ADVICE: Mapping[str, Mapping[str, Any]] = {
    "ExpensiveOperationChecker": {},
    "AcceleratorUtilizationChecker": {},
    "JobChecker": {},
    "OperationChecker": {},
}
"""Names all checkers. As in TensorFlow's builds for everybody, `JobChecker` has nothing to report."""
