"""Measures the way from another host's agent to this one: how long an answer takes, and how much comes in a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dtfctl.launcher.agent.loop import Agent
from dtfctl.launcher.messages.agent import EchoReply, EchoRequest, Piece, PiecesRequest
from dtfctl.launcher.messages.agent_calls import ECHO, MEASURE, PIECES
from dtfctl.launcher.messages.looks import Measured, MeasureRequest
from dtfctl.launcher.rpc.method import Handler, Method

if TYPE_CHECKING:
    from dtfctl.launcher.rpc.client import Channel

ECHOES = 20
ECHO_S = 10.0
SPEAK_S = 0.6
SETTLE_S = 0.2
"""What TCP takes to find out how much a link carries; does not count."""
MOST_SPEAK_S = 5.0
PIECE = 1 << 18


class LinkService:
    """Handlers; each runs in a thread of the server."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def handlers(self) -> dict[Method, Handler]:  # type: ignore[type-arg]
        return {MEASURE: self.measure, ECHO: lambda request: EchoReply(), PIECES: pieces}

    def measure(self, request: MeasureRequest) -> Measured:
        from dtfctl.launcher.rpc.client import Channel

        tls = self._agent.keyring.of_agent()
        channel = Channel(request.address, tls, "agent", request.cluster, request.source)
        try:
            return Measured(_round_trip(channel), _rate(channel))
        finally:
            channel.close()


def pieces(request: PiecesRequest) -> Iterator[Piece]:
    """Yield pieces until the time is up."""
    until = time.monotonic() + min(request.seconds, MOST_SPEAK_S)
    piece = Piece(bytes(PIECE))
    while time.monotonic() < until:
        yield piece


def _round_trip(channel: Channel) -> float:
    """Time small calls; their median in seconds, without that of the first, which connects."""
    times = []
    for _ in range(ECHOES + 1):
        began = time.perf_counter()
        channel.call(ECHO, EchoRequest(), timeout_s=ECHO_S)
        times.append(time.perf_counter() - began)
    return sorted(times[1:])[ECHOES // 2]


def _rate(channel: Channel) -> float:
    """Have the other side speak; bytes a second, once it has settled."""
    began, counted = time.perf_counter(), 0
    settled = now = began
    for piece in channel.stream(PIECES, PiecesRequest(SPEAK_S)):
        now = time.perf_counter()
        if now - began < SETTLE_S or not settled > began:
            settled, counted = now, 0
        else:
            counted += len(piece.data)
    return counted / (now - settled) if now > settled else 0.0
