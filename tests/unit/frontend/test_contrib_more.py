"""The rest of `dtfctl.contrib`: random fields, words, tables, optimizers, MNIST's files; TensorFlow's paths to it."""

from __future__ import annotations

import gzip
import itertools
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.contrib import crf, data, distributions, learn, legacy_seq2seq, linalg, lookup, metrics, opt
from dtfctl.contrib.examples.tutorials.mnist import input_data
from dtfctl.contrib.tensorboard.plugins import projector


def _score(inputs: np.ndarray, tags: tuple[int, ...], transitions: np.ndarray) -> float:
    own = sum(inputs[i, t] for i, t in enumerate(tags))
    return float(own + sum(transitions[a, b] for a, b in itertools.pairwise(tags)))


def test_a_random_field_equals_the_sum_over_all_sequences() -> None:
    rng = np.random.RandomState(3)
    inputs, transitions = rng.randn(3, 4, 3).astype(np.float32), rng.randn(3, 3).astype(np.float32)
    tags, lengths = rng.randint(0, 3, [3, 4]).astype(np.int32), np.array([4, 2, 1], np.int32)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, None, 3])
        likelihood, table = crf.crf_log_likelihood(x, tags, lengths, tf.constant(transitions))
        decoded, best = crf.crf_decode(x, table, lengths)
        gradient = tf.gradients(likelihood, x)[0]
        found, paths, scores, slope = session.run([likelihood, decoded, best, gradient], {x: inputs})
        assert np.isfinite(slope).all() and np.abs(slope[1, 2:]).max() == 0
        for i, length in enumerate(lengths):
            every = list(itertools.product(range(3), repeat=int(length)))
            each = np.array([_score(inputs[i], path, transitions) for path in every])
            own = _score(inputs[i], tuple(tags[i, :length]), transitions)
            assert found[i] == pytest.approx(own - np.log(np.exp(each).sum()), abs=1e-4)
            assert tuple(paths[i, :length]) == every[int(each.argmax())] and not paths[i, length:].any()
            assert scores[i] == pytest.approx(each.max(), abs=1e-4)
            offline = crf.viterbi_decode(inputs[i, :length], transitions)
            assert tuple(offline[0]) == every[int(each.argmax())] and offline[1] == pytest.approx(each.max(), abs=1e-4)
        allowed = np.zeros([3, 4, 3], bool)
        np.put_along_axis(allowed, tags[..., None], True, 2)
        one = crf.crf_multitag_sequence_score(x, allowed, lengths, table)
        single = crf.crf_sequence_score(x, tags, lengths, table)
        np.testing.assert_allclose(*session.run([one, single], {x: inputs}), rtol=1e-4, atol=1e-4)
        crf.crf_log_likelihood(x, tags, lengths)
        assert [v.op.name for v in tf.global_variables()] == ["transitions"]


def test_words_become_numbers_and_are_kept(tmp_path: Path) -> None:
    processor = learn.preprocessing.VocabularyProcessor(5, min_frequency=1)
    rows = np.array(list(processor.fit_transform(["the cat sat", "the dog and the cat", "a bird"])))
    assert rows.tolist() == [[1, 2, 0, 0, 0], [1, 0, 0, 1, 2], [0, 0, 0, 0, 0]]
    assert len(processor.vocabulary_) == 3 and list(processor.reverse(rows[:1])) == ["the cat <UNK> <UNK> <UNK>"]
    processor.save(str(tmp_path / "words"))
    again = learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "words"))
    assert [r.tolist() for r in again.transform(["cat the cow"])] == [[2, 1, 0, 0, 0]]
    (tmp_path / "other").write_bytes(b"\x80\x03ctensorflow")
    with pytest.raises(ValueError, match="was not written by"):
        learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "other"))


def test_tables_datasets_metrics_and_distributions() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        words = lookup.index_to_string_table_from_tensor(["x", "y"], default_value="?")
        batches = tf.data.Dataset.range(5).apply(data.batch_and_drop_remainder(2))
        following = batches.make_one_shot_iterator().get_next()
        mean, update = metrics.streaming_accuracy(tf.constant([1, 0]), tf.constant([1, 1]))
        normal = distributions.MultivariateNormalDiag(tf.zeros([2]), tf.constant([1.0, 2.0]))
        session.run([tf.tables_initializer(), tf.local_variables_initializer()])
        assert session.run(words.lookup(tf.constant([1, 7], tf.int64))).tolist() == [b"y", b"?"]
        assert [session.run(following).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        assert session.run(update) == 0.5 and session.run(mean) == 0.5
        density, spread = session.run([normal.log_prob([1.0, 2.0]), normal.entropy()])
        assert density == pytest.approx(-np.log(2 * np.pi) - np.log(2.0) - 1.0, rel=1e-5)
        assert spread == pytest.approx(np.log(2 * np.pi) + 1 + np.log(2.0), rel=1e-5)


@pytest.mark.parametrize("resource", [False, True])
def test_optimizers_that_decay_and_that_leave_rows_alone(resource: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.get_variable("t", initializer=np.ones([3, 2], np.float32), use_resource=resource)
        loss = tf.reduce_sum(tf.gather(table, [1, 1]))
        lazy = opt.LazyAdamOptimizer(0.1).minimize(loss)
        session.run(tf.global_variables_initializer())
        session.run(lazy)
        session.run(lazy)
        np.testing.assert_allclose(session.run(table), [[1, 1], [0.8, 0.8], [1, 1]], rtol=1e-5)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.get_variable("x", initializer=[2.0], use_resource=resource)
        y = tf.get_variable("y", initializer=[2.0], use_resource=resource)
        step = opt.AdamWOptimizer(0.5, learning_rate=0.0).minimize(tf.reduce_sum(x + y), decay_var_list=[x])
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert [float(v[0]) for v in session.run([x, y])] == [1.0, 2.0]


def _mnist(folder: Path, images: int, tests: int) -> None:
    for name, count in (("train", images), ("t10k", tests)):
        pictures = np.arange(count * 784, dtype=np.uint32).astype(np.uint8)
        head = struct.pack(">IIII", 2051, count, 28, 28)
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + pictures.tobytes()))
        labels = (np.arange(count) % 10).astype(np.uint8)
        data = struct.pack(">II", 2049, count) + labels.tobytes()
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(data))


def test_digits_are_read_from_files_in_batches(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing is downloaded"):
        input_data.read_data_sets(str(tmp_path))
    _mnist(tmp_path, 12, 4)
    found = tf.examples.tutorials.mnist.input_data.read_data_sets(str(tmp_path), one_hot=True, validation_size=2)
    assert (found.train.num_examples, found.validation.num_examples, found.test.num_examples) == (10, 2, 4)
    assert found.test.images.shape == (4, 784) and found.test.images.dtype == np.float32
    assert found.test.images.max() == 1.0 and found.test.labels.argmax(1).tolist() == [0, 1, 2, 3]
    seen = [found.train.next_batch(4)[1] for _ in range(5)]
    assert sorted(np.concatenate(seen).argmax(1).tolist()) == sorted([*range(10)] * 2)
    assert found.train.epochs_completed == 1
    plain = input_data.read_data_sets(str(tmp_path), dtype="uint8", reshape=False, validation_size=0)
    assert plain.train.images.shape == (12, 28, 28, 1) and plain.train.labels.tolist()[:3] == [0, 1, 2]
    assert plain.train.next_batch(2, shuffle=False)[1].tolist() == [0, 1]
    with pytest.raises(ValueError, match="a batch of 13"):
        plain.train.next_batch(13)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"none of it"))
    with pytest.raises(ValueError, match="Invalid magic number"):
        input_data.read_data_sets(str(tmp_path))


def test_paths_within_contrib_lead_to_what_is_there(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import tensorflow as tf\n"
        "import tensorflow.contrib.slim as slim\n"
        "from tensorflow.contrib.layers.python.layers import utils, initializers\n"
        "from tensorflow.contrib.rnn.python.ops import core_rnn_cell\n"
        "from tensorflow.contrib.framework.python.ops import add_arg_scope\n"
        "from tensorflow.examples.tutorials.mnist import input_data\n"
        "from tensorflow.contrib.learn.python.learn.datasets.mnist import read_data_sets\n"
        "from tensorflow.contrib.learn.python import learn\n"
        "assert utils.smart_cond and initializers.xavier_initializer is tf.contrib.layers.xavier_initializer\n"
        "assert core_rnn_cell.LSTMCell is tf.nn.rnn_cell.LSTMCell and add_arg_scope is slim.add_arg_scope\n"
        "assert learn.preprocessing and read_data_sets\n"
        "assert tf.estimator.SessionRunHook is tf.train.SessionRunHook\n"
        "assert tf.ones([2])[tf.newaxis].shape.as_list() == [1, 2]\n"
        "try:\n"
        "    tf.contrib.boosted_trees\n"
        "except AttributeError as e:\n"
        "    print(e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "dtfctl.run", str(script)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert "tf.contrib.boosted_trees is not there; use" in done.stdout


def test_sequences_as_lists_are_decoded_and_judged() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        ids = [tf.constant([0, 1]), tf.constant([2, 1]), tf.constant([1, 1])]
        cell = tf.nn.rnn_cell.BasicLSTMCell(4)
        outputs, _ = legacy_seq2seq.embedding_rnn_seq2seq(ids, ids, cell, 3, 5, 2)
        tied, _ = legacy_seq2seq.tied_rnn_seq2seq(
            [tf.ones([2, 3])] * 2, [tf.ones([2, 3])] * 3, tf.nn.rnn_cell.GRUCell(4)
        )
        fed, _ = legacy_seq2seq.embedding_rnn_decoder(
            ids, tf.zeros([2, 3]), tf.nn.rnn_cell.GRUCell(3), 3, 3, feed_previous=True
        )
        ones = [tf.ones([2])] * 3
        loss = legacy_seq2seq.sequence_loss(outputs, ids, ones)
        session.run(tf.global_variables_initializer())
        assert [t.shape.as_list() for t in (*outputs, *tied, *fed)] == [[2, 5]] * 3 + [[2, 4]] * 3 + [[2, 3]] * 3
        values, found, table = session.run([outputs, loss, fed])
        wanted = []
        for step, labels in zip(values, ([0, 1], [2, 1], [1, 1]), strict=True):
            odds = np.exp(step) / np.exp(step).sum(1, keepdims=True)
            wanted.append(-np.log(odds[[0, 1], labels]))
        assert found == pytest.approx(np.sum(wanted) / 3 / 2, rel=1e-4) and len(table) == 3
        names = {v.op.name for v in tf.trainable_variables()}
        assert {
            "embedding_rnn_seq2seq/rnn/basic_lstm_cell/kernel",
            "embedding_rnn_seq2seq/embedding_rnn_decoder/embedding",
            "combined_tied_rnn_seq2seq/tied_rnn_seq2seq/gru_cell/gates/kernel",
            "embedding_rnn_decoder/rnn_decoder/gru_cell/gates/kernel",
        } <= names
        with pytest.raises(ValueError, match="must be the same"):
            legacy_seq2seq.sequence_loss(outputs, ids[:2], ones)


def test_the_projector_is_told_what_to_show(tmp_path: Path) -> None:
    config = projector.ProjectorConfig()
    shown = config.embeddings.add()
    shown.tensor_name, shown.metadata_path = "words:0", "labels.tsv"
    shown.sprite.single_image_dim.extend([28, 28])
    with tf.Graph().as_default():
        projector.visualize_embeddings(tf.summary.FileWriter(str(tmp_path)), config)
    assert (tmp_path / "projector_config.pbtxt").read_text() == (
        'embeddings {\n  tensor_name: "words:0"\n  metadata_path: "labels.tsv"\n'
        "  sprite {\n    single_image_dim: 28\n    single_image_dim: 28\n  }\n}\n"
    )


def test_linear_operators_have_their_former_names() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        lower = linalg.LinearOperatorTriL(tf.constant([[2.0, 9.0], [1.0, 3.0]]))
        assert session.run(lower.to_dense()).tolist() == [[2, 0], [1, 3]]
        assert session.run(linalg.LinearOperatorMatrix([[2.0, 9.0], [1.0, 3.0]]).determinant()) == -3


def test_records_of_csv_files(tmp_path: Path) -> None:
    """What TensorFlow 2.21's tf.data.experimental.CsvDataset gives."""
    path = tmp_path / "x.csv"
    path.write_text('a,b,c\n1,2.5,"x, ""y""\nz"\n,NA,w\n')
    cases: list[tuple[dict[str, Any], list[Any], Any]] = [
        ({}, [[7], [0.5], tf.string], [(1, 2.5, b'x, "y"\nz'), (7, 0.5, b"w")]),
        ({"select_cols": [0, 2]}, [[7], tf.string], [(1, b'x, "y"\nz'), (7, b"w")]),
        ({"exclude_cols": [1]}, [[7], tf.string], [(1, b'x, "y"\nz'), (7, b"w")]),
        ({"exclude_cols": [0, 1]}, [tf.string], [(b'x, "y"\nz',), (b"w",)]),
    ]
    for options, defaults, expected in cases:
        with tf.Graph().as_default(), tf.Session() as session:
            made = data.CsvDataset(str(path), defaults, header=True, na_value="NA", **options)
            element = made.make_one_shot_iterator().get_next()
            assert [t.shape.as_list() for t in element] == [[]] * len(defaults)
            assert [session.run(element), session.run(element)] == expected
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(element)


def test_a_csv_dataset_has_columns_or_leaves_some_out() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = data.CsvDataset("no.csv", [tf.string], select_cols=[0], exclude_cols=[1])
        with pytest.raises(tf.errors.InvalidArgumentError, match="Either select_cols or exclude_cols should be empty"):
            session.run(made.make_initializable_iterator().initializer)


def test_what_contrib_lacks_says_what_to_use() -> None:
    for name, advice in (
        ("layers.rev_block", "`tf.layers`"),
        ("slim.nets", "written out"),
        ("opt.Nope", "tf.train.Opt"),
    ):
        space, _, word = name.rpartition(".")
        holder = getattr(tf.contrib, space)
        with pytest.raises(AttributeError, match=rf"tf\.contrib\.{name} is not there; use .*{advice}"):
            getattr(holder, word)


def test_activations_are_summarized_by_their_kind() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.add_to_collection(tf.GraphKeys.ACTIVATIONS, tf.nn.relu([-1.0, 2.0], name="a"))
        tf.add_to_collection(tf.GraphKeys.ACTIVATIONS, tf.tanh([1.0], name="b"))
        tf.contrib.layers.summarize_activations()
        tf.contrib.layers.summarize_tensors([tf.constant(3.0, name="loss")])
        found = tf.Summary.FromString(session.run(tf.summary.merge_all()))
    assert {v.tag.removeprefix("summaries/"): v.simple_value for v in found.value} == {
        "a/zeros": 0.5,
        "a/activation": 0.0,
        "b/activation": 0.0,
        # The scalar is an op beside the tensor of its name.
        "loss_1": 3.0,
    }


def test_tables_of_contrib_are_kept_in_checkpoints(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        table = lookup.MutableHashTable(tf.string, tf.int64, -1, name="t")
        session.run(table.insert(tf.constant(["a"]), tf.constant([3], tf.int64)))
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    assert [n for n, _ in tf.train.list_variables(path)] == ["t-keys", "t-values"]


@pytest.mark.parametrize("dense", [False, True])
def test_tables_of_one_shared_name_are_one(dense: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        if dense:
            first, second = (lookup.MutableDenseHashTable(tf.int64, tf.float32, -1.0, 0, -1, None, "one") for _ in "ab")
        else:
            first, second = (lookup.MutableHashTable(tf.int64, tf.float32, -1.0, "one") for _ in "ab")
        session.run(first.insert(tf.constant([7], tf.int64), [3.0]))
        assert session.run(second.lookup(tf.constant([7, 8], tf.int64))).tolist() == [3.0, -1.0]
