"""From a mutual TLS link to records of our own: its two ends agree on fresh secrets inside it, and let go of TLS.

Python's `ssl` cannot export a secret of the session, so each end says 32 random bytes inside the link, which nobody
else can read or change. Keys come from both, from the ticket's secret, and from all that the two must agree on. The
server writes the first record, after it has read the last that the client says inside TLS; the client says nothing
more before that has come. So no byte of the one is ever read as the other's.
"""

from __future__ import annotations

import hashlib
import secrets
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from dtfctl.net.records import CONFIRM, HEADER_SIZE, OVERHEAD, SECRET_SIZE, RecordError, Records, derive
from dtfctl.runtime.framework.errors import UnauthenticatedError

_CONFIRMED = b"\x01"
Receive = Callable[[socket.socket, int], bytes]


@dataclass
class Agreement:
    """What one end knows of a link that is to become encrypted records.

    Attributes:
        mine, theirs: the certificates (DER).
        binding: which lives of which tasks talk to each other.
    """

    is_client: bool
    mine: bytes
    theirs: bytes
    binding: bytes
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(SECRET_SIZE), repr=False)

    def switch(
        self, secure: ssl.SSLSocket, peer_secret: bytes, ticket: bytes, transcript: bytes, receive: Receive
    ) -> tuple[socket.socket, Records]:
        """Let go of TLS and make sure that both ends have the same keys.

        Args:
            ticket: its secret.
            transcript: what the two have said to each other besides.

        Returns: the socket, which has another object now, and what to encrypt with.

        Raises:
            OSError, UnauthenticatedError: the connection cannot be used.
        """
        client, server = (self.mine, self.theirs) if self.is_client else (self.theirs, self.mine)
        ends = (self.secret, peer_secret) if self.is_client else (peer_secret, self.secret)
        parts = (self.binding, client, server, transcript)
        context = b"".join(hashlib.sha256(part).digest() for part in parts)
        records = Records(derive(b"".join((*ends, ticket)), context), self.is_client)
        sock = _without_tls(secure)
        try:
            if self.is_client:
                self._confirmed(sock, records, receive)
                sock.sendall(records.sealer.seal(CONFIRM, _CONFIRMED))
            else:
                sock.sendall(records.sealer.seal(CONFIRM, _CONFIRMED))
                self._confirmed(sock, records, receive)
        except RecordError as e:
            sock.close()
            raise UnauthenticatedError(f"The two ends of a connection do not have the same keys: {e}") from None
        except BaseException:
            sock.close()
            raise
        return sock, records

    def _confirmed(self, sock: socket.socket, records: Records, receive: Receive) -> None:
        data = receive(sock, OVERHEAD + len(_CONFIRMED))
        ticket = records.opener.take(data[:HEADER_SIZE])
        if ticket.kind != CONFIRM or ticket.size != len(_CONFIRMED):
            raise records.opener.spoil("the first record is not the one that confirms the keys")
        ticket.open(data[HEADER_SIZE:])


def _without_tls(secure: ssl.SSLSocket) -> socket.socket:
    """Return the socket below, with nothing read from it that belongs to what follows."""
    if secure.pending():
        raise UnauthenticatedError("A peer says more inside TLS than it should")
    timeout = secure.gettimeout()
    sock = socket.socket(fileno=secure.detach())
    sock.settimeout(timeout)
    return sock
