"""Running golden cases through a session's backend, as placed by a function."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.backend import as_host
from dtfctl.runtime.client.targets import open_backend
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.node_graph import NodeGraph
from tests.support.golden import Case

Place = Callable[[graph_pb2.GraphDef], None]


def scatter(name: str, devices: Sequence[str]) -> Place:
    """Put nodes on devices at random, the same way each time for a case, colocated ones together."""

    def place(graph: graph_pb2.GraphDef) -> None:
        generator = random.Random(name)
        groups = _colocated(graph)
        chosen: dict[str, str] = {}
        for node in graph.node:
            if not node.device:
                node.device = chosen.setdefault(groups[node.name], generator.choice(devices))

    return place


def _colocated(graph: graph_pb2.GraphDef) -> dict[str, str]:
    """For each node the name of its group: nodes tied by `_class`, by a reference, a resource or a dataset."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for node in NodeGraph.from_graph_def(graph):
        for edge in node.inputs:
            handle = edge.dtype.is_ref or edge.dtype is dtypes.resource
            dataset = edge.dtype is dtypes.variant and "Dataset" in edge.node.op
            if handle or dataset:
                leader[find(node.name)] = find(edge.node.name)
    for node in graph.node:
        for entry in node.attr["_class"].list.s if "_class" in node.attr else ():
            leader[find(node.name)] = find(entry.decode().removeprefix("loc:@"))
    return {node.name: find(node.name) for node in graph.node}


def run_case(
    case: Case, target: str, config: config_pb2.ConfigProto, place: Place | None = None, prepared_first: bool = False
) -> None:
    """Assert that a session gives the wanted values, step by step; prepared before it is run, if asked to."""
    graph = case.graph_def()
    if place is not None:
        place(graph)
    backend = open_backend(target, config)
    try:
        backend.create(graph)
        for step in case.steps():
            # A tensor that is fed and fetched is answered by the client, as in Session.run.
            asked = [f for f in step.fetches if f not in step.feeds]
            if prepared_first:
                prepared = backend.prepare(list(step.feeds), asked, step.targets)
                values = iter([as_host(v) for v in prepared(list(step.feeds.values()))])
            else:
                values = iter(backend.run(step.feeds, asked, step.targets))
            for fetch, want in zip(step.fetches, step.want):
                case.check(fetch, step.feeds[fetch] if fetch in step.feeds else next(values), want)
    finally:
        backend.close()


def parametrize_cases(cases: Sequence[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[c.name for c in cases])
