"""Files by `tf.gfile`: what is written and read is TensorFlow's, whatever the mode and the machine's habits."""

from __future__ import annotations

import codecs
from pathlib import Path

import numpy as np

import dtfctl.runtime as tf


def test_files_take_text_and_bytes_in_any_mode(tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    with tf.gfile.GFile(path, "w") as file:
        file.write("grün\r\n")
        file.write(b"blau\n")
    with tf.gfile.GFile(path, "ab") as file:
        file.write("rot")
    assert Path(path).read_bytes() == "grün\r\nblau\nrot".encode()
    with tf.gfile.GFile(path) as file:
        assert file.read() == "grün\r\nblau\nrot"
    with tf.gfile.GFile(path, "r") as file:
        assert list(file) == ["grün\r\n", "blau\n", "rot"]
    with tf.gfile.GFile(path, "rb") as file:
        assert file.read() == "grün\r\nblau\nrot".encode()
    with codecs.getwriter("utf-8")(tf.gfile.GFile(path, "wb")) as file:
        file.write("grün")
    assert Path(path).read_bytes() == "grün".encode()
    with tf.gfile.GFile(path, "w") as file:
        file.write(b"\x89PNG\r\n")
    assert Path(path).read_bytes() == b"\x89PNG\r\n"


def test_a_sampled_softmax_with_a_seed_takes_labels_of_int32() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = np.ones([2, 3], np.float32)
        weights, biases = tf.ones([9, 3]), tf.zeros([9])
        losses = [
            tf.nn.sampled_softmax_loss(weights, biases, tf.constant([[1], [2]], kind), x, 4, 9, seed=3)
            for kind in (tf.int32, tf.int64)
        ]
        narrow, wide = session.run(losses)
        np.testing.assert_array_equal(narrow, wide)
