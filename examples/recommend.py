"""Recommend items to users: two embedding tables, split over the ps, of which each step moves a few rows.

    dtfctl submit examples/recommend.py [--users 10000000] [--steps 3000] [--picture recommend.png]

The data are made here, by a law that is stated in `Shop`: who buys what depends on tastes that only the purchases show.
For every active user one purchase is held out; recall@20 says how often it is among the 20 items that are recommended,
beside the 20 that sell best. Items come by their names: a lookup table knows the row of each.

A CheckpointManager keeps the newest two checkpoints. The session is made by hand, which the other examples leave
to MonitoredTrainingSession: when a task is lost, a new one is made, and goes on from the newest checkpoint.
Run without a cluster (`python examples/recommend.py`) it trains in one process.
"""

import argparse
import os
import sys
import tempfile
import time

import numpy as np

import dtfctl.runtime as tf
from dtfctl.runtime.train import progress

TOP = 20


class Shop:
    """Purchases of items, which are of kinds; within a kind the n-th sells in proportion to 1/n.

    Every user likes two kinds and takes three of four purchases from them, the fourth from all kinds. A user's id is
    any of `users`; `active` of them buy.
    """

    def __init__(
        self, users: int, active: int = 20_000, items: int = 2_000, kinds: int = 40, purchases: int = 20
    ) -> None:
        draw = np.random.default_rng(7)
        self.items = items
        ids = draw.choice(users, active, replace=False)
        likes = draw.integers(kinds, size=(active, 2))
        shape = (active, purchases + 1)
        kind = np.take_along_axis(likes, draw.integers(2, size=shape), axis=1)
        kind = np.where(draw.random(shape) < 0.75, kind, draw.integers(kinds, size=shape))
        rank = np.arange(1, items // kinds + 1)
        self.names = np.array([f"kind {kind}, no. {place}" for kind in range(kinds) for place in rank])
        place = draw.choice(len(rank), size=shape, p=(1 / rank) / (1 / rank).sum())
        bought = kind * len(rank) + place
        self.users, self.bought, self.held_out = ids, bought[:, :-1], bought[:, -1]
        self.share = np.bincount(self.bought.ravel(), minlength=items) / self.bought.size

    def batches(self, size: int, seed: int):
        """Draw (users, names of items) of purchases, for ever."""
        draw = np.random.default_rng(seed)
        while True:
            row, column = draw.integers(len(self.users), size=size), draw.integers(self.bought.shape[1], size=size)
            yield self.users[row], self.names[self.bought[row, column]]

    def recall(self, scores: np.ndarray, rows: np.ndarray) -> float:
        """Share of rows whose held out item is among the best `TOP` of `scores` [rows, items]."""
        best = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
        return float((best == self.held_out[rows, None]).any(axis=1).mean())


def model(user, item, users: int, items: int, width: int, share: np.ndarray):
    """The graph: loss, gradient step and its optimizer, the items' scores for users, the items' vectors."""
    near_zero = tf.random_normal_initializer(stddev=0.1, seed=3)
    user_table = tf.get_variable("user_table", [users, width], initializer=near_zero)
    item_table = tf.get_variable("item_table", [items, width], initializer=near_zero)
    item_bias = tf.get_variable("item_bias", [items], initializer=tf.zeros_initializer())
    of_user = tf.nn.embedding_lookup(user_table, user)
    # Each user's item against those of the others in the batch; there stands often what sells often: that is taken off.
    logits = tf.matmul(of_user, tf.nn.embedding_lookup(item_table, item), transpose_b=True)
    logits += tf.nn.embedding_lookup(item_bias, item) - tf.gather(tf.constant(np.log(share + 1e-9), tf.float32), item)
    same = tf.equal(item[:, None], item[None, :])
    others = tf.logical_xor(same, tf.eye(tf.shape(item)[0], dtype=tf.bool))
    logits = tf.where(others, tf.fill(tf.shape(logits), -1e9), logits)
    labels = tf.range(tf.shape(item)[0])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    optimizer = tf.train.AdagradOptimizer(0.1)
    # The sum: a row's gradient is of the few purchases that it has in a batch.
    train_op = optimizer.minimize(tf.reduce_sum(losses), global_step=tf.train.get_or_create_global_step())
    table = tf.identity(item_table)
    scores = tf.matmul(of_user, table, transpose_b=True) + item_bias
    return tf.reduce_mean(losses), train_op, optimizer, scores, table


def picture(file, shop, table, rows, scores, kinds=40, shown=12, of_each=15):
    """Write how alike the vectors of items are, sorted by their kinds, and what two users get told about each kind."""
    from matplotlib import pyplot

    best = np.arange(shop.items).reshape(kinds, -1)[:, :of_each]
    vectors = table[best[:shown].ravel()]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained", width_ratios=[1, 1.3])
    alike = axes[0].imshow(vectors @ vectors.T, cmap="RdBu_r", vmin=-1, vmax=1)
    axes[0].set_xticks(np.arange(shown) * of_each + of_each / 2, range(shown))
    axes[0].set_yticks(np.arange(shown) * of_each + of_each / 2, range(shown))
    axes[0].set_title(f"how alike the {of_each} best sold items of kinds 0 to {shown - 1} are", fontsize=9)
    figure.colorbar(alike, ax=axes[0], shrink=0.8)
    for which, color in [(0, "C0"), (1, "C1")]:
        bought = np.bincount(shop.bought[rows[which]] // (shop.items // kinds), minlength=kinds)
        axes[1].bar(np.arange(kinds), bought, color=color, alpha=0.35, label=f"user {which}: has bought")
        score = scores[which][best].mean(axis=1)
        axes[1].plot(score - score.mean(), "o", color=color, label=f"user {which}: score, above the mean of kinds")
    axes[1].set_xlabel("kind")
    axes[1].legend(fontsize=8)
    figure.savefig(file, dpi=80)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=10_000_000, help="rows of the users' table")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3000, help="steps of all workers together")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--save-every", type=float, default=60, help="seconds between two checkpoints")
    parser.add_argument("--picture", metavar="FILE", help="write a picture of the items' vectors (needs matplotlib)")
    args = parser.parse_args()
    if args.picture:
        try:
            import matplotlib
        except ImportError:
            parser.error("--picture needs matplotlib: pip install matplotlib")
        matplotlib.use("agg")

    shop = Shop(args.users)
    task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.experimental.ParameterServerStrategy()
    shards = max(1, len(task.cluster_spec().as_dict().get("ps", [])))
    with (
        strategy.scope(),
        tf.variable_scope("", partitioner=tf.variable_axis_size_partitioner(1 << 26, max_shards=shards)),
    ):
        user, name = tf.placeholder(tf.int64, [None], name="user"), tf.placeholder(tf.string, [None], name="name")
        rows = tf.lookup.KeyValueTensorInitializer(shop.names, np.arange(shop.items))
        item = tf.lookup.StaticHashTable(rows, default_value=-1).lookup(name)
        loss, train_op, optimizer, scores, table = strategy.run(
            model, (user, item, args.users, shop.items, args.width, shop.share)
        )
        step = tf.train.get_global_step()
        without_value, fill_tables = tf.report_uninitialized_variables(), tf.tables_initializer()

    # The tables' parts, and what Adagrad keeps of each: with as many ps as before they are found again.
    kept = tf.train.Checkpoint(step=step, tables=tf.trainable_variables(), optimizer=optimizer)
    folder = os.environ.get("DTF_CHECKPOINT_DIR") or tempfile.mkdtemp(prefix="recommend-")
    manager = tf.train.CheckpointManager(kept, folder, max_to_keep=2)
    asked = np.arange(0, len(shop.users), 5)
    batches = shop.batches(args.batch, seed=task.task_id)

    def train():
        """Train to the last step; the chief returns all items' scores for the users asked about, and their vectors."""
        with tf.Session(task.master()) as session:
            if task.is_chief:
                print("goes on from", manager.restore_or_initialize() or "the beginning")
            while session.run(without_value).size:
                time.sleep(0.2)
            session.run(fill_tables)
            at, saved, reported = 0, time.monotonic(), 0.0
            while at < args.steps:
                users, names = next(batches)
                at, told, _ = session.run([step, loss, train_op], {user: users, name: names})
                if task.is_chief and time.monotonic() > reported + 1:
                    progress.report(at, total=args.steps, loss=told)
                    reported = time.monotonic()
                if task.is_chief and time.monotonic() > saved + args.save_every:
                    manager.save()
                    saved = time.monotonic()
            if not task.is_chief:
                return None
            manager.save()
            return session.run([scores, table], {user: shop.users[asked]})

    while True:
        try:
            found = train()
            break
        except (tf.errors.AbortedError, tf.errors.UnavailableError) as lost:
            print("a task was lost:", lost.message)
    if found is None:
        return 0
    told, vectors = found
    ours = shop.recall(told, asked)
    if args.picture:
        picture(args.picture, shop, vectors, asked, told)
    popular = shop.recall(np.broadcast_to(shop.share, (len(asked), shop.items)), asked)
    print(f"recall@{TOP}: {ours:.1%} of {len(asked)} held-out purchases; what sells best: {popular:.1%}")
    return 0 if ours > 2 * popular else 1


if __name__ == "__main__":
    sys.exit(main())
