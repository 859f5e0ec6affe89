"""Teach a network to draw handwritten digits, by one that tells drawn from real: a generative adversarial network.

    dtfctl submit examples/digits_gan.py [--steps 3000] [--picture digits_gan.png]

The digits are scikit-learn's 1,797 scans of 8x8 pixels; every fifth is held out. The painter gets numbers drawn by
chance and the digit it shall draw; the critic gets an image and the digit it shall be, and says whether it was scanned.
Each learns from the other. At the end a reader (scikit-learn's) that has seen nothing but drawn digits reads the
held-out real ones: it can only do so if what was drawn is right, and as varied as handwriting is.
Run without a cluster (`python examples/digits_gan.py`) it trains in one process.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn>=1.4"]
# ///

import argparse
import os
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import dtfctl.runtime as tf

CHANCE, DRAWN = 16, 2000  # numbers that the painter gets beside the digit; digits that are drawn at the end
STEEP = 1.0  # the greater, the more is held down how the critic's scores change with the pixels


def load():
    """(train images, train labels, test images, test labels); images are [8, 8, 1] from 0 to 1."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order, :, :, None] / 16.0).astype(np.float32)
    labels = digits.target[order].astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def paint(chance, digit):
    """The painter's graph: images of digits."""
    soft = tf.nn.leaky_relu
    with tf.variable_scope("painter"):
        told = tf.concat([chance, tf.one_hot(digit, 10)], axis=1)
        idea = tf.layers.dense(told, 128, activation=soft, name="idea")
        # 2x2 places of 64 numbers -> 4x4 of 32 -> 8x8 pixels: each is spread over a neighbourhood twice as fine.
        coarse = tf.reshape(tf.layers.dense(idea, 2 * 2 * 64, activation=soft, name="coarse"), [-1, 2, 2, 64])
        finer = tf.layers.conv2d_transpose(coarse, 32, 4, 2, padding="same", activation=soft, name="finer")
        return tf.layers.conv2d_transpose(finer, 1, 4, 2, padding="same", activation=tf.nn.sigmoid, name="pixels")


def judge(image, digit):
    """The critic's graph: a score for each image, greater for those that were scanned."""
    soft = tf.nn.leaky_relu
    with tf.variable_scope("critic", reuse=tf.AUTO_REUSE):
        strokes = tf.layers.conv2d(image, 32, 4, 2, padding="same", activation=soft, name="strokes")
        parts = tf.layers.conv2d(strokes, 64, 4, 2, padding="same", activation=soft, name="parts")
        whole = tf.layers.dense(tf.reshape(parts, [-1, 2 * 2 * 64]), 64, activation=soft, name="whole")
        # How good an image it is, and how well it goes with the digit it shall be.
        of_digit = tf.nn.embedding_lookup(tf.get_variable("digits", [10, 64]), digit)
        return tf.squeeze(tf.layers.dense(whole, 1, name="score"), axis=1) + tf.reduce_sum(whole * of_digit, axis=1)


def cross_entropy(scores, real):
    """How wrong the critic's scores are, where all of the images were scanned (1) or drawn (0)."""
    labels = tf.fill(tf.shape(scores), real)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores))


def picture(file, drawn, real, labels):
    """Write digits that were drawn, in a row those of the same chance, and the scanned ones most like the first row."""
    from matplotlib import pyplot

    rows = len(drawn)
    figure, axes = pyplot.subplots(rows + 1, 10, figsize=(8, 0.82 * (rows + 1)), layout="constrained")
    for digit in range(10):
        for row in range(rows):
            axes[row, digit].imshow(drawn[row, digit, :, :, 0], cmap="gray_r", vmin=0, vmax=1)
        same = real[labels == digit]
        nearest = same[np.argmin(np.square(same - drawn[0, digit]).sum(axis=(1, 2, 3)))]
        axes[rows, digit].imshow(nearest[:, :, 0], cmap="Blues", vmin=0, vmax=1)
    axes[rows // 2, 0].set_ylabel("drawn")
    axes[rows, 0].set_ylabel("scanned")
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    figure.savefig(file, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--target", type=float, default=0.85, help="share of real digits that are to be read")
    parser.add_argument("--picture", metavar="FILE", help="write a picture of drawn digits (needs matplotlib)")
    args = parser.parse_args()
    if args.picture:
        try:
            import matplotlib
        except ImportError:
            parser.error("--picture needs matplotlib: pip install matplotlib")
        matplotlib.use("agg")

    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    train_x, train_y, test_x, test_y = load()
    setter = tf.train.replica_device_setter(
        cluster=task.cluster_spec(), worker_device=f"/job:{task.task_type}/task:{task.task_id}"
    )
    with tf.device(setter):
        scanned = tf.placeholder(tf.float32, [None, 8, 8, 1], name="scanned")
        digit = tf.placeholder(tf.int64, [None], name="digit")
        chance = tf.placeholder(tf.float32, [None, CHANCE], name="chance")
        drawn = paint(chance, digit)
        of_scanned, of_drawn = judge(scanned, digit), judge(drawn, digit)
        # A critic that is sure of everything has no slope that the painter could follow: it may not be steep.
        (slopes,) = tf.gradients(of_scanned, scanned)
        steep = tf.reduce_mean(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]))
        critic_loss = cross_entropy(of_scanned, 1.0) + cross_entropy(of_drawn, 0.0) + STEEP * steep
        painter_loss = cross_entropy(of_drawn, 1.0)  # the painter would have the critic take them for scanned ones
        step = tf.train.get_or_create_global_step()
        learn_to_judge = tf.train.AdamOptimizer(5e-4, beta1=0.5).minimize(
            critic_loss, var_list=tf.trainable_variables("critic")
        )
        learn_to_paint = tf.train.AdamOptimizer(1e-3, beta1=0.5).minimize(
            painter_loss, var_list=tf.trainable_variables("painter"), global_step=step
        )

    # Each draw of chance is asked for all ten digits.
    asked = np.repeat(np.random.default_rng(99).normal(size=(DRAWN // 10, CHANCE)), 10, axis=0)
    digits = np.arange(DRAWN) % 10
    final = tf.train.FinalOpsHook(drawn, {chance: asked, digit: digits})
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), final]
    if task.is_chief:
        hooks.append(tf.train.ProgressHook(total=args.steps, metrics={"critic": critic_loss, "painter": painter_loss}))
    draw = np.random.default_rng(task.task_id)
    with tf.train.MonitoredTrainingSession(
        master=task.master(),
        is_chief=task.is_chief,
        checkpoint_dir=os.environ.get("DTF_CHECKPOINT_DIR"),
        save_checkpoint_secs=5,
        save_summaries_steps=None,
        hooks=hooks,
    ) as session:
        while not session.should_stop():
            rows = draw.integers(len(train_y), size=args.batch)
            numbers = draw.normal(size=(args.batch, CHANCE))
            session.run(
                [learn_to_judge, learn_to_paint], {scanned: train_x[rows], digit: train_y[rows], chance: numbers}
            )

    if not task.is_chief:
        return 0
    images = final.final_ops_values

    def reads(learned, labels):
        return SVC(C=10).fit(learned.reshape(-1, 64), labels).score(test_x.reshape(-1, 64), test_y)

    taught, at_best = reads(images, digits), reads(train_x, train_y)
    if args.picture:
        picture(args.picture, images[:60].reshape(6, 10, 8, 8, 1), train_x, train_y)
    print(f"real digits read by who learned from drawn ones: {taught:.1%}; from real ones: {at_best:.1%}")
    return 0 if taught >= args.target else 1


if __name__ == "__main__":
    sys.exit(main())
