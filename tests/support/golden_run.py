"""Running golden cases through a session's backend, as placed by a function."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.targets import open_backend
from tests.support.golden import Case

Place = Callable[[graph_pb2.GraphDef], None]


def scatter(name: str, devices: Sequence[str]) -> Place:
    """Put nodes on devices at random, the same way each time for a case; colocated nodes are left to follow."""

    def place(graph: graph_pb2.GraphDef) -> None:
        generator = random.Random(name)
        for node in graph.node:
            if not node.device and "_class" not in node.attr:
                node.device = generator.choice(devices)

    return place


def run_case(case: Case, target: str, config: config_pb2.ConfigProto, place: Place | None = None) -> None:
    """Assert that a session gives the wanted values, step by step."""
    graph = case.graph_def()
    if place is not None:
        place(graph)
    backend = open_backend(target, config)
    try:
        backend.create(graph)
        for step in case.steps():
            # A tensor that is fed and fetched is answered by the client, as in Session.run.
            asked = [f for f in step.fetches if f not in step.feeds]
            values = iter(backend.run(step.feeds, asked, step.targets))
            for fetch, want in zip(step.fetches, step.want):
                case.check(fetch, step.feeds[fetch] if fetch in step.feeds else next(values), want)
    finally:
        backend.close()


def parametrize_cases(cases: Sequence[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[c.name for c in cases])
