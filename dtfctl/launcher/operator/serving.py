"""A model served by tasks of a cluster: the job that does it, and where it answers."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import dtfctl
from dtfctl.launcher.errors import ClusterFailed, UsageError
from dtfctl.launcher.model import JobChanged, JobEnded, JobOutput, JobRequest
from dtfctl.launcher.operator import submission
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.serving import SCRIPT, TOKEN, Announcement
from dtfctl.values import value

TOKEN_FILE = "serve.token"
LINES = 20


@value
class ServeRequest:
    """What is to be served, and how."""

    model: str
    """A path: here, where it is one, else as the hosts have it."""
    name: str | None = None
    """What clients call the model; default: the path's last part."""
    port: int = 0
    """The port of REST, on loopback of the host that answers; 0: any that is free."""
    grpc_port: int = 0
    versions: str = "latest"
    """`latest`, `latest:2`, `all` or `3,5`."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """Tensors of a graph without signatures, as `NAME=TENSOR` or `TENSOR`."""
    tags: str = "serve"
    most_rows: int = 64
    """Examples that are computed together at most."""
    request_timeout_s: float = 30.0
    workers: int | None = None
    tasks: str | None = None
    share: bool = False
    priority: int = 0


@value
class Served:
    """A model that answers."""

    job: str
    token_file: str
    """Mode 0600; what a client has to say is in it."""
    at: Announcement


def serve(connection: Connection, request: ServeRequest, tell: Callable[[str], None]) -> Served:
    """Submit the job and wait until it answers; see `Cluster.serve`."""
    if request.most_rows < 1 or request.request_timeout_s <= 0:
        raise UsageError("a batch has at least one example, and a request some time")
    path = Path(request.model).expanduser()
    name = request.name or path.stem
    if "/" in name or ":" in name or not name:
        raise UsageError(f"{name!r} cannot be a model's name", "clients write it in addresses: choose one by --name")
    if not path.exists() and not Path(f"{path}.index").exists() and not path.is_absolute():
        raise UsageError(f"there is no {path} here", "for a model on the hosts give its whole path there")
    token_file, token = _token(connection.paths)
    # The job is found in the package that is installed here; the hosts have the same.
    script = Path(dtfctl.__file__).with_name("jobs") / SCRIPT
    arguments = [
        str(path.absolute()),
        f"--name={name}",
        f"--port={request.port}",
        f"--grpc-port={request.grpc_port}",
        f"--versions={request.versions}",
        f"--tags={request.tags}",
        f"--max-batch={request.most_rows}",
        f"--request-timeout={request.request_timeout_s}",
        *(f"--inputs={tensor}" for tensor in request.inputs),
        *(f"--outputs={tensor}" for tensor in request.outputs),
    ]
    job = JobRequest(
        script=str(script),
        args=tuple(arguments),
        name=f"serve-{''.join(c if c.isalnum() else '-' for c in name.lower()).strip('-') or 'model'}",
        env={TOKEN: token},
        replication="in-graph",
        workers=request.workers,
        tasks=request.tasks,
        share=request.share,
        priority=request.priority,
    )
    job_id = submission.submit(connection, job, tell)
    tell(f"{job_id} submitted")
    return Served(job_id, str(token_file), _answering(connection, job_id, tell))


def _answering(connection: Connection, job_id: str, tell: Callable[[str], None]) -> Announcement:
    said: list[str] = []
    for item in submission.follow_job(connection, job_id):
        match item:
            case JobOutput(line):
                found = Announcement.of_line(line.text)
                if found is not None:
                    return found
                said = [*said, line.text][-LINES:]
            case JobChanged(status) if status.reason:
                tell(f"{job_id} {status.state}: {status.reason}")
            case JobEnded(status):
                text = "; ".join(said) or status.reason or f"it ended with {status.exit_code}"
                raise ClusterFailed(f"{job_id} {status.state}: {text}", f"look with: dtfctl logs {job_id}")
    raise ClusterFailed(f"{job_id} is not there any more", "look with: dtfctl jobs")


def _token(paths: ClusterPaths) -> tuple[Path, str]:
    """Read what clients of this cluster's models say; made when the first is served."""
    file = Path(paths.folder) / TOKEN_FILE
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as out:
            out.write(secrets.token_urlsafe(24))
    except FileExistsError:
        pass
    return file, file.read_text().strip()
