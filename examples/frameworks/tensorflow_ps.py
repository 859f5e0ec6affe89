"""TensorFlow itself, with its own servers: asynchronous training with parameter servers.

    dtfctl submit --framework tensorflow --python ~/venv/bin/python tensorflow_ps.py --steps 400

The job runs this script beside every worker and every ps of the cluster; TF_CONFIG says which one a process is. A
process that dies is started again at its old address; after the death of a ps the chief restores the newest checkpoint.
"""

import argparse
import json
import os
import time

import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds a step takes longer")
    args = parser.parse_args()
    config = json.loads(os.environ["TF_CONFIG"])
    role, index = config["task"]["type"], config["task"]["index"]
    table = config.get("cluster") or {
        "ps": config["sparseCluster"]["ps"],
        "worker": {int(i): address for i, address in config["sparseCluster"]["worker"].items()},
    }
    cluster = tf1.train.ClusterSpec(table)
    server = tf1.train.Server(cluster, role, index)
    print(f"{role}/{index} serves", flush=True)
    if role == "ps":
        server.join()

    # Without a chief of its own, worker 0 is it.
    is_chief = os.environ["DTF_IS_CHIEF"] == "1"
    with tf1.device(tf1.train.replica_device_setter(worker_device=f"/job:{role}/task:{index}", cluster=cluster)):
        goal = tf.constant([[2.0], [-3.0], [0.5]])
        weights = tf1.get_variable("weights", shape=(3, 1), initializer=tf1.zeros_initializer())
        step = tf1.train.get_or_create_global_step()
        inputs = tf1.random_normal((32, 3))
        loss = tf.reduce_mean(tf1.squared_difference(inputs @ weights, inputs @ goal))
        train = tf1.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)
    # A session waits for the ps and for its own worker, not for the others.
    options = tf1.ConfigProto(device_filters=["/job:ps", f"/job:{role}/task:{index}"])
    with tf1.train.MonitoredTrainingSession(
        server.target,
        is_chief=is_chief,
        checkpoint_dir=os.environ["DTF_CHECKPOINT_DIR"] if is_chief else None,
        save_checkpoint_secs=None,
        save_checkpoint_steps=50 if is_chief else None,
        hooks=[tf1.train.StopAtStepHook(last_step=args.steps)],
        config=options,
    ) as session:
        said = -1
        while not session.should_stop():
            _, number, value = session.run([train, step, loss])
            if number // 50 != said:
                said = number // 50
                print(f"{role}/{index} step {number}, loss {value:.2e}", flush=True)
            time.sleep(args.pause)
    print(f"{role}/{index} done", flush=True)


if __name__ == "__main__":
    main()
