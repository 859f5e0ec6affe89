"""Makes links to other tasks: the best transport that works between two of them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar, get_args

import grpc

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.framework.errors import OpError, UnavailableError
from dtfctl.runtime.memory.shared_memory import common_arena
from dtfctl.runtime.rendezvous.transports.base import Link, LinkOwner
from dtfctl.runtime.rendezvous.transports.grpc_stream import ClientLink
from dtfctl.runtime.rendezvous.transports.handshake import (
    Door,
    Joined,
    Offer,
    TaskTls,
    connect_tcp,
    connect_unix,
    this_place,
)
from dtfctl.runtime.rendezvous.transports.joined_link import link_over
from dtfctl.runtime.rendezvous.transports.sockets import SocketLink

log = logging.getLogger(__name__)
Choice: TypeAlias = Literal["auto", "shm", "ucx", "tcp", "grpc"]
CHOICES: tuple[str, ...] = get_args(Choice)
L = TypeVar("L", SocketLink, ClientLink)
# Overrides what a task's configuration says, for trials.
VARIABLE = "DTF_TRANSPORT"


def shares_memory(choice: str) -> bool:
    """Tell whether tasks of a host reach each other's memory, with that choice of a transport."""
    return (os.environ.get(VARIABLE) or choice) in ("auto", "shm")


class LinkMaker:
    """The maker of one task's links to others.

    Args:
        owner: of all links made here, whoever opened them.
        choice: "auto" for the best there is, or the one transport to use.
        tls: this task's certificate; None where tasks use none.
        encrypt: use TLS also for tensors between hosts; without it peers still prove who they are.

    Raises:
        ValueError: there is no such transport.
    """

    def __init__(
        self, task: str, life: int, owner: LinkOwner, choice: str, tls: TaskTls | None, encrypt: bool = True
    ) -> None:
        self._task = task
        self._life = life
        self._owner = owner
        self._choice = os.environ.get(VARIABLE) or choice
        if self._choice not in CHOICES:
            raise ValueError(f"There is no transport {self._choice!r}; there are {', '.join(CHOICES)}")
        self._tls = tls
        # Who comes, which life of it, and whether to go on through UCX.
        self._door: Door[tuple[str, int, bool]] | None = None
        self._encrypts = encrypt and tls is not None
        if self._choice == "ucx":
            self._check_ucx()
        if self._choice != "grpc":
            new_arena = common_arena if shares_memory(choice) else None
            self._door = Door(
                self._joined,
                new_arena,
                tls if encrypt else None,
                task_of=lambda peer: peer[0],
                binding_of=lambda peer: _lives(peer[0], peer[1], self._task, self._life, peer[2]),
            )

    def listen(self, host: str) -> None:
        """Let peers connect. `host`: where this task listens.

        Raises:
            OSError.
        """
        if self._door is not None:
            self._door.listen(None if self._choice == "shm" else host)

    def close(self) -> None:
        if self._door is not None and self._door.unix_name:
            self._door.close()

    def _check_ucx(self) -> None:
        """Make sure that the transport that was chosen can be used."""
        from dtfctl.net.ucx import NoUcx, context

        if not self._encrypts:
            raise ValueError(
                "The transport ucx needs encryption: leave `security.tls` and `runtime.encrypt` as they are"
            )
        try:
            context()
        except NoUcx as e:
            raise ValueError(f"The transport ucx cannot be used: {e}") from None

    def _offers_ucx(self) -> bool:
        if self._choice != "auto":
            return self._choice == "ucx"
        if not self._encrypts:
            return False
        # Tasks that find no RDMA device have no use for the rest of it.
        from dtfctl.net.ucx import finds_rdma

        return finds_rdma()

    # Asked by a peer --------------------------------------------------------------------------------------------------

    def offer(self, task: str, life: int, transport: str = "") -> worker_pb2.OpenLinkResponse:
        """Tell how that life of a task may connect to this one.

        Args:
            transport: "ucx" to go on through UCX.
        """
        is_ucx = transport == "ucx"
        if self._door is None or (is_ucx and not self._offers_ucx()):
            return worker_pb2.OpenLinkResponse()
        offer = self._door.offer((task, life, is_ucx))
        return worker_pb2.OpenLinkResponse(
            place=offer.place,
            unix_name=offer.unix_name if self._choice not in ("tcp", "ucx") and not is_ucx else "",
            port=offer.port if self._choice != "ucx" or is_ucx else 0,
            ticket=offer.ticket,
            secret=offer.secret,
            encrypted=offer.encrypted,
        )

    def _joined(self, joined: Joined, peer: tuple[str, int, bool]) -> None:
        try:
            self._started(joined, *peer)
        except (OSError, OpError) as e:
            log.info("the connection from %s cannot be used: %s", peer[0], e)

    # Asking a peer ----------------------------------------------------------------------------------------------------

    def connect(
        self,
        ask: Callable[[str], worker_pb2.OpenLinkResponse],
        task: str,
        life: int,
        address: str,
        channel: Callable[[], grpc.Channel],
    ) -> Link:
        """Connect to a peer by a link, and start it.

        Args:
            ask: gets the peer's offer for one attempt, of "ucx" or what else there is ("").
            channel: gRPC's way to it.

        Raises:
            OpError: the peer does not answer, or the transport this cluster is to use does not work.
        """
        failures: list[str] = []
        for kind in ("shm", "ucx", "tcp"):
            if self._choice not in ("auto", kind) or (kind == "ucx" and not self._offers_ucx()):
                continue
            answer = ask("ucx" if kind == "ucx" else "")
            offer = Offer(answer.place, answer.unix_name, answer.port, answer.ticket, answer.secret, answer.encrypted)
            try:
                if kind == "shm":
                    joined = self._connect_unix(offer)
                else:
                    joined = self._connect_tcp(offer, address, task, life, kind == "ucx")
                made = self._started(joined, task, life, kind == "ucx")
            except (OSError, OpError) as e:
                failures.append(f"{kind}: {e}")
            else:
                for failure in failures:
                    if failure.startswith("ucx"):
                        log.warning("tensors for %s go through %s: %s", task, kind, failure)
                return made
        if self._choice in ("auto", "grpc"):
            if failures:
                log.info("tensors for %s go through gRPC: %s", task, "; ".join(failures))
            link = ClientLink(channel(), self._task, self._life, task, life, self._owner)
            link.is_encrypted = self._tls is not None
            return self._opened(link)
        raise UnavailableError(
            f"{task} ({address}) cannot be reached by the cluster's transport: {'; '.join(failures)}. "
            "Choose another, or auto."
        )

    def _connect_unix(self, offer: Offer) -> Joined:
        if not offer.unix_name:
            raise UnavailableError("the peer does not offer it")
        if offer.place != this_place():
            raise UnavailableError("the tasks are not on one host")
        return connect_unix(offer, common_arena)

    def _connect_tcp(self, offer: Offer, address: str, task: str, life: int, is_ucx: bool) -> Joined:
        if not offer.port:
            raise UnavailableError("the peer does not offer it")
        binding = _lives(self._task, self._life, task, life, is_ucx)
        return connect_tcp(offer, address.rpartition(":")[0], self._tls, task, binding)

    def _started(self, joined: Joined, task: str, life: int, is_ucx: bool = False) -> SocketLink:
        try:
            link = link_over(joined, task, self._life, life, self._owner, is_ucx)
        except (OSError, OpError):
            joined.drop()
            raise
        return self._opened(link)

    def _opened(self, link: L) -> L:
        try:
            self._owner.opened(link)
        except OpError:
            link.close()
            raise
        link.start()
        return link


def _lives(client: str, client_life: int, server: str, server_life: int, is_ucx: bool) -> bytes:
    """Write down which life of which task has connected to which, and whether to go on through UCX."""
    return f"{client} {client_life} > {server} {server_life}{' ucx' if is_ucx else ''}".encode()
