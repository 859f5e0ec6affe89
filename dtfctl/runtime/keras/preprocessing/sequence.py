"""`tf.keras.preprocessing.sequence`: sequences as arrays, as windows and as pairs."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.keras.sequence import Sequence as Batches


def pad_sequences(
    sequences: Sequence[Any],
    maxlen: int | None = None,
    dtype: Any = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: Any = 0.0,
) -> np.ndarray[Any, Any]:
    """Make one array of sequences of several lengths: [sequences, maxlen, ...].

    Args:
        maxlen: how long the rows are; as the longest sequence when None.
        padding: "pre" fills shorter ones up before them, "post" after them.
        truncating: "pre" cuts longer ones at their beginning, "post" at their end.
        value: what they are filled up with.

    Raises:
        ValueError: one is not a sequence or has elements of another shape, or a word is neither "pre" nor "post".
    """
    for what, word in (("Padding", padding), ("Truncating", truncating)):
        if word not in ("pre", "post"):
            raise ValueError(f'{what} type "{word}" not understood: it is "pre" or "post"')
    for s in sequences:
        if not hasattr(s, "__len__"):
            raise ValueError(f"`sequences` must be a list of iterables. Found non-iterable: {s}")
    if isinstance(value, str) and np.dtype(dtype).kind not in "OSU":
        raise ValueError(f"`dtype` {dtype} is not compatible with `value`'s type: {type(value)}: use dtype=object")
    length = max((len(s) for s in sequences), default=0) if maxlen is None else maxlen
    arrays = [np.asarray(s, dtype) for s in sequences]
    element = next((a.shape[1:] for a in arrays if len(a)), ())
    rows = np.full((len(arrays), length, *element), value, dtype)
    for index, array in enumerate(arrays):
        if not len(array):
            continue
        if array.shape[1:] != element:
            raise ValueError(
                f"Shape of sample {array.shape[1:]} of sequence at position {index} is different from expected shape "
                f"{element}"
            )
        start = max(len(array) - length, 0) if truncating == "pre" else 0
        kept = array[start : start + length]
        first = length - len(kept) if padding == "pre" else 0
        rows[index, first : first + len(kept)] = kept
    return rows


class TimeseriesGenerator(Batches):
    """Batches of windows of a series, each with the target that comes after it.

    Args:
        length: how many steps a window reaches over; sampling_rate: how far its steps are apart.
        stride: how far windows are apart.
        start_index, end_index: what part of the data is used.
        shuffle: draw the windows of each batch.
        reverse: give each window from its end.
    """

    def __init__(
        self,
        data: Any,
        targets: Any,
        length: int,
        sampling_rate: int = 1,
        stride: int = 1,
        start_index: int = 0,
        end_index: int | None = None,
        shuffle: bool = False,
        reverse: bool = False,
        batch_size: int = 128,
    ) -> None:
        if len(data) != len(targets):
            raise ValueError(
                f"Data and targets have to be of same length. Data length is {len(data)} while target length is "
                f"{len(targets)}"
            )
        self.data, self.targets, self.length = data, targets, length
        self.sampling_rate, self.stride, self.shuffle, self.reverse = sampling_rate, stride, shuffle, reverse
        self.start_index = start_index + length
        self.end_index = len(data) - 1 if end_index is None else end_index
        self.batch_size = batch_size
        if self.start_index > self.end_index:
            raise ValueError(
                f"`start_index+length={self.start_index} > end_index={self.end_index}` is disallowed, as no part of "
                "the sequence would be left to be used as current step."
            )

    def __len__(self) -> int:
        return (self.end_index - self.start_index + self.batch_size * self.stride) // (self.batch_size * self.stride)

    def __getitem__(self, index: int) -> Any:
        if self.shuffle:
            rows = np.random.randint(self.start_index, self.end_index + 1, size=self.batch_size)
        else:
            begin = self.start_index + self.batch_size * self.stride * index
            end = min(begin + self.batch_size * self.stride, self.end_index + 1)
            rows = np.arange(begin, end, self.stride)
        samples = np.array([self.data[row - self.length : row : self.sampling_rate] for row in rows])
        return samples[:, ::-1, ...] if self.reverse else samples, np.array([self.targets[row] for row in rows])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again, data and targets as JSON."""
        names = ("length", "sampling_rate", "stride", "start_index", "end_index", "shuffle", "reverse", "batch_size")
        data = {name: json.dumps(np.asarray(getattr(self, name)).tolist()) for name in ("data", "targets")}
        return {**data, **{name: getattr(self, name) for name in names}}

    def to_json(self, **kwargs: Any) -> str:
        """Write class and configuration as JSON."""
        return json.dumps({"class_name": type(self).__name__, "config": self.get_config()}, **kwargs)


def make_sampling_table(size: int, sampling_factor: float = 1e-5) -> np.ndarray[Any, Any]:
    """Compute how likely the word of each rank is to be taken, so that frequent ones are taken less often.

    How often words are follows Zipf's law.
    """
    rank = np.arange(size)
    rank[0] = 1
    rarity = sampling_factor * (rank * (np.log(rank) + 0.577) + 0.5 - 1.0 / (12.0 * rank))
    return np.minimum(1.0, rarity / np.sqrt(rarity))


def skipgrams(
    sequence: Sequence[int],
    vocabulary_size: int,
    window_size: int = 4,
    negative_samples: float = 1.0,
    shuffle: bool = True,
    categorical: bool = False,
    sampling_table: Any = None,
    seed: int | None = None,
) -> tuple[list[list[int]], list[Any]]:
    """Make pairs of words that are near each other, labelled 1, and of words drawn at random, labelled 0.

    Args:
        sequence: numbers of words; 0 is none.
        window_size: how far two words may be apart.
        negative_samples: how many pairs are drawn for each that is found.
        categorical: labels are [0, 1] and [1, 0].
        sampling_table: how likely a word is to be taken.
        seed: of the order; the global generator of `random` draws all else.
    """
    yes, no = ([0, 1], [1, 0]) if categorical else (1, 0)
    couples: list[list[int]] = []
    for place, word in enumerate(sequence):
        if not word or (sampling_table is not None and sampling_table[word] < random.random()):
            continue
        for other in range(max(0, place - window_size), min(len(sequence), place + window_size + 1)):
            if other != place and sequence[other]:
                couples.append([word, sequence[other]])
    labels: list[Any] = [yes] * len(couples)
    if negative_samples > 0:
        words = [couple[0] for couple in couples]
        random.shuffle(words)
        count = int(len(labels) * negative_samples)
        couples += [[words[i % len(words)], random.randint(1, int(vocabulary_size - 1))] for i in range(count)]
        labels += [no] * count
    if shuffle:
        seed = random.randint(0, int(10e6)) if seed is None else seed
        for values in (couples, labels):
            random.seed(seed)
            random.shuffle(values)
    return couples, labels
