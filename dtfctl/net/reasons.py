"""Say why a connection has ended; after the name of who is at its other end."""

from __future__ import annotations

import ssl

CLOSED = "closed the connection"


def silent(for_s: float) -> str:
    """Say that nothing came for so long, pings neither."""
    return f"has been silent for {for_s:g} s"


def problem(error: OSError) -> str:
    """Say what the kernel or TLS found wrong."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'verify_message', '') or error.reason or error}"
    return error.strerror or str(error)
