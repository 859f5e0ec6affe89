"""An environment with TensorFlow, given in DTF_TEST_TENSORFLOW (its python), and a cluster for its client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.clusters import free_ports

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def tensorflow_python() -> str:
    """The interpreter of that environment."""
    python = os.environ.get("DTF_TEST_TENSORFLOW")
    if not python:
        pytest.skip("set DTF_TEST_TENSORFLOW to the python of an environment with tensorflow==2.21.0")
    return python


@pytest.fixture(scope="session")
def stock_client(tensorflow_python: str) -> Iterator[Callable[..., str]]:
    """A function that runs a script of this folder with the stock client against a cluster of 1 ps and 2 workers.

    The tasks are processes of their own, since a client's `list_devices` waits while holding the interpreter.
    """
    ports = free_ports(3)
    cluster = {"ps": {0: f"127.0.0.1:{ports[0]}"}, "worker": {i: f"127.0.0.1:{ports[i + 1]}" for i in range(2)}}
    tasks = [
        subprocess.Popen(
            [sys.executable, str(HERE / "serve.py"), repr(cluster), job, str(index)],
            cwd=HERE.parent.parent,
            stdout=subprocess.PIPE,
            text=True,
        )
        for job, count in (("ps", 1), ("worker", 2))
        for index in range(count)
    ]
    try:
        for task in tasks:
            assert task.stdout is not None
            assert task.stdout.readline() == "serving\n"

        def run(script: str, *arguments: str, timeout: float = 250.0) -> str:
            env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
            done = subprocess.run(
                [tensorflow_python, str(HERE / script), f"grpc://{cluster['worker'][0]}", *arguments],
                capture_output=True,
                text=True,
                timeout=timeout,
                env=env,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
            return done.stdout

        yield run
    finally:
        for task in tasks:
            task.kill()
            task.wait()
