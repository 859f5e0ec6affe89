"""A client elsewhere that steps in a group wait for, and whose host is lost: nobody says that it has gone.

Clients elsewhere reach their tasks by gRPC alone, TensorFlow's own ones too.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest

import dtfctl.runtime as tf
from dtfctl.net import keepalive
from dtfctl.net.pings import SILENT_S
from tests.interop.conftest import tensorflow_python
from tests.lab.netns import REPOSITORY, Lab
from tests.support.ports import free_ports

__all__ = ["tensorflow_python"]

STOCK = REPOSITORY / "tests" / "interop" / "stock_collectives.py"
CLIENT = """
import sys
import dtfctl.runtime as tf

with tf.device("/job:worker/task:1"):
    total = tf.raw_ops.CollectiveReduceV2(
        input=[2.0], group_size=2, group_key=14, instance_key=1, ordering_token=[], merge_op="Add", final_op="Id"
    )
session = tf.Session(sys.argv[1], config=tf.ConfigProto(device_filters=["/job:worker/task:1"]))
print("ready", flush=True)
for _ in sys.stdin:
    print(session.run(total), flush=True)
"""
TASK = """
import json
import sys
import dtfctl.runtime as tf

server = tf.train.Server(json.loads(sys.argv[1]), "worker", int(sys.argv[2]))
print("ready", flush=True)
server.join()
"""


class Program:
    """A process in the network of a host, whose first process is `init`, or of the tests."""

    def __init__(self, init: int | None, command: Sequence[str]) -> None:
        inside = [] if init is None else ["nsenter", "-t", str(init), "-n", "--"]
        self.process = subprocess.Popen(
            [*inside, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    made: list[Program] = []

    def start(init: int | None, *command: str) -> Program:
        made.append(Program(init, command))
        assert made[-1].hear() == "ready"
        return made[-1]

    yield start
    for program in made:
        program.process.kill()
        program.process.communicate()


@pytest.mark.nightly
@pytest.mark.parametrize("lost", ["client", "client and task"])
@pytest.mark.parametrize("kind", ["ours", "stock"])
def test_a_client_that_is_lost_with_its_host_keeps_no_other_waiting(
    make_lab: Callable[[int], Lab],
    start: Callable[..., Program],
    request: pytest.FixtureRequest,
    kind: str,
    lost: str,
) -> None:
    python = sys.executable if kind == "ours" else request.getfixturevalue("tensorflow_python")
    lab = make_lab(1)
    (host,) = lab.names
    there = lab.init(host)
    ports = free_ports(2)
    where = lab.address_of(host) if lost == "client and task" else lab.gateway
    addresses = [f"{lab.gateway}:{ports[0]}", f"{where}:{ports[1]}"]
    cluster = f'{{"worker": ["{addresses[0]}", "{addresses[1]}"]}}'
    start(None, sys.executable, "-c", TASK, cluster, "0")
    start(there if lost == "client and task" else None, sys.executable, "-c", TASK, cluster, "1")
    target = f"grpc://{addresses[1]}"
    how = ("-c", CLIENT, target) if kind == "ours" else (str(STOCK), target, "stepwise", "1")
    other = start(there, python, *how)
    with tf.Graph().as_default(), tf.device("/job:worker/task:0"):
        total = tf.raw_ops.CollectiveReduceV2(
            input=[1.0], group_size=2, group_key=14, instance_key=1, ordering_token=[], merge_op="Add", final_op="Id"
        )
        config = tf.ConfigProto(device_filters=["/job:worker/task:0"])
        # What notices nothing ends with DEADLINE_EXCEEDED.
        config.operation_timeout_in_ms = 2 * SILENT_S * 1000
        with tf.Session(f"grpc://{addresses[0]}", config=config) as session:
            other.say()
            assert session.run(total).tolist() == [3.0]
            assert other.hear().replace(".0", ".") == "[3.]"
            lab.cut(host)
            with pytest.raises((tf.errors.AbortedError, tf.errors.UnavailableError)):
                session.run(total)


@pytest.mark.nightly
def test_a_connection_on_which_something_is_on_its_way_ends_as_well(
    make_lab: Callable[[int], Lab], start: Callable[..., Program]
) -> None:
    """The kernel asks nothing there, and sends it again for a quarter of an hour."""
    lab = make_lab(1)
    (host,) = lab.names
    with socket.create_server((lab.gateway, 0)) as listening:
        connects = f"s = socket.create_connection({listening.getsockname()[:2]!r})"
        program = f"import socket, sys; {connects}; print('ready'); sys.stdin.read()"
        start(lab.init(host), sys.executable, "-uc", program)
        connection, _ = listening.accept()
        with connection:
            keepalive.prepare(connection)
            lab.cut(host)
            connection.send(b"answer")
            connection.settimeout(2 * SILENT_S)
            with pytest.raises(OSError, match=r"Connection timed out|No route to host"):
                connection.recv(1)
