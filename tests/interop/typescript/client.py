"""The TypeScript client as tests use it: built here, where node and its packages are."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "clients" / "typescript"
TOOLS = FOLDER / "node_modules" / ".bin"


def node() -> str:
    """The program; skips the test where it, or what the client needs of its packages, is not there."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node on PATH: install Node.js 20 or newer")
    if not (TOOLS / "tsc").exists():
        pytest.skip("the client's packages are not installed: npm ci in clients/typescript")
    return found


def built() -> Path:
    """The client's folder, compiled from what its sources are now."""
    node()
    with open(Path(tempfile.gettempdir()) / f"dtfctl-typescript-{os.getuid()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(file.stat().st_mtime for file in (*FOLDER.glob("src/*.ts"), FOLDER / "tsconfig.json"))
        made = FOLDER / "dist" / "index.js"
        if not made.exists() or made.stat().st_mtime < newest:
            done = subprocess.run([TOOLS / "tsc"], cwd=FOLDER, capture_output=True, text=True, timeout=200)
            assert done.returncode == 0, done.stdout + done.stderr
    return FOLDER


def run_tests(name: str, **variables: str) -> None:
    """Run a file of tests by node's own runner."""
    command = [node(), "--test", f"test/{name}"]
    done = subprocess.run(
        command, cwd=built(), env={**os.environ, **variables}, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "# skipped 0" in done.stdout and "# fail 0" in done.stdout, done.stdout[-2000:]
