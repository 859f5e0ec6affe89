"""Write a timeline as Perfetto's protobuf: shorter than JSON, and in whole nanoseconds.

A trace is a sequence of packets, so it needs no library: the fields and their numbers are those of
protos/perfetto/trace in Perfetto's sources.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from dtfctl.runtime.framework.varints import varint
from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.tracks import Bar, bars
from dtfctl.runtime.steps.recording import Kind

# Fields of Trace and TracePacket.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _FLAGS, _DESCRIPTOR = 8, 10, 11, 13, 60
# Fields of TrackDescriptor, ProcessDescriptor and ThreadDescriptor.
_UUID, _PROCESS, _THREAD, _PARENT = 1, 3, 4, 5
_PID, _TID, _THREAD_NAME, _PROCESS_NAME = 1, 2, 5, 6
# Fields of TrackEvent and DebugAnnotation.
_ANNOTATION, _TYPE, _TRACK, _CATEGORY, _NAME, _FLOW = 4, 9, 11, 22, 23, 47
_INTEGER, _TEXT, _ANNOTATION_NAME = 3, 6, 10
_BEGIN, _END = 1, 2
_ONE_SEQUENCE = 1
# Nothing that has come before in the sequence counts: this is its beginning.
_CLEARED = 1


def write_perfetto(records: Sequence[TaskRecord], file: BinaryIO) -> None:
    """Write all events."""
    flags = _number(_FLAGS, _CLEARED)
    for process, record in enumerate(records, 1):
        described = _number(_PID, process) + _text(_PROCESS_NAME, record.name)
        _packet(file, _message(_DESCRIPTOR, _number(_UUID, process << 32) + _message(_PROCESS, described)) + flags)
        flags = b""
    rows: set[tuple[int, int]] = set()
    sent = {event.flow for record in records for event in record.events if event.kind is Kind.SEND}
    for when, kind, bar in _edges(records):
        uuid = bar.process << 32 | bar.row
        if (bar.process, bar.row) not in rows:
            rows.add((bar.process, bar.row))
            thread = _number(_PID, bar.process) + _number(_TID, bar.process << 16 | bar.row)
            thread += _text(_THREAD_NAME, f"thread {bar.row}")
            track = _number(_UUID, uuid) + _number(_PARENT, bar.process << 32) + _message(_THREAD, thread)
            _packet(file, _message(_DESCRIPTOR, track))
        event = _number(_TYPE, kind) + _number(_TRACK, uuid)
        if kind == _BEGIN:
            event += _described(bar, sent)
        _packet(file, _number(_TIMESTAMP, when) + _message(_TRACK_EVENT, event))


def _described(bar: Bar, sent: set[int]) -> bytes:
    event = bar.event
    out = _text(_CATEGORY, event.kind.name.lower()) + _text(_NAME, bar.label)
    if event.flow in sent and event.kind in (Kind.SEND, Kind.ARRIVAL):
        out += varint(_FLOW << 3 | 1) + struct.pack("<Q", event.flow)
    for name, text in (("about", event.about), ("step", f"{event.step:x}" if event.step else "")):
        if text:
            out += _message(_ANNOTATION, _text(_ANNOTATION_NAME, name) + _text(_TEXT, text))
    if event.bytes:
        out += _message(_ANNOTATION, _text(_ANNOTATION_NAME, "bytes") + _number(_INTEGER, event.bytes))
    return out


def _edges(records: Sequence[TaskRecord]) -> Iterator[tuple[int, int, Bar]]:
    """Yield when bars begin and end, on each row in such an order that what is within another ends before it."""
    opened: dict[tuple[int, int], list[Bar]] = {}
    for bar in bars(records):
        stack = opened.setdefault((bar.process, bar.row), [])
        while stack and stack[-1].event.end <= bar.event.start:
            yield stack[-1].event.end, _END, stack.pop()
        stack.append(bar)
        yield bar.event.start, _BEGIN, bar
    for stack in opened.values():
        while stack:
            yield stack[-1].event.end, _END, stack.pop()


def _packet(file: BinaryIO, content: bytes) -> None:
    file.write(_message(_PACKET, content + _number(_SEQUENCE, _ONE_SEQUENCE)))


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())
