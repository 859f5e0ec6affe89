"""What this machine allows, measured in the same run: the floor under every figure of the table."""

from __future__ import annotations

import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_BLOCK = 1 << 26


@dataclass(frozen=True)
class Limits:
    """Physical figures.

    Attributes:
        tcp_round_trip_s, unix_round_trip_s: a byte there and back between two processes over a raw socket.
        tcp_bytes_s: one way over a loopback socket, 64 MiB reused buffers.
        memcpy_bytes_s: one core, 64 MiB.
        gemm_flops: float32 1024^3 by numpy, all cores.
        disk_bytes_s: written in pieces and synchronised, to where temporary files are.
        fork_s: a process made and waited for.
    """

    tcp_round_trip_s: float
    unix_round_trip_s: float
    tcp_bytes_s: float
    memcpy_bytes_s: float
    gemm_flops: float
    disk_bytes_s: float
    fork_s: float


def measure(quick: bool = False) -> Limits:
    """Takes some seconds, half of it the disk."""
    return Limits(
        tcp_round_trip_s=_round_trip(_tcp_pair),
        unix_round_trip_s=_round_trip(lambda: socket.socketpair()),
        tcp_bytes_s=_one_way(_tcp_pair),
        memcpy_bytes_s=_memcpy(),
        gemm_flops=_gemm(),
        disk_bytes_s=_disk(1 << (26 if quick else 28)),
        fork_s=_fork(),
    )


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        a = socket.create_connection(listener.getsockname())
        b, _ = listener.accept()
    for s in (a, b):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return a, b


def _round_trip(make: Callable[[], tuple[socket.socket, socket.socket]]) -> float:
    here, there = make()
    child = os.fork()
    if child == 0:
        here.close()
        while data := there.recv(64):
            there.sendall(data)
        os._exit(0)
    there.close()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(1000):
            here.sendall(b"x")
            here.recv(64)
        times.append((time.perf_counter() - begin) / 1000)
    here.close()
    os.waitpid(child, 0)
    return min(times)


def _one_way(make: Callable[[], tuple[socket.socket, socket.socket]]) -> float:
    here, there = make()
    child = os.fork()
    if child == 0:
        here.close()
        buffer = memoryview(bytearray(_BLOCK))
        got = 0
        while count := there.recv_into(buffer[got:]):
            got += count
            if got == _BLOCK:
                got = 0
                there.sendall(b"x")
        os._exit(0)
    there.close()
    block = np.ones(_BLOCK // 4, "f4")
    times = []
    for _ in range(8):
        begin = time.perf_counter()
        here.sendall(block.data)
        here.recv(1)
        times.append(time.perf_counter() - begin)
    here.close()
    os.waitpid(child, 0)
    return _BLOCK / min(times)


def _best(count: int, call: Callable[[], object]) -> float:
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def _memcpy() -> float:
    source, sink = np.ones(_BLOCK // 4, "f4"), np.zeros(_BLOCK // 4, "f4")
    return _BLOCK / _best(8, lambda: np.copyto(sink, source))


def _gemm() -> float:
    a = np.ones((1024, 1024), "f4")
    out = np.empty_like(a)
    return 2 * 1024**3 / _best(8, lambda: np.matmul(a, a, out=out))


def _disk(size: int) -> float:
    piece = os.urandom(1 << 24)
    with tempfile.TemporaryFile() as file:
        begin = time.perf_counter()
        for _ in range(size // len(piece)):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        return size / (time.perf_counter() - begin)


def _fork() -> float:
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
