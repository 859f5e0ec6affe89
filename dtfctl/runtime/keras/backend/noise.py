"""Random tensors and variables; a seed that is not given is drawn from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras.backend.settings import floatx
from dtfctl.runtime.keras.backend.values import variable
from dtfctl.runtime.ops import array_ops, nn_ops, random_ops


def random_uniform_variable(
    shape: Any, low: float, high: float, dtype: Any = None, name: str | None = None, seed: int | None = None
) -> Any:
    """Make a variable of uniform noise."""
    seed = np.random.randint(int(10e8)) if seed is None else seed
    return variable(random_ops.random_uniform(shape, low, high, as_dtype(dtype or floatx()), seed), dtype, name)


def random_normal_variable(
    shape: Any, mean: float, scale: float, dtype: Any = None, name: str | None = None, seed: int | None = None
) -> Any:
    """Make a variable of normal noise."""
    seed = np.random.randint(int(10e8)) if seed is None else seed
    return variable(random_ops.random_normal(shape, mean, scale, as_dtype(dtype or floatx()), seed), dtype, name)


def random_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: int | None = None
) -> Tensor:
    """Draw from a normal distribution; a seed that is not given is drawn from NumPy."""
    seed = np.random.randint(int(10e6)) if seed is None else seed
    return random_ops.random_normal(shape, mean=mean, stddev=stddev, dtype=as_dtype(dtype or floatx()), seed=seed)


def random_uniform(
    shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: int | None = None
) -> Tensor:
    """Draw from a uniform distribution; a seed that is not given is drawn from NumPy."""
    seed = np.random.randint(int(10e6)) if seed is None else seed
    return random_ops.random_uniform(shape, minval, maxval, as_dtype(dtype or floatx()), seed)


def truncated_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: int | None = None
) -> Tensor:
    """Draw from a normal distribution cut at two standard deviations."""
    seed = np.random.randint(int(10e6)) if seed is None else seed
    return random_ops.truncated_normal(shape, mean, stddev, as_dtype(dtype or floatx()), seed)


def random_binomial(shape: Any, p: float = 0.0, dtype: Any = None, seed: int | None = None) -> Tensor:
    """Draw ones with a probability, else zeros."""
    seed = np.random.randint(int(10e6)) if seed is None else seed
    wanted = as_dtype(dtype or floatx())
    noise = random_ops.random_uniform(shape, dtype=wanted, seed=seed)
    return array_ops.where_v2(noise <= p, array_ops.ones(shape, wanted), array_ops.zeros(shape, wanted))


random_bernoulli = random_binomial


def dropout(x: Any, level: float, noise_shape: Any = None, seed: int | None = None) -> Tensor:
    """Zero elements with a probability, and scale up the others."""
    seed = np.random.randint(int(10e6)) if seed is None else seed
    return nn_ops.dropout(x, rate=level, noise_shape=noise_shape, seed=seed)
