"""Monitored sessions, hooks, coordinator, supervisor, event files."""

import contextlib
import os
import subprocess
import threading
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.train import progress
from dtfctl.runtime.train.hooks import checkpoints
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunHook
from tests.support.clusters import in_process_cluster
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def counter():
    step = tf.train.get_or_create_global_step()
    return step, tf.assign_add(step, 1)


class Recorder(SessionRunHook):
    def __init__(self, fetch) -> None:
        self.fetch, self.calls, self.seen = fetch, [], []

    def begin(self) -> None:
        self.calls.append("begin")

    def after_create_session(self, session, coord) -> None:
        self.calls.append("session")

    def before_run(self, run_context):
        return SessionRunArgs(self.fetch)

    def after_run(self, run_context, run_values) -> None:
        self.seen.append(int(run_values.results))

    def end(self, session) -> None:
        self.calls.append("end")


def test_training_stops_saves_and_continues_where_it_was(tmp_path) -> None:
    step, op = counter()
    hooks = [tf.train.StopAtStepHook(last_step=3)]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=hooks) as session:
        while not session.should_stop():
            session.run(op)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-3")
    with tf.Graph().as_default():
        step, op = counter()
        more = [tf.train.StopAtStepHook(num_steps=2)]
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=more) as session:
            assert session.run(step) == 3
            while not session.should_stop():
                last = session.run(op)
    assert last == 5


def test_a_program_that_does_not_say_how_often_saves_as_the_cluster_file_says(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DTF_CHECKPOINT_STEPS", "2")
    monkeypatch.setenv("DTF_CHECKPOINT_KEEP", "3")
    _, op = counter()
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), hooks=[tf.train.StopAtStepHook(last_step=9)]
    ) as session:
        while not session.should_stop():
            session.run(op)
    kept = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    assert [int(path.rpartition("-")[2]) for path in kept] == [6, 8, 9]
    config = tf.estimator.RunConfig()
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs, config.keep_checkpoint_max) == (2, None, 3)
    monkeypatch.setenv("DTF_CHECKPOINT_STEPS", "often")
    with pytest.raises(ValueError, match="DTF_CHECKPOINT_STEPS is 'often'"):
        tf.estimator.RunConfig()


def test_hooks_see_every_run(graph) -> None:
    step, op = counter()
    recorder = Recorder(step.value())
    with tf.train.MonitoredSession(hooks=[recorder]) as session:
        session.run(op)
        session.run(op)
    assert recorder.calls == ["begin", "session", "end"]
    assert len(recorder.seen) == 2


def test_a_lost_task_is_recovered_from_the_newest_checkpoint(tmp_path) -> None:
    """The step that failed is repeated in a new session; state since the checkpoint is gone."""
    _, op = counter()

    class Saboteur(SessionRunHook):
        sessions = 0
        runs = 0

        def after_create_session(self, session, coord) -> None:
            type(self).sessions += 1

        def after_run(self, run_context, run_values) -> None:
            type(self).runs += 1
            if self.runs == 3:
                raise tf.errors.AbortedError("Session handle is not found: a task restarted")

    hooks = [Saboteur()]
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_checkpoint_steps=2, save_checkpoint_secs=None, hooks=hooks
    ) as session:
        values = [int(session.run(op)) for _ in range(4)]
    assert Saboteur.sessions == 2
    assert values[:2] == [1, 2]
    assert values[2:] == [3, 4]


@pytest.mark.parametrize("hooked", [True, False])
def test_a_step_function_is_called_again_after_a_lost_task(graph, hooked) -> None:
    """Also where what it lost was a run without hooks, which no session around it sees."""
    step, op = counter()
    contexts = []

    lost = [tf.errors.UnavailableError("A task closed the connection")]

    class LosesOneRun(SessionRunHook):
        def after_run(self, run_context, run_values) -> None:
            if hooked and lost:
                raise lost.pop()

    def count(step_context):
        contexts.append(step_context)
        if not hooked and lost:
            raise lost.pop()
        step_context.run_with_hooks(op)
        return int(step_context.session.run(step))

    with tf.train.MonitoredSession(hooks=[LosesOneRun()]) as session:
        assert session.run_step_fn(count) == 1
        first, second = contexts
        assert first.session is not second.session is session.raw_session()


def test_other_errors_are_the_programs(graph) -> None:
    counter()
    bad = tf.check_numerics(tf.constant(float("nan")), "bad loss")
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad loss"), tf.train.MonitoredSession() as session:
        session.run(bad)


def test_end_of_input_ends_the_loop_quietly(graph) -> None:
    def finish(context) -> None:
        raise tf.errors.OutOfRangeError("End of sequence")

    with tf.train.MonitoredSession() as session:
        session.run_step_fn(finish)
        pytest.fail("not reached")


def test_summaries_and_steps_per_second_are_written(tmp_path) -> None:
    step, op = counter()
    tf.summary.scalar("double", tf.cast(step, tf.float32) * 2)
    hooks = [tf.train.StopAtStepHook(last_step=5)]
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), hooks=hooks, save_summaries_steps=1, log_step_count_steps=2
    ) as session:
        while not session.should_stop():
            session.run(op)
    tf.train.FileWriterCache.clear()
    (events,) = tmp_path.glob("events.*")
    tags = {v.tag for e in tf.train.summary_iterator(events) for v in e.summary.value}
    assert {"double", "global_step/sec"} <= tags


def test_nan_hook_stops_training(graph) -> None:
    loss = tf.placeholder(tf.float32, [])
    hook = tf.train.NanTensorHook(loss, fail_on_nan_loss=False)
    nothing = tf.no_op()
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(nothing, {loss: 1.0})
        assert not session.should_stop()
        session.run(nothing, {loss: float("nan")})
        assert session.should_stop()


def test_coordinator_ends_all_and_raises_the_first_reason() -> None:
    coord = tf.train.Coordinator()

    def work(fail) -> None:
        with coord.stop_on_exception():
            if fail:
                raise ValueError("the reason")
            coord.wait_for_stop()

    threads = [threading.Thread(target=work, args=(i == 0,)) for i in range(3)]
    for t in threads:
        t.start()
    with pytest.raises(ValueError, match="the reason"):
        coord.join(threads)
    assert not any(t.is_alive() for t in threads)


def test_supervisor_initializes_saves_and_stops(tmp_path) -> None:
    step, op = counter()
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0, save_summaries_secs=0)
    with supervisor.managed_session() as session:
        for _ in range(3):
            session.run(op)
        supervisor.saver.save(session, supervisor.save_path, global_step=step)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-3")


def test_a_supervisor_finalizes_the_graph_and_writes_it_down(tmp_path) -> None:
    """As TensorFlow's, which also tells the steps per second and what was saved."""
    step, op = counter()
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=600, save_summaries_secs=600)
    assert tf.get_default_graph().finalized
    with pytest.raises(RuntimeError, match="finalized"):
        tf.constant(1.0)
    with supervisor.managed_session() as session:
        session.run(op)
        wait_until(lambda: tf.train.latest_checkpoint(str(tmp_path)), "a checkpoint")
    assert f'name: "{step.op.name}"' in (tmp_path / "graph.pbtxt").read_text()
    (events,) = tmp_path.glob("events*")
    found = list(tf.train.summary_iterator(str(events)))
    assert [v.tag for e in found for v in e.summary.value] == [f"{step.op.name}/sec"]
    kinds = [e.WhichOneof("what") for e in found]
    assert kinds[:3] == ["file_version", "graph_def", "meta_graph_def"]
    meta = tf.MetaGraphDef.FromString(found[2].meta_graph_def)
    assert step.op.name in {n.name for n in meta.graph_def.node} and meta.saver_def.save_tensor_name
    logs = [e.session_log for e in found if e.HasField("session_log")]
    assert [log.status for log in logs] == [1, 3, 2]
    assert logs[1].checkpoint_path == supervisor.save_path


def test_progress_is_written_for_the_submitter(tmp_path, monkeypatch) -> None:
    assert not tf.train.report(1)
    path = tmp_path / "progress.jsonl"
    monkeypatch.setenv("DTF_PROGRESS_FILE", str(path))
    assert tf.train.report(3, 10, loss=0.5)
    assert '"step": 3, "total": 10, "metrics": {"loss": 0.5}' in path.read_text()


def saved_twice(folder) -> None:
    """Checkpoints of steps 2 and 4."""
    with tf.Graph().as_default():
        _, op = counter()
        saver = tf.train.CheckpointSaverHook(str(folder), save_steps=2)
        hooks = [saver, tf.train.StopAtStepHook(last_step=4)]
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(op)


def test_a_checkpoint_that_is_wanted_at_once_is_written_at_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DTF_PROGRESS_FILE", str(tmp_path / "progress"))
    monkeypatch.setattr(progress, "SAVE_LOOK_S", 0.0)
    with tf.Graph().as_default():
        _, op = counter()
        saver = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1000)
        with tf.train.MonitoredTrainingSession(hooks=[saver]) as session:
            session.run(op)
            session.run(op)
            assert not (tmp_path / "model.ckpt-3.index").exists()
            (tmp_path / "progress.save").touch()
            session.run(op)
            session.run(op)
            assert {path.name for path in tmp_path.glob("*.index")} == {"model.ckpt-0.index", "model.ckpt-3.index"}


def damage_flip(folder) -> None:
    data = folder / "model.ckpt-4.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[0] ^= 1
    data.write_bytes(content)


def damage_truncate_data(folder) -> None:
    (folder / "model.ckpt-4.data-00000-of-00001").write_bytes(b"")


def damage_truncate_index(folder) -> None:
    index = folder / "model.ckpt-4.index"
    index.write_bytes(index.read_bytes()[:-7])


@pytest.mark.parametrize("damage", [damage_flip, damage_truncate_data, damage_truncate_index])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_used(tmp_path, monkeypatch, damage) -> None:
    saved_twice(tmp_path)
    damage(tmp_path)
    told = tmp_path / "progress.jsonl"
    monkeypatch.setenv("DTF_PROGRESS_FILE", str(told))
    step, op = counter()
    hooks = [tf.train.StopAtStepHook(num_steps=1)]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=hooks) as session:
        assert session.run(step) == 2
        while not session.should_stop():
            session.run(op)
    assert "model.ckpt-4 is damaged" in told.read_text()
    assert "went on from" in told.read_text()
    assert "model.ckpt-4" not in (tmp_path / "checkpoint").read_text()


def test_when_every_checkpoint_is_damaged_nothing_starts_from_scratch(tmp_path) -> None:
    saved_twice(tmp_path)
    for data in tmp_path.glob("*.data-*"):
        data.write_bytes(b"")
    counter()
    with pytest.raises(tf.errors.OpError):
        tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path))


def test_what_a_recovery_lost_is_told(tmp_path, monkeypatch) -> None:
    saved_twice(tmp_path)
    told = tmp_path / "progress.jsonl"
    told.write_text('{"step": 9}\n{"step": 11, "to')
    monkeypatch.setenv("DTF_PROGRESS_FILE", str(told))
    _, op = counter()
    hooks = [tf.train.StopAtStepHook(num_steps=1), tf.train.ProgressHook()]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=hooks) as session:
        while not session.should_stop():
            session.run(op)
    assert "goes on from step 4; steps up to 9 had been done: 5 are lost" in told.read_text()


def test_who_names_a_checkpoint_gets_it_while_the_model_lives_on_and_begins_no_training(tmp_path, monkeypatch) -> None:
    saved_twice(tmp_path)
    told = tmp_path / "progress.jsonl"
    told.write_text('{"step": 9}\n')
    monkeypatch.setenv("DTF_PROGRESS_FILE", str(told))
    with in_process_cluster({"worker": 1}) as cluster:
        target = cluster.target("worker", 0)
        step, _ = counter()
        with tf.Session(target) as session:
            session.run(tf.assign(step, 9))
            creator = tf.train.ChiefSessionCreator(
                master=target, checkpoint_filename_with_path=str(tmp_path / "model.ckpt-2")
            )
            with tf.train.MonitoredSession(creator) as evaluation:
                assert evaluation.run(step) == 2
    assert told.read_text() == '{"step": 9}\n', "as nothing began, and nothing is lost"


def test_training_begins_at_step_0_though_others_train_before_the_chief_does(tmp_path, monkeypatch) -> None:
    told = tmp_path / "progress.jsonl"
    told.touch()
    monkeypatch.setenv("DTF_PROGRESS_FILE", str(told))
    step, op = counter()
    # As another worker does, once it finds the model initialized.
    scaffold = tf.train.Scaffold(local_init_op=tf.assign_add(step, 1))
    hooks = [tf.train.StopAtStepHook(last_step=3), tf.train.ProgressHook()]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), scaffold=scaffold, hooks=hooks) as session:
        while not session.should_stop():
            session.run(op)
    assert "begins at step 0 (there is no checkpoint in" in told.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is made with a tmpfs, which needs root")
def test_a_full_disk_costs_checkpoints_but_not_the_training(tmp_path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(tmp_path)]).returncode:
        pytest.skip("cannot mount a tmpfs here")
    ballast = tmp_path / "ballast"
    try:
        tf.get_variable("weights", [50_000], initializer=tf.zeros_initializer())
        _, op = counter()
        hooks = [tf.train.CheckpointSaverHook(str(tmp_path), save_steps=2), tf.train.StopAtStepHook(last_step=9)]
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            # Events are written by a thread of their own: how much is free is not known before it is full.
            with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(b"x" * 4096):
                    pass
            while not session.should_stop():
                if session.run(op) == 6:
                    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-0")
                    assert [p.name for p in tmp_path.iterdir() if "temp" in p.name] == []
                    ballast.unlink()
        assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-9")
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.mark.parametrize(("lost", "expected"), [(("worker", 1), 5), (("ps", 0), 3)])
def test_only_a_lost_model_goes_back_to_the_checkpoint(tmp_path, lost, expected) -> None:
    """While the variables live on, a chief that lost a worker goes on where the training is."""
    with in_process_cluster({"ps": 1, "worker": 2}) as cluster:
        with tf.device("/job:ps/task:0"):
            step = tf.train.get_or_create_global_step()
        with tf.device("/job:worker/task:1"):
            one = tf.placeholder_with_default(np.int64(1), [])
        op = tf.assign_add(step, one)
        saver = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=3)
        with tf.train.MonitoredTrainingSession(
            master=cluster.target("worker", 0),
            checkpoint_dir=str(tmp_path),
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            hooks=[saver],
        ) as session:
            assert [int(session.run(op)) for _ in range(5)] == [1, 2, 3, 4, 5]
            cluster.stop(*lost)
            cluster.start(*lost)
            assert int(session.run(op)) == expected + 1


def large_model(monkeypatch: pytest.MonkeyPatch) -> tuple[tf.Operation, threading.Event]:
    """A step that counts and adds one to two weights, with saves in the background that wait for an event to write."""
    monkeypatch.setattr(checkpoints, "BACKGROUND_BYTES", 1)
    op = counter()[1]
    weights = [tf.get_variable(name, initializer=tf.zeros([1000])) for name in ("a", "b")]
    with tf.control_dependencies([op]):
        updates = [tf.assign_add(weight, tf.ones([1000])) for weight in weights]
    gate = threading.Event()
    begin = tf.train.Saver.begin_save

    def waiting(self, *args, **kwargs):
        finish = begin(self, *args, **kwargs)

        def late():
            assert gate.wait(60)
            return finish()

        return late

    monkeypatch.setattr(tf.train.Saver, "begin_save", waiting)
    return tf.group(*updates), gate


@pytest.mark.parametrize("tasks", [{}, {"ps": 2, "worker": 1}], ids=["local", "two ps"])
def test_a_large_checkpoint_holds_its_step_while_training_goes_on(tmp_path, monkeypatch, tasks) -> None:
    class Listener(tf.train.CheckpointSaverListener):
        saved: list[int] = []

        def after_save(self, session, global_step_value) -> None:
            self.saved.append(global_step_value)

    with contextlib.ExitStack() as stack:
        master = ""
        if tasks:
            master = stack.enter_context(in_process_cluster(tasks)).target("worker", 0)
            stack.enter_context(tf.device(tf.train.replica_device_setter(2)))
        train, gate = large_model(monkeypatch)
        hook = tf.train.CheckpointSaverHook(
            str(tmp_path), save_steps=3, listeners=[Listener()], saver=tf.train.Saver(sharded=True)
        )
        session = stack.enter_context(tf.train.MonitoredTrainingSession(master=master, hooks=[hook]))
        for _ in range(5):
            session.run(train)
        assert Listener.saved == [0]
        assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-0")
        gate.set()
        for _ in range(2):
            session.run(train)
    assert Listener.saved == [0, 3, 6, 7]
    for step in (3, 6, 7):
        for name in ("a", "b"):
            value = tf.train.load_variable(str(tmp_path / f"model.ckpt-{step}"), name)
            assert value.tolist() == [float(step)] * 1000
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-7")


def test_a_failed_write_in_the_background_ends_the_training(tmp_path, monkeypatch) -> None:
    train, gate = large_model(monkeypatch)
    folder = tmp_path / "gone"
    with (
        pytest.raises(ValueError, match="Parent directory of"),
        tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder), save_checkpoint_steps=2, save_checkpoint_secs=None, save_summaries_steps=0
        ) as session,
    ):
        session.run(train)
        session.run(train)
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        folder.write_text("in the way")
        gate.set()
        for _ in range(2):
            session.run(train)


def test_a_writer_that_is_given_a_graph_writes_its_meta_graph(tmp_path) -> None:
    step, _ = counter()
    tf.summary.FileWriter(str(tmp_path), tf.get_default_graph()).close()
    (events,) = tmp_path.glob("events*")
    found = list(tf.train.summary_iterator(str(events)))
    assert [e.WhichOneof("what") for e in found] == ["file_version", "graph_def", "meta_graph_def"]
    meta = tf.MetaGraphDef.FromString(found[2].meta_graph_def)
    assert step.op.name in {n.name for n in meta.graph_def.node}


def test_hooks_that_are_given_come_after_those_that_save(tmp_path) -> None:
    """A program's hook may copy the last checkpoint when it ends; those of the chief alone come first of all."""
    _, op = counter()
    seen: list[Any] = []

    class Noted(tf.train.SessionRunHook):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            self.name = name

        def end(self, session: Any) -> None:
            seen.append((self.name, tf.train.latest_checkpoint(str(tmp_path)) or ""))

    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path),
        hooks=[Noted("given"), tf.train.StopAtStepHook(last_step=3)],
        chief_only_hooks=[Noted("chief")],
        save_checkpoint_steps=2,
    ) as session:
        while not session.should_stop():
            session.run(op)
    assert [(name, path.rpartition("-")[2]) for name, path in seen] == [("chief", "2"), ("given", "3")]
