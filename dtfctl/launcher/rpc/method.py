"""What can be called, by whom, and how a call fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.identity.certificates import Role
from dtfctl.values import value

Request = TypeVar("Request")
Reply = TypeVar("Reply")
PROTOCOL = 3
"""What every call names, so that another version is told from a call that means something else. It changes when the
same bytes would mean something else; fields and calls that are only new do not change it. 1 was protobuf; a
task's report had a shape of its own in 2."""

Handler = Callable[..., Any]
"""Request -> reply, or an iterator of replies; of a talk: (iterator of requests, `Call`) -> iterator of replies."""


ONE_VERSION = "use one version of dtfctl: `down` with the one that brought the cluster up, `up` with the other"


class PeerUnavailable(LauncherError):
    """The other process does not answer: dead, cut off, or not listening yet."""

    exit_code = 8


@value
class Method(Generic[Request, Reply]):
    """One call: its name, messages and the roles that may make it."""

    service: str
    name: str
    request: type[Request]
    reply: type[Reply]
    roles: frozenset[Role]
    streams: bool = False
    """A stream of replies."""
    is_operation: bool = False
    """Whether it changes something, and `dtfctl.tracing` tells of it."""
    talks: bool = False
    """Streams both ways: the handler gets the iterator of requests and the `Call`."""

    @property
    def path(self) -> str:
        return f"/{PROTOCOL}/{self.service}/{self.name}"
