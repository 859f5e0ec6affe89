"""Timelines as they are drawn and written, of any events."""

from __future__ import annotations

import io
import json
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from hypothesis import given, strategies as st

from dtfctl.protocol import xplane_pb2
from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.chrome import write_chrome
from dtfctl.runtime.profiler.perfetto import write_perfetto
from dtfctl.runtime.profiler.summary import summarize
from dtfctl.runtime.profiler.tracks import bars
from dtfctl.runtime.profiler.xplane import write_xplane
from dtfctl.runtime.steps.recording import Event, Kind
from tests.unit.profiler.traces import read

events = st.builds(
    Event,
    kind=st.sampled_from(Kind),
    name=st.text(max_size=5),
    about=st.sampled_from(["", "/job:ps/replica:0/task:0", "MatMul"]),
    start=st.integers(0, 60),
    spent=st.integers(0, 30),
    thread=st.integers(1, 3),
    step=st.integers(0, 2),
    bytes=st.integers(0, 100),
    flow=st.integers(0, 4),
)
records = st.lists(
    st.builds(
        TaskRecord,
        name=st.sampled_from(["ps/0", "worker/0", "worker/1"]),
        steps=st.integers(0, 3),
        events=st.lists(events, max_size=25).map(lambda found: sorted(found, key=lambda event: event.start)),
    ),
    max_size=3,
)


@given(records)
def test_bars_of_a_row_lie_beside_or_within_each_other(found: list[TaskRecord]) -> None:
    rows = defaultdict(list)
    for bar in bars(found):
        rows[bar.process, bar.row].append(bar.event)
    assert sum(map(len, rows.values())) == sum(len(record.events) for record in found)
    for row in rows.values():
        assert len({event.thread for event in row}) == 1
        for n, first in enumerate(row):
            for second in row[n + 1 :]:
                assert second.start >= first.end or second.end <= first.end


@given(records)
def test_perfetto_gets_every_bar_with_its_end(found: list[TaskRecord]) -> None:
    file = io.BytesIO()
    write_perfetto(found, file)
    processes, points = read(file.getvalue())
    assert [processes[n << 32] for n in range(1, len(found) + 1)] == [record.name for record in found]
    assert len(points) == 2 * sum(len(record.events) for record in found)
    tracks = defaultdict(list)
    for point in points:
        tracks[point.track].append(point)
    for row in tracks.values():
        depth, now = 0, 0
        for point in row:
            assert point.when >= now, "a viewer takes what is out of order for lost"
            now = point.when
            depth += 1 if point.kind == 1 else -1
            assert depth >= 0
        assert depth == 0


@given(records)
def test_chrome_gets_json_with_flows_from_send_to_arrival(found: list[TaskRecord]) -> None:
    file = io.StringIO()
    write_chrome(found, file)
    lines = json.loads(file.getvalue())["traceEvents"]
    assert sum(line["ph"] == "X" for line in lines) == sum(len(record.events) for record in found)
    assert {line["id"] for line in lines if line["ph"] == "f"} == {line["id"] for line in lines if line["ph"] == "s"}


@given(records)
def test_a_summary_is_json_of_shares_and_times(found: list[TaskRecord]) -> None:
    summary = json.loads(json.dumps(summarize(found)))
    for task in summary["tasks"]:
        assert all(0 <= share <= 1 for share in (task["collecting"], *task["waits"].values()))
        assert task["step_ms"] >= 0


def test_a_summary_names_whom_a_worker_waits_for_and_the_slow_one() -> None:
    ps = "/job:ps/replica:0/task:0"

    def worker(name: str, long: int, waiting: int) -> TaskRecord:
        part = Event(Kind.PART, "step", "s", 0, long, 1, 1, 0, 0)
        wait = Event(Kind.WAIT, "w1", ps, 0, waiting, 1, 1, 0, 7)
        return TaskRecord(name, steps=1, events=[part, wait])

    summary = summarize([worker("worker/0", 1000, 100), worker("worker/1", 2000, 1200)])
    first, second = summary["tasks"]
    assert (first["waits"], second["waits"]) == ({"ps/0": 0.1}, {"ps/0": 0.6})
    assert [sentence.split(":")[0] for sentence in summary["advice"]] == [
        "worker/1 waits 60% of the step for ps/0",
        "worker/1 takes 2.0 times as long for a step as worker/0, the fastest",
    ]


@given(records)
def test_tensorboard_gets_every_event_where_it_began(found: list[TaskRecord]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = write_xplane([replace(record, name=f"t/{n}") for n, record in enumerate(found)], Path(folder), "run")
        assert {file.parent for file in files} <= {Path(folder, "plugins", "profile", "run")}
        spaces = {file.name: xplane_pb2.XSpace.FromString(file.read_bytes()) for file in files}
    assert sorted(spaces) == [f"t_{n}.xplane.pb" for n, record in enumerate(found) if record.events]
    for n, record in enumerate(found):
        if not record.events:
            continue
        (plane,) = spaces[f"t_{n}.xplane.pb"].planes
        shown = [
            (line.timestamp_ns + event.offset_ps // 1000, event.duration_ps // 1000)
            for line in plane.lines
            for event in line.events
        ]
        assert sorted(shown) == sorted((event.start, event.spent) for event in record.events)
        used = {event.metadata_id for line in plane.lines for event in line.events}
        assert used == plane.event_metadata.keys() and all(plane.event_metadata[i].id == i for i in used)
