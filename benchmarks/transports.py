"""The transports measured beside the one tasks of a host choose, shared memory, and how one is forced."""

from __future__ import annotations

from pathlib import Path

TRANSPORTS = ("tcp", "grpc")
TLS = "tls"
"""TCP as between hosts: encrypted. Rows with it, beside those of plain TCP, show what encryption costs."""
WITH_TLS = ("tcp", TLS, "grpc")
WITHOUT_GOAL = (TLS, "grpc")
"""Measured for what they cost: encryption, and a plane for networks where nothing else gets through. Goals are for the
transports that are chosen by themselves."""
TLS_VARIABLE = "DTF_BENCH_TLS"
"""In a server's environment: where the certificates of its cluster are."""
CLUSTER = "bench"


def environment_for(transport: str, folder: Path) -> dict[str, str]:
    """What a server's environment says to use that transport alone.

    Args:
        folder: where certificates may be kept.
    """
    if transport != TLS:
        return {"DTF_TRANSPORT": transport}
    from dtfctl.launcher.identity.certificates import ensure_authority

    ensure_authority(folder, CLUSTER)
    return {"DTF_TRANSPORT": "tcp", TLS_VARIABLE: str(folder)}
