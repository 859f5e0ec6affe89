"""What carries frames between tasks. One implementation a module of this package; grpc_stream is always there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.rendezvous.frames import Frame, Kind


class Link(Protocol):
    """One way to a peer's life: what is put in is delivered in order, or the link fails as a whole."""

    def send_tensor(self, step: int, key: str, value: Any, dead: bool) -> None:
        """Queue a tensor; never waits for the network. The array must not change afterwards.

        Raises:
            OpError: the link has failed, or the value cannot be encoded.
        """

    def send_control(self, kind: Kind, step: int, key: str = "", payload: bytes = b"") -> None:
        """Queue a control frame.

        Raises:
            OpError: the link has failed.
        """

    def close(self) -> None:
        """Give the link up; what is queued may be lost."""


class Transport(Protocol):
    """Sends to any task, by task name (`/job:J/replica:0/task:N`)."""

    def push(self, task: str, step: int, key: str, value: Any, dead: bool) -> None:
        """Queue a tensor for another task's table of that step.

        Raises:
            UnavailableError: the task is down or unknown.
            OpError: the value cannot be encoded.
        """


# Called with each frame that arrives, and with why a link ended.
OnFrame = Callable[[Frame], None]
OnFailure = Callable[[OpError], None]
