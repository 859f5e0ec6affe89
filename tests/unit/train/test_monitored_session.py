"""Monitored sessions, hooks, coordinator, supervisor, event files."""

import threading

import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunHook


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


def test_progress_is_written_for_the_submitter(tmp_path, monkeypatch) -> None:
    assert not tf.train.report(1)
    path = tmp_path / "progress.jsonl"
    monkeypatch.setenv("DTF_PROGRESS_FILE", str(path))
    assert tf.train.report(3, 10, loss=0.5)
    assert '"step": 3, "total": 10, "metrics": {"loss": 0.5}' in path.read_text()
