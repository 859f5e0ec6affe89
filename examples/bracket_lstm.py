"""Teach an LSTM to count: it reads brackets one by one and says how deep it is inside of them.

    dtfctl submit examples/bracket_lstm.py [--steps 400] [--picture bracket_lstm.png]

An answer needs all that was read before, so the network must keep a number for as long as the text goes on. Strings are
drawn at random, up to 4 deep, with letters between the brackets, which count nothing. It learns on strings of 14 and is
asked about strings of 28: there it has to count for twice as long as it ever did.
Run without a cluster (`python examples/bracket_lstm.py`) it trains in one process.
"""

import argparse
import os
import sys

import numpy as np

import dtfctl.runtime as tf

SYMBOLS, DEEPEST, UNITS = "()abc", 4, 16
LEARNED, ASKED = 14, 28  # how long the strings are


def strings(count, length, draw):
    """(symbols [count, length], depth after each of them); brackets never close what is not open."""
    symbols, depths = np.empty((count, length), np.int32), np.empty((count, length), np.int32)
    depth = np.zeros(count, np.int32)
    for place in range(length):
        opens = (draw.random(count) < 0.35) & (depth < DEEPEST)
        closes = (draw.random(count) < 0.5) & (depth > 0) & ~opens
        symbols[:, place] = np.select([opens, closes], [0, 1], default=draw.integers(2, 5, size=count))
        depth = depth + opens - closes
        depths[:, place] = depth
    return symbols, depths


class Shown(tf.nn.rnn_cell.LSTMCell):
    """An LSTM cell that gives, beside its output, the memory that it keeps for itself."""

    @property
    def output_size(self):
        return 2 * UNITS

    def call(self, inputs, state):
        output, state = super().call(inputs, state)
        return tf.concat([output, state.c], axis=1), state


def model(symbols):
    """The graph: scores of each depth after each symbol, and what the cell keeps in mind there."""
    read, _ = tf.nn.dynamic_rnn(Shown(UNITS), tf.one_hot(symbols, len(SYMBOLS)), dtype=tf.float32)
    outputs, kept = tf.split(read, 2, axis=2)
    return tf.layers.dense(outputs, DEEPEST + 1, name="depth"), kept


def picture(file, symbols, depths, said, kept):
    """Write how deep a string is at each place, what was said, and the memory's units that follow it most closely."""
    from matplotlib import pyplot

    likeness = np.array([np.corrcoef(unit, depths)[0, 1] if unit.std() > 0 else 0 for unit in kept.T])
    figure, axis = pyplot.subplots(figsize=(11, 3.8), layout="constrained")
    axis.step(range(len(depths)), depths, where="mid", color="black", linewidth=2, label="depth")
    axis.plot(said, "o", color="red", markersize=4, label="what the network says")
    for unit in np.argsort(-np.abs(likeness))[:3]:
        axis.plot(
            np.sign(likeness[unit]) * kept[:, unit],
            label=f"memory of unit {unit}, correlation {abs(likeness[unit]):.2f}",
        )
    axis.axvline(LEARNED - 0.5, color="gray", linestyle=":", label="as long as it learned")
    axis.set_xticks(range(len(symbols)), [SYMBOLS[symbol] for symbol in symbols], fontsize=8)
    figure.legend(loc="outside upper center", fontsize=8, ncols=3)
    figure.savefig(file, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--target", type=float, default=0.95, help="share of right depths to reach")
    parser.add_argument("--picture", metavar="FILE", help="write a picture of how it counts (needs matplotlib)")
    args = parser.parse_args()
    if args.picture:
        try:
            import matplotlib
        except ImportError:
            parser.error("--picture needs matplotlib: pip install matplotlib")
        matplotlib.use("agg")

    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    setter = tf.train.replica_device_setter(
        cluster=task.cluster_spec(), worker_device=f"/job:{task.task_type}/task:{task.task_id}"
    )
    with tf.device(setter):
        symbols = tf.placeholder(tf.int32, [None, None], name="symbols")
        depths = tf.placeholder(tf.int32, [None, None], name="depths")
        scores, kept = model(symbols)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=depths, logits=scores))
        said = tf.argmax(scores, axis=2, output_type=tf.int32)
        step = tf.train.get_or_create_global_step()
        # A long string's gradient is a product of many factors and may be huge: it is cut to a length of 1.
        optimizer = tf.train.AdamOptimizer(tf.train.exponential_decay(0.02, step, args.steps / 2, 0.5))
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        train_op = optimizer.apply_gradients(zip(gradients, variables), global_step=step)

    asked, answers = strings(200, ASKED, np.random.default_rng(99))
    final = tf.train.FinalOpsHook([said, kept], {symbols: asked})
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), final]
    if task.is_chief:
        hooks.append(tf.train.ProgressHook(total=args.steps, metrics={"loss": loss}))
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
            text, answer = strings(args.batch, LEARNED, draw)
            session.run(train_op, {symbols: text, depths: answer})

    if not task.is_chief:
        return 0
    given, memory = final.final_ops_values
    if args.picture:
        picture(args.picture, asked[0], answers[0], given[0], memory[0])
    right = given == answers
    late = right[:, -LEARNED:].mean()
    print(f"right depths in strings of {ASKED}: {right.mean():.1%}; in their last {LEARNED} places: {late:.1%}")
    return 0 if right.mean() >= args.target else 1


if __name__ == "__main__":
    sys.exit(main())
