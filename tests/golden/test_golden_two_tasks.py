"""Every golden case over two tasks that talk through each transport, nodes scattered over them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dtfctl.protocol import config_pb2
from tests.support.clusters import InProcessCluster, in_process_cluster
from tests.support.golden import Case, cases
from tests.support.golden_run import parametrize_cases, run_case, scatter

CASES = cases()
# All cases with what is chosen where nobody asks, a third each with the others.
_shuffled = random.Random(1).sample(CASES, len(CASES))
TCP_CASES, GRPC_CASES = _shuffled[::3], _shuffled[1::3]


def cluster_with(transport: str) -> Iterator[InProcessCluster]:
    with in_process_cluster({"ps": 1, "worker": 1}, transport=transport) as running:
        yield running
        assert set(running.servers["worker", 0].transports().values()) == {"shm" if transport == "auto" else transport}


@pytest.fixture(scope="module")
def best() -> Iterator[InProcessCluster]:
    yield from cluster_with("auto")


@pytest.fixture(scope="module")
def over_tcp() -> Iterator[InProcessCluster]:
    yield from cluster_with("tcp")


@pytest.fixture(scope="module")
def over_grpc() -> Iterator[InProcessCluster]:
    yield from cluster_with("grpc")


def run(case: Case, cluster: InProcessCluster, prepared_first: bool = False) -> None:
    # Steps with a bound go another way.
    bound_ms = 0 if prepared_first else 60_000
    config = config_pb2.ConfigProto(isolate_session_state=True, operation_timeout_in_ms=bound_ms)
    place = scatter(case.name, ["/job:ps/task:0", "/job:worker/task:0"])
    run_case(case, cluster.target("worker", 0), config, place, prepared_first)


@parametrize_cases(CASES)
def test_two_tasks(case: Case, best: InProcessCluster) -> None:
    run(case, best, prepared_first=True)


@parametrize_cases(TCP_CASES)
def test_two_tasks_over_tcp(case: Case, over_tcp: InProcessCluster) -> None:
    run(case, over_tcp)


@parametrize_cases(GRPC_CASES)
def test_two_tasks_over_grpc(case: Case, over_grpc: InProcessCluster) -> None:
    run(case, over_grpc)
