"""Loading a matrix of a checkpoint whose rows and columns have other numbers now (vocabularies that changed)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.runtime.checkpoint.atomic import os_error
from dtfctl.runtime.checkpoint.bundle_reader import BundleReader
from dtfctl.runtime.checkpoint.tensor_slice import TensorSlice
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import WIRE_NAME
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.kernels.data_flow.handles import shape_text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


def _lines(filename: Any, what: str, limit: int = -1) -> list[bytes]:
    if filename.ndim != 0:
        raise InvalidArgumentError(f"{what} should be a single string, but got {shape_text(filename.shape)}")
    path = filename.item().decode()
    if not path:
        raise InvalidArgumentError(f"{what} cannot be empty.")
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as e:
        raise os_error(e, path) from e
    if limit >= 0:
        if len(lines) < limit:
            raise InvalidArgumentError(f"Invalid vocab_size in {path}: expected {limit} but got {len(lines)}")
        lines = lines[:limit]
    return lines


@register_kernel("GenerateVocabRemapping", blocking=True)
def generate_vocab_remapping(k: KernelBuild) -> Kernel:
    offset, count, old_size = (int(k.attr(n)) for n in ("new_vocab_offset", "num_new_vocab", "old_vocab_size"))

    def kernel(new_file: Any, old_file: Any) -> tuple[Any, Any]:
        """Find for each of the new words its old number or -1, and count those that have one."""
        new = _lines(new_file, "new_vocab_file")
        if offset + count > len(new):
            raise InvalidArgumentError("lookup table size must be larger than last new vocab entry's line")
        old = {word: i for i, word in enumerate(_lines(old_file, "old_vocab_file", old_size))}
        remapping = np.array([old.get(word, -1) for word in new[offset : offset + count]], np.int64)
        return remapping, np.array((remapping >= 0).sum(), np.int32)

    return kernel


def _check_remapping(remapping: Any) -> None:
    """Raise UnimplementedError when two new numbers ask for the same old one."""
    seen: dict[int, int] = {}
    for new, old in enumerate(remapping.tolist()):
        if old < 0:
            continue
        if old in seen:
            raise UnimplementedError(
                f"Old ID {old} is mapped to both new ID {seen[old]} and {new}, which is not supported."
            )
        seen[old] = new


def _pieces(rows: Any, most: int) -> list[tuple[int, int]]:
    """Ranges [start, end) of old rows to read, `most` rows each (all at once when it is not positive)."""
    wanted = rows[rows >= 0]
    if not wanted.size:
        return []
    first, end = int(wanted.min()), int(wanted.max()) + 1
    step = most if most > 0 else end - first
    return [(start, min(start + step, end)) for start in range(first, end, step)]


@register_kernel("LoadAndRemapMatrix", blocking=True)
def load_and_remap_matrix(k: KernelBuild) -> Kernel:
    num_rows, num_cols, most = (int(k.attr(n)) for n in ("num_rows", "num_cols", "max_rows_in_memory"))

    def kernel(path: Any, name: Any, rows: Any, cols: Any, initial: Any) -> Any:
        if rows.ndim != 1:
            raise InvalidArgumentError(
                f"The `row_remapping` tensor must be 1-D, got a tensor of shape {shape_text(rows.shape)}"
            )
        if rows.size != num_rows:
            raise InvalidArgumentError(
                f"Size of row_remapping is {rows.size} instead of being equal to num_rows={num_rows}"
            )
        _check_remapping(rows)
        if cols.size:
            if cols.size != num_cols:
                raise InvalidArgumentError(
                    f"Provided col_remapping, but its size is {cols.size} instead of being equal to num_cols={num_cols}"
                )
            _check_remapping(cols)
        if path.size != 1:
            raise InvalidArgumentError(
                f"The `ckpt_path` tensor must have exactly one element, got tensor of shape {shape_text(path.shape)}"
            )
        reader, key = BundleReader(path.reshape(())[()].decode()), name.reshape(())[()].decode()
        dtype, shape = reader.dtype_and_shape(key)
        if dtype is not dtypes.float32:
            raise InvalidArgumentError(
                f"Tensor {key} has invalid type {WIRE_NAME[dtype]} instead of expected type DT_FLOAT"
            )
        if len(shape) != 2:
            raise InvalidArgumentError(
                f"Tensor {key} has shape {shape_text(shape)} of invalid rank {len(shape)} instead of expected shape of "
                "rank 2."
            )
        if not cols.size and shape[1] != num_cols:
            raise InvalidArgumentError(
                f"Tensor {key} has shape {shape_text(shape)}, where the size of its 2nd dimension is {shape[1]} "
                f"instead of being equal to num_cols={num_cols}"
            )
        old_cols = cols if cols.size else np.arange(num_cols)
        if rows.max(initial=-1) >= shape[0] or old_cols.max(initial=-1) >= shape[1]:
            raise InvalidArgumentError(f"A remapping names a row or column outside of {key}, {shape_text(shape)}")
        out = np.zeros((num_rows, num_cols), np.float32)
        there = np.flatnonzero(old_cols >= 0)
        for start, end in _pieces(rows, most):
            piece = reader.read_slice(key, TensorSlice((start, 0), (end - start, shape[1])))
            new = np.flatnonzero((rows >= start) & (rows < end))
            out[np.ix_(new, there)] = piece[np.ix_(rows[new] - start, old_cols[there])]
        missing = ~np.logical_and.outer(rows >= 0, old_cols >= 0)
        needed = int(missing.sum())
        if initial.size < needed:
            raise InvalidArgumentError(
                f"initializing_values contained {initial.size} elements, but more missing values remain."
            )
        if initial.size > needed:
            raise InvalidArgumentError(
                f"initializing_values contained {initial.size} elements, but only {needed} elements were used to fill "
                "in missing values."
            )
        out[missing] = initial.reshape(-1)
        return out

    return kernel
