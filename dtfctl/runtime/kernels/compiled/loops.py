"""What numba compiles: one pass over memory where numpy takes several. As Python these are correct, and slow.

Vectors are contiguous and of one floating type; rates are of that type too. Formulas are those of
kernels/training/rules.py and kernels/nn/pooling.py.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np


def momentum(grad: Any, var: Any, accum: Any, lr: Any, rate: Any, nesterov: bool) -> None:
    for i in range(var.size):
        accum[i] = accum[i] * rate + grad[i]
        if nesterov:
            var[i] -= accum[i] * rate * lr + grad[i] * lr
        else:
            var[i] -= accum[i] * lr


def adam(
    grad: Any, var: Any, m: Any, v: Any, alpha: Any, beta1: Any, rest1: Any, rest2: Any, epsilon: Any, nesterov: bool
) -> None:
    """`alpha` is the bias-corrected rate, `rest1` and `rest2` one minus the betas."""
    for i in range(var.size):
        g = grad[i]
        m[i] += (g - m[i]) * rest1
        v[i] += (g * g - v[i]) * rest2
        step = g * rest1 + m[i] * beta1 if nesterov else m[i]
        var[i] -= step * alpha / (sqrt(v[i]) + epsilon)


def rms_prop(grad: Any, var: Any, ms: Any, mom: Any, lr: Any, rest: Any, rate: Any, epsilon: Any) -> None:
    """`rest` is one minus rho."""
    for i in range(var.size):
        g = grad[i]
        ms[i] += (g * g - ms[i]) * rest
        mom[i] = mom[i] * rate + g * lr / sqrt(ms[i] + epsilon)
        var[i] -= mom[i]


def adagrad(grad: Any, var: Any, accum: Any, lr: Any, updates: bool) -> None:
    for i in range(var.size):
        g = grad[i]
        if updates:
            accum[i] += g * g
        var[i] -= g * lr / sqrt(accum[i])


def relu_gradient(grad: Any, x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = grad[i] if x[i] > 0 else grad[i] * 0


def max_pool_gradient(x: Any, y: Any, grad: Any, out: Any, height: int, width: int) -> None:
    """Windows of that size lie side by side; x, out (N, H, W, C), y, grad (N, H / height, W / width, C)."""
    free = np.ones(y.shape[3], x.dtype)
    for n in range(y.shape[0]):
        for h in range(y.shape[1]):
            for w in range(y.shape[2]):
                free[:] = 1
                for i in range(height):
                    for j in range(width):
                        for c in range(y.shape[3]):
                            here = free[c] if x[n, h * height + i, w * width + j, c] == y[n, h, w, c] else free[c] * 0
                            out[n, h * height + i, w * width + j, c] = grad[n, h, w, c] * here
                            free[c] -= here


def add_rows(target: Any, indices: Any, updates: Any, sign: Any) -> None:
    """target[indices[i]] += sign * updates[i], in order; target and updates have two dimensions."""
    for i in range(indices.size):
        row = indices[i]
        for j in range(target.shape[1]):
            target[row, j] += sign * updates[i, j]
