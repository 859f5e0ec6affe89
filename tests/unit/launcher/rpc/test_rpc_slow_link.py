"""Calls over a link on which connecting takes longer than the pauses between attempts."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.identity.certificates import TlsFiles, ensure_authority, ensure_certificate
from dtfctl.launcher.messages.agent import ProbeReply, ProbeRequest
from dtfctl.launcher.messages.agent_calls import PROBE
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.rpc.server import serve

DELAY_S = 0.7
"""Of the first byte; a TLS handshake cannot be done sooner."""
WAIT_S = 60.0


@contextlib.contextmanager
def slow_relay(port: int) -> Iterator[int]:
    """A port that leads to `port`, and thinks before it does."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(DELAY_S)
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pipe(reader, inner_writer), pipe(inner_reader, writer))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(relay, "127.0.0.1", 0), loop).result(WAIT_S)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    ensure_authority(tmp_path, "t")
    ensure_certificate(tmp_path, "t", "agent")
    ensure_certificate(tmp_path, "t", "controller")
    return tmp_path


def test_a_slow_handshake_is_waited_for(certificates: Path) -> None:
    server = serve({PROBE: lambda _: ProbeReply(problem="none")}, TlsFiles.of(certificates, "agent"))
    try:
        with slow_relay(server.port) as slow:
            channel = Channel(f"127.0.0.1:{slow}", TlsFiles.of(certificates, "controller"), "agent", "t")
            try:
                assert channel.call(PROBE, ProbeRequest(), timeout_s=WAIT_S).problem == "none"
            finally:
                channel.close()
    finally:
        server.stop(0)
