"""Run by the stock TensorFlow client, once beside each worker: SyncReplicasOptimizer over both.

stock_sync.py TARGET WORKER CHECKPOINTS: says "ready" when it begins, "steps S weight W" at its end.
"""

from __future__ import annotations

import pathlib
import sys
import time

import tensorflow.compat.v1 as tf

STEPS = 20


def _meet(folder: pathlib.Path, worker: int) -> None:
    """Wait for the other client: alone, the chief would give both gradients of each step."""
    (folder / f"there-{worker}").touch()
    while not (folder / f"there-{1 - worker}").exists():
        time.sleep(0.05)


def main(target: str, worker: int, folder: str) -> None:
    tf.disable_v2_behavior()
    with tf.device(tf.train.replica_device_setter(1, worker_device=f"/job:worker/task:{worker}")):
        step = tf.train.get_or_create_global_step()
        weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
        wanted = tf.constant(1.0 if worker == 0 else 3.0)
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.2), replicas_to_aggregate=2, total_num_replicas=2
        )
        train = optimizer.minimize(tf.square(weight - wanted), global_step=step)
    hooks = [optimizer.make_session_run_hook(worker == 0), tf.train.StopAtStepHook(last_step=STEPS)]
    seen, last = 0, 0.0
    with tf.train.MonitoredTrainingSession(
        target,
        is_chief=worker == 0,
        checkpoint_dir=folder,
        save_summaries_steps=None,
        hooks=hooks,
        # The thread that applies gradients waits for the next ones; TensorFlow gives it two minutes.
        stop_grace_period_secs=3,
    ) as session:
        print("ready", flush=True)
        _meet(pathlib.Path(folder), worker)
        while not session.should_stop():
            session.run(train)
            if not session.should_stop():
                seen, last = session.run([step, weight])
    if worker == 0:
        reader = tf.train.load_checkpoint(folder)
        seen, last = reader.get_tensor("global_step"), reader.get_tensor("weight")
    print(f"steps {seen} weight {last}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
