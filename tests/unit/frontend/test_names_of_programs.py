"""Names that programs take less often: messages, parsing, parts of variables, warm starts, files read as datasets."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework import errors


def _run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(fetches, feed)


def test_messages_of_summaries_have_their_names() -> None:
    histogram = tf.HistogramProto(min=1.0, max=2.0, num=3, bucket_limit=[2.0], bucket=[3.0])
    summary = tf.Summary(value=[tf.Summary.Value(tag="h", histo=histogram)])
    assert summary.value[0].histo.num == 3
    assert tf.SessionLog(status=tf.SessionLog.START).status == 1 and tf.summary.SessionLog is tf.SessionLog
    assert tf.TensorInfo(name="x:0").name == "x:0"
    assert tf.SummaryMetadata(display_name="d").display_name == "d"
    assert tf.NameAttrList(name="f").name == "f"


def test_the_logger_is_the_one_that_logging_writes_to(caplog: pytest.LogCaptureFixture) -> None:
    logger = tf.get_logger()
    before = logger.level
    logger.setLevel("ERROR")
    try:
        tf.logging.warning("not shown")
        tf.logging.error("shown")
    finally:
        logger.setLevel(before)
    assert [r.message for r in caplog.records] == ["shown"]


def test_sparse_features_are_made_of_places_and_values() -> None:
    def example(places: list[int], values: list[float]) -> bytes:
        features = {
            "i": tf.train.Feature(int64_list=tf.train.Int64List(value=places)),
            "v": tf.train.Feature(float_list=tf.train.FloatList(value=values)),
        }
        return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

    with tf.Graph().as_default():
        serialized = [example([3, 0], [1.0, 2.0]), example([], []), example([4], [5.0])]
        features = {"s": tf.SparseFeature("i", "v", tf.float32, 5), "i": tf.VarLenFeature(tf.int64)}
        parsed = tf.parse_example(serialized, features)
        one = tf.io.parse_single_example(serialized[0], {"s": tf.io.SparseFeature(["i"], "v", tf.float32, [5])})
        assert sorted(parsed) == ["i", "s"] and sorted(one) == ["s"]
        dense, single, ids = _run([tf.sparse_tensor_to_dense(parsed["s"]), tf.sparse.to_dense(one["s"]), parsed["i"]])
    assert dense.tolist() == [[2, 0, 0, 1, 0], [0] * 5, [0, 0, 0, 0, 5]]
    assert single.tolist() == [2, 0, 0, 1, 0] and ids.values.tolist() == [3, 0, 4]


def test_batches_of_sequence_examples_are_padded() -> None:
    def example(label: int, rows: list[list[float]], words: list[list[bytes]]) -> bytes:
        message = tf.train.SequenceExample()
        message.context.feature["label"].int64_list.value.append(label)
        for row in rows:
            message.feature_lists.feature_list["x"].feature.add().float_list.value.extend(row)
        for word in words:
            message.feature_lists.feature_list["w"].feature.add().bytes_list.value.extend(word)
        return bytes(message.SerializeToString())

    with tf.Graph().as_default():
        serialized = [example(1, [[1, 2], [3, 4]], [[b"a"], [b"b", b"c"]]), example(0, [[5, 6]], [])]
        context, lists, lengths = tf.io.parse_sequence_example(
            serialized,
            {"label": tf.FixedLenFeature([], tf.int64)},
            {"x": tf.FixedLenSequenceFeature([2], tf.float32), "w": tf.VarLenFeature(tf.string)},
        )
        assert lists["x"].shape.as_list() == [2, None, 2]
        got = _run([context, lists, lengths])
    assert got[0]["label"].tolist() == [1, 0] and got[2]["x"].tolist() == [2, 1]
    assert got[1]["x"].tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert got[1]["w"].indices.tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 1]]


def test_parts_of_a_variable_are_made_under_tensorflows_names() -> None:
    with tf.Graph().as_default():
        parts = tf.create_partitioned_variables([5, 2], [2, 1], tf.ones_initializer(), name="emb")
        others = tf.create_partitioned_variables([4], [2], tf.zeros_initializer())
        assert [v.name for v in parts] == ["emb/part/part_0:0", "emb/part/part_1:0"]
        assert [v.shape.as_list() for v in parts] == [[3, 2], [2, 2]]
        assert [v.op.name for v in others] == ["PartitionedVariable/part/part_0", "PartitionedVariable/part/part_1"]
        assert _run(tf.nn.embedding_lookup(parts, [0, 4], "div")).tolist() == [[1, 1], [1, 1]]
        with pytest.raises(ValueError):
            tf.create_partitioned_variables([4, 4], [2, 2], tf.zeros_initializer())


def test_conversions_leave_slices_and_sparse_tensors_alone() -> None:
    with tf.Graph().as_default():
        slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))
        sparse = tf.SparseTensor([[0, 0]], [1.0], [2, 2])
        assert tf.convert_to_tensor_or_indexed_slices(slices) is slices
        assert tf.convert_to_tensor_or_sparse_tensor(sparse) is sparse
        assert tf.convert_to_tensor_or_sparse_tensor([1, 2]).dtype == tf.int32
        with pytest.raises(RuntimeError):
            tf.convert_to_tensor_or_sparse_tensor(sparse, tf.int32)


def test_labels_that_follow_each_other_are_merged() -> None:
    with tf.Graph().as_default():
        labels, lengths = tf.nn.collapse_repeated([[1, 1, 2, 2, 1], [3, 3, 3, 0, 0]], [5, 3])
        got = _run([labels, lengths])
    assert got[0].tolist() == [[1, 2, 1], [3, 0, 0]] and got[1].tolist() == [3, 1]


def test_dense_labels_have_the_loss_of_sparse_ones() -> None:
    logits = np.random.RandomState(0).randn(6, 2, 4).astype(np.float32)
    with tf.Graph().as_default():
        x = tf.constant(logits)
        dense = tf.nn.ctc_loss_v2([[1, 2, 2], [3, 0, 0]], x, [3, 1], [6, 5])
        sparse = tf.SparseTensor([[0, 0], [0, 1], [0, 2], [1, 0]], [0, 1, 1, 2], [2, 3])
        last = tf.nn.ctc_loss_v2(sparse, tf.roll(x, -1, 2), None, [6, 5], blank_index=-1)
        one, other, slope = _run([dense, last, tf.gradients(dense, x)[0]])
    np.testing.assert_allclose(one, other, rtol=1e-5)
    assert slope.shape == logits.shape and np.abs(slope[5, 1]).max() == 0


def test_shapes_are_held_to_each_other() -> None:
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, None)
        check = tf.debugging.assert_shapes([(x, ("N", 3)), (y, ("*", "N"))])
        with pytest.raises(ValueError):
            tf.debugging.assert_shapes([(x, ("N", "N")), (tf.ones([2]), ("N",))])
        with tf.Session() as session:
            session.run(check, {x: np.ones([2, 3]), y: np.ones([4, 2])})
            with pytest.raises(errors.InvalidArgumentError):
                session.run(check, {x: np.ones([2, 3]), y: np.ones([4, 3])})


def test_a_warm_start_follows_the_words(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("apple\nbanana\nguava\n")
    (tmp_path / "new").write_text("orange\nguava\napple\n")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("emb", initializer=np.arange(6, dtype=np.float32).reshape(3, 2))
        tf.get_variable("bias", initializer=[7.0])
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default():
        emb = tf.get_variable("emb", [4, 2], initializer=tf.zeros_initializer())
        bias = tf.get_variable("bias", [1])
        info = tf.train.VocabInfo(
            str(tmp_path / "new"), 3, 1, str(tmp_path / "old"), backup_initializer=tf.constant_initializer(-1.0)
        )
        tf.train.warm_start(path, ".*", {"emb": info})
        values = _run([emb, bias])
    assert values[0].tolist() == [[-1, -1], [4, 5], [0, 1], [-1, -1]] and values[1].tolist() == [7]


def test_columns_of_csv_files_are_batches_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,price,city,y\n1,1.5,bern,0\n2,,paris,1\n3,4,,1\n")
    with tf.Graph().as_default():
        dataset = tf.data.experimental.make_csv_dataset(
            str(tmp_path / "*.csv"), 2, label_name="y", num_epochs=1, shuffle=False
        )
        features, label = tf.data.make_one_shot_iterator(dataset).get_next()
        assert sorted(features) == ["city", "id", "price"] and features["id"].dtype == tf.int32
        with tf.Session() as session:
            first, second = session.run([features, label]), session.run([features, label])
    assert first[0]["price"].tolist() == [1.5, 0] and first[0]["city"].tolist() == [b"bern", b"paris"]
    assert first[1].tolist() == [0, 1] and second[0]["city"].tolist() == [b""] and second[0]["price"].tolist() == [4]


def test_examples_in_files_are_batches_by_name(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = [
            tf.train.Example(
                features=tf.train.Features(
                    feature={
                        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i])),
                        "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
                    }
                )
            ).SerializeToString()
            for i in range(5)
        ]
        path = str(tmp_path / "r.tfrecord")
        session.run(tf.data.experimental.TFRecordWriter(path).write(tf.data.Dataset.from_tensor_slices(made)))
        assert [*tf.python_io.tf_record_iterator(path)] == made
        spec = {"x": tf.FixedLenFeature([2], tf.float32), "y": tf.FixedLenFeature([], tf.int64)}
        dataset = tf.data.experimental.make_batched_features_dataset(
            path, 2, spec, label_key="y", num_epochs=1, shuffle=False
        )
        x, y = tf.data.make_one_shot_iterator(dataset).get_next()
        got = [session.run([x["x"], y]) for _ in range(3)]
    assert [v[1].tolist() for v in got] == [[0, 1], [2, 3], [4]] and got[2][0].tolist() == [[4, 4]]


def test_a_supervised_loop_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        count = step.assign_add(1)
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0)
        seen = []

        def train(session: Any, last: int) -> None:
            seen.append(int(session.run(count)))
            if seen[-1] == last:
                supervisor.request_stop()

        tf.train.basic_train_loop(supervisor, train, [3])
    assert seen == [1, 2, 3]


def test_errors_know_their_codes() -> None:
    for code in range(1, 17):
        kind = tf.errors.exception_type_from_error_code(code)
        assert tf.errors.error_code_from_exception_type(kind) == code
    assert tf.errors.exception_type_from_error_code(tf.errors.UNAUTHENTICATED) is tf.errors.UnauthenticatedError


def test_the_rate_is_noisy_and_falls() -> None:
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        step = tf.placeholder(tf.int64, [])
        rate = tf.train.noisy_linear_cosine_decay(0.1, step, 100, initial_variance=1e-6)
        plain = tf.train.linear_cosine_decay(0.1, step, 100)
        with tf.Session() as session:
            for at in (0, 50, 100):
                noisy, smooth = session.run([rate, plain], {step: at})
                assert abs(noisy - smooth) < 1e-3 and (noisy != smooth or at == 100)


def test_files_are_found_beside_the_module_that_asks() -> None:
    assert tf.resource_loader.get_path_to_datafile("x") == str(Path(__file__).with_name("x"))
    assert tf.resource_loader.get_data_files_path() == str(Path(__file__).parent)
    assert tf.resource_loader.load_resource(Path(__file__).name) == Path(__file__).read_bytes()


def test_a_state_is_kept_from_step_to_step() -> None:
    class Saver:
        def __init__(self) -> None:
            self.kept = tf.get_variable("kept", [2, 3], initializer=tf.zeros_initializer())

        def state(self, name: str) -> Any:
            assert name == "h"
            return self.kept.value()

        def save_state(self, name: str, value: Any) -> Any:
            return self.kept.assign(value)

    with tf.Graph().as_default():
        saver = Saver()
        cell = tf.nn.rnn_cell.BasicRNNCell(3)
        outputs, state = tf.nn.static_state_saving_rnn(cell, [tf.ones([2, 3])] * 2, saver, "h")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            first, last = session.run([outputs[-1], state])
            np.testing.assert_array_equal(first, last)
            np.testing.assert_array_equal(session.run(saver.kept), first)
            assert np.abs(session.run(outputs[-1]) - first).max() > 0
        with pytest.raises(ValueError):
            tf.nn.static_state_saving_rnn(cell, [tf.ones([2, 3])], saver, ("h", "c"))


def test_tables_are_kept_in_checkpoints(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        dense = tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, -1, "", "$", name="words")
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0.0, 1.0])
        tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0, checkpoint=False)
        words, rows = tf.constant(["a", "c"]), tf.constant([3, 4], tf.int64)
        found = [dense.lookup(words), table.lookup(rows), table.lookup(rows, [[8.0, 8.0], [9.0, 9.0]])]
        fill = [dense.insert_or_assign(words[:1], tf.constant([7], tf.int64)), table.insert(rows[:1], [[5.0, 6.0]])]
        empty = [dense.erase(words), table.remove(rows)]
        saver = tf.train.Saver()
        session.run(fill)
        path = saver.save(session, str(tmp_path / "model"))
        session.run(empty)
        assert session.run(found[0]).tolist() == [-1, -1]
        saver.restore(session, path)
        got = session.run(found)
    assert got[0].tolist() == [7, -1] and got[1].tolist() == [[5, 6], [0, 1]] and got[2].tolist() == [[5, 6], [9, 9]]
    assert [n for n, _ in tf.train.list_variables(path)] == [
        "MutableHashTable-keys",
        "MutableHashTable-values",
        "words-keys",
        "words-values",
    ]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_names_of_columns_are_in_the_encoding_and_the_compression_asked_for(compression: str, tmp_path: Path) -> None:
    text = "größe,y\n3,0\n5,1\n".encode("latin-1")
    pack = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[compression]
    (tmp_path / "a.csv").write_bytes(pack(text))
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.experimental.make_csv_dataset(
            str(tmp_path / "a.csv"),
            2,
            num_epochs=1,
            shuffle=False,
            compression_type=compression or None,
            encoding="latin-1",
        )
        found = session.run(tf.data.make_one_shot_iterator(dataset).get_next())
    assert {name: column.tolist() for name, column in found.items()} == {"größe": [3, 5], "y": [0, 1]}
