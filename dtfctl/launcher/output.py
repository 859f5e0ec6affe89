"""The output of processes as lines: read through the controller by position, decoded, merged by time."""

from __future__ import annotations

import codecs
import datetime
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

from dtfctl.launcher.connect import Connection
from dtfctl.launcher.controller import methods
from dtfctl.launcher.errors import NoSuchTask
from dtfctl.launcher.model import LogLine
from dtfctl.protocol import controller_pb2 as pb

MAX_BYTES = 4 * 2**20
DAEMON_POLL_S = 0.2


class LogReader:
    """Reads on from where it was, also when controller or agent were replaced meanwhile."""

    def __init__(self, connection: Connection, selector: str, tail: int = 0) -> None:
        self._connection = connection
        self._selector = selector
        self._tail = tail
        self._positions: dict[tuple[str, str], pb.LogPosition] = {}
        self._decoders: dict[tuple[str, str], codecs.IncrementalDecoder] = {}
        self.version = 0

    def read(self, wait_s: float) -> tuple[list[LogLine], bool]:
        """New lines by time, and whether these are the last that will ever come."""
        request = pb.LogsRequest(selector=self._selector, tail=self._tail, wait_s=wait_s, max_bytes=MAX_BYTES)
        request.positions.extend(self._positions.values())
        reply = self._connection.call(methods.READ_LOGS, request, timeout_s=wait_s + 30.0)
        lines: list[LogLine] = []
        for chunk in reply.chunks:
            self._positions[chunk.next.host, chunk.next.process] = chunk.next
            lines += self._lines(source_of(chunk.next.process), chunk.data)
        lines.sort(key=lambda line: line.time)
        return lines, reply.final

    def rest(self) -> list[LogLine]:
        """Bytes of characters that were never completed."""
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
    """`job:digits-1:worker/0` is shown as `digits-1:worker/0`."""
    return process.removeprefix("job:")


@lru_cache(maxsize=1024)
def parse_stamp(stamp: bytes) -> float:
    try:
        return datetime.datetime.fromisoformat(stamp.decode()).timestamp()
    except ValueError:
        return 0.0


def merged(reader: LogReader, first: tuple[list[LogLine], bool], *, follow: bool, wait_s: float) -> Iterator[LogLine]:
    """Everything there is; with `follow`, everything there will be."""
    lines, final = first
    while True:
        yield from lines
        if final or (not follow and not lines):
            yield from reader.rest()
            return
        lines, final = reader.read(wait_s if follow else 0.0)


def daemon_lines(logs: Path, selector: str, *, follow: bool, tail: int | None) -> Iterator[LogLine]:
    """The log of the controller or of an agent, which is plain text on this machine."""
    path = logs / f"{selector.replace(':', '-')}.log"
    if not path.exists():
        raise NoSuchTask(f"{selector} has no log {path}")
    return _daemon_lines(path, selector, follow, tail)


def _daemon_lines(path: Path, selector: str, follow: bool, tail: int | None) -> Iterator[LogLine]:
    with path.open(errors="replace") as file:
        lines = file.readlines()
        for text in lines[-tail:] if tail else lines:
            yield _daemon_line(selector, text)
        while follow:
            text = file.readline()
            if text:
                yield _daemon_line(selector, text)
            else:
                time.sleep(DAEMON_POLL_S)


def _daemon_line(selector: str, text: str) -> LogLine:
    try:
        at = datetime.datetime.fromisoformat(text.split(" ", 1)[0]).timestamp()
    except ValueError:
        at = 0.0
    return LogLine(selector, "err", text.rstrip("\n"), at)
