"""dtf.ProfileService: have a task record what its steps do, and get that."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dtfctl.protocol import profile_pb2
from dtfctl.runtime.framework.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
)
from dtfctl.runtime.services.calls import Call, Handler
from dtfctl.runtime.services.grpc_tools import service, unary
from dtfctl.runtime.steps import recording

NAME = "dtf.ProfileService"
PART_EVENTS = 20_000
"""How many events travel at a time: some 2 MB."""
MOST_ID = 64


class ProfileService:
    """The handlers. One recording is kept until the next begins or it was taken.

    Args:
        task: this one's full name. life: its incarnation.
        needs_certificate: refuse who has no certificate of the cluster.
    """

    def __init__(self, task: str, life: int, needs_certificate: bool) -> None:
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
        recorder = recording.Recorder(request.id, self._task, request.seconds, request.job)
        recording.start(recorder)
        self._recorder, self._events = recorder, []
        return self._state(recorder)

    def look(self, request: profile_pb2.ProfileQuestion) -> profile_pb2.ProfileState:
        """Tell how far it is. Without an id: tell the time only."""
        if not request.id:
            return profile_pb2.ProfileState(task=self._task, incarnation=self._life, now_ns=time.time_ns())
        return self._state(self._of(request.id))

    def stop(self, request: profile_pb2.ProfileQuestion) -> profile_pb2.ProfileState:
        """Record nothing more."""
        recorder = self._of(request.id)
        recorder.end()
        return self._state(recorder)

    def take(self, request: profile_pb2.ProfileQuestion) -> profile_pb2.ProfilePart:
        """Give what was recorded from event `start` on, after it has ended; it is forgotten with its last part."""
        recorder = self._of(request.id)
        recorder.end()
        if not self._events:
            self._events = recorder.wanted()
        upto = request.start + PART_EVENTS
        part = profile_pb2.ProfilePart(
            events=packed(self._events[request.start : upto], recorder.epoch),
            lost=recorder.lost,
            traced=recorder.traced,
            steps=recorder.steps,
            last=upto >= len(self._events),
        )
        if part.last:
            self._recorder, self._events = None, []
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
