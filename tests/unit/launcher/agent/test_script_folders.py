"""Where the scripts of jobs are kept."""

from __future__ import annotations

from pathlib import Path

from dtfctl.launcher.agent.start.launch import script_path


def test_a_script_that_was_renamed_does_not_lie_beside_the_old_one_where_its_imports_look(tmp_path: Path) -> None:
    old, new = (script_path(tmp_path, "a" * 64, name) for name in ("queue.py", "train.py"))
    assert (old.name, new.name) == ("queue.py", "train.py") and old.parent != new.parent
    assert script_path(tmp_path, "a" * 64, "train.py") == new
    assert script_path(tmp_path, "b" * 64, "train.py").parent != new.parent
