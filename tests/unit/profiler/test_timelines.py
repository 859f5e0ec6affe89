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
        shares = ("collecting", "sync", "input", "between", "overtaken")
        assert all(0 <= share <= 1 for share in (*(task[name] for name in shares), *task["waits"].values()))
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


def test_what_several_threads_wait_for_at_once_is_waited_for_once() -> None:
    ps = "/job:ps/replica:0/task:0"
    part = Event(Kind.PART, "step", "s", 0, 1000, 1, 1, 0, 0)
    waits = [Event(Kind.WAIT, f"w{thread}", ps, 100, 300, thread, 1, 0, thread) for thread in range(3)]
    # Of a step of which the end was not seen nothing is known.
    waits.append(Event(Kind.WAIT, "w", ps, 0, 900, 9, 2, 0, 9))
    (task,) = summarize([TaskRecord("worker/0", steps=1, events=[part, *waits])])["tasks"]
    assert task["waits"] == {"ps/0": 0.3} and task["sync"] == 0.3


def test_what_fills_a_queue_beside_the_steps_is_none_of_them() -> None:
    feeding = [
        Event(Kind.PART, "step", "s", 0, 9_000, 2, 7, 0, 0),
        Event(Kind.INPUT, "next", "", 0, 4_000, 2, 7, 0, 0),
        Event(Kind.QUEUE, "put", "enqueue", 4_000, 5_000, 2, 7, 0, 0),
    ]
    training = [
        Event(Kind.PART, "step", "s", 1_000, 1_000, 1, 8, 0, 0),
        Event(Kind.QUEUE, "take", "", 1_000, 100, 1, 8, 0, 0),
    ]
    runs = [Event(Kind.RUN, "run train", "", start, 1_000, 1) for start in (0, 3_000)]
    runs.append(Event(Kind.RUN, "run put", "enqueue", 0, 9_000, 2))
    worker = TaskRecord("worker/0", steps=2, events=[*feeding, *training])
    client = TaskRecord("job-1 worker/0", is_client=True, steps=3, events=runs)
    task, script = summarize([worker, client])["tasks"]
    assert (task["step_ms"], task["input"]) == (1e-3, 0.1)
    assert (script["step_ms"], script["between"]) == (1e-3, 0.5)


def test_each_figure_has_a_threshold_and_what_is_too_much_an_advice() -> None:
    part = Event(Kind.PART, "step", "s", 0, 20_000_000, 1, 1, 0, 0)
    busy = [
        Event(Kind.INPUT, "next", "", 0, 4_000_000, 1, 1, 0, 0),
        Event(Kind.COPY, "to the device", "", 5_000_000, 6_000_000, 1, 0, 10, 0),
        Event(Kind.WAIT, "sum", "/job:worker/replica:0/task:0", 12_000_000, 5_000_000, 1, 1, 0, 4),
    ]
    ps = TaskRecord("ps/0", steps=4, updates=4, overtaken=4, between=20, events=[part])
    runs = [Event(Kind.RUN, "train", "", start, 1_000_000, 1) for start in (0, 3_000_000)]
    client = TaskRecord("job-1 worker/0", is_client=True, steps=2, events=runs)
    summary = summarize([ps, TaskRecord("worker/0", steps=1, events=[part, *busy]), client])
    found = {finding["kind"]: finding for finding in summary["findings"] if finding["is_crossed"]}
    assert {kind: (f["task"], round(f["value"], 3), f["threshold"]) for kind, f in found.items()} == {
        "conflicts": ("ps/0", 5.0, 4.0),
        "sync": ("worker/0", 0.25, 0.2),
        "input": ("worker/0", 0.2, 0.1),
        "copies": ("worker/0", 6.0, 5.0),
        "script": ("job-1 worker/0", 0.5, 0.2),
    }
    assert summary["advice"] == [f["advice"] for f in summary["findings"] if f["is_crossed"]]
    assert {f["kind"] for f in summary["findings"] if not f["is_crossed"]} == {"collector"}
    assert "waits 25% of the step for its group" in found["sync"]["advice"]


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
        shown: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        steps = set()
        for line in plane.lines:
            for event in line.events:
                stats = {plane.stat_metadata[stat.metadata_id].name: stat for stat in event.stats}
                is_mark = "step_num" in stats
                shown[is_mark].append((line.timestamp_ns + event.offset_ps // 1000, event.duration_ps // 1000))
                if is_mark:
                    steps.add(stats["step_num"].int64_value)
                    assert stats["_r"].int64_value == 1
        parts = [event for event in record.events if event.kind is Kind.PART]
        assert sorted(shown[False]) == sorted((event.start, event.spent) for event in record.events)
        # What the profiler takes for steps.
        assert sorted(shown[True]) == sorted((event.start, event.spent) for event in parts)
        assert steps == set(range(1, len({event.step for event in parts}) + 1))
        used = {event.metadata_id for line in plane.lines for event in line.events}
        assert used == plane.event_metadata.keys() and all(plane.event_metadata[i].id == i for i in used)


def test_collections_are_a_share_of_the_time_that_was_recorded_not_of_the_steps_that_were() -> None:
    step = [Event(Kind.PART, "step", "s", start, 1_000, 1, start, 0, 0) for start in (0, 99_000)]
    collection = Event(Kind.COLLECTION, "generation 2", "", 50_000, 3_000, 1, 0, 0, 0)
    ps, worker = summarize([TaskRecord("ps/0", steps=2, events=[*step, collection]), TaskRecord("worker/0", steps=1)])[
        "tasks"
    ]
    assert (ps["collecting"], worker["collecting"]) == (0.03, 0.0)
