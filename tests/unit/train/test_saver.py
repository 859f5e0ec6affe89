"""Checkpoints: save, restore, retention, what is damaged, meta graphs."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def model(use_resource=False):
    w = tf.get_variable("w", initializer=np.arange(6, dtype=np.float32).reshape(2, 3), use_resource=use_resource)
    n = tf.get_variable("n", initializer=7, trainable=False)
    return w, n


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("use_resource", [False, True])
def test_round_trip(tmp_path, sharded, use_resource) -> None:
    w, n = model(use_resource)
    saver = tf.train.Saver(sharded=sharded)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "model"), global_step=5)
        assert path == str(tmp_path / "model-5")
        session.run([tf.assign(w, w * 0), tf.assign(n, 0)])
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(w), np.arange(6).reshape(2, 3))
        assert session.run(n) == 7
    assert tf.train.latest_checkpoint(str(tmp_path)) == path


def test_a_new_process_continues_from_the_meta_graph(tmp_path) -> None:
    w, _ = model()
    tf.multiply(w, 2.0, name="twice")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    with tf.Graph().as_default() as other:
        saver = tf.train.import_meta_graph(path + ".meta")
        assert [v.op.name for v in tf.trainable_variables()] == ["w"]
        with tf.Session() as session:
            saver.restore(session, path)
            np.testing.assert_array_equal(session.run("twice:0"), np.arange(6).reshape(2, 3) * 2)
        assert other.get_tensor_by_name("w:0").shape.as_list() == [2, 3]


def test_old_checkpoints_are_deleted_in_turn(tmp_path) -> None:
    model()
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        paths = [saver.save(session, str(tmp_path / "m"), global_step=i) for i in range(4)]
    assert saver.last_checkpoints == paths[2:]
    assert [tf.train.checkpoint_exists(p) for p in paths] == [False, False, True, True]
    assert not list(tmp_path.glob("m-0*"))
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == paths[2:]


def test_of_two_saves_at_once_the_later_one_is_the_newest(tmp_path) -> None:
    """As where a thread saves every so often, and the program once more at its end."""
    model()
    saver = tf.train.Saver()
    entered, may_go_on = threading.Event(), threading.Event()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        class Slow:
            graph = session.graph

            def run(self, *args, **kwargs):
                entered.set()
                assert may_go_on.wait(60)
                return session.run(*args, **kwargs)

            def __getattr__(self, name):
                return getattr(session, name)

        early = threading.Thread(target=saver.save, args=(Slow(), str(tmp_path / "model"), 1))
        early.start()
        assert entered.wait(60)
        late = threading.Thread(target=saver.save, args=(session, str(tmp_path / "model"), 2))
        late.start()
        late.join(0.3)
        may_go_on.set()
        early.join()
        late.join()
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model-2")


def test_a_snapshot_that_is_not_written_holds_up_no_other_save(tmp_path, monkeypatch) -> None:
    """As where a session hangs that has lost a task, and the training goes on in another one."""
    model()
    saver = tf.train.Saver()
    entered, may_go_on = threading.Event(), threading.Event()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        finish = saver.begin_save(session, str(tmp_path / "model"), 1)
        write = session._run_with

        def hangs(*args):
            entered.set()
            assert may_go_on.wait(60)
            return write(*args)

        monkeypatch.setattr(session, "_run_with", hangs)
        lost = threading.Thread(target=finish)
        lost.start()
        try:
            assert entered.wait(60)
            with tf.Session() as next_session, ThreadPoolExecutor(1) as pool:
                next_session.run(tf.global_variables_initializer())
                saved = pool.submit(saver.save, next_session, str(tmp_path / "model"), 2)
                try:
                    assert saved.result(10) == str(tmp_path / "model-2")
                finally:
                    may_go_on.set()
        finally:
            may_go_on.set()
            lost.join()


def test_a_copy_saves_and_keeps_count_by_itself(tmp_path) -> None:
    model()
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for made in (copy.copy(saver), copy.deepcopy(saver)):
            assert made.save(session, str(tmp_path / "model")) == str(tmp_path / "model")
            assert saver.last_checkpoints == []


def test_latest_passes_over_a_checkpoint_that_is_not_whole(tmp_path) -> None:
    model()
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, second = (saver.save(session, str(tmp_path / "m"), global_step=i) for i in (1, 2))
    Path(second + ".index").unlink()
    assert tf.train.latest_checkpoint(str(tmp_path)) == first


def test_a_flipped_bit_is_refused(tmp_path) -> None:
    model()
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"))
        (data,) = tmp_path.glob("m.data-*")
        content = bytearray(data.read_bytes())
        content[3] ^= 1
        data.write_bytes(content)
        with pytest.raises(tf.errors.DataLossError):
            saver.restore(session, path)


def test_errors_name_the_reason(tmp_path) -> None:
    w, _ = model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver({"other": w}).save(session, str(tmp_path / "m"))
        with pytest.raises(tf.errors.NotFoundError, match="missing from the checkpoint"):
            tf.train.Saver([w]).restore(session, path)
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            tf.train.Saver([w]).restore(session, str(tmp_path / "none"))
        with pytest.raises(ValueError, match="None"):
            tf.train.Saver([w]).restore(session, None)
    with pytest.raises(ValueError, match="same name"):
        tf.train.Saver([w, w])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="No variables to save"):
        tf.train.Saver()


def test_partitioned_variables_restore_into_other_partitions(tmp_path) -> None:
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(3)):
        table = tf.get_variable("t", [5, 2], initializer=tf.random_uniform_initializer())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        whole = session.run(tf.convert_to_tensor(table))
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
            table = tf.get_variable("t", [5, 2])
        tf.train.Saver().restore(session, path)
        np.testing.assert_array_equal(session.run(tf.convert_to_tensor(table)), whole)


@pytest.mark.parametrize(
    ("saved", "expected", "held"),
    [
        (lambda table, a, b: {"a": a, "b": b}, {"a": [5, 3], "b": [5, 3]}, [0, 1]),
        (lambda table, a, b: {"a": [a, b]}, {"a": [10, 3]}, [0, 1]),
        (lambda table, a, b: {"a": table}, {"a": [10, 3]}, [0, 1]),
        (lambda table, a, b: {"a": [b]}, {"a": [10, 3]}, [1]),
        (lambda table, a, b: [b], {"table": [10, 3]}, [1]),
        (lambda table, a, b: None, {"table": [10, 3]}, [0, 1]),
    ],
)
def test_a_part_that_has_a_name_to_itself_is_saved_as_a_variable(tmp_path, saved, expected, held) -> None:
    """The shapes are those of TensorFlow 2.21."""
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(2)):
        table = tf.get_variable("table", [10, 3], initializer=tf.random_uniform_initializer())
    parts = tf.trainable_variables()
    saver = tf.train.Saver(saved(table, *parts))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"))
        assert dict(tf.train.list_variables(path)) == expected
        before = session.run(parts)
        session.run([tf.assign(part, part * 0) for part in parts])
        saver.restore(session, path)
        after = session.run(parts)
    for part, (now, then) in enumerate(zip(after, before)):
        np.testing.assert_array_equal(now, then if part in held else then * 0)


def test_the_step_of_a_save_is_a_number_of_any_kind_or_what_gives_one(tmp_path) -> None:
    """`global_step=session.run(step)` is what most programs write: a numpy number."""
    _, n = model()
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in (7, np.int32(7), np.int64(7), session.run(n), n.eval(), n, n + 0):
            assert saver.save(session, str(tmp_path / "model"), global_step=step) == str(tmp_path / "model-7")
