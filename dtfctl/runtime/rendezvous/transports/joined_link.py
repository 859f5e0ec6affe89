"""The link that a connection between two tasks is good for."""

from __future__ import annotations

import socket

from dtfctl.runtime.rendezvous.transports.base import LinkOwner
from dtfctl.runtime.rendezvous.transports.handshake import Joined
from dtfctl.runtime.rendezvous.transports.plain import PlainLink
from dtfctl.runtime.rendezvous.transports.sockets import SocketLink


def link_over(
    joined: Joined, peer_task: str, local_life: int, peer_life: int, owner: LinkOwner, is_ucx: bool = False
) -> SocketLink:
    """Return the link that a connection is good for, encrypted if its ends have agreed on keys.

    Args:
        is_ucx: whether they have agreed to go on through UCX, too.

    Raises:
        OSError, OpError.
    """
    if is_ucx:
        from dtfctl.runtime.rendezvous.transports.ucx_link import ucx_link_over

        return ucx_link_over(joined, peer_task, local_life, peer_life, owner)
    if joined.records is not None:
        # Tasks of one host, and clients, have no use for it, and it takes a while to import.
        from dtfctl.runtime.rendezvous.transports.sealed import SealedLink

        return SealedLink(joined.sock, joined.records, peer_task, local_life, peer_life, owner, joined.name)
    if joined.sock.family != socket.AF_UNIX:
        return PlainLink(joined.sock, peer_task, local_life, peer_life, owner, joined.name)
    return SocketLink(
        joined.sock, peer_task, local_life, peer_life, owner, joined.arena, joined.peer_arena, name=joined.name
    )
