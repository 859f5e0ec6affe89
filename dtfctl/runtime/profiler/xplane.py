"""Write a timeline as TensorBoard's profile plugin reads it: a file a task below plugins/profile/RUN of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dtfctl.protocol import xplane_pb2
from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.tracks import Bar, bars
from dtfctl.runtime.steps.recording import Kind

ENDING = ".xplane.pb"
# The plane whose lines are threads of a host.
_PLANE = "/host:CPU"
# "_r" and "step_num" make an event a step, of which the profiler's overview and input analysis speak.
_STATS = ("step", "about", "bytes", "_r", "step_num")
# What the profiler takes for a step of a program.
_STEP = "train"
_PS = 1000


def write_xplane(records: Sequence[TaskRecord], folder: Path, run: str) -> list[Path]:
    """Write all events; the files.

    Args:
        folder: what TensorBoard is given as its logdir.
        run: what it calls this profile.

    Raises:
        OSError: they cannot be written.
    """
    place = folder / "plugins" / "profile" / run
    place.mkdir(parents=True, exist_ok=True)
    drawn: dict[int, list[Bar]] = {}
    for bar in bars(records):
        drawn.setdefault(bar.process, []).append(bar)
    written = []
    for process, record in enumerate(records, 1):
        if process in drawn:
            file = place / (record.name.replace("/", "_") + ENDING)
            file.write_bytes(space_of(record, drawn[process]).SerializeToString())
            written.append(file)
    return written


def space_of(record: TaskRecord, own: Sequence[Bar]) -> xplane_pb2.XSpace:
    """Make what one task's file has; `own` are its bars."""
    space = xplane_pb2.XSpace(hostnames=[record.name])
    if record.problem:
        space.errors.append(record.problem)
    if record.lost:
        space.warnings.append(f"{record.lost} events are missing: there was no room for them")
    plane = space.planes.add(id=1, name=_PLANE)
    for number, name in enumerate(_STATS, 1):
        plane.stat_metadata[number].id, plane.stat_metadata[number].name = number, name
    names: dict[str, int] = {}
    lines: dict[int, xplane_pb2.XLine] = {}
    # Their own numbers are random.
    steps: dict[int, int] = {}
    first = min(bar.event.start for bar in own)
    for bar in own:
        line = lines.get(bar.row)
        if line is None:
            line = lines[bar.row] = plane.lines.add(
                id=bar.row, display_id=bar.row, name=f"thread {bar.row}", timestamp_ns=first
            )
        number = names.setdefault(bar.label, len(names) + 1)
        event = bar.event
        offset, duration = (event.start - first) * _PS, event.spent * _PS
        if event.kind is Kind.PART:
            around = line.events.add(
                metadata_id=names.setdefault(_STEP, len(names) + 1), offset_ps=offset, duration_ps=duration
            )
            around.stats.add(metadata_id=4, int64_value=1)
            around.stats.add(metadata_id=5, int64_value=steps.setdefault(event.step, len(steps) + 1))
        shown = line.events.add(metadata_id=number, offset_ps=offset, duration_ps=duration)
        if event.step:
            shown.stats.add(metadata_id=1, str_value=f"{event.step:x}")
        if event.about:
            shown.stats.add(metadata_id=2, str_value=event.about)
        if event.bytes:
            shown.stats.add(metadata_id=3, int64_value=event.bytes)
    for label, number in names.items():
        plane.event_metadata[number].id, plane.event_metadata[number].name = number, label
    return space
