"""What a test may ask about the machine and where it may write, and small clusters in the test's process."""

from __future__ import annotations

import functools
import inspect
import os
import platform
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from dtfctl.net.ports import fixed_range, free_ports
from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.train.server_lib import ClusterSpec, Server


@cache
def gpu_device_name() -> str:
    """Return the name of the first GPU of this process, "/device:GPU:0", or "" without one."""
    with Graph().as_default(), Session() as session:
        names = [d.name for d in session.list_devices() if d.device_type == "GPU"]
    return f"/device:{names[0].partition('/device:')[2]}" if names else ""


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None) -> bool:
    """Tell whether this process has a GPU.

    Args:
        cuda_only: all GPUs used here are CUDA's.
        min_cuda_compute_capability: (major, minor) that one of them must have.
    """
    if not gpu_device_name():
        return False
    if min_cuda_compute_capability is None:
        return True
    import cupy

    found = [cupy.cuda.Device(i).compute_capability for i in range(cupy.cuda.runtime.getDeviceCount())]
    return any((int(c[:-1]), int(c[-1])) >= tuple(min_cuda_compute_capability) for c in found)


def is_built_with_cuda() -> bool:
    """Tell whether the package that computes on GPUs (cupy) is installed."""
    import importlib.util

    return importlib.util.find_spec("cupy") is not None


is_built_with_gpu_support = is_built_with_cuda


def is_built_with_rocm() -> bool:
    """Return False: GPUs are CUDA's."""
    return False


def is_built_with_xla() -> bool:
    """Return False: graphs are compiled by the runtime itself."""
    return False


def is_cpu_target_available(target: str) -> bool:
    """Tell whether this is a machine of a kind: "x86_64", "aarch64"."""
    return platform.machine().lower() == {"aarch64": "aarch64", "arm64": "aarch64"}.get(target, target)


def disable_with_predicate(pred: Callable[[], bool], skip_message: str) -> Callable[[Any], Any]:
    """Return a decorator of tests that are skipped where a condition holds."""

    def decorator(function: Any) -> Any:
        @functools.wraps(function)
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            if pred():
                self.skipTest(skip_message)
            return function(self, *args, **kwargs)

        return run

    return decorator


@cache
def get_temp_dir() -> str:
    """Return a folder for files of this process's tests: TEST_TMPDIR where it is set, else a new one."""
    given = os.environ.get("TEST_TMPDIR")
    if given:
        Path(given).mkdir(parents=True, exist_ok=True)
        return given
    return tempfile.mkdtemp(prefix="dtfctl-test-")


def test_src_dir_path(relative_path: str) -> str:
    """Return a path beside the file that calls this."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return str(Path(frame.f_back.f_code.co_filename).resolve().parent / relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined]


def create_local_cluster(
    num_workers: int,
    num_ps: int,
    protocol: str = "grpc",
    worker_config: config_pb2.ConfigProto | None = None,
    ps_config: config_pb2.ConfigProto | None = None,
) -> tuple[list[Any], list[Any]]:
    """Servers of a cluster in this process, on free ports of the loopback interface: (workers, ps).

    Raises:
        ValueError: the protocol is not "grpc".
    """
    if protocol != "grpc":
        raise ValueError(f"protocol {protocol!r}: servers speak grpc")
    ports = list(islice(free_ports(*fixed_range(), address="127.0.0.1"), num_workers + num_ps))
    addresses = [f"localhost:{port}" for port in ports]
    jobs = {"worker": addresses[:num_workers], "ps": addresses[num_workers:]}
    cluster = ClusterSpec({job: tasks for job, tasks in jobs.items() if tasks})
    workers = [Server(cluster, "worker", i, protocol, worker_config) for i in range(num_workers)]
    return workers, [Server(cluster, "ps", i, protocol, ps_config) for i in range(num_ps)]
