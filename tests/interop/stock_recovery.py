"""Run by the stock TensorFlow client: MonitoredTrainingSession lives through the death of the ps.

stock_recovery.py TARGET CHECKPOINTS: at step 20 says "kill" and waits for a line; ends by printing "step S value V".
"""

from __future__ import annotations

import sys

import tensorflow.compat.v1 as tf


def main(target: str, folder: str) -> None:
    tf.disable_v2_behavior()
    with tf.device("/job:ps/task:0"):
        total = tf.get_variable("total", [], initializer=tf.zeros_initializer())
        step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([tf.assign_add(total, 2.0)]):
        train = tf.assign_add(step, 1)
    killed = False
    with tf.train.MonitoredTrainingSession(
        target,
        checkpoint_dir=folder,
        save_checkpoint_steps=5,
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        hooks=[tf.train.StopAtStepHook(last_step=60)],
    ) as session:
        while not session.should_stop():
            at = session.run(train)
            if at >= 20 and not killed:
                killed = True
                print("kill", flush=True)
                sys.stdin.readline()
    reader = tf.train.load_checkpoint(folder)
    print(f"step {reader.get_tensor('global_step')} value {reader.get_tensor('total')}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
