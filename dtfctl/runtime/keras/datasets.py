"""`tf.keras.datasets`: what Keras keeps under ~/.keras/datasets, read from there; nothing is downloaded."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]

_IDX_KINDS = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def folder() -> Path:
    """Return where data sets are kept: KERAS_HOME/datasets, or ~/.keras/datasets."""
    return Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "datasets"


def _file(path: str, what: str) -> Path:
    """Find a file of a data set.

    Raises:
        FileNotFoundError: it is not there; says where it has to be put.
    """
    found = folder() / path
    if not found.is_file():
        raise FileNotFoundError(
            f"{found} is not there: nothing is downloaded here. Put {what} there (KERAS_HOME names another folder than "
            "~/.keras), on every host that loads it"
        )
    return found


def _arrays(path: Path, *names: str) -> list[Array]:
    with np.load(path, allow_pickle=False) as found:
        lacking = [n for n in names if n not in found.files]
        if lacking:
            raise ValueError(f"{path} has no array {lacking[0]!r}, only {', '.join(found.files)}: it is another file")
        return [found[n] for n in names]


def _load_mnist(path: str = "mnist.npz") -> tuple[Pair, Pair]:
    """Read the handwritten digits: ((60000 x 28 x 28 images, labels), (10000 ..., labels)), uint8.

    Raises:
        FileNotFoundError: the file is not under ~/.keras/datasets; ValueError: it is another file.
    """
    x, y, test_x, test_y = _arrays(_file(path, "Keras's mnist.npz"), "x_train", "y_train", "x_test", "y_test")
    return (x, y), (test_x, test_y)


def _idx(path: Path) -> Array:
    """Read an array of a file in the IDX format, compressed with gzip.

    Raises:
        ValueError: it is no such file, or is cut off.
    """
    with gzip.open(path, "rb") as file:
        start = file.read(4)
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _IDX_KINDS:
            raise ValueError(f"{path} is no IDX file: it begins with {start!r}")
        dims = np.frombuffer(file.read(4 * start[3]), ">u4").astype(np.int64)
        kind = np.dtype(_IDX_KINDS[start[2]])
        count = int(dims.prod())
        data = file.read(count * kind.itemsize + 1)
    if len(data) != count * kind.itemsize:
        raise ValueError(f"{path} has not the {count} values of its head, {tuple(dims.tolist())}")
    return np.frombuffer(data, kind).reshape(dims).astype(kind.newbyteorder("="))


def _load_fashion_mnist() -> tuple[Pair, Pair]:
    """Read pictures of clothes, shaped like MNIST, from its four files.

    Raises:
        FileNotFoundError: a file is not under ~/.keras/datasets/fashion-mnist; ValueError: it is no IDX file.
    """
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    x, y, test_x, test_y = (
        _idx(_file(f"fashion-mnist/{name}-ubyte.gz", "the four files of Fashion-MNIST")) for name in names
    )
    return (x, y), (test_x, test_y)


def _load_boston_housing(
    path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113
) -> tuple[Pair, Pair]:
    """Read prices of houses, shuffled by `seed` and split as Keras does.

    Raises:
        FileNotFoundError: the file is not under ~/.keras/datasets; ValueError: another file, or a split out of [0, 1).
    """
    if not 0 <= test_split < 1:
        raise ValueError(f"test_split must be at least 0 and less than 1, got {test_split}")
    x, y = _arrays(_file(path, "Keras's boston_housing.npz"), "x", "y")
    order = np.arange(len(x))
    np.random.RandomState(seed).shuffle(order)
    x, y = x[order], y[order]
    cut = int(len(x) * (1 - test_split))
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


def _elsewhere(name: str, why: str) -> Callable[..., Any]:
    def load_data(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"tf.keras.datasets.{name}.load_data is not there: {why}")

    return load_data


_PICKLED = "Keras's file holds pickled Python objects, which are not loaded here; convert it to arrays with numpy first"

mnist = SimpleNamespace(load_data=_load_mnist)
fashion_mnist = SimpleNamespace(load_data=_load_fashion_mnist)
boston_housing = SimpleNamespace(load_data=_load_boston_housing)
cifar10 = SimpleNamespace(load_data=_elsewhere("cifar10", _PICKLED))
cifar100 = SimpleNamespace(load_data=_elsewhere("cifar100", _PICKLED))
imdb = SimpleNamespace(load_data=_elsewhere("imdb", _PICKLED))
reuters = SimpleNamespace(load_data=_elsewhere("reuters", _PICKLED))

__all__ = ["boston_housing", "cifar10", "cifar100", "fashion_mnist", "imdb", "mnist", "reuters"]
