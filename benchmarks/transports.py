"""The transports measured beside the one tasks of a host choose, shared memory, and how one is forced."""

from __future__ import annotations

TRANSPORTS = ("tcp", "grpc")


def environment_for(transport: str) -> dict[str, str]:
    """What a server's environment says to use that transport alone."""
    return {"DTF_TRANSPORT": transport}
