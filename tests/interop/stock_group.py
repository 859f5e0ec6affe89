"""A task of a cluster that is TensorFlow's own server, with a client of its own that computes in groups.

usage: stock_group.py CLUSTER INDEX LEADER REPLICAS KEY TASKS

CLUSTER is JSON, job to addresses; each task has REPLICAS devices; KEY is the graph key of its steps, 0 for none; TASKS,
with commas, are those of its session: without any it only serves. It prints "ready" once it serves, and what it has
computed, as JSON.
"""

import json
import sys

import numpy as np
import tensorflow as tf
from group_graph import STEPS, build

v1 = tf.compat.v1
v1.disable_eager_execution()
cluster, index, leader, replicas, key, peers = sys.argv[1:7]
addresses = json.loads(cluster)
config = v1.ConfigProto(device_count={"CPU": int(replicas)})
config.experimental.collective_group_leader = leader
config.graph_options.rewrite_options.disable_meta_optimizer = True
server = v1.train.Server(addresses, job_name="worker", task_index=int(index), config=config)
print("ready", flush=True)
tasks = [int(peer) for peer in peers.split(",") if peer]
if tasks:
    fetches, feeds = build(tf, len(addresses["worker"]) * int(replicas), tasks, int(replicas))
    config.device_filters.extend(f"/job:worker/task:{task}" for task in tasks)
    options = v1.RunOptions()
    options.experimental.collective_graph_key = int(key)
    with v1.Session(server.target, config=config) as session:
        for step in range(STEPS):
            found = session.run(fetches, {feed: np.float32(step) for feed in feeds}, options=options)
            print(
                json.dumps([[np.asarray(value).ravel().tolist() for value in device] for device in found]), flush=True
            )
# Others may still fetch what this task has left for them.
sys.stdin.read()
