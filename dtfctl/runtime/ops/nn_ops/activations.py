"""Activations, biases and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import get_seed, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.nn_ops.common import reduce_over, shape_of
from dtfctl.runtime.ops.op_defs.array import reshape_to
from dtfctl.runtime.ops.op_defs.nn import relu
from dtfctl.runtime.ops.operands import apply_mixed


def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """Compute log(sigmoid(x)), exact for large negative x too."""
    with name_scope(name, "LogSigmoid") as scope:
        minus = apply_op("Neg", x=convert_to_tensor(x))
        return apply_op("Neg", scope, x=apply_op("Softplus", features=minus))


def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Tensor:
    """Compute x where positive, else alpha x."""
    with name_scope(name, "LeakyRelu") as scope:
        features = convert_to_tensor(features, name="features")
        if features.dtype.base_dtype.is_integer:
            features = apply_op("Cast", x=features, DstT=dtypes.float32)
        if isinstance(alpha, (int, float, np.number)):
            return apply_op("LeakyRelu", features=features, alpha=float(alpha), name=scope)
        return apply_mixed("Maximum", apply_mixed("Mul", alpha, features), features, name=scope)


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """Put the relu of the features and of their negation side by side (Shang et al. 2016)."""
    with name_scope(name, "CRelu") as scope:
        features = convert_to_tensor(features, name="features")
        both = apply_op("ConcatV2", values=[features, apply_mixed("Neg", features)], axis=axis, name=scope)
        return relu(both)


def swish(features: Any, beta: Any = 1.0) -> Tensor:
    """Compute x sigmoid(x)."""
    features = convert_to_tensor(features, name="features")
    return apply_mixed("Mul", features, apply_mixed("Sigmoid", apply_mixed("Mul", features, beta)))


silu = swish


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Compute relu(x w + b)."""
    with name_scope(name, "relu_layer") as scope:
        return relu(apply_op("BiasAdd", value=apply_op("MatMul", a=x, b=weights), bias=biases), name=scope)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Compute x w + b."""
    with name_scope(name, "xw_plus_b") as scope:
        return apply_op("BiasAdd", value=apply_op("MatMul", a=x, b=weights), bias=biases, name=scope)


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Add the bias to each index of the channel dimension."""
    if data_format is not None:
        if data_format not in ("NHWC", "NCHW", "NWC", "NCW", "NDHWC", "NCDHW", "N...C", "NC..."):
            raise ValueError(
                "`data_format` must be of the form `N...C` or `NC...`. " + f"Received: data_format={data_format}"
            )
        data_format = "NCHW" if data_format.startswith("NC") else "NHWC"
    with name_scope(name, "BiasAdd") as scope:
        value = convert_to_tensor(value, name="input")
        bias = convert_to_tensor(bias, value.dtype.base_dtype, name="bias")
        return apply_op("BiasAdd", value=value, bias=bias, data_format=data_format, name=scope)


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Set elements to zero with probability `rate`, and scale the others to keep the sum.

    Raises:
        ValueError: neither or both of keep_prob and rate, or a rate outside [0, 1), or x is not floating.
    """
    if keep_prob is not None:
        if rate is not None:
            raise ValueError("Only one of `rate` and `keep_prob` can be given to dropout")
        rate = 1 - keep_prob if isinstance(keep_prob, (int, float)) else apply_mixed("Sub", 1.0, keep_prob)
    if rate is None:
        raise ValueError("`rate` must be provided to dropout")
    number = isinstance(rate, (int, float))
    if number and not 0 <= rate < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}")
    with name_scope(name, "dropout"):
        values = convert_to_tensor(x, name="x")
        dtype = values.dtype.base_dtype
        if not dtype.is_floating:
            raise ValueError(
                "`x.dtype` must be a floating point tensor as `x` will be scaled. " + f"Received: x.dtype={dtype}"
            )
        if number and rate == 0:
            # The random ops that follow are numbered as if there were one here.
            get_seed(seed)
            return values
        if number:
            scaled = apply_mixed("Mul", values, 1 / (1 - rate))
        else:
            rate = convert_to_tensor(rate, dtype, name="rate")
            scaled = apply_mixed("RealDiv", values, apply_mixed("Sub", 1.0, rate, "Sub"), "RealDiv")
        shape = _noise_shape(values, noise_shape)
        seed1, seed2 = get_seed(seed)
        with name_scope("random_uniform"):
            noise = apply_op("RandomUniform", shape=shape, dtype=dtype, seed=seed1, seed2=seed2)
        keep = apply_mixed("GreaterEqual", noise, rate)
        out: Tensor = apply_op("SelectV2", condition=keep, t=scaled, e=constant(0, dtype))
        out.set_shape(values.shape)
        return out


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    if noise_shape is None:
        return constant(list(x.shape.known()), dtypes.int32) if x.shape.is_fully_defined() else shape_of(x)
    if isinstance(noise_shape, (list, tuple)) and None in noise_shape and x.shape.rank == len(noise_shape):
        filled = [x.shape[i].value if d is None else d for i, d in enumerate(noise_shape)]
        if None not in filled:
            return constant(filled, dtypes.int32)
    return noise_shape


def softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """Compute exp(x) / sum(exp(x)) along an axis."""
    return _along_last("Softmax", logits, axis if axis is not None else dim, name)


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """Compute x - log(sum(exp(x))) along an axis."""
    return _along_last("LogSoftmax", logits, axis if axis is not None else dim, name)


def _along_last(op: str, logits: Any, axis: int | None, name: str | None) -> Tensor:
    """Apply an op of the last dimension to any: that dimension is moved there and back."""
    logits = convert_to_tensor(logits)
    rank = logits.shape.rank
    axis = -1 if axis is None else axis
    if axis == -1 or (rank is not None and axis == rank - 1):
        return apply_op(op, logits=logits, name=name)
    if rank is None:
        raise ValueError(f"{op} of axis {axis} needs logits of known rank")
    if not -rank <= axis < rank:
        raise ValueError(f"`axis` must be in the range [{-rank}, {rank}) where {rank} is the number of dimensions")
    order = list(range(rank))
    order[axis % rank], order[-1] = order[-1], order[axis % rank]
    moved = apply_op(op, logits=apply_op("Transpose", "transpose", x=logits, perm=order))
    out: Tensor = apply_op("Transpose", name or "transpose", x=moved, perm=order)
    out.set_shape(logits.shape)
    return out


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """Compute the fraction of elements that are zero."""
    with name_scope(name, "zero_fraction"):
        value = convert_to_tensor(value, name="value")
        zero = apply_mixed("Equal", value, constant(0, value.dtype.base_dtype))
        flat = reshape_to(apply_op("Cast", x=zero, DstT=dtypes.float32), constant([-1]))
        return reduce_over("Mean", flat, [0], name="fraction")
