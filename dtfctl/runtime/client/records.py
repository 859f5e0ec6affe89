"""Record what this process does between and during its steps, while a task that it runs them with asks for it.

The task says so, and that it is enough, in frames on the connection that steps take; they are read with the next
answer. What was recorded goes the same way, a little now and then, as a script may be busy with something else at the
end.
"""

from __future__ import annotations

import os
import threading
import time

from google.protobuf.message import DecodeError

from dtfctl.protocol import profile_pb2
from dtfctl.runtime.client.connection import Connection
from dtfctl.runtime.framework.errors import FailedPreconditionError
from dtfctl.runtime.rendezvous.frames import Kind, Message
from dtfctl.runtime.services.profile_service import PART_EVENTS, packed
from dtfctl.runtime.steps import recording

EVERY_S = 0.2
"""How often something is handed over."""


class _Record:
    """One recording of this process."""

    def __init__(self, recorder: recording.Recorder) -> None:
        self.recorder = recorder
        self.sent = 0
        self.next = time.monotonic() + EVERY_S
        self.lock = threading.Lock()


OPEN: _Record | None = None
"""What was not handed over as a whole."""


def own_name() -> str:
    """Name this process: by its job and the task it runs beside, or by its number."""
    job = os.environ.get("DTF_JOB_ID")
    if not job:
        return f"client {os.getpid()}"
    return f"{job} {os.environ.get('DTF_JOB_NAME', 'client')}/{os.environ.get('DTF_TASK_INDEX', '0')}"


def told(connection: Connection, payload: bytes) -> None:
    """Begin or end, as a task has said."""
    global OPEN
    try:
        start = profile_pb2.ProfileStart.FromString(payload)
    except DecodeError:
        return
    if not start.id:
        if OPEN is not None:
            OPEN.recorder.end()
            hand_over(connection)
        return
    if start.job and start.job != os.environ.get("DTF_JOB_ID", ""):
        return
    recorder = recording.Recorder(start.id, "client", start.seconds)
    try:
        recording.start(recorder)
    except FailedPreconditionError:
        # By another of its connections, or the script records itself.
        return
    OPEN = _Record(recorder)


def hand_over(connection: Connection) -> None:
    """Send what is new, if it is time to, and all of it once the recording has ended.

    Raises:
        OSError: the connection is broken.
    """
    global OPEN
    record = OPEN
    if record is None:
        return
    recorder = record.recorder
    is_last = recorder.is_over()
    with record.lock:
        if OPEN is not record or (not is_last and time.monotonic() < record.next):
            return
        begin, end = record.sent, recorder.noted
        record.sent, record.next = end, time.monotonic() + EVERY_S
        if is_last:
            OPEN = None
    events = recorder.wanted(begin)[: end - begin]
    parts = [events[i : i + PART_EVENTS] for i in range(0, len(events), PART_EVENTS)] or [[]]
    for number, part in enumerate(parts, 1):
        content = profile_pb2.ClientRecord(
            id=recorder.id,
            name=own_name(),
            events=packed(part, recorder.epoch),
            lost=recorder.lost,
            runs=recorder.runs,
            last=is_last and number == len(parts),
        )
        connection.send([Message(Kind.RECORD, 0, "", content.SerializeToString())])
