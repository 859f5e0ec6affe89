"""python -m benchmarks.micro.transports: what a step over several task processes costs, by transport.

The client is in the process of worker 0, as in a TF1 program that makes its own Server, or with `--client` in a process
of its own. Times are of whole steps; the smallest of many says most on a machine that does other work too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dtfctl.runtime as tf
from tests.support.ports import free_ports

ROOT = Path(__file__).parents[2]
SERVE = ROOT / "tests" / "support" / "serve.py"


@contextlib.contextmanager
def cluster(transport: str, workers: int, own_client: bool) -> Iterator[str]:
    """A ps and workers, each a process; worker 0 is this one unless `own_client`. The session target."""
    ports = free_ports(1 + workers)
    addresses = {"ps": [f"127.0.0.1:{ports[0]}"], "worker": [f"127.0.0.1:{p}" for p in ports[1:]]}
    os.environ["DTF_TRANSPORT"] = transport
    others = [("ps", 0), *(("worker", i) for i in range(0 if own_client else 1, workers))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SERVE), repr(addresses), job, str(index)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for job, index in others
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "serving\n"
        if own_client:
            yield f"grpc://{addresses['worker'][0]}"
        else:
            server = tf.train.Server(addresses, "worker", 0)
            yield server.target
            server.stop(0)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def timed(step: Callable[[], Any], seconds: float) -> tuple[float, float, int]:
    """Median and least time of a step, and how many were run."""
    for _ in range(6):
        step()
    times: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 5:
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return statistics.median(times), min(times), len(times)


def local_add(elements: int) -> tuple[Any, None]:
    """Worker 0 makes a tensor, which is fetched."""
    with tf.device("/job:worker/task:0"):
        return tf.fill([elements], tf.constant(1.5)) if elements > 1 else tf.constant(1.5) + tf.zeros([]), None


def null_step(workers: int) -> tuple[Any, None]:
    ops = []
    for device in ("/job:ps/task:0", *(f"/job:worker/task:{i}" for i in range(workers))):
        with tf.device(device):
            ops.append(tf.no_op())
    return ops, None


def ps_step(elements: int, workers: int) -> tuple[Any, Any]:
    """Each worker reads the variable and sends a gradient; the ps adds their mean."""
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(tf.zeros([elements]) if elements > 1 else tf.zeros([]), name=f"model{elements}")
    gradients = []
    for i in range(workers):
        with tf.device(f"/job:worker/task:{i}"):
            gradients.append(tf.multiply(v, np.float32(0.5)) + np.float32(1 + i))
    with tf.device("/job:ps/task:0"):
        update = tf.assign_sub(v, tf.add_n(gradients) * np.float32(0.01))
    return update.op, v.initializer


def receive(elements: int) -> tuple[Any, Any]:
    """Worker 0 gets a variable of the ps; of it only an element is used."""
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(tf.ones([elements]), name=f"source{elements}")
    with tf.device("/job:worker/task:0"):
        got = tf.identity(v)[elements - 1]
    return got, v.initializer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transport", nargs="*", default=["shm", "tcp", "grpc"])
    parser.add_argument("--case", default="")
    parser.add_argument("--client", action="store_true", help="the client in a process of its own")
    parser.add_argument("--grpc-client", action="store_true", help="the client speaks gRPC, as a stock one does")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    config = tf.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = given.grpc_client
    cases: dict[str, Callable[[], tuple[Any, Any]]] = {
        "local add": lambda: local_add(1),
        "local add 1 MB": lambda: local_add(250_000),
        "local add 100 MB": lambda: local_add(25_000_000),
        "null step": lambda: null_step(given.workers),
        "scalar ps step": lambda: ps_step(1, given.workers),
        "recv 4 B": lambda: receive(1),
        "recv 1 MB": lambda: receive(250_000),
        "recv 16 MB": lambda: receive(4_000_000),
        "recv 100 MB": lambda: receive(25_000_000),
        "dense ps step 1 MB": lambda: ps_step(250_000, given.workers),
        "dense ps step 100 MB": lambda: ps_step(25_000_000, given.workers),
    }
    print(f"{'transport':9} {'case':22} {'median us':>12} {'least us':>12} {'steps':>7}")
    for transport in given.transport:
        with cluster(transport, given.workers, given.client) as target:
            for name, build in cases.items():
                if given.case not in name:
                    continue
                with tf.Graph().as_default(), tf.Session(target, config=config) as session:
                    what, start = build()
                    if start is not None:
                        session.run(start)
                    median, least, count = timed(lambda: session.run(what), given.seconds)  # noqa: B023
                    print(f"{transport:9} {name:22} {median * 1e6:12.1f} {least * 1e6:12.1f} {count:7}", flush=True)


if __name__ == "__main__":
    main()
