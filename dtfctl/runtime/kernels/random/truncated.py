"""Normal distributions cut at bounds of their own (TensorFlow's parameterized_truncated_normal_op; Robert 1995)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from dtfctl.runtime.kernels.random.common import ends_with_batch, generator_of, output_shape, stateless_seed
from dtfctl.runtime.kernels.random.philox import Philox, normal, uniform
from dtfctl.runtime.kernels.registry import FLOATS, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text

_MOST_ITERATIONS = 1000
# With this many deviations between the mean and a bound, plain normals are drawn and those outside thrown away.
_INSIDE = 1.3
_BATCH = 100


def _blocks_of(dtype: np.dtype[Any]) -> int:
    """Floats a block gives."""
    return 2 if dtype == np.float64 else 4


def _draw(
    gen: Philox, count: int, dtype: np.dtype[Any], mean: Any, deviation: Any, low: Any, high: Any
) -> tuple[Any, Philox]:
    """`count` samples and the generator after the blocks they took; noise is drawn as `dtype`."""
    kind = type(mean)
    if not (deviation > 0 and low < high and (np.isfinite(low) or np.isfinite(high))):
        raise InvalidArgumentError("Invalid parameters")
    if (np.isinf(low) and low < 0) or high < mean:
        low, high, deviation = high, low, -deviation
    least, most = (low - mean) / deviation, (high - mean) / deviation
    root = np.sqrt(least * least + kind(4))
    with np.errstate(all="ignore"):
        cutoff = kind(2) * np.exp(kind(0.5) + (least * (least - root)) / kind(4)) / (least + root)
    if (least < -_INSIDE and most >= 0) or (most > _INSIDE and least <= 0):
        propose = _by_normals
    elif most - least < cutoff:
        propose = _by_uniforms
    else:
        propose = _by_exponentials
    values: list[Any] = []
    found, tries = 0, 0
    while found < count:
        chunk = max(8, 2 * (count - found))
        candidates, accepted, blocks = propose(gen, chunk, least, most, dtype)
        places = np.flatnonzero(accepted)[: count - found]
        values.append(candidates[places])
        found += places.size
        used = chunk if found < count else int(places[-1]) // (accepted.size // chunk) + 1
        gen = gen.skip(used * blocks)
        tries = 0 if places.size else tries + chunk
        if tries > _MOST_ITERATIONS:
            raise InternalError("TruncatedNormal rejection sampler failed to accept a sample.")
    return np.concatenate(values) * deviation + mean, gen


def _by_normals(gen: Philox, groups: int, least: Any, most: Any, dtype: np.dtype[Any]) -> tuple[Any, Any, int]:
    values = normal(gen, groups * _blocks_of(dtype), dtype).astype(type(least), copy=False)
    return values, (values >= least) & (values <= most), 1


def _by_uniforms(gen: Philox, groups: int, least: Any, most: Any, dtype: np.dtype[Any]) -> tuple[Any, Any, int]:
    each, kind = _blocks_of(dtype), type(least)
    both = uniform(gen, 2 * groups * each, dtype).astype(kind, copy=False).reshape(groups, 2, each)
    z = both[:, 0] * (most - least) + least
    bound = kind(0) if least < 0 else least * least
    accepted = both[:, 1] <= np.exp((bound - z * z) / kind(2))
    return z.reshape(-1), accepted.reshape(-1), 2


def _by_exponentials(gen: Philox, groups: int, least: Any, most: Any, dtype: np.dtype[Any]) -> tuple[Any, Any, int]:
    kind = type(least)
    alpha = (least + np.sqrt(least * least + kind(4))) / kind(2)
    pairs = uniform(gen, groups * _blocks_of(dtype), dtype).astype(kind, copy=False).reshape(-1, 2)
    with np.errstate(divide="ignore"):
        z = -np.log(pairs[:, 0]) / alpha + least
    x = alpha - z if least < alpha else np.full_like(z, least - alpha)
    return z, (pairs[:, 1] <= np.exp(-x * x / kind(2))) & (z < most), 1


def _reserved(shape: tuple[int, ...], shared: bool) -> int:
    """Blocks a run takes from the stream; TensorFlow regroups samples of one distribution into batches of 100."""
    batches, each = shape[0], prod(shape[1:])
    if shared:
        batches, each = -(-batches * each // _BATCH), _BATCH
    return batches * 2 * _MOST_ITERATIONS * (each + 3) // 4


@register_kernel("ParameterizedTruncatedNormal", dtype=FLOATS)
def parameterized_truncated_normal(k: KernelBuild) -> Kernel:
    generator, dtype = generator_of(k), k.dtype("dtype").np
    wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)

    def kernel(shape: Any, means: Any, stdevs: Any, minvals: Any, maxvals: Any) -> Any:
        wanted = output_shape(shape)
        if not wanted:
            raise InvalidArgumentError("Shape tensor must not be empty, got " + shape_text(shape.shape))
        batches = wanted[0]
        parameters = {"means": means, "stdevs": stdevs, "minvals": minvals, "maxvals": maxvals}
        for name, value in parameters.items():
            if value.ndim > 1:
                raise InvalidArgumentError(f"Input {name} should be a scalar or vector, got shape: {value.shape}")
            if value.ndim == 1 and value.size not in (1, batches):
                raise InvalidArgumentError(f"Input {name} should have length 1 or {batches}, got shape: {value.shape}")
        if not prod(wanted):
            return np.zeros(wanted, dtype)
        flat = [value.reshape(-1).astype(wide) for value in parameters.values()]
        shared = all(value.size == 1 for value in flat)
        gen = generator.reserve(_reserved(wanted, shared))
        if shared:
            out, _ = _draw(gen, prod(wanted), dtype, *(value[0] for value in flat))
        else:
            each = prod(wanted) // batches
            parts = []
            for b in range(batches):
                part, gen = _draw(gen, each, dtype, *(value[b if value.size > 1 else 0] for value in flat))
                parts.append(part)
            out = np.concatenate(parts)
        return out.reshape(wanted).astype(dtype)

    return kernel


@register_kernel("StatelessParameterizedTruncatedNormal", dtype=(dtypes.float16, dtypes.float32, dtypes.float64))
def stateless_parameterized_truncated_normal(k: KernelBuild) -> Kernel:
    """Samples before the dimensions that the parameters share; all arithmetic is of the output's type."""
    dtype = k.dtype("dtype").np

    def kernel(shape: Any, seed: Any, means: Any, stddevs: Any, minvals: Any, maxvals: Any) -> Any:
        gen = stateless_seed(seed)
        names = ("means", "stddevs", "minvals", "maxvals")
        parameters, samples, wanted = ends_with_batch(shape, names, (means, stddevs, minvals, maxvals))
        columns = []
        for one in zip(*parameters):
            if not samples:
                break
            drawn, gen = _draw(gen, samples, dtype, *one)
            columns.append(drawn)
        if not columns:
            return np.zeros(wanted, dtype)
        return np.stack(columns, axis=1).reshape(wanted).astype(dtype)

    return kernel
