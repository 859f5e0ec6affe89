"""Find where Ripple(x) is 2, by gradient descent on a variable that lives on the ps.

pip install ./examples/custom_op && dtfctl submit --replication in-graph examples/custom_op/job.py
"""

import sys

from dtfctl_ripple import ripple

import dtfctl.runtime as tf

task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
with tf.device(tf.train.replica_device_setter(cluster=task.cluster_spec())):
    x = tf.get_variable("x", shape=[], initializer=tf.constant_initializer(0.5))
    y = ripple(x, amplitude=0.25, frequency=2.0)
    loss = tf.square(y - 2.0)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
with tf.Session(task.master()) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(100):
        session.run(train_op)
    found, value = session.run([x, y])
print(f"ripple({found:.4f}) = {value:.4f}")
sys.exit(0 if abs(value - 2.0) < 1e-3 else 1)
