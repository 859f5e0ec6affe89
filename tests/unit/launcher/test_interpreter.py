"""What a Python of a host says of itself."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from dtfctl.launcher.agent.start.interpreter import ask


def test_what_lies_in_the_working_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "glob", "platform", "importlib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this was run')")
    monkeypatch.chdir(tmp_path)
    found = ask(sys.executable)
    assert found.version == platform.python_version()
    assert any(item.name == "numpy" for item in found.have)
