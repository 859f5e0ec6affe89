"""What a socket carries, measured by what passes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from dtfctl.runtime.rendezvous.frames import FrameWriter, Kind, Message
from dtfctl.runtime.rendezvous.transports.grpc_stream import Outbox
from dtfctl.runtime.rendezvous.transports.lanes import Lanes
from dtfctl.runtime.rendezvous.transports.meter import Meter, kernels_rate

MB = 1 << 20


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


def test_a_transfer_is_timed_from_the_first_time_the_socket_is_full(sock: socket.socket) -> None:
    meter = Meter()
    meter.wrote(3 * MB)  # into buffers that were empty
    meter.full(10.0)
    for _ in range(8):
        meter.wrote(MB)
        meter.full(10.25)
    meter.ended(10.5, sock)
    assert (meter.samples, meter.bytes_s, meter.timed_at) == (1, 16 * MB, 10.5)


def test_a_long_transfer_says_something_each_second(sock: socket.socket) -> None:
    meter = Meter()
    meter.full(1.0)
    for n in range(1, 41):
        meter.wrote(MB)
        meter.full(1.0 + n / 10)
    assert 3 <= meter.samples <= 4
    assert meter.bytes_s == pytest.approx(10 * MB, rel=0.01)


def test_the_newest_transfers_count(sock: socket.socket) -> None:
    meter = Meter()
    for rate in (100, 10):
        for n in range(9):
            meter.full(n * 10.0)
            meter.wrote(4 * MB)
            meter.ended(n * 10.0 + 4 / rate, sock)
        assert meter.bytes_s == pytest.approx(rate * MB)


def test_what_fits_into_the_buffers_says_nothing_by_its_time(sock: socket.socket) -> None:
    meter = Meter()
    meter.full(1.0)
    meter.wrote(MB)
    meter.ended(1.0, sock)
    meter.wrote(100)
    meter.ended(2.0, sock)
    # The socket is not connected: the kernel knows nothing either.
    assert (meter.samples, meter.bytes_s) == (0, 0.0)


def test_the_kernel_says_what_was_acknowledged() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as here:
        there = door.accept()[0]

        def drain() -> None:
            while there.recv(MB):
                pass

        reader = threading.Thread(target=drain)
        reader.start()
        here.sendall(bytes(64 * MB))
        here.shutdown(socket.SHUT_WR)
        reader.join()
        there.close()
        # 1 MB/s to 1 TB/s: what is read is a rate, and not another field.
        assert kernels_rate(here) == 0 or 1e6 < kernels_rate(here) < 1e12


def test_a_socket_that_is_no_tcp_connection_says_nothing() -> None:
    a, b = socket.socketpair()
    with a, b:
        assert kernels_rate(a) == 0


def test_a_stream_of_grpc_is_timed_once_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("dtfctl.runtime.rendezvous.transports.grpc_stream.time", SimpleNamespace(monotonic=lambda: now))
    meter = Meter()
    outbox = Outbox(Lanes(FrameWriter(1, 2), lambda: FrameWriter(1, 2)), meter)
    outbox.put([Message(Kind.TENSOR, 1, "k;0:0", np.zeros(size, np.uint8)) for size in (20 * MB, 4 * MB)])
    chunks = outbox.chunks()
    sent = 0
    while sent < 24 * MB:
        sent += len(next(chunks))
        # The first ones go where there is room; the network takes 10 MB a second.
        now += 0.05 if sent > 4 * MB else 0.0
    outbox.end()
    assert list(chunks) == []
    assert meter.samples >= 1
    assert meter.bytes_s == pytest.approx(10 * MB, rel=0.01)


def test_small_frames_over_grpc_say_nothing() -> None:
    meter = Meter()
    outbox = Outbox(Lanes(FrameWriter(1, 2), lambda: FrameWriter(1, 2)), meter)
    chunks = outbox.chunks()
    for _ in range(100):
        outbox.put([Message(Kind.TENSOR, 1, "k;0:0", np.zeros(1000, np.uint8))])
        assert next(chunks)
    assert (meter.samples, meter.bytes_s) == (0, 0.0)
