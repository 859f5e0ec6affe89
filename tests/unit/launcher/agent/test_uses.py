"""What one host of a shared home uses is not removed by another, which sees none of its processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtfctl.launcher.agent.start import environments
from dtfctl.launcher.agent.start.uses import note_uses
from dtfctl.launcher.providers import host_layers

LONG_AGO_S = 20 * 86400.0


def make(root: Path, name: str, mark: str, content: str) -> Path:
    """A folder that was used last three weeks ago, with a Python in it."""
    folder = root / name
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / mark).write_text(content)
    then = time.time() - LONG_AGO_S
    for path in (folder, folder / mark):
        os.utime(path, (then, then))
    return folder


def test_another_host_leaves_what_this_one_runs_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = (make(tmp_path / "runtime", name, "layers.json", "[]") for name in ("mine", "other"))
    used, unused = (
        make(tmp_path / "environments", name, "ready", json.dumps({"bytes": 1})) for name in ("used", "unused")
    )
    words = [str(used / "bin" / "python"), "-c", "print(flush=True); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None and job.stdout.readline()
        note_uses(mine, tmp_path / "environments")
        job.communicate(b"\n")
    monkeypatch.setattr(host_layers, "BASE", str(tmp_path))
    host_layers.forget_unused()
    environments.forget_unused(tmp_path / "environments")
    assert (mine.exists(), other.exists()) == (True, False)
    assert (used.exists(), unused.exists()) == (True, False)


def test_a_python_that_is_no_runtime_is_left_alone(tmp_path: Path) -> None:
    folder = make(tmp_path, "venv", "pyvenv.cfg", "")
    before = folder.stat().st_mtime
    note_uses(folder, tmp_path / "nowhere")
    assert folder.stat().st_mtime == before
