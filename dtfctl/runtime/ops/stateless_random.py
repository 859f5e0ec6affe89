"""Random numbers that depend on a seed of two numbers alone."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.check_ops import assert_greater_equal
from dtfctl.runtime.ops.random_ops import check_algorithm, stateless_multinomial, stateless_random_uniform


class Algorithm(enum.Enum):
    """Generators of random bits."""

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


def _shaped(result: Tensor, shape: Any) -> Tensor:
    known = constant_value(shape) if isinstance(shape, Tensor) else shape
    if known is not None:
        result.set_shape(TensorShape([int(n) for n in np.ravel(known)]))
    return result


def _sizes(shape: Any) -> Tensor:
    dtype = None if isinstance(shape, (Tensor, np.ndarray)) else dtypes.int32
    return convert_to_tensor(shape, dtype, name="shape")


def split(seed: Any, num: int = 2, alg: str = "auto_select") -> Tensor:
    """Make seeds [num, 2] of one."""
    seed = convert_to_tensor(seed)
    return stateless_random_uniform([num, 2], seed, None, None, seed.dtype, alg=alg)


def fold_in(seed: Any, data: Any, alg: str = "auto_select") -> Tensor:
    """Make a seed, [2], of a seed and a number."""
    data = convert_to_tensor(data)
    return array_ops.stack([stateless_random_uniform([], seed, None, None, data.dtype, alg=alg), data])


def index_shuffle(index: Any, seed: Any, max_index: Any) -> Tensor:
    """Return where an index is in a random order of 0 to `max_index`, both included."""
    seed = convert_to_tensor(seed)
    rest = [] if seed.shape.rank is None else [[0, 0]] * (seed.shape.rank - 1)
    padded = array_ops.pad(seed, [[1, 0], *rest], constant_values=498247692)
    return apply_op("RandomIndexShuffle", index=index, seed=padded, max_index=max_index, rounds=4)


def stateless_shuffle(value: Any, seed: Any, alg: str = "auto_select", name: str | None = None) -> Tensor:
    """Put the rows of a tensor into a random order."""
    with name_scope(name, "stateless_shuffle"):
        key, counter = apply_op_outputs("StatelessRandomGetKeyCounter", seed=seed)
        return apply_op("StatelessShuffle", value=value, key=key, counter=counter, alg=check_algorithm(alg))


def stateless_random_binomial(
    shape: Any, seed: Any, counts: Any, probs: Any, output_dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Draw how many of `counts` trials succeed."""
    with name_scope(name, "stateless_random_binomial"):
        probs = convert_to_tensor(probs, name="probs")
        result = apply_op(
            "StatelessRandomBinomial",
            shape=_sizes(shape),
            seed=seed,
            counts=convert_to_tensor(counts, probs.dtype.base_dtype, name="counts"),
            probs=probs,
            dtype=as_dtype(output_dtype),
        )
        return _shaped(result, shape)


def stateless_random_gamma(
    shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Draw from gamma distributions of shape `alpha` and rate `beta` (1: None), which follow the first dimensions."""
    with name_scope(name, "stateless_random_gamma"):
        alpha = convert_to_tensor(alpha, as_dtype(dtype), name="alpha")
        beta = convert_to_tensor(1 if beta is None else beta, as_dtype(dtype), name="beta")
        both = array_ops.broadcast_dynamic_shape(array_ops.shape(alpha), array_ops.shape(beta))
        key, counter = apply_op_outputs("StatelessRandomGetKeyCounter", seed=seed)
        drawn = apply_op(
            "StatelessRandomGammaV3",
            shape=_sizes(shape),
            key=key,
            counter=counter,
            alg=Algorithm.AUTO_SELECT.value,
            alpha=array_ops.broadcast_to(alpha, both),
        )
        tiny = np.finfo(alpha.dtype.as_numpy_dtype).tiny
        return _shaped(math_ops.maximum(convert_to_tensor(tiny, alpha.dtype), drawn / beta), shape)


def stateless_random_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Draw from Poisson distributions of mean `lam`, which follow the first dimensions."""
    with name_scope(name, "stateless_random_poisson"):
        drawn = apply_op("StatelessRandomPoisson", shape=_sizes(shape), seed=seed, lam=lam, dtype=as_dtype(dtype))
        return _shaped(drawn, shape)


def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Draw classes [batch, num_samples] by their logits [batch, classes]."""
    with name_scope(name, "stateless_categorical"):
        return stateless_multinomial(logits, num_samples, seed, dtype)


def stateless_parameterized_truncated_normal(
    shape: Any,
    seed: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    name: str | None = None,
) -> Tensor:
    """Draw from normal distributions cut off at bounds; parameters follow the last dimensions."""
    with name_scope(name, "stateless_parameterized_truncated_normal"):
        parameters = {"means": means, "stddevs": stddevs, "minvals": minvals, "maxvals": maxvals}
        tensors: dict[str, Any] = {key: convert_to_tensor(value, name=key) for key, value in parameters.items()}
        drawn = apply_op("StatelessParameterizedTruncatedNormal", shape=_sizes(shape), seed=seed, **tensors)
        return _shaped(drawn, shape)


def stateless_random_crop(value: Any, size: Any, seed: Any, name: str | None = None) -> Tensor:
    """Cut a part of a size out of a tensor, somewhere."""
    with name_scope(name, "random_crop") as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtypes.int32, name="size")
        shape = array_ops.shape(value)
        check = assert_greater_equal(shape, size, message="Need value.shape >= size, got ")
        with value.graph.control_dependencies([check]):
            limit = array_ops.identity(shape) - size + 1
        drawn = stateless_random_uniform(array_ops.shape(shape), seed, 0, dtypes.int32.max, dtypes.int32)
        return array_ops.slice(value, drawn % limit, size, name=scope)
