"""A plaintext port on this machine that leads to a task's master over mutual TLS: for clients that know no TLS.

TensorFlow's own client speaks plaintext only. What it says is passed on as it is; nothing is parsed, but who says it
must be a process of the same user (or of root): the kernel knows whose socket it is, and is asked about every
connection when it comes (`dtfctl/net`). Each connection has one of its own to the task, which ends with it: so the
task knows which clients are gone. While the task is away, calls that begin something (`CreateSession`, `Reset`) wait
for it, as a client of the task itself would; all others belong to what died with it and fail at once with UNAVAILABLE.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from dtfctl import guard
from dtfctl.net.tls import Identity
from dtfctl.runtime.services.calls import Call, Handler, Unary
from dtfctl.runtime.services.grpc_tools import channel_to, listen_tcp, new_server
from dtfctl.runtime.services.job_scope import METADATA_KEY
from dtfctl.runtime.services.master_service import NAME
from dtfctl.runtime.steps.deadlines import DEADLINES
from dtfctl.runtime.steps.threads import submit

LOOK_S = 5.0
_WAITS = frozenset({f"/{NAME}/CreateSession", f"/{NAME}/Reset"})


class MasterProxy:
    """Serves until `stop`.

    Args:
        address: the task's "host:port", or "unix:PATH" of what leads there.
        identity: of a certificate the cluster's authority made; None where the task itself serves plaintext.
        server_name: the name the task's certificate is valid for.
    """

    def __init__(self, address: str, identity: Identity | None, server_name: str = "") -> None:
        self._identity = identity
        self._server_name = server_name
        self._address = address
        self._generation = 0 if identity is None else identity.generation()
        self._ways = contextlib.ExitStack()
        self._forward = _Forward(self._connect)
        self._stopped = False
        self._server = new_server(self._forward.find)

    def _connect(self) -> grpc.Channel:
        return channel_to(self._address, self._identity, self._server_name, self._ways)

    def start(self, listen: str = "127.0.0.1:0") -> int:
        """Listen and give the port.

        Raises:
            OSError: the address is taken.
        """
        port = listen_tcp(self._server, listen, None)
        self._server.start()
        if self._identity is not None:
            guard.repeat(DEADLINES.after, LOOK_S, self._look_at_certificate, name="certificate")
        return port

    def _look_at_certificate(self) -> bool:
        """Connect anew when the certificate was renewed: a port may be open for months. What runs goes on."""
        if self._stopped or self._identity is None:
            return False
        now = self._identity.generation()
        if now != self._generation:
            self._forward.renew()
            self._generation = now
        return True

    def move(self, address: str) -> None:
        """Lead to the task's new address. What still runs at the old one is cancelled."""
        self._address = address
        self._forward.close()

    def stop(self) -> None:
        """Cancel what runs and close."""
        self._stopped = True
        self._server.stop(0).wait(5.0)
        self._forward.close()
        self._ways.close()


@dataclass
class _Way:
    """How one connection's calls reach the task.

    Attributes:
        former: channels of certificates before, until the task has heard of the client over the new one.
    """

    channel: grpc.Channel
    generation: int
    former: list[grpc.Channel] = field(default_factory=list)


class _Forward:
    """Hands every method of the master's service on.

    Args:
        connect: makes a channel to the task.
    """

    def __init__(self, connect: Callable[[], grpc.Channel]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._generation = 0
        self._ways: dict[str, _Way] = {}

    def renew(self) -> None:
        """Begin calls on other channels; those on the former ones end as they would have."""
        with self._lock:
            self._generation += 1

    def close(self) -> None:
        """Cancel what runs; what is called later goes over new channels."""
        with self._lock:
            ways, self._ways = self._ways, {}
        for way in ways.values():
            way.channel.close()

    def _left(self, client: str) -> None:
        with self._lock:
            way = self._ways.pop(client, None)
        if way is not None:
            way.channel.close()

    def find(self, method: str) -> Handler | None:
        if not method.startswith(f"/{NAME}/"):
            return None
        return Unary(lambda data, call: self._forward(data, call, method in _WAITS))

    def _way_of(self, client: str) -> tuple[_Way, bool]:
        """Find how a connection's calls reach the task; tell whether it is the first one of them."""
        way = self._ways.get(client)
        if way is None:
            way = self._ways[client] = _Way(self._connect(), self._generation)
            return way, True
        if way.generation != self._generation:
            way.former.append(way.channel)
            way.channel, way.generation = self._connect(), self._generation
        return way, False

    def _forward(self, data: bytes, call: Call, waits: bool) -> bytes:
        client = call.peer()
        with self._lock:
            way, is_first = self._way_of(client)
            channel = way.channel
            stub = channel.unary_unary(call.method)
            # Whose state it is about; what else comes with a call is between the client and this port.
            said = [pair for pair in call.metadata if pair[0] == METADATA_KEY]
            answer = stub.future(data, timeout=call.time_left(), metadata=said, wait_for_ready=waits)
        if is_first and not call.on_left(lambda: submit(self._left, client)):
            self._left(client)
        if not call.on_gone(answer.cancel):
            answer.cancel()
        try:
            answered = bytes(answer.result())
        except grpc.RpcError as e:
            error: Any = e
            call.refuse(error.code(), error.details() or "")
        except grpc.FutureCancelledError:
            if call.is_gone:
                call.refuse(grpc.StatusCode.CANCELLED, "The client gave up the request")
            call.refuse(grpc.StatusCode.UNAVAILABLE, "The task behind this port has moved")
        if channel is way.channel:
            way.former.clear()
        return answered
