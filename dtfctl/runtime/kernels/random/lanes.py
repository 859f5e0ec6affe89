"""Rejection samplers, vectorised: every output has a lane of its own in the stream and draws until it is done.

Gamma and Poisson follow TensorFlow's random_op, random_poisson_op and stateless_random_gamma_op draw for draw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.random.philox import (
    RESERVED_PER_OUTPUT,
    Philox,
    box_muller_float64,
    to_float64,
)

Array = Any


class Lanes:
    """Streams of doubles, one an output; a block gives two uniforms or two normals, used last first."""

    def __init__(self, gen: Philox, outputs: Array, reserved: int = RESERVED_PER_OUTPUT) -> None:
        self._gen = gen
        self._next = outputs.astype(np.uint64) * np.uint64(reserved)
        count = outputs.size
        self._left = {"uniform": np.zeros(count, np.int8), "normal": np.zeros(count, np.int8)}
        self._held = {"uniform": np.empty((count, 2)), "normal": np.empty((count, 2))}

    def uniform(self, lanes: Array) -> Array:
        return self._draw("uniform", lanes)

    def normal(self, lanes: Array) -> Array:
        return self._draw("normal", lanes)

    def _draw(self, kind: str, lanes: Array) -> Array:
        left, held = self._left[kind], self._held[kind]
        empty = lanes[left[lanes] == 0]
        if empty.size:
            words = self._gen.words_at(self._next[empty])
            self._next[empty] += np.uint64(1)
            if kind == "uniform":
                held[empty, 0] = to_float64(words[:, 0], words[:, 1])
                held[empty, 1] = to_float64(words[:, 2], words[:, 3])
            else:
                held[empty, 0], held[empty, 1] = box_muller_float64(words)
            left[empty] = 2
        left[lanes] -= 1
        return held[lanes, left[lanes]]


def gamma(gen: Philox, alpha: Array, samples: int) -> Array:
    """Gamma(alpha, 1) by Marsaglia and Tsang (2000).

    Args:
        alpha: float64 vector.

    Returns:
        float64 (samples, len(alpha)).
    """
    shape = np.repeat(alpha, samples)
    lanes = Lanes(gen, np.arange(shape.size))
    out = np.empty(shape.size)
    is_one = shape == 1.0
    active = np.flatnonzero(is_one)
    out[active] = -np.log1p(-lanes.uniform(active))
    small = shape < 1
    d = shape + np.where(small, 2.0 / 3, -1.0 / 3)
    with np.errstate(all="ignore"):
        c = 1.0 / 3 / np.sqrt(d)
        active = np.flatnonzero(~is_one)
        while active.size:
            x = lanes.normal(active)
            v = 1 + c[active] * x
            positive = v > 0
            tried, x, v = active[positive], x[positive], v[positive] ** 3
            u = lanes.uniform(tried)
            square = x * x
            good = (u < 1 - 0.0331 * square * square) | (np.log(u) < 0.5 * square + d[tried] * (1 - v + np.log(v)))
            done = tried[good]
            result = d[done] * v[good]
            boosted = small[done]
            if boosted.any():
                lanes_small = done[boosted]
                result[boosted] *= lanes.uniform(lanes_small) ** (1 / shape[lanes_small])
            out[done] = result
            finished = np.zeros(shape.size, bool)
            finished[done] = True
            # A shape that is not a number or negative would draw for ever.
            active = active[~finished[active] & (d[active] > 0)]
        out[~is_one & ~(d > 0)] = np.nan
    return out.reshape(alpha.size, samples).T


def poisson(gen: Philox, rate: Array, samples: int, highest: float) -> Array:
    """Poisson(rate): Knuth's products below a rate of 10, else Hormann's transformed rejection (1993).

    Args:
        rate: float64 vector.
        highest: largest value of the output type.

    Returns:
        float64 (samples, len(rate)), whole numbers.

    Raises:
        InvalidArgumentError: next to no draw would be within the type, and rejection would not end.
    """
    with np.errstate(all="ignore"):
        beyond = np.isfinite(rate) & (rate - 4 * np.sqrt(rate) > highest)
    if beyond.any():
        raise InvalidArgumentError(
            f"A Poisson distribution of rate {rate[beyond][0]:g} is beyond the type of the result, which ends at "
            f"{highest:g}"
        )
    rates = np.repeat(rate, samples)
    lanes = Lanes(gen, np.arange(rates.size))
    out = np.full(rates.size, np.nan)
    with np.errstate(all="ignore"):
        _poisson_small(lanes, rates, np.flatnonzero((rates < 10) & (rates >= 0)), out)
        out[np.isposinf(rates)] = np.inf
        _poisson_large(lanes, rates, np.flatnonzero((rates >= 10) & np.isfinite(rates)), out, highest)
    return out.reshape(rate.size, samples).T


def _poisson_small(lanes: Lanes, rates: Array, active: Array, out: Array) -> None:
    limit = np.exp(-rates)
    product, count = np.ones(rates.size), np.zeros(rates.size)
    while active.size:
        product[active] *= lanes.uniform(active)
        stop = product[active] <= limit[active]
        done = active[stop]
        out[done] = count[done]
        active = active[~stop]
        count[active] += 1


def _poisson_large(lanes: Lanes, rates: Array, active: Array, out: Array, highest: float) -> None:
    from scipy.special import gammaln

    while active.size:
        rate = rates[active]
        b = 0.931 + 2.53 * np.sqrt(rate)
        a = -0.059 + 0.02483 * b
        inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
        u = lanes.uniform(active) - 0.5
        v = lanes.uniform(active)
        shifted = 0.5 - np.abs(u)
        k = np.floor((2 * a / shifted + b) * u + rate + 0.43)
        fits = ~(k > highest)
        squeeze = fits & (shifted >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        hopeless = (k < 0) | ((shifted < 0.013) & (v > shifted))
        s = np.log(v * inverse_alpha / (a / (shifted * shifted) + b))
        t = -rate + k * np.log(rate) - gammaln(k + 1)
        good = squeeze | (fits & ~hopeless & (s <= t))
        out[active[good]] = k[good]
        active = active[~good]


Sampler = Callable[..., Array]
