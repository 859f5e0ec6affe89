"""Cross-entropy of many logits: some rows at a time, so that each pass finds in cache what the last one left.

numpy takes long for sums over short rows; those are compiled loops where numba is installed. Exponentials are always
numpy's, which has the fastest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.kernels.compiled.jit import LEAST_BYTES, compiled, loops

_BLOCK_BYTES = 256 << 10
# Columns up to which compiled sums are faster than numpy's.
_SHORT = 64


def is_in_blocks(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Tell whether logits are so many that they are done in blocks; float32 and float64 only."""
    return int(np.prod(shape)) * dtype.itemsize >= LEAST_BYTES and dtype in (np.float32, np.float64)


def by_blocks(logits: Any, labels: Any, loss: Any, grad: Any) -> None:
    """Compute the loss of each row, and its gradient by the logits; labels are distributions, or columns."""
    rows, columns = logits.shape
    step = max(_BLOCK_BYTES // (columns * logits.dtype.itemsize), 1)
    scratch = np.empty((min(step, rows), columns), logits.dtype)
    shift = finish = None
    if columns <= _SHORT:
        shift = compiled(loops.below_largest, logits.dtype, logits.nbytes)
        finish = compiled(
            loops.cross_entropy if labels.ndim > 1 else loops.sparse_cross_entropy, logits.dtype, logits.nbytes
        )
    for start in range(0, rows, step):
        at = slice(start, min(start + step, rows))
        block, shifted = logits[at], scratch[: at.stop - start]
        if shift is None or finish is None:
            np.subtract(block, block.max(axis=1, keepdims=True), shifted)
            np.exp(shifted, grad[at])
            _finish(shifted, labels[at], loss[at], grad[at])
        else:
            shift(np.ascontiguousarray(block), shifted)
            np.exp(shifted, grad[at])
            finish(shifted, np.ascontiguousarray(labels[at]), loss[at], grad[at])


def _finish(shifted: Any, labels: Any, loss: Any, grad: Any) -> None:
    total = grad.sum(axis=1, keepdims=True)
    np.divide(grad, total, grad)
    if labels.ndim > 1:
        np.subtract(grad, labels, grad)
        np.subtract(np.log(total), shifted, shifted)
        np.multiply(labels, shifted, shifted)
        shifted.sum(axis=1, out=loss)
    else:
        each = np.arange(len(labels))
        np.subtract(np.log(total[:, 0]), shifted[each, labels], loss)
        grad[each, labels] -= 1
