"""What pages show, kept up to date: each item with the version at which it last changed.

Two threads follow the cluster, however many pages look. A page says which version it has and gets what is newer.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dtfctl import guard
from dtfctl.dashboard.studies import Studies
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import LauncherError, NoSuchCluster
from dtfctl.launcher.messages.codec import to_plain
from dtfctl.launcher.model import ClusterStatus, Event, JobStatus, TaskStatus

LOOK_S = 5.0
"""How long to wait for a change."""
LEAST_S = 0.25
"""Changes are looked at no more often."""
UNSEEN_S = 1.0
"""Changes are looked at no more often than that either, while no page looks."""
LOOKED_S = 5.0
"""A page looks that has asked within this time."""
RETRY_S = 1.0
MOST_EVENTS = 500
MOST_POINTS = 20_000
MOST_GONE = 1000
"""Pages are still told of so many things that are gone."""
JITTER_S = 2.0
"""A start is told as the time now less how long it has run, which varies by so much."""


class Item(NamedTuple):
    version: int
    value: Any
    """None: it is gone."""


class Feed:
    """What is known of a cluster.

    Args:
        open_cluster: gives a cluster for one thread alone.
        studies: what `dtfctl tune` tells; None: nothing.
    """

    def __init__(self, open_cluster: Callable[[], Cluster], studies: Studies | None = None) -> None:
        self._open = open_cluster
        self._studies = studies
        self._changed = threading.Condition()
        self._version = 0
        self._items: dict[tuple[str, str], Item] = {}
        self._events: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MOST_EVENTS)
        self._points: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MOST_POINTS)
        self._told: dict[str, tuple[int, float]] = {}
        self._graves: deque[tuple[str, str]] = deque()
        self._forgotten = 0
        self._created = 0.0
        self._newest_event = 0
        self._closed = threading.Event()
        self._last_look = -LOOKED_S
        self.generation = 0
        """Counts the clusters of this name that came one after another: what was told of one is nothing of the next."""

    def start(self) -> None:
        guard.forever(self._watch_status, name="dashboard-status").start()
        guard.forever(self._watch_events, name="dashboard-events").start()

    def close(self) -> None:
        self._closed.set()
        with self._changed:
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def known(self, kind: str, name: str) -> Mapping[str, Any] | None:
        """Give what is known of one thing; None: there is none of that name (any more)."""
        item = self._items.get((kind, name))
        return None if item is None else item.value

    def tasks(self) -> frozenset[str]:
        """List the cluster's tasks."""
        with self._changed:
            return frozenset(name for (kind, name), item in self._items.items() if kind == "task" and item.value)

    def news(self, after: int, wait_s: float) -> dict[str, Any] | None:
        """Give what has changed past a version; None where nothing has within `wait_s`.

        Returns:
            all: the page is to forget what it knows, which is too old. v: the version. set: [kind, name, value] of each
            item; a value of None is gone. events, points: new ones.
        """
        with self._changed:
            was_looked_at, self._last_look = self._is_looked_at, time.monotonic()
            if not was_looked_at:
                self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._version > after or self.is_closed, wait_s):
                return None
            # Of what went since then not all is known any more.
            begins = 0 < after < self._forgotten
            after = 0 if begins else after
            return {
                "all": begins,
                "v": self._version,
                "set": [[*key, item.value] for key, item in self._items.items() if item.version > after],
                "events": [event for version, event in self._events if version > after],
                "points": [point for version, point in self._points if version > after],
            }

    # Following --------------------------------------------------------------------------------------------------------

    def _watch_status(self) -> None:
        cluster, version = self._open(), 0
        while not self._closed.is_set():
            try:
                status, version = cluster.newer_status(version, LOOK_S)
            except NoSuchCluster:
                self._away("the cluster is down")
            except (LauncherError, OSError) as error:
                self._away(str(error))
                version = 0
            else:
                self._take(status)
                with self._changed:
                    self._changed.wait_for(lambda: self._is_looked_at or self.is_closed, UNSEEN_S)
                self._closed.wait(LEAST_S)

    @property
    def _is_looked_at(self) -> bool:
        return time.monotonic() - self._last_look < LOOKED_S

    def _away(self, why: str) -> None:
        known = self._items.get(("cluster", ""))
        before: Mapping[str, Any] = known.value if known is not None else {}
        with self._changed:
            self._set({("cluster", ""): {**before, "away": why}})
        self._closed.wait(RETRY_S)

    def _take(self, status: ClusterStatus) -> None:
        now = time.time()
        found: dict[tuple[str, str], Any] = {("cluster", ""): _cluster(status)}
        found |= {("host", host.name): _clean(to_plain(host)) for host in status.hosts}
        found |= {("task", task.name): self._task(task, now) for task in status.tasks}
        found |= {("job", job.id): _job(job) for job in status.jobs}
        if self._studies is not None:
            found |= {("study", name): _clean(study) for name, study in self._studies.read().items()}
        gone = {key: None for key, item in list(self._items.items()) if key not in found and item.value is not None}
        jobs = {job.id for job in status.jobs}
        self._told = {job: told for job, told in self._told.items() if job in jobs}
        with self._changed:
            self._set(found | gone, [point for job in status.jobs if (point := self._point(job)) is not None])

    def _set(self, found: Mapping[tuple[str, str], Any], points: list[dict[str, Any]] | None = None) -> None:
        """Take values over, and tell where any has changed. Hold the condition."""
        after = self._version + 1
        news = {
            key: Item(after, value)
            for key, value in found.items()
            if (known := self._items.get(key)) is None or known.value != value
        }
        if news or points:
            self._items.update(news)
            self._bury([key for key, item in news.items() if item.value is None])
            self._points.extend((after, point) for point in points or ())
            self._version = after
            self._changed.notify_all()

    def _bury(self, gone: list[tuple[str, str]]) -> None:
        """Forget the oldest of what is gone: pages that know of them begin anew. Hold the condition."""
        self._graves.extend(gone)
        while len(self._graves) > MOST_GONE:
            key = self._graves.popleft()
            item = self._items.get(key)
            if item is not None and item.value is None:
                self._forgotten = max(self._forgotten, item.version)
                del self._items[key]

    def _task(self, task: TaskStatus, now: float) -> dict[str, Any]:
        told = _clean(to_plain(task))
        uptime = told.pop("uptime_s")
        started = None if uptime is None else now - uptime
        known = self._items.get(("task", task.name))
        before = known.value.get("started") if known is not None and known.value else None
        if started is not None and before is not None and abs(started - before) < JITTER_S:
            started = before
        silence = told.pop("silence_s")
        retry = told.pop("retry_in_s")
        return {
            **told,
            "name": task.name,
            "started": started,
            "silent": round(silence) if silence is not None and silence > JITTER_S else 0,
            "retry": None if retry is None else round(retry),
        }

    def _point(self, job: JobStatus) -> dict[str, Any] | None:
        progress = job.progress
        if progress is None or self._told.get(job.id) == (progress.step, progress.time):
            return None
        self._told[job.id] = progress.step, progress.time
        return {
            "job": job.id,
            "time": progress.time or time.time(),
            "step": progress.step,
            "metrics": _clean(dict(progress.metrics)),
        }

    def _watch_events(self) -> None:
        while not self._closed.is_set():
            try:
                cluster = self._open()
                self._begin(cluster.status().created)
                # Each comes once, but not in the order of numbers: what an agent tells late stands where it belongs.
                after = self._newest_event
                for event in cluster.events(follow=True):
                    if self._closed.is_set():
                        return
                    if event.seq > after:
                        self._take_event(event)
            except (LauncherError, OSError):
                self._closed.wait(RETRY_S)

    def _begin(self, created: float) -> None:
        """Forget what was told of a cluster of the same name that was taken down since."""
        if created == self._created:
            return
        with self._changed:
            if self._created:
                self.generation += 1
            self._created, self._newest_event = created, 0
            self._events.clear()
            self._points.clear()
            self._told.clear()
            self._items = {key: item for key, item in self._items.items() if item.value is not None}

    def _take_event(self, event: Event) -> None:
        with self._changed:
            self._newest_event = max(self._newest_event, event.seq)
            self._version += 1
            self._events.append((self._version, _clean(to_plain(event))))
            self._changed.notify_all()


def _cluster(status: ClusterStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "healthy": status.healthy,
        "running": status.running,
        "tasks": len(status.tasks),
        "created": status.created,
        "version": status.controller.version,
        "epoch": status.controller.epoch,
        "problems": list(status.problems),
        "notes": list(status.notes),
        "advice": list(status.advice),
        "links": _clean(to_plain(status.links)),
        "grant": None if status.grant is None else _clean(to_plain(status.grant)),
        "away": "",
    }


def _job(job: JobStatus) -> dict[str, Any]:
    told: dict[str, Any] = _clean(to_plain(job))
    return {**told, "final": job.is_final}


def _clean(value: Any) -> Any:
    """Leave out numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _clean(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return value
