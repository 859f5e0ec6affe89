"""Clusters in this process, for tests whose own file has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import InProcessCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    made = InProcessCluster({"ps": 1, "worker": 2}, tmp_path, peer_timeout_s=5.0)
    made.start_all()
    yield made
    made.close()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[InProcessCluster]:
    """A cluster whose ps is still to be started."""
    made = InProcessCluster({"ps": 1, "worker": 2}, tmp_path, peer_timeout_s=10.0)
    made.start("worker", 0)
    made.start("worker", 1)
    yield made
    made.close()
