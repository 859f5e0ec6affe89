"""Workers of asynchronous training stay within a bound of each other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.testing.devices import create_local_cluster
from tests.support.waiting import wait_until

Hook = tf.train.experimental.BoundedStalenessHook


@pytest.mark.parametrize("bound", [0, 2])
def test_a_worker_waits_for_the_slowest_once_it_is_so_far_ahead(bound: int) -> None:
    workers, parameter_servers = create_local_cluster(2, 1)
    hooks = [Hook(bound, i, 2) for i in range(2)]
    done, slow_is_there, may_go_on = [0, 0], threading.Event(), threading.Semaphore(0)

    def train(index: int, steps: int) -> int:
        with (
            tf.Graph().as_default(),
            tf.device(tf.train.replica_device_setter(1, worker_device=f"/job:worker/task:{index}")),
        ):
            total = tf.get_variable("total", [], initializer=tf.zeros_initializer(), use_resource=True)
            update = total.assign_add(1.0, read_value=False)
            with tf.train.MonitoredTrainingSession(workers[index].target, index == 0, hooks=[hooks[index]]) as session:
                if index:
                    slow_is_there.set()
                else:
                    assert slow_is_there.wait(60)
                for _ in range(steps):
                    if index:
                        may_go_on.acquire()
                    session.run(update)
                    done[index] += 1
        return done[index]

    try:
        with ThreadPoolExecutor(2) as pool:
            fast, slow = pool.submit(train, 0, 8), pool.submit(train, 1, 3)
            for steps in (0, 1, 2):
                wait_until(
                    lambda steps=steps: hooks[0].waits > steps or fast.done() or slow.done(),
                    f"worker 0 waits for step {steps}",
                )
                assert done == [steps + bound + 1, steps]
                may_go_on.release()
            # Who has finished is not waited for.
            assert (fast.result(60), slow.result(60)) == (8, 3)
    finally:
        for server in [*workers, *parameter_servers]:
            server.stop()
    assert hooks[1].waits == 0


def test_a_worker_that_is_back_goes_on_from_the_slowest_of_the_others() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        hooks = [Hook(1, i, 3) for i in range(3)]
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            for hook in hooks:
                hook.begin()
        session.run(tf.global_variables_initializer())
        running: Any = tf.train.SessionRunContext(None, session)
        coordinator = tf.train.Coordinator()
        for hook in hooks[:2]:
            hook.after_create_session(session, coordinator)
        for _ in range(5):
            for hook in hooks[:2]:
                hook.before_run(running)
                hook.after_run(running, None)
        counts = tf.global_variables()[0]
        hooks[2].after_create_session(session, coordinator)
        assert session.run(counts).tolist() == [5, 5, 5]
        hooks[0].after_run(running, None)
        hooks[1].after_create_session(session, coordinator)
        assert session.run(counts).tolist() == [6, 5, 5]
        for hook in hooks:
            hook.end(session)
        hooks[0].after_create_session(session, coordinator)
        assert session.run(counts).tolist()[0] == 0


def test_bounds_and_workers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="from 0, not -1"):
        Hook(-1, 0, 2)
    with pytest.raises(ValueError, match="Worker 2 is not one of 2"):
        Hook(1, 2, 2)
