"""The output of processes as lines: read through the controller by position, decoded, merged by time."""

from __future__ import annotations

import bisect
import codecs
import datetime
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from dtfctl.launcher.errors import NoSuchTask, PartlyDone
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import LogsRequest, OutputPosition
from dtfctl.launcher.model import LogLine
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.values import replace

MAX_BYTES = 4 * 2**20
DAEMON_POLL_S = 0.2
FAR_POLL_S = 1.0
AWAY_S = 3.0
"""How long a host may be away before what was written there is given up."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one read gave."""

    lines: list[LogLine]
    """The lines by time; none of them is older than a line that is still to be read."""
    caught_up: bool
    """Everything written until now has been given."""
    final: bool
    """Whether these are the last lines that will ever come."""
    ended: bool
    """The job has ended, though some of its lines may still have to be read."""
    unreachable: tuple[str, ...]
    """Hosts that did not answer: what was written there is missing."""


class LogReader:
    """Reads on from where it was, also when controller or agent were replaced meanwhile."""

    def __init__(self, connection: Connection, selector: str, tail: int = 0) -> None:
        self._connection = connection
        self._selector = selector
        self._tail = tail
        self._positions: dict[tuple[str, str], OutputPosition] = {}
        self._decoders: dict[tuple[str, str], codecs.IncrementalDecoder] = {}
        self._held: dict[tuple[str, str], list[LogLine]] = {}
        """Lines that are later than some that are still to be read. No more of these processes is asked for."""
        self._newest: dict[tuple[str, str], float] = {}
        self._begins: dict[tuple[str, str], tuple[int, LogLine]] = {}
        """Of every file that is read: its inode, and its first line here."""
        self._twins: set[tuple[str, str]] = set()
        """Files that are read through another host already, as the two share a disk."""
        self.version = 0

    def read(self, wait_s: float) -> Batch:
        """Read the new lines of all processes; wait up to `wait_s` for the first."""
        positions = [replace(known, hold=key in self._held) for key, known in self._positions.items()]
        request = LogsRequest(self._selector, tuple(positions), self._tail, wait_s, MAX_BYTES)
        reply = self._connection.call(
            controller_calls.READ_LOGS, request, timeout_s=wait_s + controller_client.FOLLOW_S
        )
        behind = dict.fromkeys(self._held, True)
        for chunk in reply.chunks:
            key = chunk.next.host, chunk.next.process
            self._positions[key] = chunk.next
            lines = list(self._lines(source_of(chunk.next.process), chunk.data))
            if lines and key not in self._begins:
                begin = chunk.next.file, lines[0]
                self._twins |= {key} if self._is_known(key, begin) else set()
                self._begins[key] = begin
            if key in self._twins:
                continue
            if lines:
                self._held.setdefault(key, []).extend(lines)
                self._newest[key] = max(line.time for line in lines)
            behind[key] = not chunk.at_end
        # A process of which more is to be read holds back what others wrote later than its newest line here.
        until = min((self._newest.get(key, -math.inf) for key, more in behind.items() if more), default=math.inf)
        ready = self._release(math.inf if reply.final else until)
        if reply.final:
            ready += self._rest()
        return Batch(ready, not any(behind.values()), reply.final, reply.ended, tuple(reply.unreachable))

    def _is_known(self, key: tuple[str, str], begin: tuple[int, LogLine]) -> bool:
        """Tell whether a process that has moved writes to the same file there as where it was."""
        return any(begin == known and key[1] == other[1] for other, known in self._begins.items())

    def _release(self, until: float) -> list[LogLine]:
        """Release the held lines up to then, by time."""
        ready: list[LogLine] = []
        for key, lines in list(self._held.items()):
            lines.sort(key=lambda line: line.time)
            count = bisect.bisect_right(lines, until, key=lambda line: line.time)
            ready += lines[:count]
            if count == len(lines):
                del self._held[key]
            else:
                self._held[key] = lines[count:]
        ready.sort(key=lambda line: line.time)
        return ready

    def _rest(self) -> list[LogLine]:
        """Decode the bytes of characters that were never completed."""
        lines = []
        for (source, stream), decoder in self._decoders.items():
            text = decoder.decode(b"", final=True)
            if text:
                lines.append(LogLine(source, "err" if stream == "err" else "out", text, time.time(), False))
        return lines

    def _lines(self, source: str, data: bytes) -> Iterator[LogLine]:
        for raw in data.split(b"\n"):
            stamp, _, rest = raw.partition(b" ")
            stream, _, text = rest.partition(b" ")
            if not rest:
                continue
            name: Literal["out", "err"] = "err" if stream.startswith(b"err") else "out"
            newline = not stream.endswith(b"+")
            decoder = self._decoders.get((source, name))
            if decoder is None:
                decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
                self._decoders[source, name] = decoder
            yield LogLine(source, name, decoder.decode(text, final=newline), parse_stamp(stamp), newline)


def source_of(process: str) -> str:
    """Show `job:digits-1.3f9a:worker/0` as `digits-1:worker/0`."""
    kind, _, rest = process.partition(":")
    if kind != "job":
        return process
    key, _, name = rest.partition(":")
    return f"{key.partition('.')[0]}:{name}"


@lru_cache(maxsize=1024)
def parse_stamp(stamp: bytes) -> float:
    try:
        return datetime.datetime.fromisoformat(stamp.decode()).timestamp()
    except ValueError:
        return 0.0


def batches(reader: LogReader, first: Batch, *, follow: bool, wait_s: float) -> Iterator[Batch]:
    """Yield everything there is; with `follow`, everything there will be.

    Raises:
        PartlyDone: at the end, if a host did not answer: its lines are missing.
    """
    batch = first
    away_since: float | None = None
    while True:
        yield batch
        if batch.final:
            return
        if not batch.unreachable:
            away_since = None
            if batch.caught_up and not follow:
                return
        elif away_since is None:
            away_since = time.monotonic()
        if away_since is not None and (not follow or batch.ended) and time.monotonic() - away_since > AWAY_S:
            raise PartlyDone(
                f"no answer from {', '.join(batch.unreachable)}: what was written there is missing",
                "look with: dtfctl status -o wide",
            )
        batch = reader.read(wait_s if follow else 0.0)


def daemon_lines(logs: Path, selector: str, *, follow: bool, gone: Callable[[], bool]) -> Iterator[Batch]:
    """Yield the log of the controller or of an agent, which is plain text on this machine; followed until `gone()`."""
    path = logs / f"{selector.replace(':', '-')}.log"
    if not path.exists():
        known = ", ".join(sorted(found.stem.replace("agent-", "agent:") for found in logs.glob("*.log")))
        raise NoSuchTask(f"{selector} has no log {path}", f"there are: {known}" if known else "")
    return _daemon_lines(path, selector, follow, gone)


def _daemon_lines(path: Path, selector: str, follow: bool, gone: Callable[[], bool]) -> Iterator[Batch]:
    with path.open(errors="replace") as file:
        while True:
            ended = not follow or gone()
            lines = [daemon_line(selector, text) for text in file]
            yield Batch(lines, True, ended, ended, ())
            if ended:
                return
            time.sleep(DAEMON_POLL_S)


def far_lines(pieces: Iterator[str], selector: str, follow: bool) -> Iterator[Batch]:
    """Yield a log on another machine, which comes in pieces; an empty one says that there is no more now."""
    begun = ""
    for piece in pieces:
        *whole, begun = (begun + piece).split("\n")
        ended = not piece and not follow
        yield Batch([daemon_line(selector, text) for text in whole], not piece, ended, ended, ())
        if ended:
            return
        if not piece:
            time.sleep(FAR_POLL_S)


def daemon_line(selector: str, text: str) -> LogLine:
    try:
        at = datetime.datetime.fromisoformat(text.split(" ", 1)[0]).timestamp()
    except ValueError:
        at = 0.0
    return LogLine(selector, "err", text.rstrip("\n"), at)
