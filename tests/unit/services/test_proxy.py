"""What the port of `dtfctl connect` passes on of a call besides its request, and of the end of a client."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from dtfctl.runtime.services.calls import Call, Unary
from dtfctl.runtime.services.grpc_tools import listen_tcp, new_server
from dtfctl.runtime.services.proxy import MasterProxy
from tests.support.waiting import wait_until

RESET = "/tensorflow.MasterService/Reset"


class Master:
    """A master that notes what clients say besides their requests."""

    def __init__(self) -> None:
        self.told: list[dict[str, str | bytes]] = []
        self.left: list[str] = []

    def find(self, method: str) -> Unary:
        def answer(request: bytes, call: Call) -> bytes:
            peer = call.peer()
            self.told.append({**dict(call.metadata), "peer": peer})
            assert call.on_left(lambda: self.left.append(peer))
            return request[::-1]

        return Unary(answer)


@pytest.fixture
def master() -> Iterator[tuple[Master, str]]:
    """The master, and where it listens."""
    found = Master()
    server = new_server(found.find)
    port = listen_tcp(server, "127.0.0.1:0", None)
    server.start()
    yield found, f"127.0.0.1:{port}"
    server.stop(0).wait(60.0)


def test_the_master_hears_whose_state_it_is_about_and_nothing_else(master: tuple[Master, str]) -> None:
    behind, address = master
    proxy = MasterProxy(address, None)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{proxy.start()}") as channel:
            reset = channel.unary_unary(RESET)
            assert reset(b"123", timeout=60.0, metadata=(("dtf-job", "job=train-1"), ("secret", "x"))) == b"321"
            assert reset(b"4", timeout=60.0) == b"4"
    finally:
        proxy.stop()
    first, second = behind.told
    assert first["dtf-job"] == "job=train-1" and "secret" not in first
    assert "dtf-job" not in second


def test_the_master_hears_which_client_is_gone(master: tuple[Master, str]) -> None:
    """Two of one process, with nothing called when the first one goes."""
    behind, address = master
    proxy = MasterProxy(address, None)
    target = f"127.0.0.1:{proxy.start()}"
    own = (("grpc.use_local_subchannel_pool", 1),)
    try:
        with grpc.insecure_channel(target, own) as staying:
            with grpc.insecure_channel(target, own) as going:
                for channel in (staying, going):
                    assert channel.unary_unary(RESET)(b"12", timeout=60.0) == b"21"
            stays, goes = (told["peer"] for told in behind.told)
            assert stays != goes
            wait_until(lambda: behind.left == [goes], "the master heard of it")
            assert staying.unary_unary(RESET)(b"12", timeout=60.0) == b"21"
            assert behind.told[-1]["peer"] == stays and behind.left == [goes]
    finally:
        proxy.stop()
