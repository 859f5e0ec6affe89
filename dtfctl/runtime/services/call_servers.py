"""Which server serves calls: ours on gRPC's core if that works with the grpcio that is installed, else grpcio's own.

It is found out before the first server is made: the core must have all that is used of it, and a version that was not
tried before must serve calls of every kind.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence

import grpc

from dtfctl.net.gate import Inside
from dtfctl.runtime.services.calls import Call, CallServer, Handler, Refused, Stream, Unary
from dtfctl.runtime.services.public_call_server import PublicCallServer

log = logging.getLogger(__name__)
Maker = Callable[[Callable[[str], Handler | None], Sequence[tuple[str, int]], int], CallServer]
# Names one of the servers, for who wants no other.
CHOICE = "DTF_CALL_SERVER"
# How long each part of the trial may take, on a busy machine too.
_PATIENCE_S = 5.0


def make_call_server(
    find: Callable[[str], Handler | None], options: Sequence[tuple[str, int]], most_calls: int
) -> CallServer:
    """Make a server of the kind that works here; see `PublicCallServer` for the arguments."""
    return chosen()(find, options, most_calls)


@functools.cache
def chosen() -> Maker:
    """Choose the kind of server that works here.

    Raises:
        ValueError: the environment names none.
    """
    asked = os.environ.get(CHOICE, "")
    if asked not in ("", "core", "public"):
        raise ValueError(f"{CHOICE} is {asked!r}: it can be `core` or `public`, or not be set")
    if asked == "public":
        return PublicCallServer
    try:
        from dtfctl.runtime.services.call_server import TRIED, CoreCallServer, missing
    except Exception as e:
        return _fallen_back(f"{type(e).__name__}: {e}")
    if asked == "core":
        return CoreCallServer
    absent = missing()
    if absent:
        return _fallen_back(f"it lacks {', '.join(absent)}")
    first, last = TRIED
    if not first <= _version() <= last:
        # A trial takes some hundredths of a second of every task's start, so what was tried before goes without.
        fault = fault_of(CoreCallServer)
        if fault:
            return _fallen_back(fault)
        tried = [".".join(map(str, version)) for version in TRIED]
        log.info("grpcio %s is none of the versions %s to %s, but passes the test", grpc.__version__, *tried)
    return CoreCallServer


def _fallen_back(fault: str) -> Maker:
    log.warning(
        "calls are served by grpcio's own server, which is slower: the core of grpcio %s does not serve here: %s",
        grpc.__version__,
        fault,
    )
    return PublicCallServer


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in grpc.__version__.split(".")[:2] if part.isdigit())


def fault_of(maker: Maker) -> str:
    """Find what a server fails at that is asked for everything that handlers rely on; "" if it does it all."""
    try:
        return _tried(maker)
    except Exception as e:
        return f"{type(e).__name__}: {e}"


def _tried(maker: Maker) -> str:
    entered, gone = threading.Event(), threading.Event()

    def wait(_data: bytes, call: Call) -> bytes:
        if not call.on_gone(gone.set):
            gone.set()
        entered.set()
        gone.wait(_PATIENCE_S)
        return b""

    def tell(data: bytes, call: Call) -> bytes:
        told = dict(call.metadata)
        left = call.time_left()
        if call.method != "/T/Tell" or left is None or not 0 < left <= 2 * _PATIENCE_S or not call.peer():
            raise ValueError("a call says something wrong of itself")
        call.auth_context()
        return data + str(told["who"]).encode()

    def refuse(_data: bytes, _call: Call) -> bytes:
        raise Refused(grpc.StatusCode.NOT_FOUND, "refused")

    def twice(requests: Iterator[bytes], _call: Call) -> Iterator[bytes]:
        for data in requests:
            yield data + data

    methods: dict[str, Handler] = {
        "/T/Wait": Unary(wait),
        "/T/Tell": Unary(tell),
        "/T/Refuse": Unary(refuse),
        "/T/Twice": Stream(twice),
    }
    server = maker(methods.get, (("grpc.so_reuseport", 0),), 100)
    inside = Inside()
    try:
        with inside:
            if not server.add_port(f"unix:{inside.path}"):
                return "it cannot listen"
            server.start()
            options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
            with grpc.insecure_channel(f"unix:{inside.path}", options=options) as channel:
                fault = _asked(channel, entered, gone)
        gone.set()
        return fault or ("" if server.stop(0).wait(_PATIENCE_S) else "it does not end")
    finally:
        gone.set()
        server.stop(0)
        inside.close()


def _asked(channel: grpc.Channel, entered: threading.Event, gone: threading.Event) -> str:
    stub = channel.unary_unary("/T/Tell")
    if stub(b"x", timeout=_PATIENCE_S, metadata=(("who", "me"),)) != b"xme":
        return "an answer is wrong"
    try:
        channel.unary_unary("/T/Refuse")(b"", timeout=_PATIENCE_S)
        return "an error is lost"
    except grpc.RpcError as e:
        if e.code() is not grpc.StatusCode.NOT_FOUND or e.details() != "refused":
            return f"an error is wrong: {e.details()}"
    long = bytes(100_000)
    if list(channel.stream_stream("/T/Twice")(iter((b"a", long)), timeout=_PATIENCE_S)) != [b"aa", long + long]:
        return "a stream is wrong"
    waiting = channel.unary_unary("/T/Wait").future(b"", timeout=4 * _PATIENCE_S)
    if not entered.wait(_PATIENCE_S):
        return "a call does not begin"
    waiting.cancel()
    return "" if gone.wait(_PATIENCE_S) else "a handler does not hear that its call is gone"
