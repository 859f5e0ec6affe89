"""Trials as TensorBoard's page HParams reads them: an event file each."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import google_crc32c
from google.protobuf.struct_pb2 import Value

from dtfctl.durable import whole_file
from dtfctl.protocol.hparams_pb2 import HParamsPluginData, SessionEndInfo
from dtfctl.protocol.summary_pb2 import Event
from dtfctl.tune.plots import Point
from dtfctl.tune.records import Ended
from dtfctl.tune.schedule import Leg
from dtfctl.tune.space import Setting, Study

PLUGIN = "hparams"
START, END = "_hparams_/session_start_info", "_hparams_/session_end_info"
_MASK = 0xA282EAD8


def write_trial(
    folder: Path, study: Study, point: Point, ended: Sequence[Ended], legs: Mapping[tuple[int, int], Leg]
) -> None:
    """Write the event file of a trial: its settings, and its scores by budget."""
    events = [Event(wall_time=0.0, file_version="brain.Event:2")]
    start = HParamsPluginData(version=0)
    for name, setting in point.settings.items():
        start.session_start_info.hparams[name].CopyFrom(_value(setting))
    start.session_start_info.group_name = f"trial {point.trial}"
    events.append(_told(START, start))
    for number, one in enumerate(sorted(ended, key=lambda e: e.key)):
        step = legs[one.key].budget or number
        event = Event(wall_time=0.0, step=step)
        event.summary.value.add(tag=study.metric, simple_value=one.score or 0.0)
        for name, told in one.metrics:
            if name != study.metric:
                event.summary.value.add(tag=name, simple_value=told)
        events.append(event)
    end = HParamsPluginData(version=0)
    end.session_end_info.status = SessionEndInfo.STATUS_SUCCESS
    events.append(_told(END, end))
    place = folder / f"trial-{point.trial}"
    place.mkdir(parents=True, exist_ok=True)
    with whole_file(place / "events.out.tfevents.0.study", 0o644) as out:
        for event in events:
            out.write(_record(event.SerializeToString()))


def _told(tag: str, data: HParamsPluginData) -> Event:
    event = Event(wall_time=0.0)
    metadata = event.summary.value.add(tag=tag).metadata
    metadata.plugin_data.plugin_name = PLUGIN
    metadata.plugin_data.content = data.SerializeToString()
    return event


def _value(setting: Setting) -> Value:
    if isinstance(setting, bool):
        return Value(bool_value=setting)
    return Value(string_value=setting) if isinstance(setting, str) else Value(number_value=setting)


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _checksum(content: bytes) -> bytes:
    crc = google_crc32c.value(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)
