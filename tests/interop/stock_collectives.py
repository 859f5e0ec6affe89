"""Collectives that the stock client builds: of tasks in one graph, and of clients that share nothing.

usage: stock_collectives.py TARGET together
       stock_collectives.py TARGET alone TASK
       stock_collectives.py TARGET stepwise TASK

The last one runs a step for each line that it reads, and prints what it has found, or which error.
"""

import sys

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import collective_ops

v1 = tf.compat.v1
v1.disable_eager_execution()
TARGET, HOW = sys.argv[1:3]
X = np.arange(100_000, dtype=np.float32)


def together() -> None:
    reduced, gathered, sent = [], [], []
    for task in range(2):
        with tf.device(f"/job:worker/task:{task}"):
            x = tf.constant(X) * (task + 1.0)
            reduced.append(collective_ops.all_reduce(x, 2, 11, 1, "Add", "Div"))
            gathered.append(collective_ops.all_gather_v2(x[:2], 2, 11, 2))
            sent.append(
                collective_ops.broadcast_send(x[:3], [3], tf.float32, 2, 11, 3)
                if task == 0
                else collective_ops.broadcast_recv([3], tf.float32, 2, 11, 3)
            )
    options = v1.RunOptions()
    options.experimental.collective_graph_key = 6
    with v1.Session(TARGET) as session:
        for _ in range(3):
            for a, b, c in zip(*session.run([reduced, gathered, sent], options=options)):
                np.testing.assert_array_equal(a, X * 1.5)
                np.testing.assert_array_equal(b, [0, 1, 0, 2])
                np.testing.assert_array_equal(c, [0, 1, 2])
        with tf.device("/job:worker/task:0"):
            late = collective_ops.all_reduce(tf.zeros([2]), 2, 12, 1, "Add", "Id", timeout=0.3)
        try:
            session.run(late, options=options)
        except tf.errors.DeadlineExceededError as e:
            assert "timed out" in e.message, e.message
        else:
            raise AssertionError("nobody else was there")


def alone(task: int) -> None:
    config = v1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task}"])
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    with tf.device(f"/job:worker/task:{task}"):
        w = v1.get_variable(f"w{task}", [4], initializer=v1.zeros_initializer())
        gradient = tf.gradients(tf.reduce_sum(tf.square(w - (1.0 + 2 * task))), w)[0]
        mean = collective_ops.all_reduce_v2(gradient, 2, 13, 1, "Add", "Div")
        train = w.assign_sub(0.2 * mean)
    with v1.Session(TARGET, config=config) as session:
        session.run(w.initializer)
        for _ in range(30):
            session.run(train)
        print(session.run(w).tolist())


def stepwise(task: int) -> None:
    config = v1.ConfigProto(device_filters=[f"/job:worker/task:{task}"])
    with tf.device(f"/job:worker/task:{task}"):
        total = collective_ops.all_reduce_v2(tf.constant([task + 1.0]), 2, 14, 1, "Add", "Id")
    with v1.Session(TARGET, config=config) as session:
        print("ready", flush=True)
        for _ in sys.stdin:
            try:
                print(session.run(total).tolist(), flush=True)
            except tf.errors.OpError as e:
                print(type(e).__name__, flush=True)


if HOW == "together":
    together()
elif HOW == "alone":
    alone(int(sys.argv[3]))
else:
    stepwise(int(sys.argv[3]))
print("done")
