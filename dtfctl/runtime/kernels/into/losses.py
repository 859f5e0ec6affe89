"""Softmax and cross-entropy, into given arrays."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.elementwise import is_float
from dtfctl.runtime.kernels.into.linear import MOST_ALONE
from dtfctl.runtime.kernels.into.registry import Into, Spec, makes
from dtfctl.runtime.kernels.nn.cross_entropy import by_blocks, is_in_blocks
from dtfctl.runtime.kernels.registry import KernelBuild

_largest: Any = np.maximum.reduce
_total: Any = np.add.reduce


@makes("SoftmaxCrossEntropyWithLogits")
def _softmax_xent(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    logits, labels = inputs
    if not is_float(logits) or logits != labels or len(logits.shape) != 2 or 0 in logits.shape:
        return None
    if is_in_blocks(logits.shape, logits.dtype):
        return Into(by_blocks)
    column = Spec((logits.shape[0], 1), logits.dtype)
    is_small = prod(logits.shape) <= MOST_ALONE
    ones = np.ones(logits.shape[1], logits.dtype) if is_small else None
    return Into(_xent, extras=(ones,), scratch=(column, column, logits))


def _xent(logits: Any, labels: Any, ones: Any, loss: Any, grad: Any, most: Any, total: Any, shifted: Any) -> None:
    _largest(logits, 1, None, most, True)
    np.subtract(logits, most, shifted)
    np.exp(shifted, grad)
    _add_up(grad, ones, total.reshape(-1))
    np.divide(grad, total, grad)
    np.subtract(grad, labels, grad)
    np.log(total, most)
    np.subtract(most, shifted, shifted)
    np.multiply(labels, shifted, shifted)
    _add_up(shifted, ones, loss)


def _add_up(rows: Any, ones: Any, out: Any) -> None:
    """Add up each row: by its product with ones, where BLAS does that by the calling thread."""
    if ones is None:
        _total(rows, 1, None, out)
    else:
        np.dot(rows, ones, out)


@makes("Softmax", widened=True)
def _softmax(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    logits = inputs[0]
    if not is_float(logits) or not logits.shape or 0 in logits.shape:
        return None
    return Into(_softmax_into, scratch=(Spec((*logits.shape[:-1], 1), logits.dtype),), in_place=(0,))


def _softmax_into(logits: Any, out: Any, column: Any) -> None:
    _largest(logits, -1, None, column, True)
    np.subtract(logits, column, out)
    np.exp(out, out)
    _total(out, -1, None, column, True)
    np.divide(out, column, out)
