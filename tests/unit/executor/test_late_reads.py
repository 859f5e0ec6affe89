"""A read of a reference variable is as late as its first user, as it is where reads share the variable's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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


def test_each_user_that_is_ordered_after_an_update_sees_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(1.0, use_resource=False)
        first = v.assign(v * 2.0)
        with tf.control_dependencies([first]):
            second = v.assign(v * 2.0)
        session.run(v.initializer)
        assert [float(session.run(second)) for _ in range(3)] == [4.0, 16.0, 64.0]


@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
def test_an_optimizer_that_is_applied_twice_in_a_step_counts_both(by_handle: bool, in_order: bool) -> None:
    """As CoGAN does, whose two losses share weights and Adam's slots for them."""
    want = np.linspace(-1, 1, 5)
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(want.astype("f4"), use_resource=by_handle)
        optimizer = tf.train.AdamOptimizer(0.1)
        first, second = (tf.reduce_sum(tf.square(w - to)) for to in (1.0, -2.0))
        train = [optimizer.minimize(first, var_list=[w])]
        with tf.control_dependencies(train if in_order else []):
            train.append(optimizer.minimize(second, var_list=[w]))
        powers = [x for x in tf.global_variables() if "power" in x.op.name]
        session.run(tf.global_variables_initializer())
        m = v = 0.0
        beta1, beta2 = 0.9, 0.999
        for _ in range(6):
            session.run(train)
            # Both losses are of the weights from before the step.
            for gradient in (2 * (want - 1), 2 * (want + 2)):
                m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
                want = want - 0.1 * np.sqrt(1 - beta2) / (1 - beta1) * m / (np.sqrt(v) + 1e-8)
                beta1, beta2 = beta1 * 0.9, beta2 * 0.999
            np.testing.assert_allclose(session.run(powers), [beta1, beta2], rtol=1e-5)
            if in_order:
                np.testing.assert_allclose(session.run(w), want, rtol=1e-4)
            want = session.run(w).astype("f8")


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
