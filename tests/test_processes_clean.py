"""The check that no process of a test cluster outlives the tests finds what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import processes_below


def test_a_process_of_a_cluster_below_the_folder_is_found(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()"]
    environ = {**os.environ, "DTFCTL_HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE) as process:
        try:
            found = processes_below(tmp_path)
            assert [line.split()[0] for line in found] == [str(process.pid)]
            assert processes_below(tmp_path / "elsewhere") == []
        finally:
            process.kill()
            process.wait()
    assert processes_below(tmp_path) == []
