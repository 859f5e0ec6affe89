"""What carries frames between tasks. One implementation a module of this package; grpc_stream is always there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dtfctl.runtime.compression.payoff import Ledger
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.rendezvous.frames import Frame, Message
from dtfctl.runtime.rendezvous.transports.meter import Meter


class Link(Protocol):
    """One way to a peer's life, in both directions: all that is put in is delivered, or the link fails as a whole.

    Frames with the same key keep their order; short ones of others may overtake long ones.

    Attributes:
        transport: "grpc", "tcp", "ucx", "unix" or "shm".
        is_encrypted: whether what it carries is.
        meter: what measures what it sends; None where nothing does.
        peer_task, peer_life: who is at the other end.
    """

    transport: str
    is_encrypted: bool
    meter: Meter | None
    peer_task: str
    peer_life: int

    def send(self, messages: Sequence[Message]) -> None:
        """Send, or queue what the network does not take now; never waits for it. Arrays must not change afterwards.

        Raises:
            OpError: the link has failed, or a value cannot be encoded; then none of the messages was sent.
        """

    def close(self) -> None:
        """Give the link up; what is queued may be lost."""


class Transport(Protocol):
    """Sends to any task, by task name (`/job:J/replica:0/task:N`)."""

    def send(self, task: str, messages: Sequence[Message]) -> None:
        """Send tensors and more to another task.

        Raises:
            UnavailableError: the task is down or unknown.
            OpError: a value cannot be encoded.
        """

    def ledger(self, task: str) -> Ledger | None:
        """Find what is known of codecs on the way to a task; None where that is not known."""


class LinkOwner(Protocol):
    """Who uses links. Called in any thread, which must not be kept."""

    def opened(self, link: Link) -> None:
        """Note that a link is there, whoever opened it; nothing has been read from it yet.

        Raises:
            OpError: it is not wanted any more.
        """

    def received(self, link: Link, frame: Frame) -> None:
        """Take a frame that came."""

    def ended(self, link: Link, error: OpError) -> None:
        """Note that the link failed or was closed; called once."""
