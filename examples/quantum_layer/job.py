"""Tell two half moons apart by a network in whose middle is a quantum circuit of three qubits.

    pip install ./examples/quantum_layer && dtfctl submit --replication in-graph examples/quantum_layer/job.py

A dense layer makes three angles of a point, the circuit (simulated where the tasks run) three expected values of them,
a dense layer one score. Both dense layers are linear: all that bends is the circuit. Without it (`--without`) the same
network can only draw a straight line between the moons.
"""

import argparse
import sys

import numpy as np
from dtfctl_quantum import quantum_layer

import dtfctl.runtime as tf

QUBITS, LAYERS = 3, 2


def moons(count, draw):
    """(points [count, 2], which moon each is of): two half circles that reach into each other, with some noise."""
    moon = draw.integers(2, size=count)
    turn = draw.uniform(0, np.pi, count)
    x = np.where(moon == 0, np.cos(turn), 1 - np.cos(turn))
    y = np.where(moon == 0, np.sin(turn), 0.5 - np.sin(turn))
    points = np.stack([x - 0.5, y - 0.25], axis=1) + draw.normal(scale=0.1, size=(count, 2))
    return points.astype(np.float32), moon.astype(np.float32)


def model(points, with_circuit):
    """The graph: a score for each point, above zero for the second moon."""
    angles = tf.layers.dense(points, QUBITS, name="angles")
    if with_circuit:
        start = tf.random_uniform_initializer(-1, 1, seed=5)
        angles = quantum_layer(angles, tf.get_variable("turns", [LAYERS, QUBITS, 2], initializer=start))
    return tf.layers.dense(angles, 1, name="score")[:, 0]


def picture(file, score_of, points, moon):
    """Write where the network draws the line."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    x, y = np.meshgrid(np.linspace(-2, 2, 80), np.linspace(-1.3, 1.3, 60))
    scores = score_of(np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)).reshape(x.shape)
    figure, axis = pyplot.subplots(figsize=(7, 4.4), layout="constrained")
    axis.contourf(x, y, 1 / (1 + np.exp(-scores)), levels=np.linspace(0, 1, 11), cmap="RdBu")
    axis.contour(x, y, scores, levels=[0], colors="black")
    axis.scatter(*points.T, c=moon, cmap="RdBu", edgecolors="black", s=12, linewidths=0.4)
    figure.savefig(file, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--without", action="store_true", help="leave the circuit out")
    parser.add_argument("--target", type=float, default=0.95, help="accuracy to reach")
    parser.add_argument("--picture", metavar="FILE", help="write a picture of the line (needs matplotlib)")
    args = parser.parse_args()

    draw = np.random.default_rng(0)
    test_x, test_y = moons(400, draw)
    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.set_random_seed(1)
    with tf.device(tf.train.replica_device_setter(cluster=task.cluster_spec())):
        points, moon = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None])
        score = model(points, with_circuit=not args.without)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=moon, logits=score))
        train_op = tf.train.AdamOptimizer(0.05).minimize(loss)
        right = tf.reduce_mean(tf.cast(tf.equal(score > 0, moon > 0.5), tf.float32))
    with tf.Session(task.master()) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(args.steps):
            train_x, train_y = moons(32, draw)
            session.run(train_op, {points: train_x, moon: train_y})
        reached = session.run(right, {points: test_x, moon: test_y})
        if args.picture:
            picture(args.picture, lambda at: session.run(score, {points: at}), test_x, test_y)
    print(f"accuracy on {len(test_y)} held-out points: {reached:.1%}")
    return 0 if reached >= args.target else 1


if __name__ == "__main__":
    sys.exit(main())
