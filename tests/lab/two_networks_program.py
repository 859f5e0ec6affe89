"""A ps or a worker in a network of its own, for test_two_networks.py: `ps`, or `worker CODEC`, which reads how its
link was shaped and says after some training what it knows of it."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import dtfctl.runtime as tf
from dtfctl.runtime.services.server import TaskServer, TaskServerConfig

ADDRESSES = {"ps": "10.77.239.2:9100", "worker": "10.77.239.1:9101"}
MOST_STEPS = 400


def serve(job: str) -> TaskServer:
    cluster = {name: {0: address} for name, address in ADDRESSES.items()}
    server = TaskServer(
        TaskServerConfig(cluster, job, 0, 1, ADDRESSES[job], None, None, state_dir=Path(tempfile.mkdtemp()))
    )
    server.start()
    return server


def train(server: TaskServer, codec: str) -> None:
    tf.train.compress_transfers(codec)
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
        weights = tf.get_variable("weights", (1024, 2048), initializer=tf.zeros_initializer())
        x = tf.placeholder(tf.float32, [None, 1024])
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.matmul(x, weights)))
    values = np.ones((1, 1024), np.float32)
    with tf.Session(f"grpc://{ADDRESSES['worker']}") as session:
        session.run(tf.global_variables_initializer())
        for line in sys.stdin:
            wanted = json.loads(line)
            for n in range(MOST_STEPS):
                session.run(step, {x: values})
                link = server.links()["ps/0"]
                judged = [item.is_on for item in link.judgements]
                if n >= 5 and judged == [wanted]:
                    break
            (judgement,) = link.judgements
            print(
                json.dumps(
                    {"is_on": judgement.is_on, "bytes_s": link.bytes_s, "transport": link.transport, "steps": n + 1}
                ),
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1] == "ps":
        serve("ps")
        print("{}", flush=True)
        sys.stdin.read()
    else:
        train(serve("worker"), sys.argv[2])
