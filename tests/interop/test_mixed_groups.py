"""Groups of TensorFlow's servers and ours: each kind leads, and each has clients of its own."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.services.server import TaskServer, TaskServerConfig
from tests.interop.group_graph import STEPS, build, expected
from tests.support.ports import free_ports

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
HERE = Path(__file__).resolve().parent


class Group:
    """Four tasks: two are TensorFlow's, each a process, and two ours, in this one."""

    def __init__(self, python: str, leader: int, foreign: list[int], replicas: int, key: int) -> None:
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(4)]
        self._python = python
        self._foreign = foreign
        self._replicas, self._key = replicas, key
        self.size = 4 * replicas
        self._leader = f"/job:worker/replica:0/task:{leader}"
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.servers: dict[int, TaskServer] = {}
        self.errors: list[BaseException] = []

    def start(self, clients: list[list[int]]) -> None:
        """Start all tasks; those of TensorFlow's that head one of the lists have clients of these tasks."""
        for task in range(4):
            tasks = next((found for found in clients if found[0] == task), [])
            if task in self._foreign:
                self._start_foreign(task, tasks)
            else:
                self._start_ours(task)
        for process in self.processes.values():
            # TensorFlow is slow to start, and a leader is not waited for that long.
            assert read(process) == "ready\n"

    def _start_foreign(self, task: int, tasks: list[int]) -> None:
        self.processes[task] = subprocess.Popen(
            [
                self._python,
                str(HERE / "stock_group.py"),
                json.dumps({"worker": self.addresses}),
                str(task),
                self._leader,
                str(self._replicas),
                str(self._key),
                ",".join(map(str, tasks)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1", "CUDA_VISIBLE_DEVICES": ""},
        )

    def _start_ours(self, task: int) -> None:
        config = config_pb2.ConfigProto()
        config.experimental.collective_group_leader = self._leader
        self.servers[task] = TaskServer(
            TaskServerConfig(
                cluster={"worker": dict(enumerate(self.addresses))},
                job_name="worker",
                task_index=task,
                incarnation=7,
                listen=self.addresses[task],
                socket_path=None,
                tls=None,
                device_count=self._replicas,
                default_session_config=config,
            )
        )
        self.servers[task].start()

    def run_ours(self, tasks: list[int]) -> threading.Thread:
        """Run the steps of a client of ours, in a thread."""

        def run() -> None:
            try:
                self._run(tasks)
            except BaseException as e:
                self.errors.append(e)
                # They would wait for this task for ever.
                for process in self.processes.values():
                    process.kill()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def _run(self, tasks: list[int]) -> None:
        options = tf.RunOptions()
        options.experimental.collective_graph_key = self._key
        with tf.Graph().as_default():
            fetches, feeds = build(tf, self.size, tasks, self._replicas)
            config = tf.ConfigProto(device_filters=[f"/job:worker/task:{task}" for task in tasks])
            with tf.Session(f"grpc://{self.addresses[tasks[0]]}", config=config) as session:
                for step in range(STEPS):
                    found = session.run(fetches, dict.fromkeys(feeds, step), options if self._key else None)
                    self.check(found, step)

    def check(self, found: list[list[Any]], step: int) -> None:
        for device in found:
            for value, wanted in zip(device, expected(self.size, step), strict=True):
                np.testing.assert_allclose(np.ravel(value), np.ravel(wanted), rtol=1e-5)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()
        for server in self.servers.values():
            server.stop(0)


@pytest.fixture
def groups(tensorflow_python: str) -> Iterator[Any]:
    made: list[Group] = []

    def make(**options: Any) -> Group:
        made.append(Group(tensorflow_python, **options))
        return made[-1]

    yield make
    for group in made:
        group.close()


def read(process: subprocess.Popen[str]) -> str:
    """Read the next line that a process prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.kill()
        raise AssertionError(process.communicate()[1][-6000:])
    return line


def watch(group: Group, task: int) -> None:
    """Check what a client of TensorFlow's prints."""
    for step in range(STEPS):
        group.check(json.loads(read(group.processes[task])), step)


@pytest.mark.parametrize("leader", [0, 2], ids=["tensorflow leads", "dtfctl leads"])
def test_clients_of_one_task_each(groups: Any, leader: int) -> None:
    group = groups(leader=leader, foreign=[0, 3], replicas=1, key=6)
    group.start([[0], [3]])
    threads = [group.run_ours([1]), group.run_ours([2])]
    for task in (0, 3):
        watch(group, task)
    for thread in threads:
        thread.join(60)
    assert not group.errors, group.errors
    assert not any(thread.is_alive() for thread in threads)


def test_clients_of_two_tasks_each_with_two_devices(groups: Any) -> None:
    """The steps' numbers follow from the graph: no key is given."""
    group = groups(leader=2, foreign=[0, 1], replicas=2, key=0)
    group.start([[0, 1]])
    thread = group.run_ours([2, 3])
    watch(group, 0)
    thread.join(60)
    assert not group.errors, group.errors
    assert not thread.is_alive()
