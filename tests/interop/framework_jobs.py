"""Submit the examples of examples/frameworks with real packages, kill a process in the middle, see what came of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import (
    ClientStatus,
    Framework,
    JobEnded,
    JobOutput,
    JobRequest,
    JobStatus,
)

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
PACKAGES = {"TENSORFLOW": "tensorflow==2.21.0", "TORCH": "torch==2.13.0", "JAX": "jax"}


def python_of(package: str) -> str:
    """The interpreter that has it; skips the test where there is none."""
    python = os.environ.get(f"DTF_TEST_{package}")
    if not python:
        pytest.skip(f"set DTF_TEST_{package} to the python of an environment with {PACKAGES[package]}")
    return python


def python_with(package: str, module: str) -> str:
    """The interpreter that has a package and a module beside it; skips the test where there is none."""
    python = python_of(package)
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no {module}")
    return python


@dataclass
class Run:
    """What a job did."""

    status: JobStatus
    lines: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    """Of its processes that have one: before the fault, then at the end."""
    events: list[str] = field(default_factory=list)
    again_s: float = 0.0
    """From the fault to the next line that matches `again`."""
    job_id: str = ""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def kill_here(client: ClientStatus) -> None:
    """kill -9, on this machine."""
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)


def run(
    cluster: Cluster,
    framework: Framework,
    python: str,
    script: str,
    *arguments: str,
    victim: str = "",
    at: str = "",
    again: str = "",
    end: Callable[[ClientStatus], None] = kill_here,
    env: Mapping[str, str] = ENVIRONMENT,
    **options: Any,
) -> Run:
    """Submit it; `end` the process `victim` at the first output that matches `at`."""
    request = JobRequest(str(EXAMPLES / script), arguments, env=env, framework=framework, python=python, **options)
    job_id = cluster.submit(request)
    lines: list[str] = []
    before: list[str] = []
    killed = False
    killed_at, again_s = 0.0, 0.0
    for item in cluster.follow_job(job_id):
        if isinstance(item, JobOutput):
            lines.append(item.line.text)
            if at and not killed and re.search(at, item.line.text):
                clients = {client.name: client for client in cluster.job(job_id).clients}
                before = [client.address for client in clients.values() if client.address]
                end(clients[victim])
                killed, killed_at = True, time.monotonic()
            elif again and killed and not again_s and re.search(again, item.line.text):
                again_s = time.monotonic() - killed_at
        elif isinstance(item, JobEnded):
            status = item.status
    assert killed or not at, "\n".join(lines[-40:])
    assert (status.state, status.exit_code) == ("succeeded", 0), status.reason + "\n".join(lines[-40:])
    events = [event.kind for event in cluster.events() if event.subject.startswith(f"job:{job_id}")]
    after = [client.address for client in status.clients if client.address]
    return Run(status, lines, [*before, *after], events, again_s, job_id)
