"""Every golden case over two tasks that talk through sockets, nodes scattered over them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dtfctl.protocol import config_pb2
from tests.support.clusters import InProcessCluster, in_process_cluster
from tests.support.golden import Case, cases
from tests.support.golden_run import parametrize_cases, run_case, scatter


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster({"ps": 1, "worker": 1}) as running:
        yield running


@parametrize_cases(cases())
def test_two_tasks(case: Case, cluster: InProcessCluster) -> None:
    config = config_pb2.ConfigProto(isolate_session_state=True, operation_timeout_in_ms=60_000)
    place = scatter(case.name, ["/job:ps/task:0", "/job:worker/task:0"])
    run_case(case, cluster.target("worker", 0), config, place)
