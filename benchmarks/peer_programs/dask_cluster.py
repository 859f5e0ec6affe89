"""Dask on this machine, or over hosts by SSH: workers up, an empty script run in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from benchmarks.peer_programs import serve


def run_script(path: str) -> int:
    """What a job is: a Python of its own."""
    return subprocess.run([sys.executable, path], check=True).returncode


def main() -> None:
    from distributed import Client, LocalCluster, SSHCluster

    def up(workers: int) -> dict[str, Any]:
        begin = time.perf_counter()
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None)
        with cluster, Client(cluster) as client:
            client.wait_for_workers(workers)
            return {"times": [time.perf_counter() - begin]}

    def up_ssh(hosts: list[str], workers: int, key: str, known_hosts: str) -> dict[str, Any]:
        begin = time.perf_counter()
        cluster = SSHCluster(
            [hosts[0], *hosts],
            connect_options={"username": "root", "client_keys": [key], "known_hosts": known_hosts},
            worker_options={"nthreads": 1, "n_workers": workers},
            scheduler_options={"port": 0, "dashboard": False},
            remote_python=sys.executable,
        )
        with cluster, Client(cluster) as client:
            client.wait_for_workers(workers * len(hosts))
            return {"times": [time.perf_counter() - begin]}

    held: list[Any] = []

    def job(script: str) -> dict[str, Any]:
        if not held:
            held.append(Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)))
        client = held[0]
        begin = time.perf_counter()
        client.submit(run_script, script, pure=False).result()
        return {"times": [time.perf_counter() - begin]}

    serve({"up": up, "up_ssh": up_ssh, "job": job})


if __name__ == "__main__":
    main()
