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
Choice: TypeAlias = Literal["auto", "shm", "tcp", "grpc"]
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
        self._door: Door[tuple[str, int]] | None = None
        if self._choice != "grpc":
            new_arena = common_arena if shares_memory(choice) else None
            self._door = Door(
                self._joined,
                new_arena,
                tls if encrypt else None,
                task_of=lambda peer: peer[0],
                binding_of=lambda peer: _lives(*peer, self._task, self._life),
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

    # Asked by a peer --------------------------------------------------------------------------------------------------

    def offer(self, task: str, life: int) -> worker_pb2.OpenLinkResponse:
        """Tell how that life of a task may connect to this one."""
        if self._door is None:
            return worker_pb2.OpenLinkResponse()
        offer = self._door.offer((task, life))
        return worker_pb2.OpenLinkResponse(
            place=offer.place,
            unix_name=offer.unix_name if self._choice != "tcp" else "",
            port=offer.port,
            ticket=offer.ticket,
            secret=offer.secret,
            encrypted=offer.encrypted,
        )

    def _joined(self, joined: Joined, peer: tuple[str, int]) -> None:
        try:
            self._started(joined, *peer)
        except (OSError, OpError) as e:
            log.info("the connection from %s cannot be used: %s", peer[0], e)

    # Asking a peer ----------------------------------------------------------------------------------------------------

    def connect(
        self,
        ask: Callable[[], worker_pb2.OpenLinkResponse],
        task: str,
        life: int,
        address: str,
        channel: Callable[[], grpc.Channel],
    ) -> Link:
        """Connect to a peer by a link, and start it.

        Args:
            ask: gets the peer's offer for one attempt.
            channel: gRPC's way to it.

        Raises:
            OpError: the peer does not answer, or the transport this cluster is to use does not work.
        """
        failures: list[str] = []
        for kind in ("shm", "tcp"):
            if self._choice not in ("auto", kind):
                continue
            answer = ask()
            offer = Offer(answer.place, answer.unix_name, answer.port, answer.ticket, answer.secret, answer.encrypted)
            try:
                if kind == "tcp":
                    joined = self._connect_tcp(offer, address, task, life)
                else:
                    joined = self._connect_unix(offer)
                return self._started(joined, task, life)
            except (OSError, OpError) as e:
                failures.append(f"{kind}: {e}")
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

    def _connect_tcp(self, offer: Offer, address: str, task: str, life: int) -> Joined:
        if not offer.port:
            raise UnavailableError("the peer does not offer it")
        binding = _lives(self._task, self._life, task, life)
        return connect_tcp(offer, address.rpartition(":")[0], self._tls, task, binding)

    def _started(self, joined: Joined, task: str, life: int) -> SocketLink:
        try:
            link = link_over(joined, task, self._life, life, self._owner)
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


def _lives(client: str, client_life: int, server: str, server_life: int) -> bytes:
    """Write down which life of which task has connected to which."""
    return f"{client} {client_life} > {server} {server_life}".encode()
