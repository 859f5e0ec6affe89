"""The client of the page "write a client in your language", as it stands there, without dtfctl."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.paths import ClusterPaths
from tests.cluster.conftest import spec_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text()
SAID = [
    "w is 2.000",
    "INVALID_ARGUMENT You must feed a value for placeholder tensor 'x' with dtype float",
    "DEADLINE_EXCEEDED",
]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "home"))
    found = Cluster.up(spec_of("net", ps=1, worker=1)).cluster
    assert found is not None
    yield found
    found.down(grace_s=1.0)


@pytest.mark.slow
def test_the_client_of_the_page_works_over_tls(cluster: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    script = tmp_path / "train.py"
    script.write_text(program)
    (command,) = re.findall(r"^\$ python -m (grpc_tools.protoc .*)$", PAGE, re.MULTILINE)
    made = " ".join(word if "_out=" not in word else word.replace("=.", f"={tmp_path}") for word in command.split())
    subprocess.run(f"{sys.executable} -m {made}", shell=True, cwd=ROOT, check=True, timeout=280)

    def run(*words: str) -> list[str]:
        # Isolated, but for the folder of the script and what it needs: nothing of this repository.
        environ = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, str(script), *words]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    address = next(task.address for task in cluster.status().tasks if task.name == "worker/0")
    certificates = ClusterPaths.of(cluster.name).certificates
    assert run(address, str(certificates), f"worker-0.task.{cluster.name}.dtfctl") == SAID
    assert all(line in PAGE for line in SAID) and "dtfctl" not in program
