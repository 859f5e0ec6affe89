"""Random tensors, with TF1's names and seeds: the graph's seed and the op's together choose the stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import get_seed, name_scope, set_random_seed
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape

__all__ = [
    "categorical",
    "get_seed",
    "multinomial",
    "parameterized_truncated_normal",
    "random_crop",
    "random_gamma",
    "random_normal",
    "random_poisson",
    "random_shuffle",
    "random_uniform",
    "set_random_seed",
    "stateless_multinomial",
    "stateless_random_normal",
    "stateless_random_uniform",
    "stateless_truncated_normal",
    "truncated_normal",
]


def _dims(shape: Any) -> Tensor:
    if isinstance(shape, TensorShape):
        shape = list(shape.known())
    if isinstance(shape, (list, tuple)):
        return convert_to_tensor(list(shape), name="shape", preferred_dtype=dtypes.int32)
    return convert_to_tensor(shape, name="shape")


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw from a normal distribution."""
    with name_scope(name, "random_normal") as scope:
        dims = _dims(shape)
        mean = convert_to_tensor(mean, as_dtype(dtype), name="mean")
        stddev = convert_to_tensor(stddev, as_dtype(dtype), name="stddev")
        seed1, seed2 = get_seed(seed)
        noise = apply_op("RandomStandardNormal", shape=dims, dtype=dtype, seed=seed1, seed2=seed2)
        return apply_op("AddV2", x=apply_op("Mul", x=noise, y=stddev, name="mul"), y=mean, name=scope)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw from a normal distribution, values beyond two standard deviations drawn again."""
    with name_scope(name, "truncated_normal") as scope:
        dims = _dims(shape)
        mean = convert_to_tensor(mean, as_dtype(dtype), name="mean")
        stddev = convert_to_tensor(stddev, as_dtype(dtype), name="stddev")
        seed1, seed2 = get_seed(seed)
        noise = apply_op("TruncatedNormal", shape=dims, dtype=dtype, seed=seed1, seed2=seed2)
        return apply_op("AddV2", x=apply_op("Mul", x=noise, y=stddev, name="mul"), y=mean, name=scope)


def parameterized_truncated_normal(
    shape: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw from normal distributions cut at bounds of their own."""
    with name_scope(name, "parameterized_truncated_normal") as scope:
        wanted = as_dtype(dtype)
        dims = _dims(shape)
        values = {
            key: convert_to_tensor(value, wanted, name=key)
            for key, value in (("means", means), ("stdevs", stddevs), ("minvals", minvals), ("maxvals", maxvals))
        }
        seed1, seed2 = get_seed(seed)
        return apply_op("ParameterizedTruncatedNormal", name=scope, shape=dims, seed=seed1, seed2=seed2, **values)


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw uniformly from [minval, maxval); 1 is the upper bound of floats when none is given.

    Raises:
        ValueError: an integer type without `maxval`, or a type that cannot be drawn.
    """
    wanted = as_dtype(dtype)
    if wanted not in (
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.float64,
        dtypes.int32,
        dtypes.int64,
    ):
        raise ValueError(f"Argument `dtype` got invalid value {wanted.name}.")
    if maxval is None:
        if wanted.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {wanted.name}")
        maxval = 1
    with name_scope(name, "random_uniform") as scope:
        dims = _dims(shape)
        plain = isinstance(minval, (int, float)) and isinstance(maxval, (int, float))
        unit = plain and not wanted.is_integer and minval == 0 and maxval == 1
        if wanted.is_integer or not unit:
            minval = convert_to_tensor(minval, wanted, name="min")
            maxval = convert_to_tensor(maxval, wanted, name="max")
        seed1, seed2 = get_seed(seed)
        if wanted.is_integer:
            return apply_op(
                "RandomUniformInt", shape=dims, minval=minval, maxval=maxval, seed=seed1, seed2=seed2, name=scope
            )
        noise: Tensor = apply_op("RandomUniform", shape=dims, dtype=wanted, seed=seed1, seed2=seed2)
        if unit:
            return noise
        span = apply_op("Sub", x=maxval, y=minval, name="sub")
        return apply_op("AddV2", x=apply_op("Mul", x=noise, y=span, name="mul"), y=minval, name=scope)


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Put the rows of a tensor in random order."""
    seed1, seed2 = get_seed(seed)
    return apply_op("RandomShuffle", value=value, seed=seed1, seed2=seed2, name=name)


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Cut out a part of the given size at a random place."""
    with name_scope(name, "random_crop") as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtypes.int32, name="size")
        shape = apply_op("Shape", input=value)
        limit = apply_op("AddV2", x=apply_op("Sub", x=shape, y=size), y=constant(1))
        largest = constant(int(np.iinfo(np.int32).max))
        draw = random_uniform(shape=apply_op("Shape", input=shape), dtype=dtypes.int32, maxval=largest, seed=seed)
        offset = apply_op("FloorMod", x=draw, y=limit)
        return apply_op("Slice", input=value, begin=offset, size=size, name=scope)


def multinomial(
    logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: Any = None
) -> Tensor:
    """Draw category numbers for each row of unnormalized log-probabilities."""
    with name_scope(name, "multinomial"):
        seed1, seed2 = get_seed(seed)
        return apply_op(
            "Multinomial",
            logits=convert_to_tensor(logits, name="logits"),
            num_samples=num_samples,
            seed=seed1,
            seed2=seed2,
            output_dtype=output_dtype,
        )


def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    return multinomial(logits, num_samples, seed, name or "categorical", dtype)


def random_gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw from Gamma distributions of given shape (alpha) and rate (beta), one sample of `shape` for each."""
    with name_scope(name, "random_gamma"):
        wanted = as_dtype(dtype)
        dims = _dims(shape)
        alpha = convert_to_tensor(alpha, wanted, name="alpha")
        rate = convert_to_tensor(1 if beta is None else beta, wanted, name="beta")
        whole = apply_op(
            "BroadcastArgs",
            s0=apply_op("Shape", input=alpha),
            s1=apply_op("Shape", input=rate),
        )
        alpha = apply_op("BroadcastTo", input=alpha, shape=whole)
        seed1, seed2 = get_seed(seed)
        draw = apply_op("RandomGamma", shape=dims, alpha=alpha, seed=seed1, seed2=seed2)
        tiny = constant(np.finfo(wanted.as_numpy_dtype).tiny, wanted)
        return apply_op("Maximum", x=tiny, y=apply_op("RealDiv", x=draw, y=rate))


def random_poisson(
    lam: Any, shape: Any, dtype: Any = dtypes.float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Draw from Poisson distributions of the given rates, one sample of `shape` for each."""
    with name_scope(name, "random_poisson"):
        seed1, seed2 = get_seed(seed)
        return apply_op("RandomPoissonV2", shape=_dims(shape), rate=lam, dtype=dtype, seed=seed1, seed2=seed2)


def _stateless(op: str, shape: Any, seed: Any, dtype: Any, scale: Any, shift: Any, name: str) -> Tensor:
    with name_scope(name) as scope:
        wanted = as_dtype(dtype)
        noise = apply_op(op, shape=_dims(shape), seed=seed, dtype=wanted)
        scaled = apply_op("Mul", x=noise, y=convert_to_tensor(scale, wanted))
        return apply_op("AddV2", x=scaled, y=convert_to_tensor(shift, wanted), name=scope)


def stateless_random_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Draw from a normal distribution by a seed of two integers: the same seed always gives the same numbers."""
    check_algorithm(alg)
    return _stateless("StatelessRandomNormal", shape, seed, dtype, stddev, mean, name or "stateless_random_normal")


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    check_algorithm(alg)
    return _stateless(
        "StatelessTruncatedNormal", shape, seed, dtype, stddev, mean, name or "stateless_truncated_normal"
    )


def check_algorithm(alg: Any) -> int:
    """Return the number of a generator of random bits: here that is Philox, which is also what is chosen by default.

    Raises:
        ValueError: it is another one, or none.
    """
    word = str(getattr(alg, "name", alg)).lower().replace("-", "_")
    number = {"philox": 1, "1": 1, "auto_select": 3, "autoselect": 3, "3": 3, "none": 3}.get(word)
    if number is None:
        raise ValueError(
            f"Argument `alg` got unsupported value {alg}. Supported values are philox for the Philox algorithm, "
            "and auto_select for auto-selection."
        )
    return number


def stateless_random_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Draw from a uniform distribution by a seed of two integers.

    Raises:
        ValueError: an integer type with only one of the bounds, an unsigned one with any, or another generator than
            Philox.
    """
    check_algorithm(alg)
    wanted = as_dtype(dtype)
    if wanted.is_unsigned and minval is not None:
        raise ValueError(
            f"Argument `dtype` got invalid value {wanted} when argument `minval` is not None. "
            "Please don't use unsigned integers in this case."
        )
    name = name or "stateless_random_uniform"
    if not wanted.is_integer:
        low = 0 if minval is None else minval
        high = 1 if maxval is None else maxval
        span: Any = high - low if isinstance(high, (int, float)) and isinstance(low, (int, float)) else None
        if span is None:
            span = apply_op("Sub", x=convert_to_tensor(high, wanted), y=convert_to_tensor(low, wanted))
        return _stateless("StatelessRandomUniform", shape, seed, dtype, span, low, name)
    if minval is None and maxval is None:
        return apply_op("StatelessRandomUniformFullInt", shape=_dims(shape), seed=seed, dtype=wanted, name=name)
    if minval is None or maxval is None:
        raise ValueError(f"For integer dtype {wanted.name}, minval and maxval must be both None or both non-None")
    return apply_op(
        "StatelessRandomUniformInt",
        shape=_dims(shape),
        seed=seed,
        minval=convert_to_tensor(minval, wanted),
        maxval=convert_to_tensor(maxval, wanted),
        name=name,
    )


def stateless_multinomial(
    logits: Any, num_samples: Any, seed: Any, output_dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    return apply_op(
        "StatelessMultinomial",
        logits=logits,
        num_samples=num_samples,
        seed=seed,
        output_dtype=output_dtype,
        name=name or "stateless_multinomial",
    )
