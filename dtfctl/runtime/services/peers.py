"""What a task knows of the others of its cluster, and its links to them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.compression.payoff import Ledger
from dtfctl.runtime.framework.errors import (
    AbortedError,
    DeadlineExceededError,
    OpError,
    UnavailableError,
    error_from_code,
)
from dtfctl.runtime.rendezvous.frames import Frame, Kind, Message
from dtfctl.runtime.rendezvous.transports.base import Link
from dtfctl.runtime.services.answer import Answer
from dtfctl.runtime.services.link_figures import LinkFigures, figures_of, pack_decoded, parse_decoded, rate_of
from dtfctl.runtime.services.links import LinkMaker
from dtfctl.runtime.steps.tally import CARRIED
from dtfctl.runtime.steps.threads import submit

log = logging.getLogger(__name__)

ChannelFactory = Callable[[str, str], grpc.Channel]
# How long a request that needs no computing may take before the peer counts as gone.
REQUEST_TIMEOUT_S = 30.0
RATES_S = 60.0
"""How long it is believed what a link has carried."""
SERVICE = "/dtf.WorkerService/"


class _Coming:
    """Stands for a link while it is being made; what is sent meanwhile goes out once it is there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Message] = []
        self._link: Link | None = None
        self._error: OpError | None = None

    def send(self, messages: Sequence[Message]) -> None:
        with self._lock:
            if self._error is not None:
                raise error_from_code(self._error.error_code, self._error.message)
            if self._link is None:
                self._waiting.extend(messages)
                return
            link = self._link
        link.send(messages)
        CARRIED.sends(link.transport, messages)

    def arrived(self, link: Link) -> list[OpError]:
        """Send over the new link what has waited for it; give the errors of messages that could not be sent."""
        refused: list[OpError] = []
        with self._lock:
            for message in self._waiting:
                try:
                    link.send((message,))
                    CARRIED.sends(link.transport, (message,))
                except OpError as e:
                    refused.append(e)
            self._waiting.clear()
            self._link = link
        return refused

    def failed(self, error: OpError) -> None:
        with self._lock:
            self._waiting.clear()
            self._error = error

    def close(self) -> None:
        self.failed(UnavailableError("The connection was given up while it was being made"))


@dataclass
class _Peer:
    """What is known of a task.

    Attributes:
        link: what is sent with: the first link there was, whoever opened it.
        links: all that are open to the life known.
        ledger: of codecs, once one was asked about.
    """

    task: str
    address: str
    life: int = 0
    down: OpError | None = None
    channel: grpc.Channel | None = None
    link: Link | _Coming | None = None
    links: list[Link] = field(default_factory=list)
    ledger: Ledger | None = None


class Peers:
    """Addresses, lives and links, by task name. A rendezvous Transport.

    A task's lives have growing numbers; 0 means not known yet. Nothing is ever taken from or sent to a life lower than
    the highest one known.

    Args:
        task, life: this task and its incarnation.
        addresses: of all tasks, by task name.
        connect: makes a channel to a task at an address.
        on_lost: called with a task, the life and the reason when the link to it breaks or it is reported down.
    """

    def __init__(
        self,
        task: str,
        life: int,
        addresses: Mapping[str, str],
        connect: ChannelFactory,
        on_lost: Callable[[str, int, OpError], None],
    ) -> None:
        self.task = task
        self.life = life
        self._connect = connect
        self._maker: LinkMaker | None = None
        self._on_lost = on_lost
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._own_address = addresses.get(task, "")
        self._peers = {t: _Peer(t, a) for t, a in addresses.items() if t != task}
        self._lost: dict[str, str] = {}

    @property
    def tasks(self) -> list[str]:
        return list(self._peers)

    def address(self, task: str) -> str:
        return self._peer(task).address

    def is_far(self, task: str, other: str) -> bool:
        """Tell whether two tasks are on different hosts, by their addresses."""
        return self._host(task) != self._host(other)

    def _host(self, task: str) -> str:
        address = self._own_address if task == self.task else self._peer(task).address
        host = address.rpartition(":")[0]
        return "localhost" if host.startswith("127.") or host == "[::1]" else host

    def life_of(self, task: str) -> int:
        return self._peer(task).life

    def down_reason(self, task: str) -> OpError | None:
        """Tell why a task is known to be down; None where it is not."""
        return self._peer(task).down

    def lost(self) -> dict[str, str]:
        """List the tasks that new sessions are made without, but that will come back, and why they are away."""
        with self._lock:
            return dict(self._lost)

    def is_gone(self, task: str, life: int) -> bool:
        """Tell whether that life of a task is known to be over, or is said to be down."""
        peer = self._peers.get(task)
        return peer is None or peer.life > life or peer.down is not None

    def wait_up(self, task: str, timeout_s: float) -> OpError | None:
        """Wait for a task that is known to be down to be heard of again; why it is still down, or None."""
        peer = self._peer(task)
        with self._news:
            self._news.wait_for(lambda: peer.down is None, timeout_s)
            return peer.down

    def _peer(self, task: str) -> _Peer:
        found = self._peers.get(task)
        if found is None:
            raise UnavailableError(f"{task} is not a task of this cluster")
        return found

    # Knowledge --------------------------------------------------------------------------------------------------------

    def learn(self, task: str, life: int, address: str = "") -> None:
        """Note that a task is up in this life, perhaps at another address; older news is ignored."""
        if task == self.task:
            return
        with self._lock:
            peer = self._peers.setdefault(task, _Peer(task, address))
            if life < peer.life:
                return
            self._lost.pop(task, None)
            new_life, new_address = life > peer.life, bool(address) and address != peer.address
            old_life, peer.life, peer.down = peer.life, life, None
            self._news.notify_all()
            if new_address:
                peer.address = address
            dropped = self._drop(peer, new_address) if new_life or new_address else []
        _close(dropped)
        if new_life and old_life:
            self._on_lost(task, old_life, self._restarted(peer))

    def mark_down(self, task: str, life: int, reason: str) -> None:
        """Note that a life of a task is gone; older news than what is known is ignored."""
        with self._lock:
            peer = self._peers.get(task)
            if peer is None or life < peer.life:
                return
            peer.life = life
            peer.down = UnavailableError(f"{task} ({peer.address}) is down: {reason}")
            dropped = self._drop(peer, with_channel=True)
        _close(dropped)
        self._on_lost(task, life, peer.down)

    def forget(self, task: str, reason: str, *, lost: bool = False) -> None:
        """Take a task out of the cluster. What waits for it fails; news of it brings it back.

        News are sure to come of one that is only `lost`.
        """
        with self._lock:
            peer = self._peers.get(task)
            self._lost.pop(task, None)
            if lost:
                self._lost[task] = reason
            if peer is None:
                return
            life = peer.life
        self.mark_down(task, life, reason)
        with self._news:
            if self._peers.get(task) is peer:
                del self._peers[task]
            self._news.notify_all()

    def check_sender(self, task: str, life: int, addressed_to: int) -> None:
        """Refuse a peer that is not what it should be, or means a former life of this task.

        Raises:
            AbortedError.
        """
        if addressed_to != self.life:
            raise AbortedError(
                f"{self.task} was restarted: a message was for incarnation {addressed_to}, this is {self.life}"
            )
        known = self._peer(task).life
        if life < known:
            raise AbortedError(f"{task} has a newer incarnation than {life}: {known}. This one must stop")
        self.learn(task, life)

    def _restarted(self, peer: _Peer) -> OpError:
        return AbortedError(f"{peer.task} ({peer.address}) was restarted; what it held is lost")

    def _drop(self, peer: _Peer, with_channel: bool) -> list[_Closable]:
        """Take the links, and the channel below them, from a peer; the caller closes them in that order."""
        dropped: list[_Closable] = [*peer.links]
        if isinstance(peer.link, _Coming):
            dropped.append(peer.link)
        peer.link = None
        peer.links = []
        if with_channel and peer.channel is not None:
            dropped.append(peer.channel)
            peer.channel = None
        return dropped

    # Links ------------------------------------------------------------------------------------------------------------

    def make_links_with(self, maker: LinkMaker) -> None:
        """Set the maker of links, once before anything is sent."""
        self._maker = maker

    def send(self, task: str, messages: Sequence[Message]) -> None:
        """Send to a task; see Link.send. A link is made where there is none; what is sent first waits for it.

        Raises:
            UnavailableError: the task is down or unknown. OpError: a value cannot be encoded.
        """
        peer = self._peers.get(task)
        link = (peer.link if peer is not None else None) or self._new_link(task)
        link.send(messages)
        if not isinstance(link, _Coming):
            CARRIED.sends(link.transport, messages)

    def link_to(self, task: str, life: int) -> Link | _Coming | None:
        """Find what to send with to that very life of a task; None where it is not at hand."""
        peer = self._peers.get(task)
        if peer is None or peer.life != life or peer.down is not None:
            return None
        return peer.link

    def _new_link(self, task: str) -> Link | _Coming:
        peer = self._peer(task)
        with self._lock:
            if peer.link is None:
                if peer.down is not None:
                    raise error_from_code(peer.down.error_code, peer.down.message)
                if not peer.life:
                    raise UnavailableError(f"{task} ({peer.address}) has not been heard of yet")
                if peer.links:
                    peer.link = peer.links[0]
                else:
                    peer.link = coming = _Coming()
                    submit(self._make_link, peer, peer.life, coming)
            return peer.link

    def _make_link(self, peer: _Peer, life: int, coming: _Coming) -> None:
        """Make the link `coming` stands for."""
        assert self._maker is not None

        def ask(transport: str) -> worker_pb2.OpenLinkResponse:
            request = worker_pb2.OpenLinkRequest(
                task=self.task, incarnation=self.life, to_incarnation=life, transport=transport
            )
            answer: worker_pb2.OpenLinkResponse = self.request(
                peer.task, "OpenLink", request, worker_pb2.OpenLinkResponse
            )
            return answer

        try:
            link = self._maker.connect(ask, peer.task, life, peer.address, lambda: self._channel(peer))
        except OpError as cause:
            e = cause
            if e.error_code != AbortedError.code:
                # However it failed: the peer is going down, perhaps, and cancels what it is asked.
                e = UnavailableError(f"No connection to {peer.task} ({peer.address}): {e.text}")
            coming.failed(e)
            with self._lock:
                if peer.link is coming:
                    peer.link = None
                is_current = peer.life == life
            if is_current:
                self._on_lost(peer.task, life, e)
                if e.error_code == AbortedError.code:
                    # It is in another life, of which nobody tells this task where there is no controller.
                    with contextlib.suppress(OpError):
                        self.learn(peer.task, self.status(peer.task, REQUEST_TIMEOUT_S).result().incarnation)
            return
        refused = coming.arrived(link)
        with self._lock:
            if peer.link is coming:
                peer.link = link
        for error in refused:
            self._on_lost(peer.task, life, error)

    def opened(self, link: Link) -> None:
        """Note that a link is there; see LinkOwner.

        Raises:
            AbortedError: it is to a former life.
        """
        peer = self._peer(link.peer_task)
        with self._lock:
            if link.peer_life != peer.life or peer.down is not None:
                raise AbortedError(f"The connection is to incarnation {link.peer_life} of {peer.task}, which is gone")
            peer.links.append(link)

    def ended(self, link: Link, error: OpError) -> None:
        """Note that a link broke; see LinkOwner. Nothing follows for one that was given up here."""
        peer = self._peers.get(link.peer_task)
        with self._lock:
            if peer is None or link not in peer.links:
                return
            peer.links.remove(link)
            if peer.link is link:
                peer.link = None
        if error.error_code != AbortedError.code:
            error = UnavailableError(f"{error.message} ({peer.address})")
        self._on_lost(peer.task, link.peer_life, error)

    def silent(self, timeout_s: float) -> set[str]:
        """Find the tasks this one works with, and which are said to be up, that do not answer within `timeout_s`."""
        with self._lock:
            asked = [p for p in self._peers.values() if p.life and p.down is None and (p.links or p.channel)]
        answers = [(peer, peer.life, self.status(peer.task, timeout_s)) for peer in asked]
        found = set()
        for peer, life, answer in answers:
            try:
                answer.result()
            except (UnavailableError, DeadlineExceededError):
                if peer.life == life and peer.down is None:  # else it was told meanwhile why
                    found.add(peer.task)
            except OpError as e:
                # It has answered; or the question was cancelled with its channel, which says nothing of the peer.
                log.info("asked whether it is there, %s says: %s", peer.task, e.message)
        return found

    def transports(self) -> dict[str, str]:
        """Tell what carries tensors to each task there is a link to."""
        with self._lock:
            return {t: p.links[0].transport for t, p in self._peers.items() if p.links}

    def figures(self) -> dict[str, LinkFigures]:
        """Tell how this task sends to each one that it is linked to."""
        with self._lock:
            found = {t: (list(p.links), p.ledger) for t, p in self._peers.items() if p.links}
        return {task: figures_of(links, ledger) for task, (links, ledger) in found.items()}

    def rates(self) -> dict[str, float]:
        """Give what links carry to each task by transfers that were timed of late, in bytes a second."""
        with self._lock:
            links = {task: list(peer.links) for task, peer in self._peers.items() if peer.links}
        newest = time.monotonic() - RATES_S
        timed = {task: rate_of(of) for task, of in links.items()}
        return {task: rate for task, (rate, at) in timed.items() if rate > 0 and at > newest}

    def ledger(self, task: str) -> Ledger | None:
        """Find what is known of codecs on the way to a task; None where it is not one of this cluster's."""
        peer = self._peers.get(task)
        if peer is None:
            return None
        if peer.ledger is None:
            with self._lock:
                if peer.ledger is None:
                    peer.ledger = Ledger(lambda: rate_of(peer.links), lambda *news: self._tell(task, *news))
        return peer.ledger

    def _tell(self, task: str, codec: str, decode_s: float) -> None:
        # A link that fails says so to who needs it.
        with contextlib.suppress(OpError):
            self.send(task, (Message(Kind.DECODED, 0, "", pack_decoded(codec, decode_s)),))

    def told(self, task: str, frame: Frame) -> None:
        """Take how long tensors from here take a task to decode.

        Raises:
            InvalidArgumentError: the frame does not say that.
        """
        codec, decode_s = parse_decoded(frame.payload)
        ledger = self.ledger(task)
        if ledger is not None:
            ledger.told(codec, decode_s)

    # Requests ---------------------------------------------------------------------------------------------------------

    def _channel(self, peer: _Peer) -> grpc.Channel:
        with self._lock:
            if peer.channel is None:
                peer.channel = self._connect(peer.task, peer.address)
            return peer.channel

    def renew_channels(self) -> None:
        """Make the next request to each peer over a new channel: this task proves itself with another certificate now.

        What is on its way over the old ones ends as it would have; they go with it.
        """
        with self._lock:
            for peer in self._peers.values():
                peer.channel = None

    def request(self, task: str, method: str, message: Any, answer: Any, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """Call a method of a peer's worker service.

        Raises:
            OpError: what it answered; Unavailable when it did not in time.
        """
        return self._call(task, method, message, answer, timeout_s, wait=False).result()

    def request_async(
        self, task: str, method: str, message: Any, answer: Any, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Answer:
        """Start a call; its `result` is what `request` returns."""
        return self._call(task, method, message, answer, timeout_s, wait=False)

    def hear_of(self, task: str) -> None:
        """Wait until it is known in which life a task is.

        Raises:
            OpError: it does not answer.
        """
        if self.life_of(task) == 0:
            answer = self.status(task, REQUEST_TIMEOUT_S).result()
            self.learn(task, answer.incarnation)

    def status(self, task: str, timeout_s: float) -> Answer:
        """Ask who is there, waiting for the peer to come up."""
        return self._call(
            task, "GetStatus", worker_pb2.TaskStatusRequest(), worker_pb2.TaskStatus, timeout_s, wait=True
        )

    def _call(self, task: str, method: str, message: Any, answer: Any, timeout_s: float, wait: bool) -> Answer:
        peer = self._peer(task)
        stub = self._channel(peer).unary_unary(SERVICE + method, type(message).SerializeToString, answer.FromString)
        try:
            return Answer(
                stub.future(message, timeout=timeout_s, wait_for_ready=wait), f"{peer.task} ({peer.address})", method
            )
        except ValueError:
            # grpc's way to say that the channel is closed, as it is when news come meanwhile that the peer is down.
            raise UnavailableError(f"{peer.task} ({peer.address}): the connection was closed") from None

    def close(self) -> None:
        """Close all links and channels."""
        with self._lock:
            dropped = [thing for p in self._peers.values() for thing in self._drop(p, with_channel=True)]
            for p in self._peers.values():
                p.down = UnavailableError(f"{self.task} is stopping")
        _close(dropped)


class _Closable(Protocol):
    def close(self) -> Any: ...


def _close(things: Sequence[_Closable]) -> None:
    """Close what was dropped; without the lock, since closing may call back."""
    for thing in things:
        thing.close()
