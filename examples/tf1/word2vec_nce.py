"""Skip-gram word vectors with noise-contrastive estimation, in the shape of TensorFlow's word2vec tutorial.

    python word2vec_nce.py                                                          in one process
    dtfctl submit word2vec_nce.py                                                   on a cluster
    python word2vec_nce.py --job_name=ps --task_index=0 \
        --ps_hosts=host0:2222 --worker_hosts=host1:2222,host2:2222               by hand: this on every task

The text is what Python's standard library says about itself in its docstrings. The NCE loss at random is about 27;
training reaches 4.5 on average over the last 100 steps of a process.
"""

import collections
import importlib
import json
import os
import re

import numpy as np

import dtfctl.runtime as tf

tf.disable_v2_behavior()

job = json.loads(os.environ.get("TF_CONFIG", "{}"))
hosts = {name: ",".join(addresses) for name, addresses in job.get("cluster", {}).items()}
flags = tf.app.flags
flags.DEFINE_string("job_name", job.get("task", {}).get("type", ""), "ps or worker; empty for one process")
flags.DEFINE_integer("task_index", job.get("task", {}).get("index", 0), "index of the task in its job")
flags.DEFINE_string("ps_hosts", hosts.get("ps", ""), "host:port of each ps, separated by commas")
flags.DEFINE_string("worker_hosts", hosts.get("worker", ""), "host:port of each worker, separated by commas")
flags.DEFINE_integer("steps", 3000, "steps of all workers together")
flags.DEFINE_float("target", 4.5, "loss to reach")
FLAGS = flags.FLAGS


VOCABULARY = 1000
DIMENSIONS = 64
SAMPLED = 32
WINDOW = 2
MODULES = """
argparse ast asyncio bisect calendar cmd collections concurrent.futures configparser contextlib csv datetime
decimal difflib doctest email enum fractions functools getopt gettext heapq html http.client inspect io
ipaddress json locale logging mailbox math multiprocessing numbers optparse os pathlib pdb pickle platform
pprint random re sched selectors shelve shlex shutil smtplib socket sqlite3 ssl statistics string struct
subprocess tarfile tempfile textwrap threading timeit tokenize traceback turtle unittest urllib.request
uuid wave weakref xml.dom.minidom zipfile
"""


def read_words():
    """Words of the docstrings of modules, their classes and functions."""
    texts = []
    for name in MODULES.split():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # turtle needs Tk, sqlite3 and ssl their libraries
        members = [getattr(module, member) for member in sorted(dir(module))]
        methods = [vars(owner)[m] for owner in members if isinstance(owner, type) for m in sorted(vars(owner))]
        texts += [thing.__doc__ for thing in [module, *members, *methods] if isinstance(thing.__doc__, str)]
    return re.findall("[a-z]+", " ".join(dict.fromkeys(texts)).lower())


def build_data(words):
    """Ids of the words, 0 for rare ones, and the vocabulary."""
    vocabulary = ["UNK"] + [word for word, _ in collections.Counter(words).most_common(VOCABULARY - 1)]
    ids = {word: i for i, word in enumerate(vocabulary)}
    return np.array([ids.get(word, 0) for word in words], np.int32), vocabulary


def batches(ids, size, seed):
    """Pairs of a word and one of the words around it."""
    rows = np.random.RandomState(seed)
    while True:
        centre = rows.randint(WINDOW, len(ids) - WINDOW, size=size)
        offset = rows.randint(1, WINDOW + 1, size=size) * rows.choice([-1, 1], size=size)
        yield ids[centre], ids[centre + offset].reshape(-1, 1)


def main(_):
    server, is_chief, config = None, True, None
    device = tf.train.replica_device_setter()
    if FLAGS.job_name:
        cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
        server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
        if FLAGS.job_name == "ps":
            server.join()
        is_chief = FLAGS.task_index == 0
        # Workers that have not started yet, or have ended, are no concern of this one.
        config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{FLAGS.task_index}"])
        device = tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{FLAGS.task_index}")

    ids, vocabulary = build_data(read_words())
    with tf.device(device):
        inputs = tf.placeholder(tf.int32, [None])
        labels = tf.placeholder(tf.int32, [None, 1])
        embeddings = tf.get_variable(
            "embeddings", [VOCABULARY, DIMENSIONS], initializer=tf.random_uniform_initializer(-1.0, 1.0)
        )
        nce_weights = tf.get_variable(
            "nce_weights",
            [VOCABULARY, DIMENSIONS],
            initializer=tf.truncated_normal_initializer(stddev=1.0 / np.sqrt(DIMENSIONS)),
        )
        nce_biases = tf.get_variable("nce_biases", [VOCABULARY], initializer=tf.zeros_initializer())
        embed = tf.nn.embedding_lookup(embeddings, inputs)
        loss = tf.reduce_mean(
            tf.nn.nce_loss(
                weights=nce_weights,
                biases=nce_biases,
                labels=labels,
                inputs=embed,
                num_sampled=SAMPLED,
                num_classes=VOCABULARY,
            )
        )
        global_step = tf.train.get_or_create_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=global_step)
        normalized = embeddings / tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
        _, nearest = tf.nn.top_k(tf.matmul(tf.nn.embedding_lookup(normalized, inputs), normalized, transpose_b=True), 6)

    shown = [vocabulary.index(word) for word in ("file", "return", "the", "class") if word in vocabulary]
    final = tf.train.FinalOpsHook(nearest, {inputs: shown})
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps), tf.train.NanTensorHook(loss), final]
    losses = collections.deque(maxlen=100)
    with tf.train.MonitoredTrainingSession(
        master=server.target if server else "", is_chief=is_chief, hooks=hooks, config=config
    ) as sess:
        for words, contexts in batches(ids, 128, FLAGS.task_index):
            if sess.should_stop():
                break
            losses.append(sess.run([loss, train_op], {inputs: words, labels: contexts})[0])

    for row in final.final_ops_values:
        print(f"nearest to {vocabulary[row[0]]}:", *[vocabulary[i] for i in row[1:]])
    print(f"loss {np.mean(losses):.2f} over the last {len(losses)} steps, {len(ids)} words")
    return 0 if np.mean(losses) <= FLAGS.target else 1


if __name__ == "__main__":
    tf.app.run()
