"""`make demo` from its first line to its last: a model trained on real digits, and nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dtfctl.launcher.paths import ClusterPaths
from tests.conftest import processes_below

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_trains_to_95_percent_and_leaves_only_logs_and_checkpoints(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = {
        **os.environ,
        "DTFCTL_DEMO_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run([ROOT / "tools" / "demo"], env=environ, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo is up: 3/3 tasks run" in done.stdout
    assert "demo is healthy: 3/3 tasks run" in done.stdout
    assert "demo is down" in done.stdout
    said = re.search(r"held-out digits: ([0-9.]+)%", done.stdout)
    assert said is not None, done.stdout + done.stderr
    assert float(said[1]) >= 95
    assert processes_below(home) == []
    cluster = home / "clusters" / "demo"
    ledger = ClusterPaths(cluster).ledger  # ids of jobs are not given again
    left = [path.relative_to(cluster).parts for path in cluster.rglob("*") if path.is_file() and path != ledger]
    assert {parts[0] if parts[0] == "logs" else parts[2] for parts in left} <= {"logs", "checkpoint"}, left
