"""Studies of `dtfctl tune` in the dashboard: what is read of the files in which they tell of themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

from dtfctl.dashboard import studies
from dtfctl.dashboard.server import Dashboard
from dtfctl.launcher.api import Cluster
from tests.doubles.launcher import status, task
from tests.unit.dashboard.test_server import FakeCluster, Page


def tell(folder: Path, name: str, at_s: int, **told: object) -> None:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(told))
    os.utime(file, ns=(at_s * 10**9, at_s * 10**9))


def test_the_newest_studies_are_shown_and_anew_when_they_change(tmp_path: Path) -> None:
    folder = tmp_path / "studies"
    found = studies.Studies(folder)
    assert found.read() == {}
    folder.mkdir()
    for number in range(studies.MOST + 2):
        tell(folder, f"s{number}", 100 + number, title=f"study {number}")
    read = found.read()
    assert set(read) == {f"s{number}" for number in range(2, studies.MOST + 2)}
    assert read["s5"] == {"title": "study 5", "name": "s5", "time": 105.0}
    # What has not changed is not read again: it is the same object.
    tell(folder, "s5", 500, title="study 5", over="all trials have run")
    again = found.read()
    assert again["s5"]["over"] == "all trials have run" and again["s5"]["time"] == 500.0
    assert again["s6"] is read["s6"]


def test_what_is_no_study_is_left_out(tmp_path: Path) -> None:
    tell(tmp_path, "good", 1, title="good")
    (tmp_path / "half.json").write_text('{"title": "ha')
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "other.txt").write_text("{}")
    (tmp_path / "large.json").write_text(json.dumps({"title": "x" * studies.MOST_BYTES}))
    (tmp_path / "link.json").symlink_to(tmp_path / "good.json")
    assert set(studies.Studies(tmp_path).read()) == {"good"}


def test_pages_are_told_of_studies_and_that_one_is_gone(tmp_path: Path) -> None:
    cluster = FakeCluster(status(task("worker/0")))
    tell(tmp_path, "first", 1, title="</script>", points=[{"trial": 0, "score": float("nan")}])
    dashboard = Dashboard(lambda: cast(Cluster, cluster), studies=tmp_path)
    dashboard.start()
    try:
        page = Page(dashboard, cluster)
        told = page.stream("/api/stream", page.login())
        found = next(value for news in told for kind, name, value in news["set"] if (kind, name) == ("study", "first"))
        assert found == {"title": "</script>", "points": [{"trial": 0, "score": None}], "name": "first", "time": 1.0}
        (tmp_path / "first.json").unlink()
        assert next(value for news in told for kind, name, value in news["set"] if kind == "study") is None
    finally:
        dashboard.close()
