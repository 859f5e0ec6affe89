"""Snapshots of variables that go on being updated: what is written is what they held at one moment."""

from __future__ import annotations

import contextlib
import gc
import threading
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dtfctl.runtime as tf
from dtfctl.runtime.checkpoint import blocks
from dtfctl.runtime.checkpoint.direct import PAGE, DirectFile, whole_pages
from dtfctl.runtime.checkpoint.preserved import ArraySnapshot
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.state.scatter_update import scatter_rows
from dtfctl.runtime.kernels.variable import Variable
from tests.support.clusters import in_process_cluster
from tests.support.examples import examples


def variable_of(value: np.ndarray) -> Variable:
    variable = Variable(dtypes.as_dtype(value.dtype), TensorShape(value.shape))
    variable.assign(value)
    return variable


def add(variable: Variable, rows: np.ndarray) -> None:
    with variable.lock:
        values = np.ones((rows.size, *variable.read().shape[1:]), variable.read().dtype)
        variable.change(lambda a: scatter_rows(a, rows, values, "Add"), rows)


def read(snapshot: ArraySnapshot, start: int, stop: int) -> np.ndarray:
    out = np.empty(stop - start, np.uint8)
    snapshot.read(start, stop, out)
    return out


def kept_pages(snapshot: ArraySnapshot) -> list[int]:
    """Of an array without a zero."""
    return np.flatnonzero(snapshot.shadow.pages.view(np.uint8).reshape(-1, PAGE).any(axis=1)).tolist()


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(150))
@given(st.data(), st.integers(1, 5000), st.integers(1, 60), st.sampled_from([np.uint8, np.float32, np.int64]))
def test_a_snapshot_is_of_its_moment_whatever_is_updated_and_read_in_between(data, columns, count, dtype) -> None:
    variable = variable_of(np.arange(count * columns).reshape(count, columns).astype(dtype))
    address = variable.read().ctypes.data
    for _ in range(2):
        before = variable.read().copy()
        snapshot = variable.snapshot(variable.read())
        assert isinstance(snapshot, ArraySnapshot)
        found: dict[int, np.ndarray] = {}
        size = before.nbytes
        step = PAGE * data.draw(st.integers(1, 4))
        pieces = data.draw(st.permutations(range(0, size, step)))
        for at in pieces:
            rows = data.draw(st.lists(st.integers(0, count - 1), max_size=40))
            add(variable, np.array(rows, np.int32))
            stop = min(at + step, size)
            found[at] = read(snapshot, at, stop)
        snapshot.end()
        assert b"".join(found[at].tobytes() for at in sorted(found)) == before.tobytes()
        assert variable.read().ctypes.data == address


@pytest.mark.slow
@pytest.mark.parametrize("dense", [False, True], ids=["rows", "rows and all"])
def test_what_is_written_while_another_thread_updates(tmp_path, dense) -> None:
    random = np.random.default_rng(7)
    variable = variable_of(random.standard_normal((5000, 1001)).astype(np.float32))
    stop = threading.Event()

    def update() -> None:
        mine = np.random.default_rng(8)
        while not stop.is_set():
            add(variable, mine.integers(0, 5000, 200))
            if dense and not mine.integers(0, 20):
                with variable.lock:
                    variable.update(lambda now, then: np.multiply(now, np.float32(0.5), then))

    thread = threading.Thread(target=update)
    thread.start()
    try:
        for i in range(8):
            with variable.lock:
                before = variable.read().copy()
                snapshot = variable.snapshot(variable.read())
            path = Path(tmp_path / f"{i}")
            path.touch()
            file = DirectFile(str(path))
            crc = blocks.write_behind(file, snapshot, 3 * PAGE).result()
            file.close()
            written, end = path.read_bytes(), 3 * PAGE + before.nbytes
            assert len(written) == whole_pages(end)
            assert written[3 * PAGE : end] == before.tobytes() and not any(written[end:])
            assert crc == google_crc32c.value(before.tobytes())
            assert snapshot.is_over
    finally:
        stop.set()
        thread.join()


def test_only_what_is_touched_is_copied() -> None:
    variable = variable_of(np.ones((1 << 12, 1 << 10), np.float32))
    address = variable.read().ctypes.data
    snapshot = variable.snapshot(variable.read())
    add(variable, np.array([7, 1000]))
    assert variable.read().ctypes.data == address
    assert kept_pages(snapshot) == [7, 1000]
    read(snapshot, 0, 100 * PAGE)
    add(variable, np.array([8, 99, 100]))
    assert kept_pages(snapshot) == [7, 100, 1000], "what was read need not be kept"


def test_memory_for_kept_pages_is_used_again_but_not_while_it_is_read() -> None:
    variable = variable_of(np.zeros((1 << 12, 1 << 10), np.float32))
    first = variable.snapshot(variable.read())
    add(variable, np.array([7]))
    with variable.lock:
        variable.update(lambda now, then: np.add(now, 1, then))
    # The first one is still read, of an array that is the variable's no more.
    assert variable.snapshot(variable.read()) is variable.read()
    add(variable, np.array([7, 8]))
    assert not read(first, 7 * PAGE, 9 * PAGE).any()
    first.end()
    second = variable.snapshot(variable.read())
    assert second.shadow is first.shadow
    add(variable, np.array([7]))
    assert (read(second, 7 * PAGE, 8 * PAGE).view(np.float32) == 3).all()


def test_a_reader_besides_the_snapshot_keeps_its_value() -> None:
    variable = variable_of(np.zeros((1 << 12, 1 << 10), np.float32))
    held = variable.read()
    snapshot = variable.snapshot(held)
    add(variable, np.array([7]))
    assert not held.any() and variable.read()[7].all()
    assert not read(snapshot, 7 * PAGE, 8 * PAGE).any()


def test_a_snapshot_nobody_wants_any_more_costs_nothing() -> None:
    variable = variable_of(np.zeros((1 << 12, 1 << 10), np.float32))
    address = variable.read().ctypes.data
    snapshot = variable.snapshot(variable.read())
    del snapshot
    gc.collect()
    add(variable, np.array([7]))
    with variable.lock:
        variable.update(lambda now, then: np.add(now, 1, then))
    assert variable.read().ctypes.data == address and not variable.is_kept


def test_strings_and_views_are_held_whole() -> None:
    strings = np.array([b"a", b"b"], object)
    assert variable_of(strings).snapshot(strings) is strings
    turned = np.zeros((100, 200), np.float32).T
    assert variable_of(turned).snapshot(turned) is turned


ROWS, COLUMNS = 1200, 1024


def sparse_step(table: tf.Variable, kind: str) -> tf.Operation:
    """Adds 1 to rows 3 and 1100."""
    rows = tf.constant([3, 1100])
    if kind == "scatter":
        return tf.scatter_add(table, rows, tf.ones([2, COLUMNS])).op
    if kind == "scatter_nd":
        at = tf.constant([[r, c] for r in (3, 1100) for c in range(COLUMNS)])
        return tf.scatter_nd_add(table, at, tf.ones([2 * COLUMNS])).op
    gradient = tf.IndexedSlices(-tf.ones([2, COLUMNS]), rows, dense_shape=tf.constant([ROWS, COLUMNS]))
    optimizer = tf.train.GradientDescentOptimizer(1.0) if kind == "descent" else tf.train.MomentumOptimizer(1.0, 0.0)
    return optimizer.apply_gradients([(gradient, table)])


@pytest.mark.parametrize("kind", ["scatter", "scatter_nd", "descent", "momentum"])
@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("tasks", [{}, {"ps": 1, "worker": 1}], ids=["local", "ps"])
def test_a_checkpoint_in_the_background_holds_its_step(tmp_path, kind, by_handle, tasks) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(tf.Graph().as_default())
        master = stack.enter_context(in_process_cluster(tasks)).target("worker", 0) if tasks else ""
        with tf.device("/job:ps" if tasks else None):
            table = tf.get_variable("table", initializer=tf.zeros([ROWS, COLUMNS]), use_resource=by_handle)
            train = sparse_step(table, kind)
            row = tf.gather(table, 3)
        saver = tf.train.Saver([table], sharded=True)
        session = stack.enter_context(tf.Session(master))
        session.run(tf.global_variables_initializer())
        for step in range(1, 4):
            session.run(train)
            finish = saver.begin_save(session, str(tmp_path / "model"), step)
            for _ in range(3):
                session.run(train)
            stored = tf.train.load_variable(finish(), "table")
            done = 4 * (step - 1) + 1
            assert (stored[[3, 1100]] == done).all() and not np.delete(stored, [3, 1100], 0).any()
            assert (session.run(row) == done + 3).all()
