"""StringSplit, StringSplitV2 and StringNGrams."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import vector
from dtfctl.runtime.kernels.pieces import BYTES, array_of, blocks, each, joined, repeat
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.elementwise import only

_SPACE = b" \t\n\v\f\r"


def _shape(value: Any) -> str:
    return f"[{','.join(map(str, value.shape))}]"


def _sparse(rows: list[list[bytes]]) -> tuple[Any, Any, Any]:
    """Tokens of each row as the parts of a sparse tensor."""
    values = [token for row in each(rows) for token in row]
    counts = array_of([len(row) for row in each(rows)], np.int64)
    indices = np.zeros((len(values), 2), np.int64)
    indices[:, 0] = repeat(np.arange(len(rows)), counts)
    indices[:, 1] = np.arange(len(values)) - repeat(np.cumsum(counts) - counts, counts)
    shape = np.array([len(rows), counts.max(initial=0)], np.int64)
    return indices, array_of(values, object), shape


def _cut(value: bytes, marks: re.Pattern[bytes]) -> Iterator[bytes]:
    """Cut a long string at marks, which are left out, so that what is between can be split by itself."""
    start = 0
    for block in blocks(len(value), BYTES):
        mark = marks.search(value, block.stop, block.stop + BYTES)
        if mark is not None and mark.start() > start:
            yield value[start : mark.start()]
            start = mark.end()
    yield value[start:] if start else value


@register_kernel("StringSplit", pieces=True)
def string_split(k: KernelBuild) -> Kernel:
    skip_empty = k.attr("skip_empty")

    def tokens(value: bytes, marks: re.Pattern[bytes] | None) -> list[bytes]:
        if marks is None:
            return [bytes([b]) for b in each(value)]
        if len(value) <= BYTES:
            parts = marks.split(value) if value else []
        else:
            parts = [part for piece in _cut(value, marks) for part in marks.split(piece)]
        return [p for p in parts if p] if skip_empty else parts

    def run(values: Any, delimiter: Any) -> Any:
        if values.ndim != 1:
            raise InvalidArgumentError(f"input must be a vector, got shape: {_shape(values)}")
        if delimiter.ndim != 0:
            raise InvalidArgumentError(f"delimiter must be a scalar, got shape: {_shape(delimiter)}")
        chars = only(delimiter)
        marks = re.compile(b"[" + re.escape(chars) + b"]") if chars else None
        return _sparse([tokens(v, marks) for v in each(values)])

    return run


def split_v2(value: bytes, separator: bytes, maxsplit: int) -> list[bytes]:
    """Split as Python's str.split does; an empty separator splits on runs of ASCII white space."""
    if len(value) > BYTES and maxsplit < 0 and len(separator) <= 1:
        marks = re.compile(re.escape(separator) if separator else rb"[ \t\n\v\f\r]")
        return [part for piece in _cut(value, marks) for part in piece.split(separator or None)]
    if separator or maxsplit == 0:
        return value.split(separator, maxsplit) if value and separator else [value]
    parts = value.split(None, maxsplit)
    # TensorFlow reports what is left after the last allowed split even when nothing is.
    return [*parts, b""] if 0 < maxsplit == len(parts) else parts


@register_kernel("StringSplitV2", pieces=True)
def string_split_v2(k: KernelBuild) -> Kernel:
    maxsplit = k.attr("maxsplit")

    def run(values: Any, separator: Any) -> Any:
        if values.ndim != 1:
            raise InvalidArgumentError(f"input must be a vector, got shape: {_shape(values)}")
        if separator.ndim != 0:
            raise InvalidArgumentError(f"sep must be a scalar, got shape: {_shape(separator)}")
        return _sparse([split_v2(v, only(separator), maxsplit) for v in each(values)])

    return run


@register_kernel("StringNGrams", pieces=True)
def string_ngrams(k: KernelBuild) -> Kernel:
    separator, left, right = k.attr("separator"), k.attr("left_pad"), k.attr("right_pad")
    widths, preserve_short, pad_attr = k.attr("ngram_widths"), k.attr("preserve_short_sequences"), k.attr("pad_width")

    def pad_width(width: int) -> int:
        return min(width - 1 if pad_attr < 0 else pad_attr, width - 1)

    def grams(tokens: list[bytes], width: int, pad: int, count: int) -> list[bytes]:
        padded = [left] * pad + tokens + [right] * pad
        return [joined(padded[i : i + width], separator) for i in each(range(count))]

    def run(data: Any, splits: Any) -> Any:
        if any(w <= 0 for w in widths):
            raise InvalidArgumentError("ngram_widths must contain positive values")
        ends = vector(splits, "data_splits")
        if ends:
            _check_splits(ends, data.size)
        tokens = list(each(data))
        if data.size == 0 or not ends:
            return data, np.zeros(splits.shape, splits.dtype)
        out: list[bytes] = []
        out_splits = [0]
        for start, end in each(itertools.pairwise(ends)):
            row = tokens[start:end]
            made: list[bytes] = []
            for width in widths:
                pad = pad_width(width)
                made += grams(row, width, pad, max(0, len(row) + 2 * pad - width + 1))
            if preserve_short and row and not made:
                if pad_attr < 0:
                    raise InvalidArgumentError(
                        "Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are not "
                        f"provided, got {pad_attr}"
                    )
                made = grams(row, len(row) + 2 * pad_attr, pad_attr, 1)
            out += made
            out_splits.append(len(out))
        return array_of(out, object), array_of(out_splits, splits.dtype)

    return run


def _check_splits(ends: Sequence[int], size: int) -> None:
    if ends[0] != 0:
        raise InvalidArgumentError(f"First split value must be 0, got {ends[0]}")
    for previous, end in itertools.pairwise(ends):
        if not previous <= end <= size:
            raise InvalidArgumentError(f"Invalid split value {end}, must be in [{previous}, {size}]")
    if ends[-1] != size:
        raise InvalidArgumentError(f"Last split value must be data size. Expected {size}, got {ends[-1]}")
