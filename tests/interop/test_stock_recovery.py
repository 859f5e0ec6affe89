"""TensorFlow's own recovery, against tasks of ours that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clusters import free_ports

pytestmark = pytest.mark.interop
HERE = Path(__file__).resolve().parent


def serve(cluster: dict[str, dict[int, str]], job: str) -> subprocess.Popen[str]:
    task = subprocess.Popen(
        [sys.executable, str(HERE / "serve.py"), repr(cluster), job, "0"],
        cwd=HERE.parent.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert task.stdout is not None
    assert task.stdout.readline() == "serving\n"
    return task


def test_training_goes_on_from_the_newest_checkpoint(tensorflow_python: str, tmp_path: Path) -> None:
    ports = free_ports(2)
    cluster = {"ps": {0: f"127.0.0.1:{ports[0]}"}, "worker": {0: f"127.0.0.1:{ports[1]}"}}
    tasks = {job: serve(cluster, job) for job in cluster}
    client = subprocess.Popen(
        [tensorflow_python, str(HERE / "stock_recovery.py"), f"grpc://{cluster['worker'][0]}", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "kill\n"
        tasks["ps"].kill()
        tasks["ps"].wait()
        tasks["ps"] = serve(cluster, "ps")
        out, _ = client.communicate("killed\n", timeout=120)
        assert client.returncode == 0
        # Every step the checkpoint holds was made once: nothing lost twice, nothing made up.
        assert out.splitlines()[-1] == "step 60 value 120.0"
    finally:
        for process in (client, *tasks.values()):
            process.kill()
            process.wait()
