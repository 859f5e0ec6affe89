"""Record what this process does into a folder for TensorBoard: `tf.profiler.experimental`."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import namedtuple
from pathlib import Path
from types import TracebackType
from typing import Any

from dtfctl.runtime.framework.errors import AlreadyExistsError, FailedPreconditionError, UnavailableError
from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.xplane import write_xplane
from dtfctl.runtime.steps import recording
from dtfctl.runtime.steps.recording import Kind

ProfilerOptions = namedtuple(
    "ProfilerOptions",
    ["host_tracer_level", "python_tracer_level", "device_tracer_level", "delay_ms"],
    defaults=[2, 0, 1, None],
)

_lock = threading.Lock()
_running: tuple[recording.Recorder, Path] | None = None


def start(logdir: str, options: ProfilerOptions | None = None) -> None:
    """Record what steps of this process do, and its calls of `Session.run`, until `stop`, for ten minutes at most.

    Of what tasks of a cluster do tells `dtfctl profile`.

    Args:
        logdir: the folder that TensorBoard is given.
        options: taken as TensorFlow's are; what is recorded does not depend on them.

    Raises:
        AlreadyExistsError: something is being recorded.
    """
    global _running
    with _lock:
        recorder = recording.Recorder(secrets.token_hex(8), "/job:localhost/replica:0/task:0")
        try:
            recording.start(recorder)
        except FailedPreconditionError:
            raise AlreadyExistsError("Another profiler is running.") from None
        _running = recorder, Path(logdir)


def stop(save: bool = True) -> None:
    """End the recording and write it below plugins/profile of its folder, for TensorBoard's profile plugin.

    Raises:
        UnavailableError: nothing was begun. OSError: it cannot be written.
    """
    global _running
    with _lock:
        if _running is None:
            raise UnavailableError("Cannot export profiling results. No profiler is running.")
        (recorder, folder), _running = _running, None
    recorder.end()
    if save:
        events = [event._replace(start=event.start + recorder.epoch) for event in recorder.wanted()]
        record = TaskRecord(os.uname().nodename, steps=recorder.steps, traced=recorder.traced, lost=recorder.lost)
        record.events = sorted(events, key=lambda event: event.start)
        write_xplane([record], folder, time.strftime("%Y_%m_%d_%H_%M_%S"))


class Profile:
    """Records in a `with` block: see `start`."""

    def __init__(self, logdir: str, options: ProfilerOptions | None = None) -> None:
        self._logdir, self._options = logdir, options

    def __enter__(self) -> None:
        start(self._logdir, self._options)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stop()


class Trace:
    """Names a `with` block in what is recorded, if something is.

    Args:
        name: what is written on its bar; kwargs: written after it.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name, self._more = name, kwargs
        self._began = 0

    def set_metadata(self, **kwargs: Any) -> None:
        self._more.update(kwargs)

    def __enter__(self) -> Trace:
        self._began = recording.clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        recorder = recording.ACTIVE
        if recorder is not None:
            more = ", ".join(f"{name}={value}" for name, value in self._more.items())
            name = f"{self._name}#{more}#" if more else self._name
            recorder.add(Kind.TRACE, name, "", self._began, recording.clock())
