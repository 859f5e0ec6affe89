"""Small names of `tf.data`, `tf.python_io` and `tf.math`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf


def test_a_dataset_lets_the_runtime_choose_how_many_run_at_a_time() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.Dataset.range(4).map(lambda x: x * 2, num_parallel_calls=tf.data.experimental.AUTOTUNE)
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
        iterator = tf.data.make_one_shot_iterator(dataset)
        assert tf.data.get_output_types(iterator) is tf.data.get_output_types(dataset) is tf.int64
        assert tf.data.get_output_shapes(dataset).as_list() == []
        following = iterator.get_next()
        assert [session.run(following) for _ in range(4)] == [0, 2, 4, 6]


@pytest.mark.parametrize(
    "number", [tf.python_io.TFRecordCompressionType.NONE, tf.python_io.TFRecordCompressionType.GZIP]
)
def test_records_are_compressed_as_the_options_say(tmp_path: Path, number: int) -> None:
    options = tf.python_io.TFRecordOptions(number)
    with tf.python_io.TFRecordWriter(tmp_path / "records", options) as writer:
        writer.write(b"one")
    name = tf.io.TFRecordOptions.get_compression_type_string(options)
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.TFRecordDataset(str(tmp_path / "records"), compression_type=name)
        assert session.run(tf.data.make_one_shot_iterator(dataset).get_next()) == b"one"


def test_compressions_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not supported"):
        tf.python_io.TFRecordWriter(tmp_path / "records", tf.io.TFRecordOptions("ZLIB"))
    with pytest.raises(ValueError, match="Not a valid compression_type"):
        tf.python_io.TFRecordWriter(tmp_path / "records", "LZ4")


def test_the_logarithm_of_a_sigmoid_is_exact_far_from_zero() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        got = session.run(tf.log_sigmoid([-200.0, 0.0, 200.0]))
    np.testing.assert_allclose(got, [-200, -np.log(2), 0], 1e-6)
    assert tf.math.log_sigmoid is tf.log_sigmoid
