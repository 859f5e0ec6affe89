"""A read of a reference variable is as late as its first user, as it is where reads share the variable's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

import dtfctl.runtime as tf
from tests.unit.executor.harness import GraphText, Runner


def test_a_user_ordered_after_an_update_sees_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(0)
        update = tf.assign_add(v, 1)
        with tf.control_dependencies([update]):
            tokens = tf.fill([2], v)
        session.run(v.initializer)
        assert [session.run(tokens).tolist() for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]


def test_the_same_beside_a_kernel_that_may_wait() -> None:
    """A queue makes the step run on the frame machine."""
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(0)
        queue = tf.FIFOQueue(10, [tf.int32], [[]])
        update = tf.assign_add(v, 1)
        with tf.control_dependencies([update]):
            fill = queue.enqueue_many([tf.fill([2], v)])
        with tf.control_dependencies([fill]):
            token = queue.dequeue()
        session.run(v.initializer)
        assert [int(session.run(token)) for _ in range(3)] == [1, 1, 2]


def test_an_update_ordered_after_the_read_does_not_change_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(0)
        old = tf.identity(v.read_value())
        with tf.control_dependencies([old]):
            update = tf.assign_add(v, 1)
        session.run(v.initializer)
        assert [session.run([old, update])[0] for _ in range(2)] == [0, 1]


def test_an_iteration_reads_what_the_one_before_wrote() -> None:
    """As TF1's while_loop builds it: the read stands before the loop, the update inside."""
    g = GraphText()
    f, i = {"T": "float32"}, {"T": "int32"}
    loop: dict[str, Any] = {"frame_name": "loop"}
    g.add("v", "VariableV2", dtype="float32", shape=())
    g.const("two", np.float32(2))
    g.add("init", "Assign", "v", "two", **f)
    g.add("read", "Identity", "v", **f)
    g.const("zero", 0, np.int32)
    g.add("i", "Enter", "zero", **loop, **i)
    g.add("merge", "Merge", "i", "next", N=2, **i)
    g.const("four", 4, np.int32, after=["merge"])
    g.add("less", "Less", "merge", "four", **i)
    g.add("cond", "LoopCond", "less")
    g.add("switch", "Switch", "merge", "cond", **i)
    g.add("ref", "RefEnter", "v", is_constant=True, **loop, **f)
    g.add("value", "Enter", "read", is_constant=True, **loop, **f)
    g.add("inside", "Identity", "switch:1", **i)
    g.add("square", "Square", "value", "^inside", **f)
    g.add("assign", "Assign", "ref", "square", **f)
    g.const("one", 1, np.int32, after=["assign"])
    g.add("add", "Add", "inside", "one", **i)
    g.add("next", "NextIteration", "add", **i)
    g.add("exit", "Exit", "switch", **i)
    runner = Runner(g.proto)
    runner.run([], targets=["init"])
    assert [int(n) for n in runner.run(["exit:0"])] == [4]
    assert [float(n) for n in runner.run(["read:0"])] == [65536.0]
