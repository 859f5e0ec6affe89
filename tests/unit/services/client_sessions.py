"""Sessions over a ps and two workers, of a client that starts steps in all of them itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend
from dtfctl.runtime.steps.path import StepPath
from tests.support.clusters import InProcessCluster
from tests.support.waiting import eventually

PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
PS_FULL, WORKER_FULL = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"
ONE = np.float32(1.0).reshape(())


def opened(cluster: InProcessCluster, graph: graph_pb2.GraphDef, grpc: bool = False, **config: Any) -> GrpcBackend:
    """A session whose master is worker 0, of a client that does not know that it is in the same process."""
    proto = config_pb2.ConfigProto(**config)
    proto.rpc_options.use_rpc_for_inprocess_master = grpc
    backend = GrpcBackend(cluster.cluster["worker"][0], proto)
    backend.create(graph)
    return backend


def through_master(backend: GrpcBackend) -> str:
    """Why steps of the signature planned last go through the master; "" where the client starts all parts."""
    assert backend._local_steps is not None and backend._local_steps.path is not None
    choice = backend._local_steps.path
    return "" if choice.path is StepPath.CLIENT else choice.reason


def nothing_is_left(cluster: InProcessCluster) -> None:
    for server in cluster.servers.values():
        eventually(lambda server=server: server.worker.open_steps == 0)


@contextlib.contextmanager
def ps_process(cluster: InProcessCluster, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """The ps in a process of its own, with more variables in its environment."""
    serve = Path(__file__).resolve().parents[2] / "support" / "serve.py"
    command = [sys.executable, str(serve), repr(cluster.cluster), "ps", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environ})
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        yield process
    finally:
        process.kill()
        process.wait()
