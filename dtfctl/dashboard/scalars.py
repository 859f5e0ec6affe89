"""What a job has reported since it began: the scalars of its event files, copied from its hosts as they grow."""

from __future__ import annotations

import math
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.operator.event_files import EventFiles, job_of
from dtfctl.protocol import summary_pb2

OWN = "tensorboard"
"""The folder in which the runtime writes what a job reports; names in it stand without a folder."""
RATE = "global_step/sec"
RATE_SHOWN = "steps/s"
MOST_NAMES = 48
MOST_POINTS = 2000
"""Each name has no more: every other one is left out, then every other one of these, until it fits."""
MOST_KEPT = 20_000
"""Each name is kept with no more points; of a longer one every other one is forgotten."""
_HEAD, _FOOT = 12, 4
"""Bytes around a record: its length and that one's check sum; the content's check sum."""
_FLOAT, _DOUBLE = 1, 2

Points = list[tuple[int, float, float]]
"""Step, value, and when, in seconds since 1970; by steps."""


class Scalars:
    """Scalars of a cluster's jobs. Methods may be called from any thread.

    Args:
        open_cluster: gives a cluster for one thread alone.
    """

    def __init__(self, open_cluster: Callable[[], Cluster]) -> None:
        self._open = open_cluster
        self._folder = tempfile.TemporaryDirectory(prefix="dtfctl-dashboard-", ignore_cleanup_errors=True)
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}

    def close(self) -> None:
        self._folder.cleanup()

    def read(self, job: str) -> dict[str, Points]:
        """Give what a job has reported, by name.

        Raises:
            LauncherError: there is no such job, it has written nothing, or no host of it can be asked.
        """
        cluster = self._open()
        status = job_of(cluster.status(), job)
        # Clusters of the same name may come one after another, and so may their jobs.
        key = f"{job} {status.submitted}"
        with self._lock:
            known = self._jobs.setdefault(key, _Job(Path(self._folder.name) / str(len(self._jobs))))
        with known.lock:
            EventFiles(status, known.folder, cluster.exec).fetch()
            known.read()
            return {name: thinned(points) for name, points in known.points().items()}


class _Job:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self._read: dict[Path, int] = {}
        self._found: dict[str, dict[int, tuple[float, float]]] = {}

    def read(self) -> None:
        """Read what files have beyond what was read of them."""
        # In the order in which they were begun, as what a job does again is written again.
        for file in sorted(self.folder.rglob("*tfevents*"), key=lambda file: file.name):
            begin = self._read.get(file, 0)
            with file.open("rb") as whole:
                whole.seek(begin)
                self._read[file] = begin + self._take(whole.read(), file.relative_to(self.folder).parent)
        for name, found in self._found.items():
            if len(found) > MOST_KEPT:
                self._found[name] = {step: found[step] for step in sorted(found)[::2]}

    def _take(self, data: bytes, place: Path) -> int:
        prefix = "" if place.as_posix() in (".", OWN) else f"{place.as_posix().removeprefix(OWN + '/')}/"
        taken = 0
        for content, end in records(data):
            taken = end
            for name, step, value, when in scalars(content):
                shown = RATE_SHOWN if not prefix and name == RATE else prefix + name
                if shown in self._found or len(self._found) < MOST_NAMES:
                    self._found.setdefault(shown, {})[step] = value, when
        return taken

    def points(self) -> dict[str, Points]:
        return {name: [(step, *found[step]) for step in sorted(found)] for name, found in self._found.items()}


def thinned(points: Points) -> Points:
    """Leave out every other point until there are few enough; the newest stays."""
    while len(points) > MOST_POINTS:
        points = points[::-2][::-1]
    return points


def records(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Give the whole records at the beginning of a file's part, each with its end; the rest is yet to come."""
    at = 0
    while at + _HEAD <= len(data):
        end = at + _HEAD + int.from_bytes(data[at : at + 8], "little") + _FOOT
        if end > len(data):
            return
        yield data[at + _HEAD : end - _FOOT], end
        at = end


def scalars(content: bytes) -> Iterator[tuple[str, int, float, float]]:
    """Give name, step, value and time of each scalar of an event; of what is none, nothing."""
    event: Any = summary_pb2.Event()
    try:
        event.ParseFromString(content)
    except DecodeError:
        return
    for item in event.summary.value:
        value = _number(item)
        if value is not None and math.isfinite(value):
            yield item.tag, event.step, value, event.wall_time


def _number(item: Any) -> float | None:
    # Other plugins' tensors say something else.
    if item.metadata.plugin_data.plugin_name not in ("", "scalars"):
        return None
    kind = item.WhichOneof("value")
    if kind == "simple_value":
        return float(item.simple_value)
    if kind != "tensor" or item.tensor.dtype not in (_FLOAT, _DOUBLE) or item.tensor.tensor_shape.dim:
        return None
    tensor = item.tensor
    held = tensor.float_val if tensor.dtype == _FLOAT else tensor.double_val
    if held:
        return float(held[0])
    form = "<f" if tensor.dtype == _FLOAT else "<d"
    content: bytes = tensor.tensor_content
    return float(struct.unpack(form, content)[0]) if len(content) == struct.calcsize(form) else None
