"""Run by the stock TensorFlow client: programs whose state lives on the cluster.

stock_programs.py TARGET PROGRAM FOLDER: ends by printing "done".
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf


def iterators(target: str, folder: Path) -> None:
    """Initializable and reinitializable iterators, a function in the pipeline, the end of the data."""
    with tf.device("/job:worker/task:1"):
        count = tf.placeholder(tf.int64, [])
        squares = tf.data.Dataset.range(count).map(lambda x: x * x).batch(3)
        iterator = tf.data.make_initializable_iterator(squares)
        item = iterator.get_next()
    total = tf.reduce_sum(item)
    with tf.Session(target) as session:
        for size, sums in ((7, [5, 50, 36]), (4, [5, 9])):
            session.run(iterator.initializer, {count: size})
            assert [session.run(total) for _ in sums] == sums
            try:
                session.run(total)
            except tf.errors.OutOfRangeError as e:
                assert "End of sequence" in str(e)
            else:
                raise AssertionError("no end of the data")
        lines = folder / "lines.txt"
        lines.write_text("one\ntwo\nthree\n")
        words = tf.data.make_one_shot_iterator(tf.data.TextLineDataset(str(lines)).shuffle(3, seed=1)).get_next()
        assert sorted(session.run(words) for _ in range(3)) == [b"one", b"three", b"two"]


def queue_runners(target: str, folder: Path) -> None:
    """A producer of names, a batch of what is made of them, threads that end with the coordinator."""
    names = tf.train.string_input_producer(["a", "b", "c"], num_epochs=4, shuffle=True, seed=3)
    batch = tf.train.batch([tf.strings.join([names.dequeue(), "!"])], batch_size=2, num_threads=2)
    with tf.Session(target) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        seen: list[bytes] = []
        try:
            while not coordinator.should_stop():
                seen += session.run(batch).tolist()
        except tf.errors.OutOfRangeError:
            pass
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=30)
    assert sorted(seen) == sorted([b"a!", b"b!", b"c!"] * 4), seen


def summaries(target: str, folder: Path) -> None:
    """Scalars and histograms computed on the cluster, written by hooks of the client, read by TensorFlow."""
    step = tf.train.get_or_create_global_step()
    with tf.device("/job:ps/task:0"):
        value = tf.get_variable("level", [3], initializer=tf.ones_initializer())
    tf.summary.scalar("height", tf.reduce_mean(value))
    tf.summary.histogram("all", value)
    train = tf.group(tf.assign_add(value, tf.ones([3])), tf.assign_add(step, 1))
    with tf.train.MonitoredTrainingSession(
        target,
        checkpoint_dir=str(folder / "run"),
        save_summaries_steps=2,
        hooks=[tf.train.StopAtStepHook(last_step=10)],
    ) as session:
        while not session.should_stop():
            session.run(train)
    (file,) = (folder / "run").glob("events.out.tfevents.*")
    found = [v for event in tf.train.summary_iterator(str(file)) for v in event.summary.value]
    means = [v.simple_value for v in found if v.tag == "height"]
    assert len(means) >= 4, means
    assert sorted(means) == means
    assert means[-1] > 5.0, means
    histograms = [v.histo for v in found if v.tag == "all"]
    assert histograms and all(h.num == 3 for h in histograms)
    np.testing.assert_allclose(tf.train.load_checkpoint(str(folder / "run")).get_tensor("level"), [11.0] * 3)


def main(target: str, program: str, folder: str) -> None:
    tf.disable_v2_behavior()
    {"iterators": iterators, "queue_runners": queue_runners, "summaries": summaries}[program](target, Path(folder))
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
