"""Draws from given distributions: categories, gamma, Poisson, parameterized truncated normals."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.random.common import from_key_counter, generator_of, output_shape, stateless_seed
from dtfctl.runtime.kernels.random.lanes import gamma, poisson
from dtfctl.runtime.kernels.random.philox import Philox, to_float64
from dtfctl.runtime.kernels.registry import FLOATS, INDICES, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text

_REALS = (dtypes.float16, dtypes.float32, dtypes.float64)
_RATES = (*_REALS, dtypes.int32, dtypes.int64)


def _categories(gen: Philox, logits: Any, samples: int, dtype: np.dtype[Any]) -> Any:
    """`samples` category numbers for each row of unnormalized log-probabilities."""
    batch, classes = logits.shape
    words = gen.words((batch * samples * 2 + 3) // 4).reshape(-1)[: batch * samples * 2].reshape(batch, samples, 2)
    uniforms = to_float64(words[..., 0].reshape(-1), words[..., 1].reshape(-1)).reshape(batch, samples)
    values = logits.astype(np.float64)
    finite = np.isfinite(values)
    lowest = np.float64(np.finfo(np.float64).min)
    top = np.where(finite, values, lowest).max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        cumulative = np.cumsum(np.where(finite, np.exp(values - top), 0.0), axis=1)
    below = uniforms * cumulative[:, -1:]
    if classes < batch:
        passed = np.zeros((batch, samples), dtype)
        for column in range(classes):
            passed += cumulative[:, column : column + 1] <= below
        return passed
    out = np.empty((batch, samples), dtype)
    for row in range(batch):
        out[row] = np.searchsorted(cumulative[row], below[row], side="right")
    return out


def _check_categories(logits: Any, num_samples: Any) -> int:
    if logits.ndim != 2:
        raise InvalidArgumentError(f"logits should be a matrix, got shape {shape_text(logits.shape)}")
    if num_samples.ndim:
        raise InvalidArgumentError(f"num_samples should be a scalar, got shape {shape_text(num_samples.shape)}")
    samples = int(num_samples)
    if samples < 0:
        raise InvalidArgumentError(f"num_samples should be nonnegative, got {samples}")
    if logits.shape[1] <= 0:
        raise InvalidArgumentError(f"num_classes should be positive, got {logits.shape[1]}")
    return samples


@register_kernel("Multinomial", T=FLOATS, output_dtype=INDICES)
def multinomial(k: KernelBuild) -> Kernel:
    generator, dtype = generator_of(k), k.dtype("output_dtype").np

    def kernel(logits: Any, num_samples: Any) -> Any:
        samples = _check_categories(logits, num_samples)
        if not samples or not logits.shape[0]:
            return np.zeros((logits.shape[0], samples), dtype)
        gen = generator.reserve_outputs(logits.shape[0] * ((samples + 3) // 4 * 4) * 2)
        return _categories(gen, logits, samples, dtype)

    return kernel


@register_kernel("StatelessMultinomial", T=FLOATS, output_dtype=INDICES)
def stateless_multinomial(k: KernelBuild) -> Kernel:
    dtype = k.dtype("output_dtype").np

    def kernel(logits: Any, num_samples: Any, seed: Any) -> Any:
        gen = stateless_seed(seed)
        samples = _check_categories(logits, num_samples)
        if not samples or not logits.shape[0]:
            return np.zeros((logits.shape[0], samples), dtype)
        return _categories(gen, logits, samples, dtype)

    return kernel


@register_kernel("RandomGamma", T=_REALS)
def random_gamma(k: KernelBuild) -> Kernel:
    generator, dtype = generator_of(k), k.dtype("T").np

    def kernel(shape: Any, alpha: Any) -> Any:
        lead = output_shape(shape)
        wanted = lead + alpha.shape
        if 0 in wanted:
            return np.zeros(wanted, dtype)
        gen = generator.reserve_outputs(prod(wanted))
        return gamma(gen, alpha.reshape(-1).astype(np.float64), prod(lead)).reshape(wanted).astype(dtype)

    return kernel


def _stateless_gamma(gen: Philox, shape: Any, alpha: Any, dtype: np.dtype[Any]) -> Any:
    wanted = output_shape(shape)
    count = alpha.ndim
    if wanted[len(wanted) - count :] != alpha.shape:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape. shape={shape_text(wanted)}, "
            f"alpha shape={shape_text(alpha.shape)}"
        )
    if 0 in wanted:
        return np.zeros(wanted, dtype)
    samples = prod(wanted) // max(alpha.size, 1)
    return gamma(gen, alpha.reshape(-1).astype(np.float64), samples).reshape(wanted).astype(dtype)


@register_kernel("StatelessRandomGammaV2", dtype=_REALS)
def stateless_gamma_v2(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype").np
    return lambda shape, seed, alpha: _stateless_gamma(stateless_seed(seed), shape, alpha, dtype)


@register_kernel("StatelessRandomGammaV3", dtype=_REALS)
def stateless_gamma_v3(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype").np
    return lambda shape, key, counter, alg, alpha: _stateless_gamma(
        from_key_counter(key, counter, alg), shape, alpha, dtype
    )


def _draw_poisson(gen: Philox, rate: Any, samples: int, dtype: np.dtype[Any]) -> Any:
    info: Any = np.iinfo(dtype) if dtype.kind == "i" else np.finfo(dtype)
    drawn = poisson(gen, rate.reshape(-1).astype(np.float64), samples, float(info.max))
    return np.nan_to_num(drawn, nan=0, posinf=np.inf) if dtype.kind == "i" else drawn


@register_kernel("RandomPoissonV2", R=_RATES, dtype=_RATES)
@register_kernel("RandomPoisson", dtype=_REALS)
def random_poisson(k: KernelBuild) -> Kernel:
    generator, dtype = generator_of(k), k.dtype("dtype").np

    def kernel(shape: Any, rate: Any) -> Any:
        lead = output_shape(shape)
        wanted = lead + rate.shape
        if 0 in wanted:
            return np.zeros(wanted, dtype)
        gen = generator.reserve_outputs(prod(wanted))
        return _draw_poisson(gen, rate, prod(lead), dtype).reshape(wanted).astype(dtype)

    return kernel


@register_kernel("StatelessRandomPoisson", Rtype=_RATES, dtype=_RATES)
def stateless_poisson(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dtype").np

    def kernel(shape: Any, seed: Any, rate: Any) -> Any:
        wanted = output_shape(shape)
        gen = stateless_seed(seed)
        if wanted[len(wanted) - rate.ndim :] != rate.shape:
            raise InvalidArgumentError(
                f"Shape passed in must end with broadcasted shape. shape={shape_text(wanted)}, "
                f"lam shape={shape_text(rate.shape)}"
            )
        if 0 in wanted:
            return np.zeros(wanted, dtype)
        return _draw_poisson(gen, rate, prod(wanted) // rate.size, dtype).reshape(wanted).astype(dtype)

    return kernel


@register_kernel("RandomGammaGrad", T=(dtypes.float32, dtypes.float64))
def random_gamma_grad(k: KernelBuild) -> Kernel:
    """Derivative of a gamma sample by alpha, by implicit differentiation: -(dF/dalpha) / pdf (Figurnov et al. 2018)."""
    dtype = k.dtype("T").np

    def kernel(alpha: Any, sample: Any) -> Any:
        from dtfctl.runtime.kernels.random.gamma_grad import gamma_sample_derivative

        return gamma_sample_derivative(alpha.astype(np.float64), sample.astype(np.float64)).astype(dtype)

    return kernel
