"""Every golden case through the executor alone."""

from __future__ import annotations

import pytest

from tests.support.golden import Case, cases
from tests.unit.executor.harness import Runner


@pytest.mark.parametrize("case", cases(), ids=lambda c: f"{c.group}-{c.name}")
def test_golden(case: Case) -> None:
    runner = Runner(case.graph_def())
    for step in case.steps():
        got = runner.run(step.fetches, step.feeds, step.targets)
        for fetch, value, want in zip(step.fetches, got, step.want):
            case.check(fetch, value, want)
