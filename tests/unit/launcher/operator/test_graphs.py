"""Graphs of files: the process that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.operator.graphs import GraphView, of_file


def test_modules_in_the_folder_where_one_stands_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else may have put them there."""
    (tmp_path / "json.py").write_text("raise SystemExit('this is not the json that was meant')")
    (tmp_path / "model.pb").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"model\.pb is no graph"):
        of_file(Path("model.pb"), GraphView())
