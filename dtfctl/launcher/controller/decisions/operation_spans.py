"""Tell what happens to hosts, tasks and jobs as spans for OpenTelemetry: each from its first event to its last.

An operation belongs to what has asked for it: a job to its `submit`, a task that was to be restarted to that `restart`,
hosts and tasks of a new cluster to its `up`, where the caller has said which span that is. What a cluster does by
itself, such as starting a task that has died, is a trace of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from dtfctl import tracing
from dtfctl.launcher.model import Event
from dtfctl.tracing import Operation

STAGES = ("connecting", "installing", "syncing", "setup", "starting")
_CLUSTER = "cluster"


class _Open:
    """An operation that has begun, and the stage of it that has."""

    def __init__(self, whole: Operation, names: dict[str, str]) -> None:
        self.whole, self.names = whole, names
        self.stage: Operation | None = None

    def enter(self, name: str, at: float) -> None:
        self.leave(at)
        self.stage = tracing.begin(name, at, self.whole.traceparent, **self.names)

    def leave(self, at: float) -> None:
        if self.stage is not None:
            self.stage.end(at)
            self.stage = None


class OperationSpans:
    """Follows the events of one cluster, in their order. For one thread."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._open: dict[str, _Open] = {}
        self._causes: dict[str, str] = {}
        self._had: set[str] = set()

    def caused(self, subjects: Iterable[str], traceparent: str) -> None:
        """Note that a span is why something happens to `subjects` next; of the cluster: to all of it."""
        for subject in subjects:
            self._causes[subject] = traceparent
            if subject == _CLUSTER:
                self._had.clear()

    def take(self, event: Event) -> None:
        """Follow an event."""
        group, _, word = event.kind.partition(".")
        match group:
            case "host":
                self._host(event, word)
            case "task":
                self._task(event, word)
            case "job":
                self._job(event, word)

    def close(self, at: float) -> None:
        """End what is open: nobody follows it any more."""
        for subject in list(self._open):
            self._end(subject, at)

    def _host(self, event: Event, word: str) -> None:
        names = {"host": event.subject.removeprefix("host:")}
        if word in STAGES:
            self._begin(event, "bring up host", names).enter(f"host: {word}", event.time)
        elif word == "up":
            self._end(event.subject, event.time)
        elif word in ("failed", "bad", "down", "quarantined", "no-space"):
            self._end(event.subject, event.time, word)

    def _task(self, event: Event, word: str) -> None:
        names = {"task": event.subject}
        if word in ("restart-requested", "start-requested"):
            self._begin(event, word.replace("-requested", " task"), names)
        elif word == "starting":
            self._begin(event, "start task", names).enter("task: starting", event.time)
        elif word == "stopping":
            self._begin(event, "stop task", names).enter("task: stopping", event.time)
        elif word in ("running", "stopped"):
            self._end(event.subject, event.time)
        elif word in ("failed", "crashed", "lost"):
            self._end(event.subject, event.time, word)
        elif word in ("ended", "done"):
            found = self._open.get(event.subject)
            if found is not None:
                found.leave(event.time)

    def _job(self, event: Event, word: str) -> None:
        names = {"job": event.subject.removeprefix("job:")}
        if word in ("queued", "running", "recovering"):
            if word == "queued" or event.subject in self._open:
                self._begin(event, "job", names).enter(f"job: {word}", event.time)
        elif word in ("succeeded", "failed", "cancelled"):
            self._end(event.subject, event.time, "" if word == "succeeded" else word)

    def _begin(self, event: Event, name: str, names: dict[str, str]) -> _Open:
        found = self._open.get(event.subject)
        if found is None:
            whole = tracing.begin(name, event.time, self._cause(event.subject), cluster=self._cluster, **names)
            found = self._open[event.subject] = _Open(whole, {"cluster": self._cluster, **names})
        return found

    def _cause(self, subject: str) -> str:
        own = self._causes.pop(subject, "")
        if own or subject in self._had:
            return own
        self._had.add(subject)
        return self._causes.get(_CLUSTER, "")

    def _end(self, subject: str, at: float, failed: str = "") -> None:
        found = self._open.pop(subject, None)
        if found is not None:
            found.leave(at)
            if failed:
                found.whole.fail(failed)
            found.whole.end(at)
