"""`sync` and `setup` on localhost, and again whenever `up` finds that something has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import Sync
from tests.cluster.conftest import STUB_COMMAND, pids, spec_of


@pytest.fixture
def me(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own."""
    folder = tmp_path / "me"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    yield folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "big.bin").write_bytes(b"x")
    (folder / "helper.py").write_text("first")
    (folder / "old.txt").write_text("goes away")
    return folder


def test_files_and_set_up_follow_what_changes_while_tasks_go_on(home: Path, me: Path, project: Path) -> None:
    spec = spec_of(sync=(Sync(str(project), "~/copy", ("data/",)),), setup=("echo in $PWD >> ~/setups",))
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (0, 3), result.problems
    assert (me / "copy" / "helper.py").read_text() == "first"
    assert not (me / "copy" / "data").exists()
    assert (me / "setups").read_text() == f"in {me / 'copy'}\n"
    assert result.cluster is not None
    before = pids(result.cluster)

    assert Cluster.up(spec, task_command=STUB_COMMAND).exit_code == 0
    assert (me / "setups").read_text().count("in ") == 1, "nothing has changed"

    (project / "helper.py").write_text("second")
    (project / "old.txt").unlink()
    assert Cluster.up(spec, task_command=STUB_COMMAND).exit_code == 0
    assert (me / "copy" / "helper.py").read_text() == "second"
    assert not (me / "copy" / "old.txt").exists()
    assert (me / "setups").read_text().count("in ") == 2, "other files: set up again"
    assert pids(result.cluster) == before


def test_a_set_up_that_fails_is_said_and_can_be_mended(home: Path, me: Path) -> None:
    assert Cluster.up(spec_of(), task_command=STUB_COMMAND).exit_code == 0
    failing = spec_of(setup=("test -e ~/there || { echo not there yet >&2; exit 3; }",))
    result = Cluster.up(failing, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (5, 3), "all run, but not as the file says"
    (problem,) = result.problems
    assert "ended with 3: not there yet" in problem
    (me / "there").touch()
    result = Cluster.up(failing, task_command=STUB_COMMAND)
    assert (result.exit_code, result.problems) == (0, ())


def test_a_first_up_whose_set_up_fails_starts_nothing(home: Path, me: Path) -> None:
    result = Cluster.up(spec_of(setup=("echo no >&2; exit 3",)), task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (1, 0)
    assert "ended with 3: no" in result.problems[0]


def test_a_folder_may_stay_where_it_is_but_not_go_into_itself(home: Path, me: Path, project: Path) -> None:
    here = spec_of(sync=(Sync(str(project), str(project)),))
    assert Cluster.up(here, task_command=STUB_COMMAND).exit_code == 0
    assert (project / "data" / "big.bin").exists()
    inside = spec_of(sync=(Sync(str(project), str(project / "copy")),))
    result = Cluster.up(inside, task_command=STUB_COMMAND)
    assert result.exit_code == 5
    assert "lies inside of" in result.problems[0]
