"""Data sets of Keras are read from where Keras keeps them, and nowhere else."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    folder = tmp_path / "datasets"
    folder.mkdir()
    return folder


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(head + array.tobytes())


def test_digits_are_read_from_the_file_of_keras(kept: Path) -> None:
    x, y = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28), np.array([3, 1, 4], np.uint8)
    np.savez(kept / "mnist.npz", x_train=x, y_train=y, x_test=x[:1], y_test=y[:1])
    (train, labels), (test, test_labels) = tf.keras.datasets.mnist.load_data()
    np.testing.assert_array_equal(train, x)
    np.testing.assert_array_equal(labels, y)
    assert test.shape == (1, 28, 28) and test_labels.tolist() == [3]


def test_a_file_that_is_not_there_is_said_with_its_place(kept: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"datasets/mnist\.npz is not there: nothing is downloaded"):
        tf.keras.datasets.mnist.load_data()
    with pytest.raises(FileNotFoundError, match=r"fashion-mnist/train-images-idx3-ubyte\.gz is not there"):
        tf.keras.datasets.fashion_mnist.load_data()


def test_another_file_of_that_name_is_refused(kept: Path) -> None:
    np.savez(kept / "mnist.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match="has no array 'x_train', only a: it is another file"):
        tf.keras.datasets.mnist.load_data()


def test_clothes_are_read_from_four_files(kept: Path) -> None:
    folder = kept / "fashion-mnist"
    folder.mkdir()
    x, y = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4), np.array([7, 9], np.uint8)
    for part, images, labels in (("train", x, y), ("t10k", x[1:], y[1:])):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    (train, labels), (test, _) = tf.keras.datasets.fashion_mnist.load_data()
    np.testing.assert_array_equal(train, x)
    assert labels.tolist() == [7, 9] and test.shape == (1, 4, 4)
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(gzip.decompress(idx(y))[:-1]))
    with pytest.raises(ValueError, match="has not the 2 values of its head"):
        tf.keras.datasets.fashion_mnist.load_data()


def test_houses_are_split_as_keras_splits_them(kept: Path) -> None:
    np.savez(kept / "boston_housing.npz", x=np.arange(20.0).reshape(10, 2), y=np.arange(10.0))
    order = np.arange(10)
    np.random.RandomState(113).shuffle(order)
    (x, y), (test_x, test_y) = tf.keras.datasets.boston_housing.load_data()
    assert y.tolist() == order[:8].tolist() and test_y.tolist() == order[8:].tolist()
    np.testing.assert_array_equal(x[:, 0], y * 2)
    np.testing.assert_array_equal(test_x[:, 1], test_y * 2 + 1)


def test_what_is_pickled_is_not_loaded() -> None:
    with pytest.raises(NotImplementedError, match="pickled Python objects"):
        tf.keras.datasets.cifar10.load_data()
