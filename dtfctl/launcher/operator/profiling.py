"""Record a timeline over all tasks of a cluster, by a process of its own (`python -m dtfctl.profile_tasks`)."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dtfctl.launcher.errors import Conflict, InternalError, NoSuchJob
from dtfctl.launcher.identity.certificates import TlsFiles, server_name, trusted_of_tasks
from dtfctl.launcher.model import ClusterStatus, TaskLink, TaskStatus
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.paths import ClusterPaths

Format: TypeAlias = Literal["perfetto", "chrome", "xplane"]
STOP_S = 3.0


def profile(
    paths: ClusterPaths,
    status: ClusterStatus,
    job: str,
    steps: int,
    seconds: float,
    file: Path,
    format: Format,
    told: Callable[[Mapping[str, int]], None],
) -> dict[str, Any]:
    """Record all tasks that run, write the timeline to `file` and give its summary (`runtime.profiler.summary`).

    Args:
        job: whose steps; "": all.
        steps, seconds: how many of each task, and the longest time.
        told: is told how many steps of each task are recorded.

    Raises:
        NoSuchJob: there is none.
        Conflict: no task runs, or nothing ran a step meanwhile.
    """
    if job and all(job != known.id for known in status.jobs):
        raise NoSuchJob(f"there is no job {job}", "look with: dtfctl jobs")
    tasks = [task for task in status.tasks if task.state == "running" and task.address]
    if not tasks:
        raise Conflict("no task of the cluster runs", "look with: dtfctl status")
    controller = controller_client.controller_of(paths)
    try:
        asked = {
            "targets": [target_of(paths, task, controller.reach(task.address)) for task in tasks],
            "tls": tls_of(paths),
            "job": job,
            "steps": steps,
            "seconds": seconds,
            "file": str(file),
            "format": format,
            "links": _links(tasks),
        }
        return _recorded(asked, told)
    finally:
        controller.close()


def _links(tasks: Sequence[TaskStatus]) -> list[dict[str, Any]]:
    """Say how tasks send to each other (`runtime.profiler.findings.TaskLinkFacts`)."""
    hosts = {task.name: task.host for task in tasks}
    return [
        {
            "from": task.name,
            "to": link.peer,
            "words": ", ".join(filter(None, [link.transport, "encrypted" if link.encrypted else "", link.codecs])),
            "crosses_hosts": hosts.get(link.peer) != task.host,
            "compression": _compression(task, link),
        }
        for task in tasks
        for link in task.links
    ]


def _compression(task: TaskStatus, link: TaskLink) -> str:
    if link.codecs:
        return "on" if re.search(r"\bon\b", link.codecs) else "off"
    # Before a long transfer was timed, codecs are on without a word on why.
    return "on" if task.spared_bytes else ""


def target_of(paths: ClusterPaths, task: TaskStatus, address: str) -> dict[str, str]:
    """Say how a process of its own reaches a task."""
    return {
        "name": task.name,
        "address": address,
        "server_name": server_name("task", paths.name, task.name),
        "host": task.host,
    }


def tls_of(paths: ClusterPaths) -> Sequence[str]:
    """List the files by which a process of its own shows who it is."""
    own = TlsFiles.of(paths.certificates, "cli")
    return [str(trusted_of_tasks(paths.certificates)), str(own.cert), str(own.key)]


def _recorded(asked: Mapping[str, Any], told: Callable[[Mapping[str, int]], None]) -> dict[str, Any]:
    # In a group of its own: a terminal's Ctrl-C is for this process, which ends that one.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "dtfctl.profile_tasks"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        assert process.stdin is not None and process.stdout is not None
        # It ends when its input does: with this process, however that ends.
        with contextlib.suppress(BrokenPipeError):  # it has ended; what it has said is read below
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
        for line in process.stdout:
            said = json.loads(line)
            if "error" in said:
                raise Conflict(f"there is no profile: {said['error']}", "is a job running? look with: dtfctl jobs")
            if "summary" in said:
                return dict(said["summary"])
            told(said["steps"])
        raise InternalError(f"the process that records ended with {process.wait()}")
    finally:
        # It has tasks stop recording, where it still does.
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None and process.stdout is not None
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
