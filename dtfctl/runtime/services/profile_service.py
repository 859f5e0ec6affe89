"""dtf.ProfileService: have a task record what its steps do, and get that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from dtfctl.protocol import profile_pb2
from dtfctl.runtime.framework.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
)
from dtfctl.runtime.services.calls import Call, Handler
from dtfctl.runtime.services.grpc_tools import service, unary
from dtfctl.runtime.steps import recording
from dtfctl.runtime.steps.tally import STEPS

NAME = "dtf.ProfileService"
PART_EVENTS = 20_000
"""How many events travel at a time: some 2 MB."""
MOST_ID = 64
MOST_NAME = 300
MOST_CLIENTS = 64
MOST_BYTES = 64 << 20
"""What clients may hand over in one recording, all together: names of events are as long as they say."""
CLIENTS_S = 1.0
"""How long clients may take to hand over the rest: a script may be busy with something else."""


class _Client:
    """What a client has handed over: columns of events, in the order in which they came."""

    def __init__(self) -> None:
        self.parts: list[profile_pb2.ProfileEvents] = []
        self.events = self.lost = self.left_out = self.runs = 0
        self.is_whole = False


class ProfileService:
    """The handlers. One recording is kept until the next begins or it was taken.

    Args:
        task: this one's full name. life: its incarnation.
        needs_certificate: refuse who has no certificate of the cluster.
        tell_clients: has clients record, too (a ProfileStart), or no more (nothing).
    """

    def __init__(
        self, task: str, life: int, needs_certificate: bool, tell_clients: Callable[[bytes], int] = lambda _: 0
    ) -> None:
        self._tell_clients = tell_clients
        self._clients: dict[str, _Client] = {}
        self._told = 0
        self._bytes = 0
        self._changed = threading.Condition()
        self._task = task
        self._life = life
        self._needs_certificate = needs_certificate
        self._recorder: recording.Recorder | None = None
        self._events: list[recording.Event] = []

    def handlers(self) -> dict[str, Handler]:
        p = profile_pb2
        methods: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "Start": (p.ProfileStart, self.start),
            "Look": (p.ProfileQuestion, self.look),
            "Stop": (p.ProfileQuestion, self.stop),
            "Take": (p.ProfileQuestion, self.take),
        }
        return service(NAME, {name: unary(kind, self._checked(f)) for name, (kind, f) in methods.items()})

    def _checked(self, function: Callable[[Any], Any]) -> Callable[[Any, Call], Any]:
        def checked(request: Any, call: Call) -> Any:
            if self._needs_certificate and not call.auth_context().get("x509_common_name"):
                raise UnauthenticatedError("A profile is given to holders of a certificate of the cluster only")
            return function(request)

        return checked

    # Requests ---------------------------------------------------------------------------------------------------------

    def start(self, request: profile_pb2.ProfileStart) -> profile_pb2.ProfileState:
        """Record from now on.

        Raises:
            InvalidArgumentError. FailedPreconditionError: somebody else's recording has not ended.
        """
        if not 0 < len(request.id) <= MOST_ID or not 0 < request.seconds <= recording.MOST_S:
            raise InvalidArgumentError(
                f"A profile needs a name of at most {MOST_ID} letters and 0 to {recording.MOST_S:.0f} seconds"
            )
        recorder = recording.Recorder(request.id, self._task, request.seconds, request.job, request.every)
        recording.start(recorder)
        with self._changed:
            self._recorder, self._events, self._clients, self._bytes = recorder, [], {}, 0
        self._tell_clients(request.SerializeToString())
        return self._state(recorder)

    def look(self, request: profile_pb2.ProfileQuestion) -> profile_pb2.ProfileState:
        """Tell how far it is. Without an id: tell the time, and how long steps take."""
        if not request.id:
            count = sum(STEPS.counts)
            return profile_pb2.ProfileState(
                task=self._task,
                incarnation=self._life,
                now_ns=time.time_ns(),
                step_us=STEPS.seconds / count * 1e6 if count else 0.0,
            )
        return self._state(self._of(request.id))

    def stop(self, request: profile_pb2.ProfileQuestion) -> profile_pb2.ProfileState:
        """Record nothing more."""
        recorder = self._of(request.id)
        self._end(recorder)
        return self._state(recorder)

    def _end(self, recorder: recording.Recorder) -> None:
        recorder.end()
        self._told = self._tell_clients(b"")

    def recorded(self, data: bytes) -> None:
        """Take what a client hands over.

        Raises:
            InvalidArgumentError: it makes no sense.
        """
        try:
            told = profile_pb2.ClientRecord.FromString(data)
        except DecodeError as e:
            raise InvalidArgumentError(f"What a client has recorded cannot be read: {e}") from None
        with self._changed:
            recorder = self._recorder
            if recorder is None or recorder.id != told.id or not 0 < len(told.name) <= MOST_NAME:
                return
            if told.name not in self._clients and len(self._clients) >= MOST_CLIENTS:
                return
            client = self._clients.setdefault(told.name, _Client())
            client.lost, client.runs = told.lost, told.runs
            client.is_whole = client.is_whole or told.last
            count = len(told.events.kind)
            if client.events + count > recording.MOST_EVENTS or self._bytes + len(data) > MOST_BYTES:
                client.left_out += count
            elif count:
                client.events += count
                self._bytes += len(data)
                client.parts.append(told.events)
            self._changed.notify_all()

    def take(self, request: profile_pb2.ProfileQuestion) -> profile_pb2.ProfilePart:
        """Give what was recorded, after it has ended; it is forgotten with the last part of the last of it.

        What the task itself has recorded is given from event `start` on, and with it the clients that have, too; of
        `client` its part number `start`.
        """
        recorder = self._of(request.id)
        self._end(recorder)
        if request.client:
            return self._take_client(recorder, request.client, request.start)
        if not self._events:
            self._events = recorder.wanted()
            with self._changed:
                self._changed.wait_for(self._has_all, CLIENTS_S)
        upto = request.start + PART_EVENTS
        part = profile_pb2.ProfilePart(
            events=packed(self._events[request.start : upto], recorder.epoch),
            lost=recorder.lost,
            traced=recorder.traced,
            steps=recorder.steps,
            last=upto >= len(self._events),
            client=sorted(self._clients),
            updates=recorder.updates,
            overtaken=recorder.overtaken,
            between=recorder.between,
        )
        if part.last:
            self._events = []
            if not part.client:
                self._recorder = None
        return part

    def _has_all(self) -> bool:
        """Tell whether all clients that were told have handed over all. Hold the condition.

        One of another job never does.
        """
        return len(self._clients) >= self._told and all(client.is_whole for client in self._clients.values())

    def _take_client(self, recorder: recording.Recorder, name: str, start: int) -> profile_pb2.ProfilePart:
        with self._changed:
            client = self._clients.get(name)
            if client is None:
                raise NotFoundError(f"{self._task} has nothing of {name!r}")
            lost, is_last = client.lost + client.left_out, start + 1 >= len(client.parts)
            part = profile_pb2.ProfilePart(lost=lost, steps=client.runs, last=is_last)
            if start < len(client.parts):
                part.events.CopyFrom(client.parts[start])
            if part.last:
                del self._clients[name]
                if not self._clients and self._recorder is recorder:
                    self._recorder = None
            return part

    def _of(self, id: str) -> recording.Recorder:
        recorder = self._recorder
        if recorder is None or recorder.id != id:
            raise NotFoundError(f"{self._task} has no profile {id!r}: it was restarted, or another one was begun since")
        return recorder

    def _state(self, recorder: recording.Recorder) -> profile_pb2.ProfileState:
        return profile_pb2.ProfileState(
            task=self._task,
            incarnation=self._life,
            now_ns=time.time_ns(),
            steps=recorder.steps,
            running=not recorder.is_over(),
            id=recorder.id,
        )


def packed(events: list[recording.Event], epoch: int) -> profile_pb2.ProfileEvents:
    """Put events into columns, with each text once."""
    texts: dict[str, int] = {}

    def place(text: str) -> int:
        return texts.setdefault(text, len(texts))

    columns = profile_pb2.ProfileEvents(
        kind=[event.kind for event in events],
        name=[place(event.name) for event in events],
        about=[place(event.about) for event in events],
        start_ns=[event.start + epoch for event in events],
        spent_ns=[event.spent for event in events],
        thread=[event.thread for event in events],
        step=[event.step for event in events],
        bytes=[event.bytes for event in events],
        flow=[event.flow for event in events],
    )
    columns.text.extend(texts)
    return columns
