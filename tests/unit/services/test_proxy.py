"""What the port of `dtfctl connect` passes on of a call besides its request."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from dtfctl.runtime.services.proxy import MasterProxy

RESET = "/tensorflow.MasterService/Reset"


class Master:
    """A master that notes what clients say besides their requests."""

    def __init__(self) -> None:
        self.told: list[dict[str, str | bytes]] = []

    def service(self, details: Any) -> Any:
        def answer(request: bytes, call: Any) -> bytes:
            self.told.append(dict(call.invocation_metadata()))
            return request[::-1]

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def master() -> Iterator[tuple[Master, str]]:
    """The master, and where it listens."""
    found, server = Master(), grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((found,))  # type: ignore[arg-type]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found, f"127.0.0.1:{port}"
    server.stop(None)


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
