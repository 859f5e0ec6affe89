"""Nobody takes connections but by the one mechanism for it."""

from __future__ import annotations

import ast
from pathlib import Path

import dtfctl

ROOT = Path(dtfctl.__file__).parent
TAKES = {
    "accept",
    "create_server",
    "start_server",
    "start_unix_server",
    "forward_local_port",
    "forward_local_path_to_port",
    "add_http2_port",
    "add_insecure_port",
    "add_secure_port",
}
OTHERWISE = {
    "net/listener.py": "is the mechanism",
    "runtime/services/call_server.py": "behind a gate, or at a unix socket of this user's",
    "runtime/services/public_call_server.py": "behind a gate, or at a unix socket of this user's",
    "launcher/providers/forwards.py": "what SSH forwards, at unix sockets in a folder of this user's",
    "launcher/providers/host_offers.py": "runs on hosts that have no dtfctl yet; has limits and a deadline of its own",
}
"""Where else, and why that is right."""


def takers() -> set[str]:
    found = set()
    for path in ROOT.rglob("*.py"):
        text = path.read_text("utf-8")
        if not any(f".{name}(" in text for name in TAKES):
            continue  # most of them: parsing them all takes seconds
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKES:
                found.add(str(path.relative_to(ROOT)))
    return found


def test_connections_are_taken_in_one_place() -> None:
    found = takers()
    assert not found - OTHERWISE.keys(), "take connections through dtfctl.net.listener or a gate"
    assert not OTHERWISE.keys() - found, "not needed any more"
