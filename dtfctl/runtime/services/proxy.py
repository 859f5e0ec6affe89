"""A plaintext port on this machine that leads to a task's master over mutual TLS: for clients that know no TLS.

TensorFlow's own client speaks plaintext only. What it says is passed on as it is; nothing is parsed.
"""

from __future__ import annotations

from typing import Any

import grpc

from dtfctl.runtime.services.grpc_tools import CHANNEL_OPTIONS, listen_tcp, new_server
from dtfctl.runtime.services.master_service import NAME

# Without a deadline gRPC says that a time beyond any counting is left.
_FOR_EVER_S = 1e8


class MasterProxy:
    """Serves until `stop`.

    Args:
        address: the task's "host:port".
        credentials: of a certificate the cluster's authority made; None where the task itself serves plaintext.
        server_name: the name the task's certificate is valid for.
    """

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None, server_name: str = "") -> None:
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        else:
            name = (("grpc.ssl_target_name_override", server_name),) if server_name else ()
            self._channel = grpc.secure_channel(address, credentials, options=(*CHANNEL_OPTIONS, *name))
        self._server = new_server()
        self._server.add_generic_rpc_handlers((_Forward(self._channel),))

    def start(self, listen: str = "127.0.0.1:0") -> int:
        """Listen; the port.

        Raises:
            OSError: the address is taken.
        """
        port = listen_tcp(self._server, listen, None)
        self._server.start()
        return port

    def stop(self) -> None:
        """Cancel what runs and close."""
        self._server.stop(0).wait(5.0)
        self._channel.close()


class _Forward(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Hands every method of the master's service on."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = str(handler_call_details.method)
        if not method.startswith(f"/{NAME}/"):
            return None
        call = self._channel.unary_unary(method)

        def forward(data: bytes, context: grpc.ServicerContext) -> bytes:
            left = context.time_remaining()
            answer = call.future(data, timeout=left if left is not None and left < _FOR_EVER_S else None)
            context.add_callback(answer.cancel)
            try:
                return bytes(answer.result())
            except grpc.RpcError as e:
                error: Any = e
                context.abort(error.code(), error.details() or "")
            except grpc.FutureCancelledError:
                context.abort(grpc.StatusCode.CANCELLED, "The client gave up the request")
            raise AssertionError("abort returned")

        return grpc.unary_unary_rpc_method_handler(forward)
