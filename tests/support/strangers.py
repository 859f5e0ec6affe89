"""Programs of another user of this machine: what they try at a port that is not theirs."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys

import pytest

NOBODY = 65534
needs_second_user = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="left out: another user of the same host needs root and setpriv",
)
SETPRIV = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs")
PYTHON = (shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin") or sys.executable, "-I", "-S")
"""An interpreter that has no file of this user: others must be able to try."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""How a client of gRPC begins; a server answers it."""


def as_nobody(program: str, *words: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run a Python program that needs the standard library only, as another user than this one."""
    return subprocess.run(
        [*SETPRIV, *PYTHON, "-c", program, *words],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=timeout,
        check=False,
    )


def answer_at_shared_port(target: int) -> str:
    """What another user hears at a port of this machine, from a local port that this user's process has too."""
    for _ in range(5):
        with (
            socket.create_server(("127.0.0.1", 0)) as elsewhere,
            socket.create_connection(elsewhere.getsockname()) as mine,
        ):
            done = as_nobody(SHARED_PORT, str(target), str(mine.getsockname()[1]), PREFACE.hex())
        # Somebody else has bound that port, so that it cannot be shared: another one, then.
        if os.strerror(errno.EADDRNOTAVAIL) not in done.stderr:
            break
    if "no such option" in done.stdout:
        pytest.skip("left out: this kernel cannot choose the port of a connection (Linux before 6.3)")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def own_answer(target: int) -> bytes:
    """What this user's own process hears there."""
    with socket.create_connection(("127.0.0.1", target), 60.0) as client:
        client.sendall(PREFACE)
        return client.recv(4096)


SHARED_PORT = """
import socket, struct, sys
# The local port that another user's connection to somewhere else has as well: one port, two destinations.
target, shared, hello = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
client = socket.socket()
client.settimeout(60)
try:
    client.setsockopt(socket.IPPROTO_IP, 51, struct.pack("I", shared << 16 | shared))  # IP_LOCAL_PORT_RANGE
except OSError:
    print("no such option")
    sys.exit()
try:
    client.connect(("127.0.0.1", target))
    assert client.getsockname()[1] == shared
    client.sendall(hello)
    print(client.recv(4096).hex() or "closed")
except ConnectionError:
    print("closed")
"""
"""Says in hexadecimal what a server answered, or `closed`."""
