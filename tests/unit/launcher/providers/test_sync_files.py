"""What `sync` would send, and what is said of files that cannot be sent."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.providers.files import Syncs
from dtfctl.launcher.spec.model import Sync


def test_content_is_named_by_what_it_is(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "cache").mkdir(parents=True)
    (project / "code.py").write_text("first")
    (project / "cache" / "left.out").write_text("")
    syncs = Syncs(tmp_path / "archives", (Sync(str(project), "~/project", ("cache/",)),))
    (first,) = syncs.current()
    assert syncs.current() == [first]
    with tarfile.open(syncs.archive(first)) as tar:
        assert tar.getnames() == ["code.py"]
    (project / "code.py").write_text("second")
    (second,) = syncs.current()
    assert second.hash != first.hash


def test_a_source_that_went_away_is_a_fault_of_the_host_s_files_by_name(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "code.py").write_text("")
    syncs = Syncs(tmp_path / "archives", (Sync(str(project), "~/project"),))
    (entry,) = syncs.current()
    (project / "code.py").unlink()
    project.rmdir()
    for ask in (syncs.current, lambda: syncs.archive(entry)):
        with pytest.raises(HostFailed, match=str(project)) as raised:
            ask()
        assert raised.value.cause == "sync"


def test_a_link_to_nothing_is_sent_as_it_is_and_an_unreadable_file_is_named(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "dangling").symlink_to("nowhere")
    (entry,) = Syncs(tmp_path / "archives", (Sync(str(project), "~/project"),)).current()
    (project / "broken").symlink_to("broken")
    again = Syncs(tmp_path / "archives", (Sync(str(project / "broken" / "inside"), "~/x"),))
    assert entry.hash
    with pytest.raises(HostFailed, match="broken"):
        again.current()
