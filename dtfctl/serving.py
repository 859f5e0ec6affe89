"""What `dtfctl serve` and the job that it submits know of each other."""

from __future__ import annotations

import json
from typing import Any

from dtfctl.values import value

TOKEN = "DTF_SERVE_TOKEN"
"""The variable with what a client has to say before it is answered."""
CERTIFICATES = "DTF_SERVE_CERTIFICATES"
"""The variable with the server's certificates, as JSON, where it is to listen on the network."""
SCRIPT = "serve_model.py"
_BEGINNING = "serving "


@value
class Announcement:
    """Where a model is served: what the job says first, and again when it had to start anew."""

    model: str
    host: str
    """The host's name for itself."""
    rest: int
    """The port of HTTP, on that host's loopback if at no other address."""
    grpc: int
    versions: tuple[int, ...]
    tasks: tuple[str, ...]
    """The tasks that compute, as the job calls them."""

    def line(self) -> str:
        """Write it as a line of output."""
        content = {
            "model": self.model,
            "host": self.host,
            "rest": self.rest,
            "grpc": self.grpc,
            "versions": list(self.versions),
            "tasks": list(self.tasks),
        }
        return _BEGINNING + json.dumps(content)

    @classmethod
    def of_line(cls, line: str) -> Announcement | None:
        """Read a line of output; None for any other."""
        if not line.startswith(_BEGINNING):
            return None
        try:
            found: dict[str, Any] = json.loads(line.removeprefix(_BEGINNING))
            return cls(
                str(found["model"]),
                str(found["host"]),
                int(found["rest"]),
                int(found["grpc"]),
                tuple(int(version) for version in found["versions"]),
                tuple(str(task) for task in found["tasks"]),
            )
        except (ValueError, KeyError, TypeError):
            return None
