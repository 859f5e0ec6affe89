"""Learn what words mean from the words beside them, and see whether words of one kind have come together.

    dtfctl submit examples/word_vectors.py [--steps 8000] [--picture word_vectors.png]

The text is what Python ships with: the modules of its standard library, code and comments, and the topics of `help()`.
Every word has a vector of 48 numbers, which learns to tell words that stand near it in the text from words drawn by
chance (skip-gram with noise-contrastive estimation). Nobody says which words are exceptions and which are functions:
that is asked at the end, of Python, to see whether a word's nearest neighbours are of its own kind.
Run without a cluster (`python examples/word_vectors.py`) it trains in one process.
"""

import argparse
import builtins
import collections
import inspect
import keyword
import os
import pydoc_data.topics
import re
import sys
from pathlib import Path

import numpy as np

import dtfctl.runtime as tf

VOCABULARY, WIDTH, WINDOW, NOISE, NEIGHBOURS = 3000, 48, 4, 64, 5


def read():
    """The words of the text, in its order."""
    modules = sorted(Path(inspect.getfile(os)).parent.glob("*.py"))
    texts = [module.read_text(encoding="utf-8", errors="replace") for module in modules]
    texts += [text for _, text in sorted(pydoc_data.topics.topics.items())]
    return re.findall("[A-Za-z_]+", " ".join(texts))


def numbered(words):
    """(number of each word in the vocabulary, the vocabulary, how often each word comes); rare words are left out."""
    vocabulary, counts = zip(*collections.Counter(words).most_common(VOCABULARY))
    number = {word: which for which, word in enumerate(vocabulary)}
    return np.array([number[word] for word in words if word in number], np.int64), vocabulary, counts


def kind(word):
    """The kind of a word, by what Python itself says of it; None of most words."""
    if re.fullmatch("__[a-z]+__", word):
        return "special name"
    if keyword.iskeyword(word):
        return "keyword"
    named = getattr(builtins, word, None)
    if isinstance(named, type) and issubclass(named, BaseException):
        return "exception"
    return (
        "built-in function" if isinstance(named, type) or inspect.isbuiltin(named) else None
    )  # int is called as len is


def pairs(text, counts, size, draw):
    """Draw (words, words that stand near them), for ever; frequent words are drawn less often, as they tell little."""
    share = np.array(counts) / len(text)
    kept = text[draw.random(len(text)) < np.sqrt(1e-4 / share)[text]]
    while True:
        place = draw.integers(WINDOW, len(kept) - WINDOW, size=size)
        away = draw.integers(1, WINDOW + 1, size=size) * draw.choice([-1, 1], size=size)
        yield kept[place], kept[place + away]


def model(words, near, counts):
    """The graph: the loss of each pair, and the vectors."""
    vectors = tf.get_variable("vectors", [VOCABULARY, WIDTH], initializer=tf.random_uniform_initializer(-0.1, 0.1))
    weights = tf.get_variable("weights", [VOCABULARY, WIDTH], initializer=tf.zeros_initializer())
    biases = tf.get_variable("biases", [VOCABULARY], initializer=tf.zeros_initializer())
    near = near[:, None]
    noise = tf.nn.fixed_unigram_candidate_sampler(
        near, 1, NOISE, unique=True, range_max=VOCABULARY, distortion=0.75, unigrams=counts
    )
    of_words = tf.nn.embedding_lookup(vectors, words)
    losses = tf.nn.nce_loss(weights, biases, near, of_words, NOISE, VOCABULARY, sampled_values=noise)
    return losses, vectors


def neighbours(vectors):
    """Numbers of the words that are nearest to each, the nearest first, and not itself."""
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -np.inf)
    return np.argsort(-alike, axis=1)


def picture(file, vectors, vocabulary, kinds):
    """Write a map of the words of a kind, on which those with like vectors are close."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(11, 7.5), layout="constrained")
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors - vectors.mean(axis=0)
    # The two directions in which they differ most.
    across, up = np.linalg.svd(vectors, full_matrices=False)[2][:2] @ vectors.T
    colors = {name: f"C{which}" for which, name in enumerate(sorted(set(kinds)))}
    for name, color in colors.items():
        axis.scatter(across[kinds == name], up[kinds == name], s=6, color=color, label=name)
    written = []
    for word, x, y, name in zip(vocabulary, across, up, kinds):
        if all(abs(x - other) > 0.07 or abs(y - over) > 0.018 for other, over in written):
            axis.annotate(word, (x, y), (2, 1), textcoords="offset points", fontsize=7, color=colors[name])
            written.append((x, y))
    axis.set_xticks([])
    axis.set_yticks([])
    axis.legend(fontsize=8)
    figure.savefig(file, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8000, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--target", type=float, default=0.5, help="share of neighbours of a word's own kind to reach")
    parser.add_argument("--picture", metavar="FILE", help="write a map of the words (needs matplotlib)")
    args = parser.parse_args()
    if args.picture:
        try:
            import matplotlib
        except ImportError:
            parser.error("--picture needs matplotlib: pip install matplotlib")
        matplotlib.use("agg")

    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    text, vocabulary, counts = numbered(read())
    setter = tf.train.replica_device_setter(
        cluster=task.cluster_spec(), worker_device=f"/job:{task.task_type}/task:{task.task_id}"
    )
    with tf.device(setter):
        words = tf.placeholder(tf.int64, [None], name="words")
        near = tf.placeholder(tf.int64, [None], name="near")
        losses, vectors = model(words, near, counts)
        step = tf.train.get_or_create_global_step()
        # The sum: a word's gradient is of the few pairs that it has in a batch.
        train_op = tf.train.AdagradOptimizer(1.0).minimize(tf.reduce_sum(losses), global_step=step)

    final = tf.train.FinalOpsHook(vectors)
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), final]
    if task.is_chief:
        hooks.append(tf.train.ProgressHook(total=args.steps, metrics={"loss": tf.reduce_mean(losses)}))
    drawn = pairs(text, counts, args.batch, np.random.default_rng(task.task_id))
    with tf.train.MonitoredTrainingSession(
        master=task.master(),
        is_chief=task.is_chief,
        checkpoint_dir=os.environ.get("DTF_CHECKPOINT_DIR"),
        save_checkpoint_secs=5,
        save_summaries_steps=None,
        hooks=hooks,
    ) as session:
        while not session.should_stop():
            word, beside = next(drawn)
            session.run(train_op, {words: word, near: beside})

    if not task.is_chief:
        return 0
    learned = final.final_ops_values
    nearest = neighbours(learned)
    for word in ("ValueError", "int", "for", "open", "__add__"):
        print(f"nearest to {word}:", *(vocabulary[other] for other in nearest[vocabulary.index(word), :NEIGHBOURS]))
    asked = [which for which, word in enumerate(vocabulary) if kind(word)]
    kinds = np.array([kind(vocabulary[which]) for which in asked])
    found = kinds[neighbours(learned[asked])[:, :NEIGHBOURS]]
    own = (found == kinds[:, None]).mean()
    chance = np.mean([(np.sum(kinds == name) - 1) / (len(kinds) - 1) for name in kinds])
    if args.picture:
        picture(args.picture, learned[asked], [vocabulary[which] for which in asked], kinds)
    print(f"neighbours of a word's own kind: {own:.1%} of those of {len(kinds)} words; by chance: {chance:.1%}")
    return 0 if own >= args.target else 1


if __name__ == "__main__":
    sys.exit(main())
