"""Binomial distributions (random_binomial_op, draw for draw): sums of geometric gaps, or Hormann's BTRS (1993)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.random.common import ends_with_batch, stateless_seed
from dtfctl.runtime.kernels.random.lanes import Lanes
from dtfctl.runtime.kernels.random.philox import Philox
from dtfctl.runtime.kernels.random.stateful_variable import take_state
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text, variable_finder

_TYPES = (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64)
# Blocks each output has for itself.
_FEW, _MANY = 42, 256
_PHILOX = 1
_TAILS = np.array(
    [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ]
)


def _tail(k: Any) -> Any:
    """Compute what Stirling's approximation of log k! leaves out."""
    square = (k + 1) * (k + 1)
    far = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    return np.where(k <= 9, _TAILS[np.clip(k, 0, 9).astype(np.int64)], far)


def _by_gaps(gen: Philox, outputs: Any, count: Any, prob: Any) -> Any:
    lanes, out = Lanes(gen, outputs, _FEW), np.zeros(outputs.size)
    total, active = np.zeros(outputs.size), np.arange(outputs.size)
    scale = np.log1p(-prob)
    while active.size:
        total[active] += np.ceil(np.log(lanes.uniform(active)) / scale[active])
        active = active[~(total[active] > count[active])]
        out[active] += 1
    return out


def _by_rejection(gen: Philox, outputs: Any, count: Any, prob: Any) -> Any:
    lanes, out = Lanes(gen, outputs, _MANY), np.zeros(outputs.size)
    active = np.arange(outputs.size)
    while active.size:
        n, p = count[active], prob[active]
        deviation = np.sqrt(n * p * (1 - p))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        ratio, mode = p / (1 - p), np.floor((n + 1) * p)
        u = lanes.uniform(active) - 0.5
        v = lanes.uniform(active)
        shifted = 0.5 - np.abs(u)
        k = np.floor((2 * a / shifted + b) * u + n * p + 0.5)
        inside = (shifted >= 0.07) & (v <= 0.92 - 4.2 / b)
        v = np.log(v * (2.83 + 5.1 / b) * deviation / (a / (shifted * shifted) + b))
        bound = (
            (mode + 0.5) * np.log((mode + 1) / (ratio * (n - mode + 1)))
            + (n + 1) * np.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * np.log(ratio * (n - k + 1) / (k + 1))
            + (_tail(mode) + _tail(n - mode) - _tail(k) - _tail(n - k))
        )
        good = inside | ((k >= 0) & (k <= n) & (v <= bound))
        out[active[good]] = k[good]
        active = active[~good]
    return out


def binomial(gen: Philox, counts: Any, probs: Any, samples: int) -> Any:
    """Successes among `counts` trials of probability `probs`.

    Args:
        counts, probs: vectors of one type, in which the choice of method is made as TensorFlow makes it.

    Returns:
        float64 (samples, len(counts)), whole numbers; nan where a probability is not a number.
    """
    kind = counts.dtype.type
    count, prob = np.repeat(counts, samples), np.repeat(probs, samples)
    with np.errstate(all="ignore"):
        rare = prob <= kind(0.5) if counts.dtype.kind == "f" else prob <= 0
        less = np.where(rare, prob, kind(1) - prob)
        n, p = count.astype(np.float64), less.astype(np.float64)
        out = np.full(count.size, np.nan)
        never, always = (n <= 0) | (prob <= 0), prob >= 1
        drawn = ~never & ~always & (prob == prob)
        often = drawn & (count * less >= kind(10))
        for chosen, method in ((often, _by_rejection), (drawn & ~often, _by_gaps)):
            at = np.flatnonzero(chosen)
            out[at] = method(gen, at, n[at], p[at])
        out[drawn & ~rare] = (n - out)[drawn & ~rare]
        out[always] = n[always]
        out[never] = 0
    return out.reshape(counts.size, samples).T


def _fill(gen: Philox, parameters: list[Any], samples: int, wanted: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if not prod(wanted):
        return np.zeros(wanted, dtype)
    counts, probs = parameters
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(binomial(gen, counts, probs, samples)).reshape(wanted).astype(dtype)


@register_kernel("StatelessRandomBinomial", T=_TYPES, dtype=_TYPES)
def stateless_random_binomial(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype").np

    def kernel(shape: Any, seed: Any, counts: Any, probs: Any) -> Any:
        gen = stateless_seed(seed)
        return _fill(gen, *ends_with_batch(shape, ("counts", "probs"), (counts, probs)), dtype)

    return kernel


@register_kernel("StatefulRandomBinomial", T=_TYPES, dtype=_TYPES)
def stateful_random_binomial(k: KernelBuild) -> Kernel:
    find, dtype = variable_finder(k), k.dtype("dtype").np

    def kernel(resource: Any, algorithm: Any, shape: Any, counts: Any, probs: Any) -> Any:
        parameters, samples, wanted = ends_with_batch(shape, ("counts", "probs"), (counts, probs))
        if algorithm.ndim:
            raise InvalidArgumentError(f"algorithm must be of shape [], not {shape_text(algorithm.shape)}")
        if int(algorithm) != _PHILOX:
            raise InvalidArgumentError(f"Unsupported algorithm id: {int(algorithm)}")
        gen, _ = take_state(find(resource), parameters[0].size * 2 * 100 * (samples + 3) // 4, int(algorithm))
        return _fill(gen, parameters, samples, wanted, dtype)

    return kernel
