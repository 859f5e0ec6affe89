"""The gate before a server: what one connection raises ends that one alone."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from dtfctl.net import gate as gates
from dtfctl.net.gate import Gate, Inside
from dtfctl.net.listener import listen_tcp

WAIT_S = 60.0


@pytest.fixture
def port() -> Iterator[int]:
    """Of a gate before a server that says everything back."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    inside = Inside()
    with inside:
        server.bind(inside.path)
        server.listen()

    def echo(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(100):
                connection.sendall(data)

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    doors = listen_tcp("127.0.0.1", 0)
    number = doors[0].getsockname()[1]
    gate = Gate(doors, inside, name="test", owners_only=False)
    gate.start()
    yield number
    gate.close()
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def say(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(100)


def test_what_one_connection_raises_ends_that_one_alone(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Gate._read

    def fail(gate: Gate, end: gates._End) -> None:
        if end.connection.family == socket.AF_INET and end.connection.recv(3, socket.MSG_PEEK) == b"bug":
            raise RuntimeError("a bug")
        read(gate, end)

    monkeypatch.setattr(Gate, "_read", fail)
    with (
        socket.create_connection(("127.0.0.1", port), WAIT_S) as good,
        socket.create_connection(("127.0.0.1", port), WAIT_S) as bad,
    ):
        assert say(good, b"one") == b"one"
        with contextlib.suppress(ConnectionResetError):  # what it had said was not read
            assert say(bad, b"bug") == b""
        assert say(good, b"two") == b"two"
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as later:
            assert say(later, b"three") == b"three"
