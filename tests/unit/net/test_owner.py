"""Whose process is at the other end of a connection: exactly that one's, or nobody's."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
from collections.abc import Iterator

import pytest

from dtfctl.net import owner
from dtfctl.net.owner import is_local, is_mine, owner_of
from tests.support.strangers import NOBODY, PYTHON, SETPRIV, needs_second_user
from tests.support.waiting import eventually

HOSTS = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


@pytest.fixture(params=["kernel", "tables"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to find out have to say the same."""
    if request.param == "tables":
        monkeypatch.setattr(owner, "_ask_kernel", lambda *_: None)
    else:
        monkeypatch.setattr(owner, "_look_in_tables", lambda *_: None)
    return str(request.param)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.mark.parametrize("host", HOSTS)
def test_a_connection_of_this_process_is_this_users(way: str, host: str) -> None:
    with (
        socket.create_server((host.removeprefix("::ffff:"), 0), family=family_of(host.removeprefix("::ffff:"))) as door,
        socket.socket(family_of(host)) as client,
    ):
        client.connect((host, door.getsockname()[1]))
        accepted, _ = door.accept()
        with accepted:
            assert owner_of(accepted) == os.geteuid() and is_local(accepted)


def test_the_end_of_a_door_for_both_families(way: str) -> None:
    with (
        socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as door,
        socket.create_connection(("127.0.0.1", door.getsockname()[1])),
    ):
        accepted, _ = door.accept()
        with accepted:
            assert owner_of(accepted) == os.geteuid() and is_local(accepted)


def test_a_unix_socket() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert owner_of(one) == os.getuid() and is_local(one)


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_one_that_is_closed_is_nobodys(way: str, how: str, listener: socket.socket) -> None:
    client = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    with accepted:
        eventually(lambda: owner_of(accepted) is None)


def test_nobody_is_looked_for_who_has_hung_up(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands may do so at once, and whoever comes after them waits for as many looks into the kernel's tables."""
    looks = []
    monkeypatch.setattr(owner, "_ask_kernel", lambda *_: looks.append("kernel"))
    monkeypatch.setattr(owner, "_look_in_tables", lambda *_: looks.append("tables"))
    client = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    client.close()
    with accepted:
        assert accepted.recv(1) == b"" and owner_of(accepted) is None
    assert looks == []


def test_one_after_it_with_the_same_ends_is_not_taken_for_it(way: str, listener: socket.socket) -> None:
    """A stranger asks something, resets his connection, and somebody who may come in gets the same port."""
    with after_a_reset(listener) as (of_first, of_second):
        assert owner_of(of_first) is None
        assert owner_of(of_second) == os.geteuid()


@contextlib.contextmanager
def after_a_reset(listener: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    """What a listener has accepted of a client that reset its connection, and of one after it from the same port."""
    for _ in range(50):
        first = socket.create_connection(listener.getsockname())
        port = first.getsockname()[1]
        first.sendall(b"a request")
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        first.close()
        of_first, _ = listener.accept()
        with of_first, socket.socket() as second:
            second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                second.bind(("127.0.0.1", port))
            except OSError:
                # Somebody else of this machine was given the port meanwhile.
                continue
            second.connect(listener.getsockname())
            of_second, _ = listener.accept()
            with of_second:
                yield of_first, of_second
                return
    raise AssertionError("no port was free twice")


def test_who_listens_is_not_who_connected(way: str, listener: socket.socket) -> None:
    """Asked for a connection that is not there, the kernel names who listens at its port."""
    for _ in range(50):
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        port = client.getsockname()[1]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        # It fails where somebody else of this machine was given the port meanwhile.
        with accepted, contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            assert owner_of(accepted) is None
            return
    raise AssertionError("no port was free twice")


def test_who_may_do_what_this_process_may() -> None:
    assert is_mine(os.geteuid()) and is_mine(0)
    assert not is_mine(None) and not is_mine(os.geteuid() + 1)


CONNECT = """
import socket, struct, sys
client = socket.socket()
client.setsockopt(socket.IPPROTO_IP, 51, struct.pack("I", int(sys.argv[2]) << 16 | int(sys.argv[2])))
client.connect(("127.0.0.1", int(sys.argv[1])))
assert client.getsockname()[1] == int(sys.argv[2])
print("connected", flush=True)
sys.stdin.read()
"""


@needs_second_user
def test_several_sockets_at_one_local_port_are_told_apart(way: str, listener: socket.socket) -> None:
    """One local port, two destinations, two users: whichever stands first in a table of the kernel's."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere, socket.create_connection(elsewhere.getsockname()) as mine:
        port = mine.getsockname()[1]
        words = [*SETPRIV, *PYTHON, "-c", CONNECT, str(listener.getsockname()[1]), str(port)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as theirs:
            assert theirs.stdout is not None
            if theirs.stdout.readline() != "connected\n":
                pytest.skip("left out: this kernel cannot choose the port of a connection (Linux before 6.3)")
            accepted, _ = listener.accept()
            others, _ = elsewhere.accept()
            with accepted, others:
                assert accepted.getpeername() == others.getpeername()
                assert owner_of(accepted) == NOBODY
                assert owner_of(others) == os.geteuid()
            theirs.communicate()
