"""What numba compiles: one pass over memory where numpy takes several. As Python these are correct, and slow.

Vectors are contiguous and of one floating type; rates are of that type too. Formulas are those of
kernels/training/rules.py and kernels/nn. Room that a loop needs is given to it, as machine code asks nobody for memory.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

# In place of a position in a window.
NOT_CHOSEN = 255
# Rows that are added up before their sums are.
ROWS_TOGETHER = 64


def soon(table: Any, indices: Any, i: Any) -> None:
    """Ask memory for the row that is worked on some rows after the i-th; only machine code can (prefetch.py)."""


# Slots are changed in place; `out` gets the next value of the variable, and may be `var`.


def momentum(grad: Any, var: Any, accum: Any, out: Any, lr: Any, rate: Any, nesterov: bool) -> None:
    for i in range(var.size):
        accum[i] = accum[i] * rate + grad[i]
        if nesterov:
            out[i] = var[i] - (accum[i] * rate * lr + grad[i] * lr)
        else:
            out[i] = var[i] - accum[i] * lr


def adam(
    grad: Any,
    var: Any,
    m: Any,
    v: Any,
    out: Any,
    alpha: Any,
    beta1: Any,
    rest1: Any,
    rest2: Any,
    epsilon: Any,
    nesterov: bool,
) -> None:
    """`alpha` is the bias-corrected rate, `rest1` and `rest2` one minus the betas."""
    for i in range(var.size):
        g = grad[i]
        m[i] += (g - m[i]) * rest1
        v[i] += (g * g - v[i]) * rest2
        step = g * rest1 + m[i] * beta1 if nesterov else m[i]
        out[i] = var[i] - step * alpha / (sqrt(v[i]) + epsilon)


def rms_prop(grad: Any, var: Any, ms: Any, mom: Any, out: Any, lr: Any, rest: Any, rate: Any, epsilon: Any) -> None:
    """`rest` is one minus rho."""
    for i in range(var.size):
        g = grad[i]
        ms[i] += (g * g - ms[i]) * rest
        mom[i] = mom[i] * rate + g * lr / sqrt(ms[i] + epsilon)
        out[i] = var[i] - mom[i]


def adagrad(grad: Any, var: Any, accum: Any, out: Any, lr: Any, updates: bool) -> None:
    for i in range(var.size):
        g = grad[i]
        if updates:
            accum[i] += g * g
        out[i] = var[i] - g * lr / sqrt(accum[i])


def max_pool(x: Any, out: Any, height: int, width: int, least: Any) -> None:
    """Take the largest of each window, or `least`. Windows of that size lie side by side; x is (N, H, W, C)."""
    for n in range(out.shape[0]):
        for h in range(out.shape[1]):
            for w in range(out.shape[2]):
                most = out[n, h, w]
                most[:] = least
                for i in range(height):
                    for j in range(width):
                        here = x[n, h * height + i, w * width + j]
                        for c in range(most.size):
                            # What is not a number stays, whichever of the two it is.
                            keep = (most[c] >= here[c]) | (most[c] != most[c])
                            most[c] = most[c] if keep else here[c]


def max_pool_gradient(x: Any, y: Any, grad: Any, out: Any, height: int, width: int, free: Any) -> None:
    """Give the gradient of each window to the first element that is its maximum; windows are as in `max_pool`.

    `free` is room for a truth value of each channel.
    """
    for n in range(y.shape[0]):
        for h in range(y.shape[1]):
            for w in range(y.shape[2]):
                free[:] = True
                most, g = y[n, h, w], grad[n, h, w]
                for i in range(height):
                    for j in range(width):
                        here, to = x[n, h * height + i, w * width + j], out[n, h * height + i, w * width + j]
                        for c in range(most.size):
                            is_it = (here[c] == most[c]) & free[c]
                            to[c] = g[c] if is_it else 0
                            free[c] &= not is_it


def rectified_max_pool(x: Any, out: Any, chosen: Any, height: int, width: int) -> None:
    """Take the largest of each window and zero; `chosen` gets which of the window it is, in row-major order.

    Where it is none of them, `chosen` gets NOT_CHOSEN. Windows are as in `max_pool`.
    """
    for n in range(out.shape[0]):
        for h in range(out.shape[1]):
            for w in range(out.shape[2]):
                most, which = out[n, h, w], chosen[n, h, w]
                most[:] = 0
                which[:] = NOT_CHOSEN
                for i in range(height):
                    for j in range(width):
                        here = x[n, h * height + i, w * width + j]
                        for c in range(most.size):
                            # What is not a number stays, and is not chosen.
                            better, is_nan = here[c] > most[c], here[c] != here[c]
                            most[c] = here[c] if better | is_nan else most[c]
                            kept = NOT_CHOSEN if is_nan else which[c]
                            which[c] = i * width + j if better else kept


def chosen_gradient(grad: Any, chosen: Any, out: Any, height: int, width: int) -> None:
    """Compute the gradient of `rectified_max_pool` by x."""
    for n in range(grad.shape[0]):
        for h in range(grad.shape[1]):
            for w in range(grad.shape[2]):
                g, which = grad[n, h, w], chosen[n, h, w]
                for i in range(height):
                    for j in range(width):
                        to = out[n, h * height + i, w * width + j]
                        here = np.uint8(i * width + j)
                        for c in range(g.size):
                            to[c] = g[c] if which[c] == here else 0


def chosen_sum(grad: Any, chosen: Any, out: Any, part: Any) -> None:
    """Add up what `chosen_gradient` gives by channel: over each image first, as like numbers add up best.

    `part` is room for as much as `out`.
    """
    out[:] = 0
    for n in range(grad.shape[0]):
        part[:] = 0
        for h in range(grad.shape[1]):
            for w in range(grad.shape[2]):
                g, which = grad[n, h, w], chosen[n, h, w]
                for c in range(g.size):
                    part[c] += g[c] if which[c] != NOT_CHOSEN else 0
        for c in range(out.size):
            out[c] += part[c]


def add_rows(target: Any, indices: Any, updates: Any, sign: Any) -> None:
    """target[indices[i]] += sign * updates[i], in order; target and updates have two dimensions."""
    for i in range(indices.size):
        soon(target, indices, i)
        row = indices[i]
        for j in range(target.shape[1]):
            target[row, j] += sign * updates[i, j]


def take_rows(table: Any, indices: Any, out: Any) -> None:
    """out[i] = table[indices[i]]; both have two dimensions."""
    for i in range(indices.size):
        soon(table, indices, i)
        row = indices[i]
        for j in range(table.shape[1]):
            out[i, j] = table[row, j]


def moments(x: Any, mean: Any, variance: Any, part: Any) -> None:
    """Compute mean and variance of each column; blocks of rows are added up first, so that long sums round little.

    `part` is room for as much as `mean`.
    """
    mean[:] = 0
    for start in range(0, x.shape[0], ROWS_TOGETHER):
        part[:] = 0
        for i in range(start, min(start + ROWS_TOGETHER, x.shape[0])):
            for c in range(part.size):
                part[c] += x[i, c]
        for c in range(part.size):
            mean[c] += part[c]
    for c in range(part.size):
        mean[c] /= x.dtype.type(x.shape[0])
    variance[:] = 0
    for start in range(0, x.shape[0], ROWS_TOGETHER):
        part[:] = 0
        for i in range(start, min(start + ROWS_TOGETHER, x.shape[0])):
            for c in range(part.size):
                off = x[i, c] - mean[c]
                part[c] += off * off
        for c in range(part.size):
            variance[c] += part[c]
    for c in range(part.size):
        variance[c] /= x.dtype.type(x.shape[0])


def normalize(x: Any, mean: Any, factor: Any, offset: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            out[i, c] = (x[i, c] - mean[c]) * factor[c] + offset[c]


def normalization_sums(dy: Any, x: Any, mean: Any, total: Any, centered: Any, first: Any, second: Any) -> None:
    """Add up each column of dy, and of dy times what x is off the mean; in blocks as in `moments`.

    `first` and `second` are room for as much as `total`.
    """
    total[:] = 0
    centered[:] = 0
    for start in range(0, x.shape[0], ROWS_TOGETHER):
        first[:] = 0
        second[:] = 0
        for i in range(start, min(start + ROWS_TOGETHER, x.shape[0])):
            for c in range(total.size):
                first[c] += dy[i, c]
                second[c] += dy[i, c] * (x[i, c] - mean[c])
        for c in range(total.size):
            total[c] += first[c]
            centered[c] += second[c]


def normalization_gradient(dy: Any, x: Any, mean: Any, slope: Any, level: Any, factor: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            out[i, c] = ((x[i, c] - mean[c]) * slope[c] + dy[i, c] - level[c]) * factor[c]


def below_largest(x: Any, out: Any) -> None:
    """Subtract from each row its largest element."""
    for i in range(x.shape[0]):
        most = x[i, 0]
        for j in range(1, x.shape[1]):
            most = x[i, j] if (x[i, j] > most) | (x[i, j] != x[i, j]) else most
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] - most


def cross_entropy(shifted: Any, labels: Any, loss: Any, grad: Any) -> None:
    """`grad` holds the exponentials of `shifted`, and gets the gradient."""
    zero = shifted.dtype.type(0)
    for i in range(shifted.shape[0]):
        total = zero
        for j in range(shifted.shape[1]):
            total += grad[i, j]
        most = np.log(total)
        sum_ = zero
        for j in range(shifted.shape[1]):
            sum_ += labels[i, j] * (most - shifted[i, j])
            grad[i, j] = grad[i, j] / total - labels[i, j]
        loss[i] = sum_


def sparse_cross_entropy(shifted: Any, labels: Any, loss: Any, grad: Any) -> None:
    """Compute loss and gradient as `cross_entropy` does, for labels that are columns."""
    zero, one = shifted.dtype.type(0), shifted.dtype.type(1)
    for i in range(shifted.shape[0]):
        total = zero
        for j in range(shifted.shape[1]):
            total += grad[i, j]
        loss[i] = np.log(total) - shifted[i, labels[i]]
        for j in range(shifted.shape[1]):
            grad[i, j] /= total
        grad[i, labels[i]] -= one


def widened_bfloat16(x: Any, bits: Any) -> None:
    """Make bfloat16, as the 16 bits it consists of, the 32 bits of the same numbers."""
    for i in range(x.size):
        bits[i] = np.uint32(x[i]) << np.uint32(16)


def rounded_to_bfloat16(bits: Any, out: Any) -> None:
    """Round float32, as the 32 bits it consists of, to the nearest 16 bits; of two to the even."""
    for i in range(bits.size):
        b = bits[i]
        if b & 0x7FFFFFFF > 0x7F800000:  # no number, and it stays none
            out[i] = (b >> 16) | 0x40
        else:
            out[i] = (b + 0x7FFF + ((b >> 16) & 1)) >> 16
