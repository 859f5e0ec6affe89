"""What a plain socket does over a link: `raw_link.py serve ADDRESS` at one end, `ADDRESS PORT` at the other."""

from __future__ import annotations

import json
import os
import socket
import sys
import time

BLOCK = 1 << 25
LONGEST_S = 8.0


def serve(address: str) -> None:
    with socket.create_server((address, 0)) as door:
        print(json.dumps({"port": door.getsockname()[1]}), flush=True)
        sock = door.accept()[0]
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        data = sock.recv(1)
        if data != b"x":
            break
        sock.sendall(b"x")
    buffer = memoryview(bytearray(BLOCK))
    while data:
        got = 0
        while got < BLOCK:
            count = sock.recv_into(buffer[got:])
            if not count:
                return
            got += count
        sock.sendall(b"y")


def measure(address: str, port: int) -> dict[str, float]:
    """Smallest round trip of a byte, and bytes a second one way."""
    sock = socket.create_connection((address, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    trips: list[float] = []
    until = time.perf_counter() + 0.5
    while time.perf_counter() < until or len(trips) < 20:
        begin = time.perf_counter()
        sock.sendall(b"x")
        sock.recv(1)
        trips.append(time.perf_counter() - begin)
    sock.sendall(b"y")
    block = bytearray(os.urandom(1 << 16) * (BLOCK >> 16))
    times: list[float] = []
    until = time.perf_counter() + LONGEST_S
    while len(times) < 8 and (not times or time.perf_counter() + times[-1] < until):
        begin = time.perf_counter()
        sock.sendall(block)
        sock.recv(1)
        times.append(time.perf_counter() - begin)
    return {"round_trip_s": min(trips), "bytes_s": BLOCK / min(times)}


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))), flush=True)
        sys.stdin.read()
