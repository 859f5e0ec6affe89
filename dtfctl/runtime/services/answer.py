"""The answer of another task to a request, to be waited for."""

from __future__ import annotations

from typing import Any

import grpc

from dtfctl.runtime.framework.errors import DeadlineExceededError, UnavailableError, error_from_code


def is_cut_off(code: grpc.StatusCode, details: str) -> bool:
    """Tell whether a call ended because its server did: gRPC says cancelled then, and no task says so little."""
    return code is grpc.StatusCode.CANCELLED and (details in ("", "CANCELLED") or details.startswith("Received RST"))


class Answer:
    """An answer to come.

    Args:
        call: the call, on its way.
        where: whom it was sent to, as errors name it.
    """

    def __init__(self, call: Any, where: str, method: str) -> None:
        self._call = call
        self._where = where
        self._method = method

    def result(self) -> Any:
        """Wait for it.

        Raises:
            OpError: what the peer answered; UnavailableError or DeadlineExceededError, naming it, if it did not.
        """
        try:
            return self._call.result()
        except grpc.RpcError as e:
            error: Any = e
            code, details = error.code(), error.details() or ""
            if code is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise DeadlineExceededError(f"{self._where} did not answer {self._method} in time") from None
            if code is grpc.StatusCode.UNAVAILABLE or is_cut_off(code, details):
                raise UnavailableError(f"{self._where} cannot be reached: {details}") from None
            raise error_from_code(code.value[0], details) from None
        except grpc.FutureCancelledError:
            raise UnavailableError(f"{self._where}: the connection was closed") from None

    def cancel(self) -> None:
        self._call.cancel()
