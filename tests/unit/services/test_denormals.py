"""Servers flush numbers below the smallest normal one to zero, and leave the program they are in alone."""

from __future__ import annotations

import platform
import queue
import sys

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.executor.workers import Workers
from dtfctl.runtime.framework.denormals import denormals_flushed

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="only x86-64 Linux has the flags"
)


def _keeps(dtype: type) -> bool:
    tiny = np.full(3, np.finfo(dtype).tiny)
    return bool(np.all(tiny / dtype(16) * dtype(16) == tiny))


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_server_flushes(dtype: type, size: int) -> None:
    server = tf.train.Server.create_local_server()
    config = tf.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = True
    with tf.Graph().as_default():
        x = tf.placeholder(dtype, [None])
        y = x * dtype(0.1)
        try:
            with tf.Session(server.target, config=config) as session:
                got = session.run(y, {x: np.full(size, np.finfo(dtype).tiny)})
        finally:
            server.stop()
    np.testing.assert_array_equal(got, np.zeros(size, dtype))
    assert _keeps(dtype)


def test_only_within_the_context() -> None:
    with denormals_flushed():
        assert not _keeps(np.float64)
        with denormals_flushed():
            assert not _keeps(np.float32)
        assert not _keeps(np.float64)
    assert _keeps(np.float32)
    assert _keeps(np.float64)


def test_a_thread_that_is_used_again_is_like_the_one_that_asks_for_it() -> None:
    workers = Workers()
    answers: queue.Queue[bool] = queue.Queue()

    def asked() -> bool:
        workers.submit(lambda: answers.put(_keeps(np.float64)))
        return answers.get(timeout=60)

    for _ in range(5):
        assert asked()
        with denormals_flushed():
            assert not asked()
