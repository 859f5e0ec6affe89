"""Read pictures of digits from files in MNIST's format, in the batches that TensorFlow 1's tutorials ask for."""

from __future__ import annotations

import gzip
import os
import struct
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from dtfctl.runtime import api as tf

__all__ = ["DataSet", "Datasets", "dense_to_one_hot", "extract_images", "extract_labels", "read_data_sets"]

IMAGES, LABELS = 2051, 2049
FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _read(data: bytes, magic: int, rank: int, name: str) -> np.ndarray[Any, Any]:
    """Return the bytes of a file as an array, shaped as its head says.

    Raises:
        ValueError: the head is another's, or what follows is shorter than it says.
    """
    head = 4 * (rank + 1)
    found, *shape = struct.unpack(f">{rank + 1}I", data[:head]) if len(data) >= head else (0,)
    if found != magic:
        raise ValueError(f"Invalid magic number {found} in MNIST file: {name}, expected {magic}")
    size = int(np.prod(shape, dtype=np.int64))
    if len(data) - head < size:
        raise ValueError(f"{name} has {len(data) - head} bytes of data where its head says {size}")
    return np.frombuffer(data, np.uint8, size, head).reshape(shape)


def extract_images(f: Any) -> np.ndarray[Any, Any]:
    """Read the pictures of an open gzip file: uint8 [count, rows, columns, 1]."""
    return _read(gzip.GzipFile(fileobj=f).read(), IMAGES, 3, getattr(f, "name", "a file"))[..., np.newaxis]


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = 10) -> np.ndarray[Any, Any]:
    """Read the labels of an open gzip file: uint8 [count], or rows with a 1."""
    labels = _read(gzip.GzipFile(fileobj=f).read(), LABELS, 1, getattr(f, "name", "a file"))
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: np.ndarray[Any, Any], num_classes: int) -> np.ndarray[Any, Any]:
    """Turn labels into rows that are 1 at their label: float64 [count, num_classes]."""
    return np.asarray(np.eye(num_classes)[labels_dense])


class DataSet:
    """Pictures and labels that are gone through in batches, shuffled anew in each pass."""

    def __init__(
        self,
        images: np.ndarray[Any, Any],
        labels: np.ndarray[Any, Any],
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = "float32",
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        self._random: Any = np.random if seed is None else np.random.RandomState(seed)
        self._fake, self._one_hot = fake_data, one_hot
        self._epochs, self._index = 0, 0
        if fake_data:
            self._count = 10000
            return
        if len(images) != len(labels):
            raise ValueError(f"images.shape: {images.shape} labels.shape: {labels.shape}")
        kind = tf.as_dtype(dtype).base_dtype
        if kind not in (tf.uint8, tf.float32):
            raise TypeError(f"Invalid image dtype {dtype}, expected uint8 or float32")
        self._count = len(images)
        flat = images.reshape(len(images), -1) if reshape else images
        self._images = flat.astype(np.float32) / 255 if kind == tf.float32 and flat.dtype == np.uint8 else flat
        self._labels = labels

    @property
    def images(self) -> np.ndarray[Any, Any]:
        return self._images

    @property
    def labels(self) -> np.ndarray[Any, Any]:
        return self._labels

    @property
    def num_examples(self) -> int:
        return self._count

    @property
    def epochs_completed(self) -> int:
        return self._epochs

    def _shuffle(self) -> None:
        order = np.arange(self._count)
        self._random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """Return the next pictures and labels; a batch over the end of a pass has the beginning of the next.

        Raises:
            ValueError: there are fewer than `batch_size`.
        """
        if fake_data or self._fake:
            label = [1, *[0] * 9] if self._one_hot else 0
            return [[1] * 784] * batch_size, [label] * batch_size
        if batch_size > self._count:
            raise ValueError(f"a batch of {batch_size} was asked of {self._count} examples")
        start = self._index
        if self._epochs == 0 and start == 0 and shuffle:
            self._shuffle()
        if start + batch_size <= self._count:
            self._index = start + batch_size
            return self._images[start : self._index], self._labels[start : self._index]
        self._epochs += 1
        rest = self._images[start:], self._labels[start:]
        if shuffle:
            self._shuffle()
        self._index = batch_size - (self._count - start)
        return (
            np.concatenate([rest[0], self._images[: self._index]]),
            np.concatenate([rest[1], self._labels[: self._index]]),
        )


@dataclass(frozen=True)
class Datasets:
    """What is trained on, validated on and tested on."""

    train: DataSet
    validation: DataSet
    test: DataSet


def _absent(path: str) -> NoReturn:
    raise FileNotFoundError(
        f"{path} is not there, and nothing is downloaded: put {', '.join(FILES)} into that folder, "
        "or give fake_data=True"
    )


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = "float32",
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str | None = None,
) -> Datasets:
    """Read MNIST's four files from a folder; nothing is downloaded.

    Args:
        train_dir: the folder.
        fake_data: give constant pictures, and read nothing.
        one_hot: labels as rows with a 1, not as numbers.
        dtype: uint8 for 0 to 255, float32 for 0 to 1.
        reshape: pictures as rows [count, 784], not as [count, 28, 28, 1].
        validation_size: how many of the training pictures are set aside.
        seed: of the order within the passes.
        source_url: not used.

    Raises:
        FileNotFoundError: a file is not there.
        ValueError: a file is damaged, or `validation_size` is not between 0 and the number of training pictures.
    """
    if fake_data:
        none = np.zeros(0)
        made = [DataSet(none, none, True, one_hot, dtype, seed=seed) for _ in range(3)]
        return Datasets(*made)
    arrays = []
    for name in FILES:
        path = os.path.join(train_dir, name)
        if not os.path.isfile(path):
            _absent(path)
        with open(path, "rb") as file:
            arrays.append(extract_images(file) if "images" in name else extract_labels(file, one_hot))
    images, labels, test_images, test_labels = arrays
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"Validation size should be between 0 and {len(images)}. Received: {validation_size}.")
    parts = [
        (images[validation_size:], labels[validation_size:]),
        (images[:validation_size], labels[:validation_size]),
        (test_images, test_labels),
    ]
    return Datasets(*(DataSet(i, n, dtype=dtype, reshape=reshape, seed=seed) for i, n in parts))
