"""The commands by what they are about, in the order of `--help` and of docs/cli.md."""

from __future__ import annotations

from collections.abc import Mapping

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Clusters": ("init", "validate", "plan", "up", "status", "restart", "stop", "start", "scale", "down", "clusters"),
    "Hosts and ways in": ("hosts", "connect"),
    "Jobs": ("submit", "torchrun", "serve", "tune", "jobs", "job", "cancel"),
    "What was written, and why": ("logs", "events", "why"),
    "Commands and files on hosts": ("exec", "attach", "ssh", "get", "put"),
    "Watching and care": (
        "dashboard",
        "top",
        "profile",
        "graph",
        "tensorboard",
        "simulate",
        "doctor",
        "certificates",
        "metrics",
    ),
    "Programs and what they leave": ("check", "checkpoint"),
    "dtfctl itself": ("config", "schema", "export", "completion", "version"),
}
"""The commands as `--help` shows them."""
ORDER = tuple(name for names in GROUPS.values() for name in names)
