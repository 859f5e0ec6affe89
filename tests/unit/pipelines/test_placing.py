"""The order of a pipeline's stages: by what tasks know of the ways between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from dtfctl.runtime.api import distribute
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.pipelines.placing import opened
from tests.support.clusters import InProcessCluster, in_process_cluster

DEVICES = [f"/job:worker/task:{i}" for i in range(4)]
along = distribute.experimental.devices_along_links


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    """Tasks that take themselves for some of four hosts."""
    with in_process_cluster({"worker": 4}) as found:
        for (_, index), server in found.servers.items():
            server.worker.collectives.ways._host = index + 1
        yield found


def test_stages_of_a_rack_are_neighbours(cluster: InProcessCluster) -> None:
    for (_, index), server in cluster.servers.items():
        server.stand("ab"[index % 2], {})
    assert along(DEVICES, cluster.target("worker", 1)) == [DEVICES[i] for i in (0, 2, 1, 3)]


def test_stages_of_a_host_are_neighbours(cluster: InProcessCluster) -> None:
    for (_, index), server in cluster.servers.items():
        server.worker.collectives.ways._host = index % 2
    assert along(DEVICES, cluster.target("worker", 0)) == [DEVICES[i] for i in (0, 2, 1, 3)]


def test_a_slow_link_is_gone_round(cluster: InProcessCluster) -> None:
    for (_, index), server in cluster.servers.items():
        rates = {f"worker/{other}": 100e6 for other in range(4) if other != index}
        if index == 1:
            rates["worker/2"] = 5e6
        server.stand("", rates)
    found = along(DEVICES, cluster.target("worker", 0))
    assert sorted(found) == DEVICES
    assert (DEVICES[1], DEVICES[2]) not in list(itertools.pairwise(found))


def test_what_is_known_anew_counts_in_the_next_order(cluster: InProcessCluster) -> None:
    assert along(DEVICES, cluster.target("worker", 0)) == DEVICES
    for (_, index), server in cluster.servers.items():
        server.stand("ab"[index % 2], {})
    assert along(DEVICES, cluster.target("worker", 0)) == [DEVICES[i] for i in (0, 2, 1, 3)]


def test_two_devices_stay_as_they_are_and_one_twice_is_refused() -> None:
    assert along(DEVICES[:2], "grpc://nobody:1") == DEVICES[:2]
    with pytest.raises(ValueError, match="on the same device"):
        along([DEVICES[0], DEVICES[0]], "grpc://nobody:1")


def test_a_device_that_is_not_there_is_said(cluster: InProcessCluster) -> None:
    with pytest.raises(OpError, match="task:9"):
        along([*DEVICES, "/job:worker/task:9"], cluster.target("worker", 0))


@pytest.mark.parametrize(
    ("racks", "expected"), [([0, 1, 1, 0], "bcda"), ([0, 0, 1, 1], "abcd"), ([0, 0, 0, 0], "abcd")]
)
def test_a_row_begins_where_a_rack_does(racks: list[int], expected: str) -> None:
    assert "".join(opened("abcd", racks)) == expected
