"""Our launcher's Python API, asked by the benchmark: `python -m benchmarks.launcher_client CLUSTER`."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peer_programs import serve
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest, TaskStatus

POLL_S = 0.002
PATIENCE_S = 30.0
MOST_STEPS = 1_000_000
"""So many steps do not end a recording: its time does."""


@dataclass(frozen=True)
class Process:
    """Of a task that runs."""

    pid: int


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

    def running(name: str) -> Process:
        """A task's process, when it runs and beats."""
        until = time.perf_counter() + PATIENCE_S
        while time.perf_counter() < until:
            found = task(name)
            if found.state == "running" and found.health == "healthy" and found.pid is not None:
                return Process(found.pid)
            time.sleep(POLL_S)
        raise RuntimeError(f"{name} is {found.state} and {found.health} after {PATIENCE_S:g} s")

    def kill(name: str) -> dict[str, Any]:
        """Kill a task; seconds until the cluster knows, has a new process, and that serves."""
        before = running(name)
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

    def hang(name: str) -> dict[str, Any]:
        """Stop a task as if it hung; seconds until that shows, and until there is a new process in its place."""
        before = running(name)
        begin = time.perf_counter()
        os.kill(before.pid, signal.SIGSTOP)
        seen: dict[str, float] = {}
        while "acted" not in seen:
            now = task(name)
            after = time.perf_counter() - begin
            if now.health != "healthy" or now.pid != before.pid:
                seen.setdefault("suspect", after)
            if now.pid is not None and now.pid != before.pid:
                seen["acted"] = after
            elif after > PATIENCE_S:
                os.kill(before.pid, signal.SIGCONT)
                raise RuntimeError(f"{name} is {now.state} and {now.health} {PATIENCE_S:g} s after it was stopped")
            time.sleep(POLL_S)
        running(name)
        return dict(seen)

    def cut(name: str, address: str) -> dict[str, Any]:
        """Cut off a host of the lab; seconds until it is suspect, and down."""
        from tests.lab.netns import Lab

        begin = time.perf_counter()
        Lab.of_environment().cut(name)
        seen: dict[str, float] = {}
        while "down" not in seen:
            now = next(h for h in cluster.status().hosts if h.name == address)
            after = time.perf_counter() - begin
            if now.state != "up":
                seen.setdefault("suspect", after)
            if now.state == "down":
                seen["down"] = after
            elif after > PATIENCE_S:
                raise RuntimeError(f"{name} is {now.state} {PATIENCE_S:g} s after it was cut off")
            time.sleep(POLL_S)
        return dict(seen)

    def begin(script: str, words: list[str]) -> dict[str, Any]:
        """Submit a job, and come back when it runs steps."""
        job = cluster.submit(JobRequest(script, tuple(words)))
        while (status := cluster.job(job)).progress is None:
            if status.is_final:
                raise RuntimeError(f"the job ended as {status.state}: {status.reason}")
            time.sleep(POLL_S)
        return {"job": job}

    def profile(job: str, seconds: float, file: str) -> dict[str, Any]:
        """Record what all tasks do; from when until when all of them did, by the clock on the wall."""
        heard: list[float] = []
        cluster.profile(
            job, file=Path(file), steps=MOST_STEPS, seconds=seconds, on_steps=lambda _: heard.append(time.time())
        )
        return {"began": heard[0], "ended": heard[-1]}

    serve({"submit": submit, "kill": kill, "hang": hang, "cut": cut, "begin": begin, "profile": profile})


if __name__ == "__main__":
    main()
