"""A graph of collectives that TensorFlow's client and ours build in the same way."""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = 3
LONG = 1_000_003


def build(tf: Any, size: int, tasks: list[int], replicas: int) -> tuple[Any, Any]:
    """Make the part of some tasks, and what is fed to it: what each device computes with all others, in lists.

    Args:
        size: how many devices there are in the group.
        replicas: how many of them each task has.
    """
    fetches, feeds = [], []
    for rank in (task * replicas + replica for task in tasks for replica in range(replicas)):
        with tf.device(f"/job:worker/task:{rank // replicas}/device:CPU:{rank % replicas}"):
            step = tf.compat.v1.placeholder(tf.float32, [])
            feeds.append(step)
            fetches.append(_computed(tf, step, rank, size))
    return fetches, feeds


def _computed(tf: Any, step: Any, rank: int, size: int) -> list[Any]:
    raw = tf.raw_ops

    def v1(op: Any, instance: int, **rest: Any) -> Any:
        return op(group_size=size, group_key=1, instance_key=instance, **rest)

    def v2(op: Any, instance: int, **rest: Any) -> Any:
        keys = {"group_size": size, "group_key": 1, "instance_key": instance}
        return op(**{name: tf.constant(key) for name, key in keys.items()}, **rest)

    # Neither divides evenly among members.
    short = tf.range(7, dtype=tf.float32) * (rank + 1.0) + step
    long = tf.fill([LONG], rank + step)
    add = {"merge_op": "Add", "final_op": "Id", "subdiv_offsets": [0]}
    reduced = v1(raw.CollectiveReduce, 3, input=long, **{**add, "final_op": "Div", "subdiv_offsets": [0, -1]})
    product = {"merge_op": "Mul", "final_op": "Id", "ordering_token": [], "max_subdivs_per_device": 2}
    return [
        v1(raw.CollectiveReduce, 1, input=short, **add),
        v1(raw.CollectiveReduce, 2, input=tf.cast(short, tf.int32), **{**add, "merge_op": "Max"}),
        tf.stack([tf.reduce_min(reduced), tf.reduce_max(reduced)]),
        v1(raw.CollectiveGather, 4, input=tf.reshape(short[:4], [2, 2]), shape=[2 * size, 2]),
        v2(raw.CollectiveReduceV2, 5, input=short, **product),
        v2(raw.CollectiveGatherV2, 6, input=short[:1], ordering_token=[]),
        v1(raw.CollectiveBcastSend, 7, input=short, shape=[7])
        if rank == 1
        else v1(raw.CollectiveBcastRecv, 7, T=tf.float32, shape=[7]),
    ]


def expected(size: int, step: int) -> list[Any]:
    """Make what each device gets, as in `build`."""
    shorts = np.array([np.arange(7, dtype=np.float32) * (rank + 1.0) + step for rank in range(size)])
    return [
        shorts.sum(axis=0),
        shorts.max(axis=0),
        [(size - 1) / 2 + step] * 2,
        shorts[:, :4].ravel(),
        shorts.prod(axis=0),
        shorts[:, 0],
        shorts[1],
    ]
