"""`tf.keras.preprocessing.sequence`: sequences as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


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
