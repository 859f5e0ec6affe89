"""Teach a convolutional network to read handwritten digits, and ask it which pixels it reads them by.

    dtfctl submit examples/digits_cnn.py [--steps 800] [--picture digits_cnn.png]

The digits are scikit-learn's 1,797 scans of 8x8 pixels; every fifth is held out. Two layers of 3x3 filters look at the
image: the first finds strokes, the second what strokes make. In training the image is moved by up to one pixel, so that
no digit is known by its exact place.
Run without a cluster (`python examples/digits_cnn.py`) it trains in one process.
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

import dtfctl.runtime as tf


def load():
    """(train images, train labels, test images, test labels); images are [8, 8, 1] from 0 to 1."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order, :, :, None] / 16.0).astype(np.float32)
    labels = digits.target[order].astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def moved(images, draw):
    """The images, each moved by -1, 0 or 1 pixels across and down."""
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)])
    down, right = draw.integers(3, size=(2, len(images)))
    at = np.arange(8)
    return padded[
        np.arange(len(images))[:, None, None], (down[:, None] + at)[:, :, None], (right[:, None] + at)[:, None]
    ]


def model(images, dropped):
    """The graph: a score for each of the ten digits."""
    # 8x8 -> 16 maps of 8x8, of which the greatest of each 2x2 stays -> 32 maps of 4x4 -> of 2x2
    strokes = tf.layers.conv2d(images, 16, 3, padding="same", activation=tf.nn.relu, name="strokes")
    parts = tf.layers.max_pooling2d(strokes, 2, 2)
    parts = tf.layers.conv2d(parts, 32, 3, padding="same", activation=tf.nn.relu, name="parts")
    flat = tf.reshape(tf.layers.max_pooling2d(parts, 2, 2), [-1, 2 * 2 * 32])
    hidden = tf.layers.dense(flat, 64, activation=tf.nn.relu, name="hidden")
    # Training leaves out a part of the 64 by chance, so that no single one is relied on.
    hidden = tf.nn.dropout(hidden, rate=dropped)
    return tf.layers.dense(hidden, 10, name="scores")


def picture(file, images, slopes, said, filters):
    """Write the first filters, and for some digits which pixels speak for what was said (red) or against it (blue)."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 10, figsize=(10, 3.4), layout="constrained")
    for digit in range(10):
        which = int(np.argmax(said == digit))
        axes[0, digit].imshow(images[which, :, :, 0], cmap="gray_r")
        axes[0, digit].set_title(f"reads {digit}", fontsize=9)
        speaks = (slopes[which] * images[which])[:, :, 0]
        axes[1, digit].imshow(speaks, cmap="RdBu_r", vmin=-np.abs(speaks).max(), vmax=np.abs(speaks).max())
        axes[2, digit].imshow(filters[:, :, 0, digit], cmap="PuOr_r", vmin=-1, vmax=1)
    for axis, title in zip(axes[:, 0], ["image", "speaks for it", "filters"]):
        axis.set_ylabel(title)
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    figure.savefig(file, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--target", type=float, default=0.96, help="accuracy to reach")
    parser.add_argument(
        "--picture", metavar="FILE", help="write a picture of what it reads digits by (needs matplotlib)"
    )
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
        images = tf.placeholder(tf.float32, [None, 8, 8, 1], name="images")
        labels = tf.placeholder(tf.int64, [None], name="labels")
        dropped = tf.placeholder_with_default(0.0, [], name="dropped")
        scores = model(images, dropped)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))
        said = tf.argmax(scores, axis=1)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(said, labels), tf.float32))
        # How much the score of what is said grows with each pixel.
        (slopes,) = tf.gradients(tf.reduce_max(scores, axis=1), images)
        filters = next(v for v in tf.trainable_variables() if v.op.name == "strokes/kernel")
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.005, step, 200, 0.6)
        train_op = tf.train.AdamOptimizer(rate).minimize(loss, global_step=step)

    final = tf.train.FinalOpsHook([accuracy, said, slopes, filters], {images: test_x, labels: test_y})
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), final]
    if task.is_chief:
        hooks.append(tf.train.ProgressHook(total=args.steps, metrics={"loss": loss, "accuracy": accuracy}))
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
            session.run(train_op, {images: moved(train_x[rows], draw), labels: train_y[rows], dropped: 0.25})

    if not task.is_chief:
        return 0
    reached, answers, slope, kernel = final.final_ops_values
    if args.picture:
        picture(args.picture, test_x, slope, answers, kernel)
    print(f"accuracy on {len(test_y)} held-out digits: {reached:.1%}")
    return 0 if reached >= args.target else 1


if __name__ == "__main__":
    sys.exit(main())
