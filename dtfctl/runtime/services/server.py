"""A task's server: master and worker of one task behind gRPC."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from dtfctl import guard
from dtfctl.figures import TaskFigures
from dtfctl.net.tls import Identity
from dtfctl.protocol import config_pb2
from dtfctl.runtime.collective.members import Collectives, group_leader
from dtfctl.runtime.compression import ENCODED
from dtfctl.runtime.framework.denormals import denormals_flushed
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.device_spec import DeviceSpec, device_name, task_name
from dtfctl.runtime.framework.errors import OpError, UnavailableError
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.rendezvous.transports.handshake import TaskTls, this_place
from dtfctl.runtime.services.calls import CallServer
from dtfctl.runtime.services.client_service import ClientService
from dtfctl.runtime.services.exchange import Exchange
from dtfctl.runtime.services.figures import figures_of
from dtfctl.runtime.services.gpu import find_gpus
from dtfctl.runtime.services.graph_service import GraphService
from dtfctl.runtime.services.grpc_tools import CHANNEL_OPTIONS, listen_tcp, listen_unix, new_server
from dtfctl.runtime.services.link_figures import LinkFigures
from dtfctl.runtime.services.links import LinkMaker, shares_memory
from dtfctl.runtime.services.local_masters import forget_local_master, register_local_master
from dtfctl.runtime.services.master import Master
from dtfctl.runtime.services.master_service import MasterService
from dtfctl.runtime.services.peers import Peers
from dtfctl.runtime.services.profile_service import ProfileService
from dtfctl.runtime.services.pulse import CallProbe, Probe, Pulse, ReactorProbe
from dtfctl.runtime.services.session_users import SessionUsers
from dtfctl.runtime.services.tensorflow_worker_service import TensorFlowTasks, TensorFlowWorkerService
from dtfctl.runtime.services.worker import ORPHAN_S, Worker
from dtfctl.runtime.services.worker_service import WorkerService
from dtfctl.runtime.steps.deadlines import DEADLINES
from dtfctl.runtime.steps.threads import submit

log = logging.getLogger(__name__)
LOOK_S = 5.0
"""How often a task looks whether its certificate was renewed."""
# What a stopping server has to answer what it was asked takes so long at most.
_ANSWERS_S = 1.0


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of a task's mutual TLS.

    Attributes:
        ca, cert, key: the cluster's certificate authority, this task's certificate and its key; read again when they
            change.
        domain: the certificate of a task is valid for JOB-INDEX.domain; by default that of the first DNS name in
            `cert`.
    """

    ca: Path
    cert: Path
    key: Path
    domain: str = ""


@dataclass(frozen=True)
class TaskServerConfig:
    """What a task's process must know to serve.

    Attributes:
        cluster: job name -> task index -> "host:port", of every task, this one included.
        job_name, task_index: which task this is.
        incarnation: names this life of the task: positive, below 2**63, greater than that of any former life. Peers
            refuse messages of another one.
        listen: "host:port" where peers and remote clients connect (mutual TLS when `tls` is given, else plaintext);
            port 0 takes a free one (`TaskServer.port` tells it).
        socket_path: unix socket for clients on this host; made 0600, removed at stop.
        tls: None only for loopback use.
        peer_timeout_s: how long a new session waits for peers that do not answer before it fails, naming them.
        device_count: virtual CPU devices of this task.
        default_session_config: what sessions' own ConfigProto is merged into.
        transport: what carries tensors to other tasks: "auto" for the best that works between two, or the one to use:
            "shm", "ucx", "tcp" or "grpc".
        encrypt: with `tls`, encrypt tensors between hosts.
    """

    cluster: dict[str, dict[int, str]]
    job_name: str
    task_index: int
    incarnation: int
    listen: str
    socket_path: Path | None
    tls: TlsFiles | None
    peer_timeout_s: float = 30.0
    device_count: int = 1
    transport: str = "auto"
    encrypt: bool = True
    default_session_config: config_pb2.ConfigProto = field(default_factory=config_pb2.ConfigProto)

    @property
    def task(self) -> str:
        return task_name(self.job_name, self.task_index)


class TaskServer:
    """Serves one task until stopped. Methods may be called from any thread.

    The launcher's task process owns one: it calls `start`, feeds `peer_down` and `peer_up` from the cluster's failure
    detector, and watches `progress`.
    """

    def __init__(self, config: TaskServerConfig) -> None:
        self.config = config
        addresses = {task_name(job, i): a for job, tasks in config.cluster.items() for i, a in tasks.items()}
        if config.task not in addresses:
            raise ValueError(f"{config.task} is not in the cluster: {sorted(addresses)}")
        self._tls = None if config.tls is None else _Tls(config.tls)
        life = config.incarnation
        self._peers = Peers(config.task, life, addresses, self._connect, self._peer_lost)
        devices = [
            Device(
                device_name(config.job_name, config.task_index, "CPU", i), resources=ResourceManager(config.job_name)
            )
            for i in range(config.device_count)
        ]
        devices += find_gpus(config.job_name, config.task_index, config.default_session_config)
        alone = len(addresses) == 1
        neighbours = None if alone else self._peers
        leader = config.default_session_config.experimental.collective_group_leader or group_leader(addresses)
        self._foreign = TensorFlowTasks(self._peers)
        # Where memory is not to be used, each task stands for itself.
        host = this_place() if shares_memory(config.transport) else config.task
        groups = Collectives(config.task, life, neighbours, leader, self._foreign, host)
        self.worker = Worker(config.task, devices, neighbours, groups)
        self.master = Master(
            self.worker, None if alone else self._peers, life, config.peer_timeout_s, config.default_session_config
        )
        users = SessionUsers(lambda session: submit(groups.end_session, session))
        self._master_service = MasterService(self.master, users)
        self._exchange = Exchange(self.worker, self._peers, self.master.receive)
        contexts = None if self._tls is None or alone else self._tls.task_tls
        self._links = LinkMaker(config.task, life, self._exchange, config.transport, contexts, config.encrypt)
        self._peers.make_links_with(self._links)
        self._has_peers = not alone
        self._client_service = ClientService(self.master, self.worker, life, users)
        self._worker_service = WorkerService(
            self.worker,
            self._peers,
            self._exchange,
            self._links,
            life,
            config.tls is not None,
            self._client_service.invite,
        )
        self._profile_service = ProfileService(config.task, life, config.tls is not None, self._client_service.record)
        self._client_service.recorded = self._profile_service.recorded
        self._graph_service = GraphService(config.task, self.master, config.tls is not None)
        self._servers: list[CallServer] = []
        self._lock = threading.Lock()
        self._port = 0
        self._local_address = ""
        self._stopped = False
        self._generation = 0
        """Of the certificate that channels were made with; 0: not looked yet."""

    @property
    def port(self) -> int:
        """The TCP port peers connect to, once started."""
        return self._port

    # Life -------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listen and serve; returns at once.

        Raises:
            OSError: the address or the socket is taken; the text names it.
        """
        with denormals_flushed():
            started = self._listen()
        with self._lock:
            self._servers = started
        config = self.config
        self._local_address = f"{config.listen.rpartition(':')[0]}:{self._port}"
        if self._tls is None:
            register_local_master(self._local_address, self.master)
        if config.socket_path is not None:
            register_local_master(f"unix:{config.socket_path}", self.master)
        guard.repeat(DEADLINES.after, ORPHAN_S, self._sweep, name="orphans")
        if self._tls is not None:
            guard.repeat(DEADLINES.after, LOOK_S, self._look_at_certificate, name="certificate")

    def _look_at_certificate(self) -> bool:
        """Renew channels with the certificate: one open for months must not come back with an ended one."""
        if self._stopped or self._tls is None:
            return False
        now = self._tls.generation()
        if self._generation not in (0, now):
            log.info("the certificate was renewed")
            self._peers.renew_channels()
        self._generation = now
        return True

    def _listen(self) -> list[CallServer]:
        """Start what serves; the servers."""
        config = self.config
        clients = {**self._master_service.handlers(), **self._client_service.handlers()}
        handlers = {**clients, **self._worker_service.handlers(), **self._profile_service.handlers()}
        handlers.update(self._graph_service.handlers())
        if self._tls is None:
            handlers.update(TensorFlowWorkerService(self.worker, config.incarnation).handlers())
        peers = new_server(handlers.get)
        self._port = listen_tcp(peers, config.listen, None if self._tls is None else self._tls.server)
        started = [peers]
        if config.socket_path is not None:
            local = new_server(clients.get)
            try:
                listen_unix(local, config.socket_path)
            except OSError:
                peers.stop(0)
                raise
            started.append(local)
        try:
            self._client_service.listen()
            if self._has_peers:
                self._links.listen(config.listen.rpartition(":")[0])
        except OSError:
            for server in started:
                server.stop(0)
            raise
        for server in started:
            server.start()
        return started

    def _sweep(self) -> bool:
        if not self._stopped:
            self.worker.drop_orphans()
        return not self._stopped

    def listen_plaintext(self, address: str = "127.0.0.1:0") -> int:
        """Serve clients without certificates at another address, for stock TensorFlow clients; the port.

        Raises:
            OSError: the address is taken.
        """
        server = new_server(self._master_service.handlers().get)
        port = listen_tcp(server, address, None)
        with denormals_flushed():
            server.start()
        with self._lock:
            self._servers.append(server)
        return port

    def stop(self, grace_s: float) -> None:
        """Refuse new requests, let running ones finish for `grace_s` seconds, cancel the rest and close. Idempotent."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            servers, self._servers = self._servers, []
        forget_local_master(self._local_address)
        if self.config.socket_path is not None:
            forget_local_master(f"unix:{self.config.socket_path}")
        # Streams from peers never end by themselves, so requests are waited for by count.
        ended = [server.stop(grace_s + _ANSWERS_S) for server in servers[1:]]
        until = time.monotonic() + grace_s
        for event in ended:
            event.wait(max(until - time.monotonic(), 0.0))
        # Whoever trains takes that for the loss of a task, and goes on with those that come after it. A call that is
        # cancelled before it is answered would be taken for somebody's wish.
        reason = UnavailableError(f"{self.config.task} is stopping")
        self.worker.cancel_all(reason)
        self.master.close(reason)
        until = time.monotonic() + _ANSWERS_S
        for server in servers:
            server.stop(_ANSWERS_S)
            server.answered(max(until - time.monotonic(), 0.0))
        self._client_service.close()
        self._exchange.close()
        self._peers.close()
        self._foreign.close()
        self._links.close()
        for event in [server.stop(0) for server in servers]:
            event.wait(5.0)
        if servers and self.config.socket_path is not None:
            self.config.socket_path.unlink(missing_ok=True)

    def progress(self) -> int:
        """Count the steps that ended and the requests that came; two equal readings mean idle or stuck."""
        return self.worker.steps_run + self.master.requests

    def spared_bytes(self) -> int:
        """Count the bytes that compression has kept off the network, of what this process sent."""
        return ENCODED.bytes_before - ENCODED.bytes_after

    def figures(self) -> TaskFigures:
        """Gather what it has counted and what it holds."""
        return figures_of(self.worker)

    def make_pulse(self, beat_s: float) -> Pulse:
        """Make what finds out whether the started server still serves; see `Pulse`."""
        probes: list[Probe] = [ReactorProbe()]
        if self.config.socket_path is not None:
            probes.append(CallProbe(self.config.socket_path))
        return Pulse(probes, beat_s, 2 * beat_s)

    def silent_peers(self, timeout_s: float) -> set[str]:
        """Find the tasks that this one works with that do not answer it within `timeout_s`, as `job/index`."""
        found = self._peers.silent(timeout_s) if self._has_peers else set()
        names = [DeviceSpec.from_string(task) for task in found]
        return {f"{spec.job}/{spec.task}" for spec in names}

    def transports(self) -> dict[str, str]:
        """Tell what carries tensors to each task this one is linked to ("shm", "ucx", "tcp" or "grpc")."""
        return self._peers.transports()

    def links(self) -> dict[str, LinkFigures]:
        """Tell how this task sends to each one that it is linked to, by `job/index`."""
        found = {DeviceSpec.from_string(task): figures for task, figures in self._peers.figures().items()}
        return {f"{spec.job}/{spec.task}": figures for spec, figures in found.items()}

    def news(self) -> tuple[str, ...]:
        """List what a person is to know of groups that this task leads, newest last, each with a number of its own."""
        return self.worker.collectives.leading.news

    def stand(self, rack: str, rates: Mapping[str, float]) -> None:
        """Note in which rack this task stands, and what ways to others carry (by `job/index`, in bytes a second)."""
        names = {name: name.partition("/") for name in rates}
        told = {task_name(job, int(index)): rates[name] for name, (job, _, index) in names.items()}
        self.worker.collectives.ways.told(rack, told)

    # Peers ------------------------------------------------------------------------------------------------------------

    def peer_down(self, job: str, index: int, incarnation: int, reason: str) -> None:
        """Note that a life of a task is gone: steps touching it fail now with UNAVAILABLE and `reason`."""
        task = task_name(job, index)
        if task != self.config.task:
            self._peers.mark_down(task, incarnation, reason)
            self.worker.delete_sessions_of(task, incarnation + 1)

    def peer_up(self, job: str, index: int, address: str, incarnation: int) -> None:
        """Note that a task is (again) reachable, perhaps elsewhere, in this life."""
        task = task_name(job, index)
        if task != self.config.task:
            self._peers.learn(task, incarnation, address)
            self.worker.delete_sessions_of(task, incarnation)

    def job_ended(self, job: str) -> None:
        """Close the sessions of a job of which nothing runs any more, and drop its state. Returns at once."""

        def forget() -> None:
            self.master.end_job(job)
            self.worker.end_job(job)

        submit(forget)

    def peer_gone(self, job: str, index: int, reason: str, *, lost: bool = False) -> None:
        """Take a task out of the cluster, until it is heard of again: new sessions are made without it.

        `lost`: it will be heard of again, so what needs it may be tried again.
        """
        task = task_name(job, index)
        if task != self.config.task:
            self._peers.forget(task, reason, lost=lost)

    def _peer_lost(self, task: str, life: int, error: OpError) -> None:
        log.info("%s (incarnation %d): %s", task, life, error.message)
        self.worker.peer_lost(task, error)
        self.master.peer_lost(task, error)
        if self._peers.is_gone(task, life):
            self._client_service.peer_lost(task, life, error)
        if self._peers.life_of(task) > life:
            self.worker.delete_sessions_of(task, life + 1)

    def _connect(self, task: str, address: str) -> grpc.Channel:
        if self._tls is None:
            return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        options = (*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", self._tls.task_tls.host_of(task)))
        return grpc.secure_channel(address, self._tls.client(), options=options)


class _Tls:
    """Credentials for both directions."""

    def __init__(self, files: TlsFiles) -> None:
        self._identity = Identity(files.ca, files.cert, files.key)
        domain = files.domain or _first_dns_name(self._identity.pem().cert).partition(".")[2]
        self.task_tls = TaskTls(self._identity, domain)
        self.server = grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._configuration_if_new, require_client_authentication=True
        )

    def client(self) -> grpc.ChannelCredentials:
        """Make the credentials of a new channel."""
        pem = self._identity.pem()
        return grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert)

    def generation(self) -> int:
        """Get a number that grows when the certificate was renewed."""
        return self._identity.generation()

    def _configuration(self) -> Any:
        self._told = self._identity.generation()
        pem = self._identity.pem()
        return grpc.ssl_server_certificate_configuration(((pem.key, pem.cert),), pem.ca)

    def _configuration_if_new(self) -> Any:
        """Give the configuration if it is new, else None; gRPC asks with every connection that comes."""
        return None if self._identity.generation() == self._told else self._configuration()


def _first_dns_name(pem: bytes) -> str:
    """Find the first name a certificate is valid for.

    Raises:
        ValueError: it has none.
    """
    from cryptography import x509

    names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    found = names.value.get_values_for_type(x509.DNSName)
    if not found:
        raise ValueError("The task's certificate is valid for no name")
    return str(found[0])
