"""A task's server: master and worker of one task behind gRPC."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of a task's mutual TLS: the cluster's certificate authority, and this task's certificate and key."""

    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class TaskServerConfig:
    """What a task's process must know to serve.

    Attributes:
        cluster: job name -> task index -> "host:port", of every task, this one included.
        job_name, task_index: which task this is.
        incarnation: names this life of the task; peers refuse messages of another one. Positive, below 2**63.
        listen: "host:port" where peers and remote clients connect (mutual TLS when `tls` is given, else plaintext);
            port 0 takes a free one (`TaskServer.port` tells it).
        socket_path: unix socket for clients on this host; made 0600, removed at stop.
        tls: None only for tests and loopback use.
        state_dir: where the task may keep files.
        peer_timeout_s: how long a new session waits for peers that do not answer before it fails, naming them.
        device_count: virtual CPU devices of this task.
    """

    cluster: dict[str, dict[int, str]]
    job_name: str
    task_index: int
    incarnation: int
    listen: str
    socket_path: Path | None
    tls: TlsFiles | None
    state_dir: Path
    peer_timeout_s: float = 30.0
    device_count: int = 1


class TaskServer:
    """Serves one task until stopped. Methods may be called from any thread.

    The launcher's task process owns one: it calls `start`, feeds `peer_down` and `peer_up` from the cluster's failure
    detector, and watches `progress`.
    """

    def __init__(self, config: TaskServerConfig) -> None:
        self.config = config

    @property
    def port(self) -> int:
        """The TCP port peers connect to, once started."""
        raise NotImplementedError

    def start(self) -> None:
        """Listen and serve; returns at once.

        Raises:
            OSError: the address or the socket is taken; the text names it.
        """
        raise NotImplementedError

    def stop(self, grace_s: float) -> None:
        """Refuse new steps, let running ones finish for `grace_s` seconds, cancel the rest and close. Idempotent."""
        raise NotImplementedError

    def progress(self) -> int:
        """A counter that grows while steps or other requests are being served; two equal readings mean idle or stuck."""
        raise NotImplementedError

    def peer_down(self, job: str, index: int, incarnation: int, reason: str) -> None:
        """That life of a task is gone: steps touching it fail now with UNAVAILABLE and `reason`."""
        raise NotImplementedError

    def peer_up(self, job: str, index: int, address: str, incarnation: int) -> None:
        """A task is (again) reachable, perhaps elsewhere, in this life."""
        raise NotImplementedError
