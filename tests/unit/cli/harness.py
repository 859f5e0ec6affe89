"""What tests of the command line share: a result, clusters in some states, a job."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtfctl.launcher.model import ClientStatus, Event, JobStatus, Progress
from tests.doubles.launcher import FakeLauncher, status, task

ROOT = Path(__file__).parents[3]
LOCAL = str(ROOT / "cluster-examples" / "local.yaml")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Dtfctl = Callable[..., Result]


def job(**changes: Any) -> JobStatus:
    now = time.time()
    values: dict[str, Any] = {
        "id": "digits-1",
        "name": "digits",
        "state": "running",
        "replication": "between-graph",
        "script": "digits.py",
        "submitted": now - 190,
        "started": now - 185,
        "progress": Progress(200, 1000, {"loss": 0.31234, "accuracy": 0.94}),
        **changes,
    }
    return JobStatus(**values)


HEALTHY = status(task("ps/0"), task("worker/0", steps=1200), task("worker/1"))
CRASHED = task(
    "worker/1",
    state="crashed",
    health="down",
    restarts=5,
    exit_code=1,
    last_error="exit code 1",
    last_lines=("File train.py, line 3", "ValueError: no"),
)
DEGRADED = status(task("ps/0"), task("worker/0"), CRASHED, problems=["worker/1 crashed: exit code 1"])
EVENTS = (
    Event(1, 0.5, "task.starting", "ps/0"),
    Event(2, 1.25, "task.failed", "worker/1", "exit code 1", 1),
)
ONE = [ClientStatus("worker/0", "localhost", "running")]


def launcher(*items: Any, clients: list[ClientStatus] = ONE) -> FakeLauncher:
    return FakeLauncher(status(task("ps/0"), jobs=[job(clients=tuple(clients))]), items=items)
