"""Every golden case, compiled: whole, spread over two tasks, over three devices of a task, and with calls expanded."""

from __future__ import annotations

import pytest

from dtfctl.runtime.compiler.compile import CompileOptions
from tests.support.golden import Case, cases
from tests.unit.compiler.harness import THREE_DEVICES, TWO_TASKS, Cluster


def run_case(case: Case, cluster: Cluster) -> None:
    for step in case.steps():
        got = cluster.run(step.fetches, step.feeds, step.targets)
        for fetch, value, want in zip(step.fetches, got, step.want):
            case.check(fetch, value, want)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=lambda c: f"{c.group}-{c.name}")
@pytest.mark.parametrize("names", [TWO_TASKS, THREE_DEVICES], ids=["tasks", "devices"])
def test_spread(case: Case, names: tuple[str, ...]) -> None:
    run_case(case, Cluster(case.graph_def(), names, seed=7))


@pytest.mark.parametrize("case", cases(), ids=lambda c: f"{c.group}-{c.name}")
def test_whole(case: Case) -> None:
    run_case(case, Cluster(case.graph_def()))


@pytest.mark.parametrize(
    "case", [c for c in cases() if c.graph_def().library.function], ids=lambda c: f"{c.group}-{c.name}"
)
@pytest.mark.parametrize("seed", [None, 3], ids=["whole", "spread"])
def test_expanded(case: Case, seed: int | None) -> None:
    run_case(case, Cluster(case.graph_def(), TWO_TASKS, seed, CompileOptions(expand_all_calls=True)))
