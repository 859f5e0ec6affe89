"""A switch in user space for links that are slow and long: for kernels that have no netem.

    python -m tests.lab.wire BITS_S DELAY_S BRIDGE DEVICE...

Lines on its standard input, `FROM,... TO,... BITS_S`, make the ways from some devices to others a cable of their own,
which all of them share.

Every frame that comes from a device goes to the one its address belongs to, or to all of them, after the time that its
bytes take at the rate and the delay of one way. Each device has the rate for what leaves it and for what reaches it, as
a cable has. What a device would have to hold for longer than `MOST_S` is dropped, so TCP finds the rate as it does
elsewhere. Long frames cross whole, with the kernel's note of how to cut them (virtio_net_hdr): a Gbit/s is 2,000 frames
a second. The bridge is reached through a tap device, which is there as long as this program is.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tests.lab.netns import Lab

MOST_S = 0.5
_READ = 1 << 17
_AT_ONCE = 32
_BUFFER = 1 << 24
# linux/if_packet.h, linux/if_tun.h: none of these is in Python's modules.
_SOL_PACKET, _VNET_HDR, _IGNORE_OUTGOING, _ALL = 263, 15, 23, 3
_TUNSETIFF, _TUNSETOFFLOAD, _TAP, _NO_INFO, _TAP_VNET_HDR = 0x400454CA, 0x400454D0, 0x2, 0x1000, 0x4000
_OFFLOADS = 0x1 | 0x2 | 0x4
_VNET = 10
# Of an Ethernet frame over a real cable: what TCP carries in it, and what it takes beside that.
_SEGMENT, _AROUND = 1448, 90


class Port:
    """One device.

    Attributes:
        leaves_at, reaches_at: until when what goes either way keeps its cable busy.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.leaves_at = self.reaches_at = 0.0

    def read(self) -> bytes:
        return os.read(self.fd, _READ)

    def write(self, frame: bytes) -> None:
        # What a device cannot take is lost, as elsewhere.
        with contextlib.suppress(OSError):
            os.write(self.fd, frame)


def device(name: str) -> Port:
    """Open an existing device."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    sock.setsockopt(_SOL_PACKET, _VNET_HDR, 1)
    sock.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    for option in (32, 33):  # SO_SNDBUFFORCE, SO_RCVBUFFORCE
        sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    sock.bind((name, _ALL))
    return Port(sock.detach())


def tap(name: str) -> Port:
    """Make a tap device."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH14x", name.encode(), _TAP | _NO_INFO | _TAP_VNET_HDR))
    fcntl.ioctl(fd, _TUNSETOFFLOAD, _OFFLOADS)
    return Port(fd)


class Way:
    """A cable that some ports share on the way to others.

    Attributes:
        busy_until: when what it carries now will have passed.
    """

    def __init__(self, bytes_s: float) -> None:
        self.bytes_s = bytes_s
        self.busy_until = 0.0


class Switch:
    """Carries frames between ports.

    Args:
        bytes_s: of each port, each way.
        delay_s: from one port to another.
    """

    def __init__(self, ports: Sequence[Port], bytes_s: float, delay_s: float) -> None:
        self._ports = {port.fd: port for port in ports}
        self._bytes_s = bytes_s
        self._delay_s = delay_s
        self._at: dict[bytes, Port] = {}
        # When, in which order, from whom while it is on its way and then to whom, and the frame.
        self._coming: list[tuple[float, int, Port, bytes]] = []
        self._going: list[tuple[float, int, Port, bytes]] = []
        self._numbers = count()
        self._ways: dict[tuple[int, int], Way] = {}

    def share(self, sources: Sequence[Port], targets: Sequence[Port], bytes_s: float) -> None:
        """Have all that goes from some ports to others share a cable."""
        way = Way(bytes_s)
        self._ways |= {(source.fd, target.fd): way for source in sources for target in targets}

    def serve(self, told: int, hear: Callable[[str], None]) -> None:
        """Carry frames for ever.

        Args:
            told: a file of lines for `hear`.
        """
        ears = [told]
        poll = select.poll()
        for fd in self._ports:
            poll.register(fd, select.POLLIN)
        while True:
            due = min((queue[0][0] for queue in (self._coming, self._going) if queue), default=None)
            # poll counts milliseconds.
            wait = None if due is None else max(due - time.monotonic(), 0.0)
            able, _, _ = select.select([*self._ports, *ears], [], [], wait)
            if told in able:
                said = os.read(told, _READ).decode()
                ears = ears if said else []
                for line in said.splitlines():
                    hear(line)
            for fd, _ in poll.poll(0):
                self._take(self._ports[fd])
            self._move(time.monotonic())

    def _took_s(self, frame: bytes, bytes_s: float = 0.0) -> float:
        size = len(frame) - _VNET
        return (size + (size // _SEGMENT) * _AROUND) / (bytes_s or self._bytes_s)

    def _take(self, port: Port) -> None:
        for _ in range(_AT_ONCE):
            try:
                frame = port.read()
            except BlockingIOError:
                return
            now = time.monotonic()
            self._at[frame[_VNET + 6 : _VNET + 12]] = port
            if port.leaves_at - now > MOST_S:
                continue
            port.leaves_at = max(port.leaves_at, now) + self._took_s(frame)
            heapq.heappush(self._coming, (port.leaves_at + self._delay_s, next(self._numbers), port, frame))

    def _move(self, now: float) -> None:
        while self._coming and self._coming[0][0] <= now:
            arrived, _, source, frame = heapq.heappop(self._coming)
            known = self._at.get(frame[_VNET : _VNET + 6])
            for port in [known] if known is not None else self._ports.values():
                if port is source or port.reaches_at - now > MOST_S:
                    continue
                # Its first byte came as much earlier as it takes.
                took, through = self._took_s(frame), arrived
                way = self._ways.get((source.fd, port.fd))
                if way is not None:
                    if way.busy_until - now > MOST_S:
                        continue
                    on_way = self._took_s(frame, way.bytes_s)
                    through = way.busy_until = max(way.busy_until, arrived) + on_way
                    heapq.heappush(self._going, (through, next(self._numbers), port, frame))
                    continue
                port.reaches_at = max(port.reaches_at, through - took) + took
                heapq.heappush(self._going, (port.reaches_at, next(self._numbers), port, frame))
        while self._going and self._going[0][0] <= now:
            _, _, port, frame = heapq.heappop(self._going)
            port.write(frame)


Share: TypeAlias = Callable[[Sequence[str], Sequence[str], float], None]


@contextlib.contextmanager
def long_links(lab: Lab, bits_s: float, delay_s: float) -> Iterator[Share]:
    """Have all that leaves the hosts of a lab go through a switch of that rate and delay; connections stay.

    What it gives has the ways from some hosts to others share a cable of so many bits a second.
    """
    devices = [f"v{name}" for name in lab.names]
    command = [str(bits_s), str(delay_s), f"{lab.prefix}tap0", *devices]
    for device_name in devices:
        # Without: the kernel of this machine would answer for its own addresses beside the bridge.
        Path(f"/proc/sys/net/ipv4/conf/{device_name}/arp_ignore").write_text("8")
    program = [sys.executable, str(Path(__file__).resolve()), *command]
    switch = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def share(sources: Sequence[str], targets: Sequence[str], bits_s: float) -> None:
        assert switch.stdin is not None
        ends = (",".join(f"v{name}" for name in names) for names in (sources, targets))
        switch.stdin.write(f"{' '.join(ends)} {bits_s}\n".encode())
        switch.stdin.flush()

    try:
        assert switch.stdout is not None
        if switch.stdout.readline() != b"ready\n":
            raise RuntimeError("the switch between the hosts did not start")
        for device_name in devices:
            _ip("link", "set", device_name, "nomaster")
        _ip("link", "set", f"{lab.prefix}tap0", "master", lab.bridge, "up")
        yield share
    finally:
        switch.kill()
        switch.wait()
        for device_name in devices:
            _ip("link", "set", device_name, "master", lab.bridge)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def main() -> None:
    bits_s, delay_s, name, *devices = sys.argv[1:]
    ports = dict(zip([name, *devices], [tap(name), *map(device, devices)]))
    switch = Switch(list(ports.values()), float(bits_s) / 8, float(delay_s))

    def hear(line: str) -> None:
        sources, targets, rate = line.split()
        starts, ends = ([ports[name] for name in names.split(",")] for names in (sources, targets))
        switch.share(starts, ends, float(rate) / 8)

    # A network does not wait for a core.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    print("ready", flush=True)
    switch.serve(sys.stdin.fileno(), hear)


if __name__ == "__main__":
    main()
