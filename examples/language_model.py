"""Teach a small Transformer to write Python's documentation, character by character.

    dtfctl submit examples/language_model.py [--steps 2000] [--picture language_model.png]

The text is what `help()` says of its topics, which every Python ships with; every tenth part of it is held out. Two
layers of attention look back at up to 64 characters and say how likely each next one is. The number at the end is how
many bits it takes to be told a character of the held-out text, beside those of whoever knows the one or the two before.
Run without a cluster (`python examples/language_model.py`) it trains in one process.
"""

import argparse
import os
import pydoc_data.topics
import re
import sys

import numpy as np

import dtfctl.runtime as tf

SYMBOLS, CONTEXT, WIDTH, HEADS, LAYERS = 128, 64, 64, 4, 2


def read():
    """(text to learn from, held-out text), in ASCII codes; topics quote each other: what comes twice is there once."""
    topics = [text for _, text in sorted(pydoc_data.topics.topics.items())]
    paragraphs = [part for text in topics for part in re.split("\n{2,}", text.strip())]
    paragraphs = list({tuple(re.findall(r"\w+", part)): part for part in paragraphs}.values())
    parts = [paragraphs[at : at + 20] for at in range(0, len(paragraphs), 20)]
    held_out = [part for which, part in enumerate(parts) if which % 10 == 9]
    learned = [part for which, part in enumerate(parts) if which % 10 != 9]
    texts = ["\n\n".join("\n\n".join(part) for part in chosen) for chosen in (learned, held_out)]
    return [np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int32) for text in texts]


def readable(codes):
    """The codes as text that a terminal shows."""
    return "".join(chr(code) if chr(code).isprintable() or code == ord("\n") else "?" for code in codes)


def windows(text, starts):
    """(CONTEXT characters from each of the starts, the character after each of them)."""
    at = np.asarray(starts)[:, None] + np.arange(CONTEXT)
    return text[at], text[at + 1]


def known_before(learned, held_out, before):
    """Bits a character of the held-out text, told by how often each followed the `before` ones in the learned."""

    def coded(text):
        return sum(
            text[place : len(text) - before + place] * SYMBOLS ** (before - place) for place in range(before + 1)
        )

    counts = np.bincount(coded(learned), minlength=SYMBOLS ** (before + 1)).reshape(-1, SYMBOLS) + 0.01
    chances = counts / counts.sum(axis=1, keepdims=True)
    return -np.log2(chances.ravel()[coded(held_out)]).mean()


def normed(x, name):
    """Each place's numbers, moved to mean 0 and spread 1, then to what is learned."""
    with tf.variable_scope(name):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        scale = tf.get_variable("scale", [WIDTH], initializer=tf.ones_initializer())
        centre = tf.get_variable("centre", [WIDTH], initializer=tf.zeros_initializer())
        return tf.nn.batch_normalization(x, mean, variance, centre, scale, 1e-5)


def attention(x):
    """What each place takes from those before it, and how much it looks at each of them, by head."""
    length = tf.shape(x)[1]

    def by_head(numbers):  # [batch, length, WIDTH] -> [batch, HEADS, length, WIDTH / HEADS]
        return tf.transpose(tf.reshape(numbers, [-1, length, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])

    asks, answers, tells = (
        by_head(tf.layers.dense(x, WIDTH, use_bias=False, name=name)) for name in ("asks", "answers", "tells")
    )
    scores = tf.matmul(asks, answers, transpose_b=True) / np.sqrt(WIDTH // HEADS)
    seen = tf.linalg.band_part(tf.ones([length, length]), -1, 0)  # nobody looks ahead
    looks = tf.nn.softmax(scores - 1e9 * (1 - seen))
    taken = tf.reshape(tf.transpose(tf.matmul(looks, tells), [0, 2, 1, 3]), [-1, length, WIDTH])
    return tf.layers.dense(taken, WIDTH, name="taken"), looks


def model(characters):
    """The graph: scores of the next character at each place, and what each layer's heads look at."""
    length = tf.shape(characters)[1]
    letters = tf.get_variable("letters", [SYMBOLS, WIDTH], initializer=tf.random_normal_initializer(stddev=0.1))
    places = tf.get_variable("places", [CONTEXT, WIDTH], initializer=tf.random_normal_initializer(stddev=0.1))
    x = tf.nn.embedding_lookup(letters, characters) + places[:length]
    looks = []
    for layer in range(LAYERS):
        with tf.variable_scope(f"layer{layer}"):
            taken, looked = attention(normed(x, "before_attention"))
            looks.append(looked)
            x += taken
            thought = tf.layers.dense(normed(x, "before_thought"), 4 * WIDTH, activation=tf.nn.relu, name="thought")
            x += tf.layers.dense(thought, WIDTH, name="result")
    return tf.layers.dense(normed(x, "last"), SYMBOLS, name="scores"), looks


def asked(learned, held_out, length=300):
    """Ask the network, in this process: (bits of each held-out character, what is looked at, a text that it writes)."""
    with tf.Graph().as_default(), tf.Session() as session:
        characters, followed = tf.placeholder(tf.int32, [None, None]), tf.placeholder(tf.int32, [None, None])
        scores, looks = model(characters)
        for variable, value in zip(tf.trainable_variables(), learned):
            variable.load(value, session)
        surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=followed, logits=scores)
        chances = tf.nn.softmax(scores[0, -1])
        starts, nats = np.arange(0, len(held_out) - CONTEXT, CONTEXT), []
        for some in np.array_split(starts, len(starts) // 32):
            text, after = windows(held_out, some)
            nats.append(session.run(surprise, {characters: text, followed: after}))
        looked = session.run(looks, {characters: held_out[None, :CONTEXT]})
        draw, text = np.random.default_rng(5), list(held_out[:CONTEXT])
        while len(text) < CONTEXT + length:
            share = session.run(chances, {characters: [text[-CONTEXT:]]}).astype(float)
            text.append(draw.choice(SYMBOLS, p=share / share.sum()))
        return np.concatenate(nats) / np.log(2), looked, readable(text[CONTEXT:])


def picture(file, text, bits, looked):
    """Write held-out text, each character as dark as it came unexpected, and what the heads of each layer look at."""
    from matplotlib import pyplot

    def shown(axis, darkness, characters, color, most):
        axis.imshow(darkness, cmap=color, vmin=0, vmax=most, aspect="auto")
        for (row, place), code in np.ndenumerate(characters):
            letter = "\N{PILCROW SIGN}" if code == ord("\n") else chr(code)
            axis.text(place, row, letter, ha="center", va="center", family="monospace", fontsize=8)
        axis.set_xticks([])

    figure, axes = pyplot.subplots(2, 1, figsize=(11, 5.5), layout="constrained")
    rows = 8
    shown(axes[0], bits[:rows], text[1 : rows * CONTEXT + 1].reshape(rows, CONTEXT), "Reds", 8)
    axes[0].set_yticks([])
    axes[0].set_title("held-out text: the redder, the less expected (8 bits and more: full red)", fontsize=9)
    heads = np.concatenate(looked, axis=1)[0, :, -1]
    shown(axes[1], heads, np.broadcast_to(text[:CONTEXT], heads.shape), "Blues", 0.5)
    axes[1].set_yticks(
        range(len(heads)), [f"layer {n // HEADS}, head {n % HEADS}" for n in range(len(heads))], fontsize=8
    )
    axes[1].set_title("what each head looks at, from the last character", fontsize=9)
    figure.savefig(file, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--picture", metavar="FILE", help="write a picture of what it looks at (needs matplotlib)")
    args = parser.parse_args()
    if args.picture:
        try:
            import matplotlib
        except ImportError:
            parser.error("--picture needs matplotlib: pip install matplotlib")
        matplotlib.use("agg")

    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    learned, held_out = read()
    setter = tf.train.replica_device_setter(
        cluster=task.cluster_spec(), worker_device=f"/job:{task.task_type}/task:{task.task_id}"
    )
    with tf.device(setter):
        characters = tf.placeholder(tf.int32, [None, None], name="characters")
        followed = tf.placeholder(tf.int32, [None, None], name="followed")
        scores, _ = model(characters)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=followed, logits=scores))
        step = tf.train.get_or_create_global_step()
        rate = tf.train.polynomial_decay(4e-3, step, args.steps, 4e-4)
        train_op = tf.train.AdamOptimizer(rate).minimize(loss, global_step=step)

    final = tf.train.FinalOpsHook(tf.trainable_variables())
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), final]
    if task.is_chief:
        hooks.append(tf.train.ProgressHook(total=args.steps, metrics={"bits": loss / np.log(2)}))
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
            text, after = windows(learned, draw.integers(len(learned) - CONTEXT, size=args.batch))
            session.run(train_op, {characters: text, followed: after})

    if not task.is_chief:
        return 0
    bits, looked, written = asked(final.final_ops_values, held_out)
    if args.picture:
        picture(args.picture, held_out, bits, looked)
    print(f"after {readable(held_out[:CONTEXT])!r} it writes:\n{written}")
    one, two = (known_before(learned, held_out, before) for before in (1, 2))
    print(f"bits a character of held-out text: {bits.mean():.2f}; knowing one before: {one:.2f}; two before: {two:.2f}")
    return 0 if bits.mean() < two else 1


if __name__ == "__main__":
    sys.exit(main())
