"""A model served by tasks of a cluster: the job that does it, and where it answers."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import dtfctl
from dtfctl.launcher.errors import ClusterFailed, UsageError
from dtfctl.launcher.identity.certificates import Authority, ensure_authority, ensure_certificate, server_name
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import StatusRequest
from dtfctl.launcher.model import JobChanged, JobEnded, JobOutput, JobRequest
from dtfctl.launcher.operator import submission
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.system.files import private_folder
from dtfctl.serving import CERTIFICATES, SCRIPT, TOKEN, Announcement
from dtfctl.values import value

TOKEN_FILE = "token"
_NAME = re.compile(r"\[?[0-9A-Fa-f:.]+\]?|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
LINES = 20


@value
class ServeRequest:
    """What is to be served, and how."""

    model: str
    """A path: here, where it is one, else as the hosts have it."""
    name: str | None = None
    """What clients call the model; default: the path's last part."""
    port: int = 0
    """The port of REST, on the host that answers; 0: any that is free."""
    grpc_port: int = 0
    listen: str = ""
    """An address of that host, or `0.0.0.0` or `::` for all: it asks clients for a certificate there, by TLS. Empty:
    its loopback, where it asks for the token."""
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
    """Mode 0600; what a client has to say is in it. Empty where it has to show a certificate."""
    at: Announcement
    certificates: str = ""
    """The folder with a client's `ca.pem`, `serve-client.pem` and `serve-client.key`; empty on loopback."""
    server_name: str = ""
    """Whom the server's certificate names, at whatever address it listens."""


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
    asks, env = _token(connection.paths) if not request.listen else _certificates(connection, request.listen)
    # The job is found in the package that is installed here; the hosts have the same.
    script = Path(dtfctl.__file__).with_name("jobs") / SCRIPT
    arguments = [
        str(path.absolute()),
        f"--name={name}",
        f"--listen={request.listen}",
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
        env=env,
        replication="in-graph",
        workers=request.workers,
        tasks=request.tasks,
        share=request.share,
        priority=request.priority,
    )
    job_id = submission.submit(connection, job, tell)
    tell(f"{job_id} submitted")
    answering = _answering(connection, job_id, tell)
    if not request.listen:
        return Served(job_id, str(asks), answering)
    return Served(job_id, "", answering, str(asks), server_name("serve", connection.paths.name))


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


def _certificates(connection: Connection, listen: str) -> tuple[Path, dict[str, str]]:
    """Have a certificate for the server and one for clients, of an authority of their own.

    They open nothing else of the cluster. The server's names the hosts' addresses.
    """
    paths = connection.paths
    folder = paths.asking
    ensure_authority(folder, paths.name)
    hosts = connection.call(controller_calls.STATUS, StatusRequest()).status.hosts
    names = {listen, *(part for host in hosts for part in (host.name, host.agent_address.rpartition(":")[0]))}
    known = tuple(sorted(name.strip("[]") for name in names if _NAME.fullmatch(name)))
    server = Authority(folder, paths.name).issue("serve", hosts=known)
    ensure_certificate(folder, paths.name, "serve-client")
    content = {"ca": (folder / "ca.pem").read_text(), "cert": server.cert.decode(), "key": server.key.decode()}
    return folder, {CERTIFICATES: json.dumps(content)}


def _token(paths: ClusterPaths) -> tuple[Path, dict[str, str]]:
    """Read what clients of this cluster's models say; made when the first is served."""
    file = private_folder(paths.asking) / TOKEN_FILE
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as out:
            out.write(secrets.token_urlsafe(24))
    except FileExistsError:
        pass
    return file, {TOKEN: file.read_text().strip()}
