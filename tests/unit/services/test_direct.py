"""The short way of a session in this process: what it remembers, and what must not change by it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.services.prepared_step import PreparedStep
from dtfctl.runtime.steps.path import StepPath

F = np.float32


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as g:
        yield g


def takes_the_short_way(session: Any, fetches: Any, feeds: Any = None) -> bool:
    """True when a step of the signature is one call of its plan."""
    with pytest.MonkeyPatch.context() as patch:
        calls = []

        def counted(prepared: PreparedStep, *args: Any) -> Any:
            calls.append(args)
            return usual(prepared, *args)

        usual = PreparedStep.run
        patch.setattr(PreparedStep, "run", counted)
        session.run(fetches, feeds)
    return not calls


def test_signatures_are_told_apart() -> None:
    x, y = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
    a, b = x + y, x - y
    one, two = np.array([5, 6], F), np.array([1, 2], F)
    with tf.Session() as session:
        for _ in range(3):
            assert session.run(a, {x: one, y: two}).tolist() == [6, 8]
            assert session.run(b, {x: one, y: two}).tolist() == [4, 4]
            assert session.run(b, {y: one, x: two}).tolist() == [-4, -4]
            got = session.run([b, a, b], {x: one, y: two})
            assert type(got) is list
            assert [v.tolist() for v in got] == [[4, 4], [6, 8], [4, 4]]
            assert type(session.run((a, b), {x: one, y: two})) is tuple
            assert session.run([], {x: one}) == []
            assert session.run(x, {x: one}).tolist() == [5, 6]
            assert session.run([a.op, a], {x: one, y: two})[0] is None
        assert takes_the_short_way(session, a, {x: one, y: two})


def test_feeds_and_fetches_are_nobody_elses() -> None:
    x = tf.placeholder(tf.float32, [3])
    v = tf.Variable(np.zeros(3, F))
    keep = tf.assign(v, x)
    fed = np.ones(3, F)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(6):
            got = session.run(keep, {x: fed})
            fed[:] = 7
            assert session.run(v).tolist() == [1, 1, 1]
            got[:] = 9
            assert session.run(v).tolist() == [1, 1, 1]
            fed[:] = 1


def test_values_that_do_not_fit_are_refused_every_time() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = x * 2
    with tf.Session() as session:
        for n in range(1, 4):
            assert session.run(y, {x: np.ones((n, 3))}).shape == (n, 3)
            with pytest.raises(ValueError, match="Cannot feed value of shape"):
                session.run(y, {x: np.ones((n, 4), F)})
        x.set_shape([2, 3])
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            session.run(y, {x: np.ones((1, 3), F)})


def test_a_step_that_fails_leaves_the_next_one_alone() -> None:
    x = tf.placeholder(tf.float32)
    y = tf.matmul(x, x)
    with tf.Session() as session:
        for _ in range(3):
            assert session.run(y, {x: np.ones((2, 2), F)}).tolist() == [[2, 2], [2, 2]]
            with pytest.raises(tf.errors.InvalidArgumentError, match="Matrix size-incompatible") as raised:
                session.run(y, {x: np.ones((2, 3), F)})
            assert raised.value.op is y.op


def test_options_and_time_limits_take_the_usual_way() -> None:
    y = tf.placeholder_with_default(np.ones(2, F), [2]) + 1.0
    metadata = config_pb2.RunMetadata()
    with tf.Session() as session:
        session.run(y)
        assert takes_the_short_way(session, y)
        options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
        session.run(y, options=options, run_metadata=metadata)
        assert metadata.step_stats.dev_stats
    with tf.Session(config=config_pb2.ConfigProto(operation_timeout_in_ms=60_000)) as session:
        session.run(y)
        assert not takes_the_short_way(session, y)


def test_the_log_says_which_way_steps_go_and_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "dtfctl.runtime.steps")
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.add(x, 1.0, name="y")
    with tf.Session() as session:
        for _ in range(3):
            session.run(y, {x: 1.0})
    assert caplog.messages == ["steps of y:0 (fed: x:0): direct: it is one plan of the master's own task"]
    caplog.clear()
    with tf.Session(config=config_pb2.ConfigProto(operation_timeout_in_ms=60_000)) as session:
        session.run(y, {x: 1.0})
        (prepared,) = session._backend._session._prepared.values()
    assert prepared.path.path is StepPath.MASTER
    assert caplog.messages == ["steps of y:0 (fed: x:0): master: the session has an operation_timeout_in_ms"]


def test_closing_cancels_a_step_that_waits() -> None:
    queue = tf.FIFOQueue(1, tf.float32)
    take, put = queue.dequeue(), queue.enqueue(1.0)
    session = tf.Session()
    session.run(put)
    assert session.run(take) == 1
    session.run(put)
    assert takes_the_short_way(session, take)
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            session.run(take)
        except BaseException as e:
            outcome.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    until = time.monotonic() + 60
    while not session._backend._session.running and time.monotonic() < until:
        time.sleep(0.001)
    session.close()
    thread.join(60.0)
    assert not thread.is_alive()
    assert isinstance(outcome[0], tf.errors.CancelledError)
    with pytest.raises(RuntimeError, match="closed"):
        session.run(take)
