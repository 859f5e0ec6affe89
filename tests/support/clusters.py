"""Clusters of task servers inside one process, for tests."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dtfctl.runtime.services.server import TaskServer, TaskServerConfig
from tests.support.ports import free_ports


class InProcessCluster:
    """Task servers by (job, index), all in this process, talking over real sockets.

    Attributes:
        cluster: job -> index -> address.
    """

    def __init__(self, jobs: Mapping[str, int], folder: Path, **options: Any) -> None:
        names = [(job, i) for job, count in jobs.items() for i in range(count)]
        ports = dict(zip(names, free_ports(len(names))))
        self.cluster = {job: {i: f"127.0.0.1:{ports[job, i]}" for i in range(n)} for job, n in jobs.items()}
        self.servers: dict[tuple[str, int], TaskServer] = {}
        self._folder = folder
        self._options = options
        self._lives = dict.fromkeys(names, 0)

    def start(self, job: str, index: int) -> TaskServer:
        """Start a task, in its next life."""
        self._lives[job, index] += 1
        server = TaskServer(
            TaskServerConfig(
                cluster=self.cluster,
                job_name=job,
                task_index=index,
                incarnation=self._lives[job, index],
                listen=self.cluster[job][index],
                socket_path=None,
                tls=None,
                **self._options,
            )
        )
        server.start()
        self.servers[job, index] = server
        return server

    def start_all(self) -> None:
        for job, index in self._lives:
            self.start(job, index)

    def stop(self, job: str, index: int) -> None:
        self.servers.pop((job, index)).stop(0)

    def target(self, job: str, index: int) -> str:
        return f"grpc://{self.cluster[job][index]}"

    def close(self) -> None:
        for name in list(self.servers):
            self.stop(*name)


@contextlib.contextmanager
def in_process_cluster(jobs: Mapping[str, int], **options: Any) -> Iterator[InProcessCluster]:
    """All tasks up."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = InProcessCluster(jobs, Path(folder), **options)
        try:
            cluster.start_all()
            yield cluster
        finally:
            cluster.close()
