"""How two tasks find the best socket between them and make sure of each other.

The task that wants a link asks the other over gRPC, which knows both by their certificates, and is told where to
connect, and a ticket: a secret for one connection. On the new connection both prove that they know it, each over random
bytes of the other. Between hosts the connection begins as TLS with the same certificates on top and goes on with
encrypted records (secrecy.py), unless the cluster's specification turns encryption off; on one host it is a unix socket
that only processes of the same user may use.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from dtfctl.net.admission import WITHIN_S
from dtfctl.net.listener import BACKLOG, Guest, Listener, TurnedOut, listen_tcp
from dtfctl.net.owner import credentials_of
from dtfctl.net.reasons import CLOSED
from dtfctl.net.tls import Identity, common_name, role_and_name, task_host
from dtfctl.runtime.framework.device_spec import DeviceSpec, task_name
from dtfctl.runtime.framework.errors import UnauthenticatedError, UnavailableError
from dtfctl.runtime.memory.shared_memory import Arena, default_size

if TYPE_CHECKING:
    from dtfctl.net.records import Records
    from dtfctl.runtime.rendezvous.transports.secrecy import Agreement

log = logging.getLogger(__name__)
TIMEOUT_S = 10.0
TICKET_S = 30.0
MAX_TICKETS = 4096
_HELLO = struct.Struct("<8s16s32sQ")
_REPLY = struct.Struct("<32s32sQ")
_MAGIC = b"dtflink4"
# The role of a certificate is the first part of its common name.
ROLE = "task"


@cache
def this_place() -> str:
    """Names what processes must share to reach each other through unix sockets and memory: kernel, network, user."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    network = os.stat("/proc/self/ns/net")
    return f"{boot}/{network.st_dev}:{network.st_ino}/{os.getuid()}"


@dataclass(frozen=True)
class TaskTls:
    """Who this task is, and the domain of the names that tasks' certificates are valid for."""

    identity: Identity
    domain: str

    def host_of(self, task: str) -> str:
        """Return the name that the certificate of `/job:worker/replica:0/task:1` must be valid for."""
        spec = DeviceSpec.from_string(task)
        assert spec.job is not None and spec.task is not None
        return task_host(spec.job, spec.task, self.domain)


def holder_of(common: str) -> str:
    """Return the task whose certificate has that common name, as `/job:worker/replica:0/task:1`.

    Raises:
        UnauthenticatedError: it is not a task's.
    """
    role, name = role_and_name(common)
    job, _, index = name.partition("/")
    if role != ROLE or not job or not index.isdigit():
        raise UnauthenticatedError(f"A certificate for {common!r} does not admit to what tasks may do")
    return task_name(job, int(index))


@dataclass(frozen=True)
class Offer:
    """Where to connect, and with what.

    Attributes:
        place: see `this_place`.
        unix_name: abstract name of the unix socket.
        port: of the TCP socket; 0 for none.
        ticket, secret: name and key of the ticket.
        encrypted: what goes through the TCP socket is encrypted.
    """

    place: str
    unix_name: str
    port: int
    ticket: bytes
    secret: bytes
    encrypted: bool


@dataclass(frozen=True)
class Joined:
    """A connection whose ends know each other.

    Attributes:
        peer_arena: the other's memory: descriptor and size.
        name: a number that both ends know the connection by, and that no other has.
        records: what to encrypt with; None for no encryption.
    """

    sock: socket.socket
    arena: Arena | None
    peer_arena: tuple[int, int] | None
    name: int
    records: Records | None = None

    def drop(self) -> None:
        self.sock.close()
        if self.arena is not None:
            self.arena.close()
        if self.peer_arena is not None:
            os.close(self.peer_arena[0])


def _proof(secret: bytes, who: bytes, theirs: bytes, ours: bytes, size: int) -> bytes:
    return hmac.digest(secret, who + theirs + ours + size.to_bytes(8, "little"), hashlib.sha256)


def private_arena() -> Arena:
    """Memory for one peer.

    Raises:
        OSError, ValueError: there can be none.
    """
    return Arena(default_size())


def connect_unix(offer: Offer, new_arena: Callable[[], Arena] = private_arena) -> Joined:
    """Connect to a task of this host.

    Args:
        new_arena: gives the memory to lend.

    Raises:
        OSError, UnauthenticatedError.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    arena = None
    try:
        sock.settimeout(TIMEOUT_S)
        sock.connect("\0" + offer.unix_name)
        _check_user(sock)
        arena = new_arena()
        return _introduce(sock, offer, arena)
    except BaseException:
        sock.close()
        if arena is not None:
            arena.close()
        raise


def connect_tcp(offer: Offer, host: str, tls: TaskTls | None, task: str, binding: bytes = b"") -> Joined:
    """Connect to `task`, which may be on another host.

    Args:
        binding: which lives talk to each other; keys come from it too.

    Raises:
        OSError, UnauthenticatedError.
    """
    sock = socket.create_connection((host.strip("[]"), offer.port), TIMEOUT_S)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if offer.encrypted:
            if tls is None:
                raise UnauthenticatedError("The peer encrypts, and this task has no certificate")
            context, mine = tls.identity.context_and_certificate(server=False)
            sock = secure = context.wrap_socket(sock, server_hostname=tls.host_of(task))
            return _introduce(sock, offer, None, _agreement(secure, mine, binding, is_client=True))
        return _introduce(sock, offer, None)
    except BaseException:
        sock.close()
        raise


def _agreement(secure: ssl.SSLSocket, mine: bytes, binding: bytes, is_client: bool) -> Agreement:
    # Tasks of one host, and clients, have no use for it.
    from dtfctl.runtime.rendezvous.transports.secrecy import Agreement

    theirs = secure.getpeercert(binary_form=True)
    if not theirs:
        raise UnauthenticatedError("The other end of a connection has shown no certificate")
    return Agreement(is_client, mine, theirs, binding)


def _introduce(sock: socket.socket, offer: Offer, arena: Arena | None, agreement: Agreement | None = None) -> Joined:
    nonce = secrets.token_bytes(32)
    size = arena.size if arena is not None else 0
    hello = _HELLO.pack(_MAGIC, offer.ticket, nonce, size)
    secret = agreement.secret if agreement is not None else b""
    if arena is not None:
        socket.send_fds(sock, [hello], [arena.fd])
    else:
        sock.sendall(hello + secret)
    data, fds = _receive(sock, _REPLY.size + len(secret), arena is not None)
    try:
        reply, peer_secret = data[: _REPLY.size], data[_REPLY.size :]
        theirs, proof, peer_size = _REPLY.unpack(reply)
        if not hmac.compare_digest(proof, _proof(offer.secret, b"server", nonce, theirs, peer_size)):
            raise UnauthenticatedError("The other end of a connection is not the task it should be")
        sock.sendall(_proof(offer.secret, b"client", theirs, nonce, size))
        records = None
        if agreement is not None:
            assert isinstance(sock, ssl.SSLSocket)
            sock, records = agreement.switch(sock, peer_secret, offer.secret, hello + reply, _receive_bytes)
        return Joined(sock, arena, _one(fds, peer_size), _name(offer.ticket), records)
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise


def _name(ticket: bytes) -> int:
    return int.from_bytes(ticket[:8], "little")


def _one(fds: list[int], size: int) -> tuple[int, int] | None:
    if len(fds) != (1 if size else 0):
        raise UnauthenticatedError("A connection came without the memory it speaks of")
    return (fds[0], size) if fds else None


def _receive(sock: socket.socket, size: int, with_fd: bool) -> tuple[bytes, list[int]]:
    """Exactly that many bytes, and descriptors that come with them.

    Raises:
        OSError: the connection ended.
    """
    data, fds = b"", list[int]()
    try:
        while len(data) < size:
            if with_fd:
                part, some, _, _ = socket.recv_fds(sock, size - len(data), 1)
                fds += some
            else:
                part = sock.recv(size - len(data))
            if not part:
                raise ConnectionError(f"the other side {CLOSED}")
            data += part
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    return data, fds


def _receive_bytes(sock: socket.socket, size: int) -> bytes:
    return _receive(sock, size, False)[0]


def _check_user(sock: socket.socket) -> None:
    """Refuse the processes of other users.

    Raises:
        UnauthenticatedError.
    """
    _, uid = credentials_of(sock)
    if uid != os.getuid():
        raise UnauthenticatedError(f"A process of user {uid} is at the other end of a unix socket")


T = TypeVar("T")


class Tickets(Generic[T]):
    """Secrets that were handed out, each for one connection soon, and what for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[bytes, tuple[bytes, T, float]] = {}

    def issue(self, purpose: T) -> tuple[bytes, bytes]:
        """Issue a new ticket: its name and secret."""
        name, secret = secrets.token_bytes(16), secrets.token_bytes(32)
        now = time.monotonic()
        with self._lock:
            for old in [t for t, (_, _, until) in self._open.items() if until < now]:
                del self._open[old]
            while len(self._open) >= MAX_TICKETS:
                del self._open[next(iter(self._open))]
            self._open[name] = secret, purpose, now + TICKET_S
        return name, secret

    def take(self, name: bytes) -> tuple[bytes, T]:
        """Use a ticket up.

        Raises:
            UnauthenticatedError: it is not valid.
        """
        with self._lock:
            secret, purpose, until = self._open.pop(name, (b"", None, 0.0))
        if until < time.monotonic():
            raise UnauthenticatedError("A connection came without a valid ticket")
        return secret, purpose  # type: ignore[return-value]


class Door(Generic[T]):
    """Listens for the connections of those who were given a ticket.

    Args:
        joined: called in a thread of its own with each connection and what its ticket is for.
        new_arena: gives the memory to lend to those who come through the unix socket and lend theirs; None for none.
        tls: for the TCP socket; None for plain TCP.
        task_of: the task that a ticket was given to, from what it is for; with `tls` only its certificate admits.
        binding_of: which lives talk to each other, from what a ticket is for: see `connect_tcp`.
    """

    def __init__(
        self,
        joined: Callable[[Joined, T], None],
        new_arena: Callable[[], Arena] | None = private_arena,
        tls: TaskTls | None = None,
        task_of: Callable[[T], str] | None = None,
        binding_of: Callable[[T], bytes] = lambda purpose: b"",
    ) -> None:
        self._joined = joined
        self._new_arena = new_arena
        self._tls = tls
        self._task_of = task_of
        self._binding_of = binding_of
        self._tickets: Tickets[T] = Tickets()
        self._listener: Listener | None = None
        self.unix_name = ""
        self.port = 0

    def listen(self, tcp_host: str | None) -> None:
        """Start. `tcp_host`: where to listen for TCP beside the unix socket; any free port.

        Raises:
            OSError.
        """
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        doors = [unix]
        try:
            name = f"dtfctl-{secrets.token_hex(16)}"
            unix.bind("\0" + name)
            unix.listen(BACKLOG)
            if tcp_host is not None:
                doors += listen_tcp(tcp_host, 0)
                self.port = doors[1].getsockname()[1]
        except BaseException:
            for door in doors:
                door.close()
            raise
        self.unix_name = name
        # Without TLS a ticket is the only thing that a stranger lacks: who is of this machine has to be of this user.
        self._listener = Listener(doors, self._meet, name="dtf-door", owners_only=self._tls is None)
        self._listener.start()

    def offer(self, purpose: T) -> Offer:
        """Invite to one connection."""
        ticket, secret = self._tickets.issue(purpose)
        return Offer(this_place(), self.unix_name, self.port, ticket, secret, self._tls is not None)

    def close(self) -> None:
        """Stop listening; connections made stay."""
        if self._listener is not None:
            self._listener.close()

    def _meet(self, guest: Guest) -> None:
        try:
            guest.socket.settimeout(WITHIN_S)
            joined, purpose = self._admit(guest)
            try:
                guest.admit()
            except TurnedOut:
                joined.drop()
                raise
        except (OSError, UnauthenticatedError, UnavailableError, struct.error) as e:
            log.info("a connection was refused: %s", e)
            guest.close()
            return
        self._joined(joined, purpose)

    def _admit(self, guest: Guest) -> tuple[Joined, T]:
        sock = guest.socket
        is_unix = sock.family == socket.AF_UNIX
        holder = ""
        mine: bytes | None = None
        if is_unix:
            _check_user(sock)
        elif self._tls is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context, mine = self._tls.identity.context_and_certificate(server=True)
            secure = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            guest.socket = sock = secure
            secure.do_handshake()
            holder = holder_of(common_name(secure.getpeercert()))
        arena: Arena | None = None
        data, fds = _receive(sock, _HELLO.size, is_unix)
        try:
            magic, ticket, theirs, peer_size = _HELLO.unpack(data)
            if magic != _MAGIC:
                raise UnauthenticatedError("A connection does not speak the protocol of tasks")
            secret, purpose = self._tickets.take(ticket)
            agreement = None
            if mine is not None:
                agreement = _agreement(secure, mine, self._binding_of(purpose), is_client=False)
                peer_secret = _receive_bytes(sock, len(agreement.secret))
            if holder and self._task_of is not None and holder != self._task_of(purpose):
                raise UnauthenticatedError(f"{holder} came with the ticket of {self._task_of(purpose)}")
            peer_arena = _one(fds, peer_size)
            if is_unix and peer_arena is not None and self._new_arena is not None:
                arena = self._new_arena()
            nonce = secrets.token_bytes(32)
            size = arena.size if arena is not None else 0
            reply = _REPLY.pack(nonce, _proof(secret, b"server", theirs, nonce, size), size)
            if arena is not None:
                socket.send_fds(sock, [reply], [arena.fd])
            else:
                sock.sendall(reply + (agreement.secret if agreement is not None else b""))
            proof, _ = _receive(sock, hashlib.sha256().digest_size, False)
            if not hmac.compare_digest(proof, _proof(secret, b"client", nonce, theirs, peer_size)):
                raise UnauthenticatedError("The other end of a connection does not know its ticket's secret")
            records = None
            if agreement is not None:
                guest.socket, records = agreement.switch(secure, peer_secret, secret, data + reply, _receive_bytes)
            return Joined(guest.socket, arena, peer_arena, _name(ticket), records), purpose
        except BaseException:
            for fd in fds:
                os.close(fd)
            if arena is not None:
                arena.close()
            raise
