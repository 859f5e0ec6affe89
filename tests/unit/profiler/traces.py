"""What a Perfetto trace says, read by its wire format alone."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from dtfctl.runtime.framework.varints import read_varint


class Point(NamedTuple):
    """A TrackEvent: when, begin (1) or end (2), on which track, and of a begin its name, category and flows."""

    when: int
    kind: int
    track: int
    name: str
    category: str
    flows: tuple[int, ...]


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Read a message: numbers of fields and their values, bytes or whole numbers."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        match tag & 7:
            case 0:
                value: Any
                value, at = read_varint(data, at)
            case 1:
                (value,), at = struct.unpack_from("<Q", data, at), at + 8
            case 2:
                length, at = read_varint(data, at)
                value, at = data[at : at + length], at + length
                assert len(value) == length
            case kind:
                raise AssertionError(f"wire type {kind}")
        yield tag >> 3, value


def read(trace: bytes) -> tuple[dict[int, str], list[Point]]:
    """Read the names of processes by their track, and all points in their order."""
    processes, points = {}, []
    for number, packet in fields(trace):
        assert number == 1
        found = dict(fields(packet))
        if 60 in found:
            described = dict(fields(found[60]))
            if 3 in described:
                processes[described[1]] = dict(fields(described[3]))[6].decode()
        if 11 in found:
            event = dict(fields(found[11]))
            flows = tuple(value for field, value in fields(found[11]) if field == 47)
            text = [event.get(field, b"").decode() for field in (23, 22)]
            points.append(Point(found[8], event[9], event[11], *text, flows))
    return processes, points
