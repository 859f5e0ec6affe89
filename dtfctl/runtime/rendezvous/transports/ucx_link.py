"""Encrypted records through UCX: what TCP carries of a link, over InfiniBand, RoCE or whatever UCX finds.

Two tasks meet as for TCP: by a ticket, over TLS, with keys of this connection. Inside those records each says where
its worker of UCX is, and the first record through UCX shows that the keys are there too. Whoever else talks to that
worker has no keys, which is why there is no such link without encryption.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dtfctl.net import ucx
from dtfctl.net.records import CONFIRM, HEADER_SIZE, OVERHEAD, RecordError, Records
from dtfctl.runtime.framework.errors import UnauthenticatedError, UnavailableError
from dtfctl.runtime.rendezvous.transports.base import LinkOwner
from dtfctl.runtime.rendezvous.transports.handshake import TIMEOUT_S, Joined
from dtfctl.runtime.rendezvous.transports.sealed import SealedLink
from dtfctl.runtime.rendezvous.transports.ucx_stream import LONGEST_ADDRESS, UcxStream

if TYPE_CHECKING:
    from typing import cast
else:

    def cast(kind: object, thing: object) -> object:
        return thing


_HERE = b"\x02"


class UcxLink(SealedLink):
    """A Link through UCX; see SealedLink."""

    def __init__(
        self, stream: UcxStream, records: Records, peer_task: str, local_life: int, peer_life: int, owner: LinkOwner
    ) -> None:
        super().__init__(cast("socket.socket", stream), records, peer_task, local_life, peer_life, owner)
        self.transport = "ucx"
        self._stream = stream

    def readable(self) -> None:
        super().readable()
        # Its descriptor can be read then; it can never be written to.
        if self._stream.has_space():
            self.writable()


def ucx_link_over(joined: Joined, peer_task: str, local_life: int, peer_life: int, owner: LinkOwner) -> UcxLink:
    """Go over to UCX from a connection whose ends have agreed on keys.

    Raises:
        UnavailableError: UCX is not there or finds no way.
        OSError, UnauthenticatedError: the connection cannot be used either.
    """
    records = joined.records
    if records is None:
        raise UnauthenticatedError("UCX carries encrypted records only, and this cluster's tasks agree on no keys")
    try:
        stream = UcxStream(joined.sock)
    except ucx.NoUcx as e:
        raise UnavailableError(str(e)) from None
    try:
        until = time.monotonic() + TIMEOUT_S
        joined.sock.settimeout(TIMEOUT_S)
        joined.sock.sendall(records.sealer.seal(CONFIRM, stream.address))
        stream.meet(_record(records, lambda size: _of_socket(joined.sock, size), LONGEST_ADDRESS))
        stream.setblocking(False)
        said = memoryview(records.sealer.seal(CONFIRM, _HERE))
        if stream.send(said) != len(said):
            raise UnavailableError("UCX takes less than a record")
        if _record(records, lambda size: _of_stream(stream, size, until), len(_HERE)) != _HERE:
            raise UnavailableError("The peer says something else through UCX than it should")
        return UcxLink(stream, records, peer_task, local_life, peer_life, owner)
    except RecordError as e:
        stream.close()
        raise UnauthenticatedError(f"The peer that UCX reaches is not the one of the connection: {e}") from None
    except BaseException:
        stream.close()
        raise


def _record(records: Records, receive: Callable[[int], bytes], most: int) -> bytes:
    ticket = records.opener.take(receive(HEADER_SIZE))
    if ticket.kind != CONFIRM or ticket.size > most:
        raise records.opener.spoil("a record came that has no place here")
    return ticket.open(receive(ticket.size + OVERHEAD - HEADER_SIZE))


def _of_socket(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise UnavailableError("the peer cannot use UCX")
        data += part
    return data


def _of_stream(stream: UcxStream, size: int, until: float) -> bytes:
    place = memoryview(bytearray(size))
    filled = 0
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN)
    while filled < size:
        try:
            count = stream.recv_into(place[filled:])
        except BlockingIOError:
            left = until - time.monotonic()
            if left <= 0:
                raise UnavailableError(f"nothing comes through UCX within {TIMEOUT_S:g} s") from None
            poll.poll(left * 1000)
            continue
        if not count:
            raise UnavailableError("the peer cannot use UCX")
        filled += count
    return bytes(place)
