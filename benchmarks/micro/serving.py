"""Latency of a served model, beside a stock TensorFlow session behind the same HTTP server.

usage: python -m benchmarks.micro.serving [TENSORFLOW_PYTHON]

It brings up a local cluster of one worker, serves an MLP and a CNN there, has the other interpreter serve the same
SavedModels (`--peer`), and asks both in turns by the same client. Milliseconds of a request, and requests a second.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 3
SECONDS = 1.0
CLIENTS = (1, 8)
SHAPES = {"mlp": (64,), "cnn": (28, 28, 1)}


def write_models(folder: Path) -> None:
    """Export both models with weights of a fixed seed."""
    import dtfctl.runtime as tf

    for name, shape in SHAPES.items():
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(7)
            x = tf.placeholder(tf.float32, [None, *shape], name="x")
            y = tf.nn.softmax(_mlp(tf, x) if name == "mlp" else _cnn(tf, x))
            session.run(tf.global_variables_initializer())
            tf.saved_model.simple_save(session, str(folder / name / "1"), {"x": x}, {"y": y})


def _mlp(tf: Any, x: Any) -> Any:
    for width in (256, 256):
        x = tf.layers.dense(x, width, tf.nn.relu)
    return tf.layers.dense(x, 10)


def _cnn(tf: Any, x: Any) -> Any:
    for width in (32, 64):
        x = tf.layers.max_pooling2d(tf.layers.conv2d(x, width, 3, padding="same", activation=tf.nn.relu), 2, 2)
    return tf.layers.dense(tf.reshape(x, [-1, 7 * 7 * 64]), 10)


def peer(folder: Path, name: str) -> None:
    """Serve one model by a TensorFlow session, until the input ends."""
    import tensorflow.compat.v1 as tf

    from dtfctl.serve.door import Door
    from dtfctl.serve.web import Answer, WebServer

    session = tf.Session(graph=tf.Graph())
    meta = tf.saved_model.load(session, ["serve"], str(folder / name / "1"))
    signature = meta.signature_def["serving_default"]
    call = session.make_callable(signature.outputs["y"].name, [signature.inputs["x"].name])

    def answer(_method: str, _path: str, body: bytes) -> Answer:
        value = np.asarray(json.loads(body)["instances"], np.float32)
        return Answer(json.dumps({"predictions": call(value).tolist()}).encode())

    server = WebServer(answer, Door(token=sys.stdin.readline().strip()))
    server.start()
    print(server.port, flush=True)
    sys.stdin.read()


class Target:
    """Something to ask: a port, a path and a token."""

    def __init__(self, port: int, path: str, token: str) -> None:
        self.port, self.path = port, path
        self.headers = {"Authorization": f"Bearer {token}"}

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, connection: http.client.HTTPConnection, body: bytes) -> bytes:
        connection.request("POST", self.path, body, self.headers)
        reply = connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{self.path}: {reply.status} {content[:200]!r}")
        return content

    def load(self, body: bytes, clients: int, seconds: float) -> list[float]:
        """Ask for some time by so many clients; the seconds that each request took."""
        took: list[list[float]] = [[] for _ in range(clients)]

        def go(mine: list[float]) -> None:
            connection, end = self.connect(), time.perf_counter() + seconds
            now = time.perf_counter()
            while now < end:
                self.ask(connection, body)
                before, now = now, time.perf_counter()
                mine.append(now - before)
            connection.close()

        threads = [threading.Thread(target=go, args=(mine,)) for mine in took]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(one for mine in took for one in mine)


@contextlib.contextmanager
def stock(python: str, folder: Path, name: str) -> Iterator[Target]:
    token = secrets.token_urlsafe()
    with subprocess.Popen(
        [python, "-m", "benchmarks.micro.serving", "--peer", name, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(token + "\n")
        process.stdin.flush()
        yield Target(int(process.stdout.readline()), "/", token)
        process.stdin.close()


@contextlib.contextmanager
def ours(folder: Path, name: str) -> Iterator[Target]:
    from dtfctl.launcher.api import Cluster
    from dtfctl.launcher.operator.serving import ServeRequest
    from dtfctl.launcher.spec.model import ClusterSpec, TaskGroup

    cluster = Cluster.up(ClusterSpec("serving-bench", {"worker": TaskGroup(1)})).cluster
    assert cluster is not None
    try:
        served = cluster.serve(ServeRequest(str(folder / name)))
        token = Path(served.token_file).read_text()
        yield Target(served.at.rest, f"/v1/models/{name}:predict", token)
    finally:
        cluster.down(grace_s=2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=sorted(SHAPES))
    parser.add_argument("--model", choices=sorted(SHAPES))
    parser.add_argument("python", nargs="?", default=os.environ.get("DTF_BENCH_TENSORFLOW", ""))
    options = parser.parse_args()
    if options.peer:
        peer(Path(options.python), options.peer)
        return
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        os.environ["DTFCTL_HOME"] = str(folder / "home")
        write_models(folder)
        for name, shape in SHAPES.items():
            if options.model not in (None, name):
                continue
            values = np.random.default_rng(3).random((1, *shape), np.float32)
            body = json.dumps({"instances": values.tolist()}).encode()
            with ours(folder, name) as here, stock(options.python, folder, name) as there:
                answers = [json.loads(one.ask(one.connect(), body))["predictions"] for one in (here, there)]
                np.testing.assert_allclose(answers[0], answers[1], rtol=1e-4, atol=1e-6)
                for clients in CLIENTS:
                    measure(name, body, clients, {"dtfctl": here, "TensorFlow": there})


def measure(name: str, body: bytes, clients: int, targets: dict[str, Target]) -> None:
    """Ask in turns; print the best round of each."""
    rounds: dict[str, list[list[float]]] = {of: [] for of in targets}
    for _ in range(ROUNDS):
        for of, target in targets.items():
            rounds[of].append(target.load(body, clients, SECONDS))
    for of, found in rounds.items():
        middle = min(one[len(one) // 2] for one in found)
        late = min(one[int(len(one) * 0.99)] for one in found)
        most = max(len(one) for one in found) / SECONDS
        print(
            f"{name} {clients} client(s) {of:10}: p50 {middle * 1e3:.2f} ms, p99 {late * 1e3:.2f} ms, {most:.0f}/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
