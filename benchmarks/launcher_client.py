"""Our launcher's Python API, asked by the benchmark: `python -m benchmarks.launcher_client CLUSTER`."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from benchmarks.peer_programs import serve
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest, TaskStatus

POLL_S = 0.002
PATIENCE_S = 30.0


def main() -> None:
    cluster = Cluster.open(sys.argv[1])

    def submit(script: str) -> dict[str, Any]:
        """Seconds from the call until the job is known to have ended well."""
        begin = time.perf_counter()
        job = cluster.submit(JobRequest(script))
        while not (status := cluster.job(job)).is_final:
            time.sleep(POLL_S)
        if status.exit_code:
            raise RuntimeError(f"the job ended as {status.state}: {status.reason}")
        return {"times": [time.perf_counter() - begin]}

    def task(name: str) -> TaskStatus:
        return next(t for t in cluster.status().tasks if t.name == name)

    def kill(name: str) -> dict[str, Any]:
        """Kill a task; seconds until the cluster knows, has a new process, and that serves."""
        before = task(name)
        while before.state != "running" or before.pid is None:
            time.sleep(POLL_S)
            before = task(name)
        begin = time.perf_counter()
        os.kill(before.pid, signal.SIGKILL)
        seen: dict[str, float] = {}
        while "serving" not in seen:
            now = task(name)
            after = time.perf_counter() - begin
            if now.state != "running" or now.pid != before.pid:
                seen.setdefault("noticed", after)
            if now.pid is not None and now.pid != before.pid:
                seen.setdefault("started", after)
                if now.state == "running":
                    seen.setdefault("serving", after)
            if after > PATIENCE_S:
                raise RuntimeError(f"{name} is {now.state} {PATIENCE_S:g} s after it was killed")
            time.sleep(POLL_S)
        return dict(seen)

    serve({"submit": submit, "kill": kill})


if __name__ == "__main__":
    main()
