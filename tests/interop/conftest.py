"""An environment with TensorFlow, given in DTF_TEST_TENSORFLOW (its python), and a cluster for its client."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import TaskStatus
from dtfctl.launcher.spec import load_spec

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent.parent / "cluster-examples" / "local.yaml"


@pytest.fixture(scope="session")
def tensorflow_python() -> str:
    """The interpreter of that environment."""
    python = os.environ.get("DTF_TEST_TENSORFLOW")
    if not python:
        pytest.skip("set DTF_TEST_TENSORFLOW to the python of an environment with tensorflow==2.21.0")
    return python


@dataclass
class Stock:
    """Programs of this folder under the stock client, on a cluster of 1 ps and 2 workers behind `dtfctl connect`."""

    python: str
    cluster: Cluster
    targets: tuple[str, str]
    """Of the two workers."""

    def start(self, script: str, *arguments: str, worker: int = 0) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, str(HERE / script), self.targets[worker], *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        )

    def run(self, script: str, *arguments: str, timeout: float = 600.0) -> str:
        return self.finish(self.start(script, *arguments), timeout=timeout)

    def finish(self, process: subprocess.Popen[str], said: str = "", timeout: float = 600.0) -> str:
        """Its output, once it has ended well; `said` is what it reads."""
        try:
            out, err = process.communicate(said, timeout=timeout)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, out[-3000:] + err[-6000:]
        return out

    def task(self, name: str) -> TaskStatus:
        return next(task for task in self.cluster.status().tasks if task.name == name)


@pytest.fixture(scope="session")
def stock(tensorflow_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    """The cluster of cluster-examples/local.yaml, reached as a user of TensorFlow reaches it."""
    home = tmp_path_factory.mktemp("interop") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(home))
        cluster = Cluster.up(load_spec(str(SPEC)), timeout_s=120.0).cluster
        assert cluster is not None
        try:
            with cluster.connect("worker/0") as first, cluster.connect("worker/1") as second:
                yield Stock(tensorflow_python, cluster, (first.target, second.target))
        finally:
            cluster.down(grace_s=1.0)
