"""A door under strangers: how many may wait, for how long, and that others come in meanwhile."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from dtfctl.net import listener as listeners
from dtfctl.net.admission import Limits
from dtfctl.net.listener import Guest, Listener, TurnedOut, listen_tcp
from tests.support.strangers import PYTHON, SETPRIV, as_nobody, needs_second_user
from tests.support.waiting import eventually

WAIT_S = 60.0
SMALL = Limits(strangers=8, per_source=8, within_s=60.0)


class Doorman:
    """Lets in who says `let me in`, and then echoes."""

    def __init__(self) -> None:
        self.gone = threading.Semaphore(0)
        self.guests: list[Guest] = []

    def meet(self, guest: Guest) -> None:
        self.guests.append(guest)
        try:
            guest.socket.settimeout(WAIT_S)
            said = b""
            while not said.endswith(b"let me in"):
                part = guest.socket.recv(1)
                if not part:
                    return
                said += part
            guest.admit()
            while data := guest.socket.recv(100):
                guest.socket.sendall(data)
        except OSError:
            return
        finally:
            guest.close()
            self.gone.release()


Open = Callable[..., tuple[Doorman, Listener, int]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    with contextlib.ExitStack() as stack:

        def open_door(limits: Limits = SMALL, **options: bool) -> tuple[Doorman, Listener, int]:
            monkeypatch.setattr(Limits, "of_process", lambda: limits)
            doorman = Doorman()
            doors = listen_tcp("127.0.0.1", 0)
            listener = Listener(doors, doorman.meet, name="test", **options)
            port = doors[0].getsockname()[1]
            listener.start()
            stack.callback(listener.close)
            return doorman, listener, port

        yield open_door


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), WAIT_S)


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        client.settimeout(WAIT_S)


def is_served(client: socket.socket) -> bool:
    client.sendall(b"hello")
    return client.recv(100) == b"hello"


def test_the_oldest_goes_when_it_is_full(opened: Open) -> None:
    _, listener, port = opened()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(20)]
        eventually(lambda: all(is_closed(client) for client in clients[:12]))
        eventually(lambda: listener.strangers == 8)
        assert not any(is_closed(client) for client in clients[12:])


def test_who_has_been_let_in_stays(opened: Open) -> None:
    _, listener, port = opened(Limits(8, 8, 0.3))
    with contextlib.ExitStack() as stack:
        friend = stack.enter_context(connect(port))
        friend.sendall(b"let me in")
        assert is_served(friend)
        strangers = [stack.enter_context(connect(port)) for _ in range(40)]
        assert is_served(friend)
        eventually(lambda: all(is_closed(client) for client in strangers))
        assert is_served(friend) and listener.strangers == 0


def test_time_is_over_however_slowly_somebody_speaks(opened: Open) -> None:
    _, _, port = opened(Limits(8, 8, 0.5))
    with connect(port) as client, contextlib.suppress(ConnectionError):
        ends = time.monotonic() + WAIT_S
        while not is_closed(client):
            client.sendall(b"l")  # never more than a letter
            time.sleep(0.05)
            assert time.monotonic() < ends


def test_others_come_in_while_strangers_pour_in(opened: Open) -> None:
    _, _, port = opened(Limits(16, 16, 5.0))
    stop = threading.Event()

    def pour() -> None:
        held: list[socket.socket] = []
        while not stop.wait(0.005):
            with contextlib.suppress(OSError):
                held.append(connect(port))
            for old in held[:-50]:
                old.close()
            del held[:-50]
        for old in held:
            old.close()

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        for _ in range(20):
            with connect(port) as friend:
                friend.sendall(b"let me in")
                assert is_served(friend)
    finally:
        stop.set()
        thread.join()


def test_threads_and_descriptors_go_with_the_strangers(opened: Open) -> None:
    doorman, listener, port = opened()
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connect(port))
        eventually(lambda: len(doorman.guests) == 100)
    for _ in range(100):
        assert doorman.gone.acquire(timeout=WAIT_S)
    eventually(lambda: listener.strangers == 0)
    assert all(guest.socket.fileno() == -1 for guest in doorman.guests)


def test_closing_sends_strangers_away_and_keeps_the_others(opened: Open) -> None:
    _, listener, port = opened()
    with connect(port) as friend, connect(port) as stranger:
        friend.sendall(b"let me in")
        assert is_served(friend)
        eventually(lambda: listener.strangers == 1)
        listener.close()
        eventually(lambda: is_closed(stranger))
        assert is_served(friend)
        with pytest.raises(ConnectionRefusedError):
            connect(port)


def test_one_who_was_turned_out_cannot_be_let_in(opened: Open) -> None:
    _, listener, port = opened()
    with connect(port):
        eventually(lambda: listener.strangers == 1)
        guest = listener._admission.oldest()
        assert guest is not None
        guest.turn_out()
        with pytest.raises(TurnedOut):
            guest.admit()


WITHOUT_DESCRIPTORS = """
import os, resource, socket, sys, time
sys.path[:0] = {path!r}
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from dtfctl.net.listener import Listener, listen_tcp
def meet(guest):
    said = guest.socket.recv(100)
    if said:
        guest.admit()
        guest.socket.sendall(said)
    guest.close()
doors = listen_tcp("127.0.0.1", 0)
Listener(doors, meet, name="door").start()
taken = [os.open("/dev/null", os.O_RDONLY) for _ in range({taken})]
print(doors[0].getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_when_no_descriptor_is_left_the_oldest_stranger_goes() -> None:
    """What the process holds besides leaves less than strangers may have."""
    program = WITHOUT_DESCRIPTORS.format(path=[item for item in sys.path if item], taken=40)
    words = [sys.executable, "-c", program]
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        contextlib.ExitStack() as stack,
    ):
        assert process.stdout is not None
        port = int(process.stdout.readline())
        strangers = [stack.enter_context(connect(port)) for _ in range(30)]
        friend = stack.enter_context(connect(port))
        friend.sendall(b"hello")
        assert friend.recv(100) == b"hello"
        assert is_closed(strangers[0])
        process.communicate()


CONNECTS = """
import socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print("connected", flush=True)
sys.stdin.read()
"""


@needs_second_user
def test_one_source_does_not_take_the_places_of_others(opened: Open) -> None:
    _, listener, port = opened(Limits(16, 4, 60.0))
    with contextlib.ExitStack() as stack:
        mine = [stack.enter_context(connect(port)) for _ in range(10)]
        eventually(lambda: listener.strangers == 10)
        words = [*SETPRIV, *PYTHON, "-c", CONNECTS, str(port), "50"]
        theirs = stack.enter_context(
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
        )
        assert theirs.stdout is not None and theirs.stdout.readline() == "connected\n"
        eventually(lambda: listener.strangers == 14)
        assert not any(is_closed(client) for client in mine)
        theirs.communicate()


SAYS = """
import socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
try:
    client.sendall(b"let me in")
    client.sendall(b"hello")
    print(client.recv(100))
except ConnectionError:
    print(b"")
"""


@needs_second_user
def test_a_door_for_this_user_alone(opened: Open) -> None:
    doorman, _, port = opened(owners_only=True)
    assert as_nobody(SAYS, str(port)).stdout == "b''\n"
    assert not doorman.guests, "nothing of it was looked at"
    with connect(port) as friend:
        friend.sendall(b"let me in")
        assert is_served(friend)
    _, _, port = opened()
    assert as_nobody(SAYS, str(port)).stdout == "b'hello'\n"


def test_how_many_is_a_share_of_what_the_process_may_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        assert (Limits.of_process().strangers, Limits.of_process().per_source) == (64, 16)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_listening_at_every_address_of_a_name() -> None:
    doors = listen_tcp("localhost", 0)
    try:
        assert len({door.getsockname()[1] for door in doors}) == 1
        with pytest.raises(OSError, match=f"localhost:{doors[0].getsockname()[1]}"):
            listen_tcp("localhost", doors[0].getsockname()[1])
    finally:
        for door in doors:
            door.close()
    with pytest.raises(OSError, match=r"no\.such\.host\.invalid:0"):
        listeners.listen_tcp("no.such.host.invalid", 0)


def test_a_door_outlives_what_its_loop_raises(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    raised = threading.Event()
    whose = listeners.owner_of

    def owner_of(connection: socket.socket) -> int | None:
        if not raised.is_set():
            raised.set()
            raise RuntimeError("a bug")
        return whose(connection)

    monkeypatch.setattr(listeners, "owner_of", owner_of)
    _, _, port = opened()
    with socket.create_connection(("127.0.0.1", port), WAIT_S):
        assert raised.wait(WAIT_S)
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as other:
            other.sendall(b"let me in")
            other.sendall(b"hello")
            assert other.recv(5) == b"hello"
