"""What can be called, by whom, and how a call fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.identity.certificates import Role
from dtfctl.values import value

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)
Handler = Callable[..., Any]
"""Request -> reply, or an iterator of replies; of a talk: (iterator of requests, `Call`) -> iterator of replies."""


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
    talks: bool = False
    """Streams both ways: the handler gets the iterator of requests and the `Call`."""

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"
