"""Initializers: callables `(shape, dtype, partition_info) -> Tensor`, with TF1's names and defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import get_seed, name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape


class PartitionInfo:
    """Which part of a partitioned variable an initializer makes: the whole's shape and this part's offset."""

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        self.full_shape = list(full_shape)
        self.var_offset = list(var_offset)

    def single_slice_dim(self, shape: Sequence[int]) -> int | None:
        cut = [i for i, (full, part) in enumerate(zip(self.full_shape, shape)) if full != part]
        if len(cut) > 1:
            raise ValueError(f"Cannot use single_slice_dim() with shape {list(shape)}: several dimensions are cut")
        return cut[0] if cut else None


class Initializer:
    """Base of all initializers; `get_config` and `from_config` save and restore one."""

    dtype: DType

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {k: v.name if isinstance(v, DType) else v for k, v in vars(self).items()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        return cls(**config)


def _shape_list(shape: Any) -> Any:
    if isinstance(shape, Tensor):
        return shape
    return list(TensorShape(shape).known())


def _float(dtype: Any) -> DType:
    wanted = as_dtype(dtype)
    if not (wanted.is_floating or wanted.is_complex):
        raise ValueError(f"Expected floating point type, got {wanted.name}.")
    return wanted


class Zeros(Initializer):
    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        return _filled(shape, as_dtype(dtype or self.dtype), 0)


class Ones(Initializer):
    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        return _filled(shape, as_dtype(dtype or self.dtype), 1)


def _filled(shape: Any, dtype: DType, value: int) -> Tensor:
    zero: Any = value
    if dtype is dtypes.string:
        zero = b""
    elif dtype.is_bool:
        zero = bool(value)
    with name_scope(None, "ones" if value else "zeros") as scope:
        dims = _shape_list(shape)
        if not isinstance(dims, Tensor) and (count := int(np.prod(dims))) < 1000:
            return constant(zero if count else [], dtype, dims, name=scope)
        out: Tensor = apply_op("Fill", dims=_dims(shape), value=constant(zero, dtype), name=scope)
        return out


def _dims(shape: Any, name: str | None = None) -> Tensor:
    return convert_to_tensor(_shape_list(shape), name=name, preferred_dtype=dtypes.int32)


class Constant(Initializer):
    """A constant; a list or array of the right number of elements is reshaped."""

    def __init__(self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False) -> None:
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(f"Invalid type for initial value={value} of type {type(value).__name__}")
        self.value, self.dtype = value, as_dtype(dtype)
        self._verify_shape = verify_shape

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value, "dtype": self.dtype.name}

    def __call__(
        self,
        shape: Any,
        dtype: Any = None,
        partition_info: PartitionInfo | None = None,
        verify_shape: bool | None = None,
    ) -> Tensor:
        verify = self._verify_shape if verify_shape is None else verify_shape
        return constant(self.value, dtype or self.dtype, _shape_list(shape), verify_shape=verify)


class RandomUniform(Initializer):
    def __init__(
        self, minval: Any = 0, maxval: Any = None, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.minval, self.maxval, self.seed, self.dtype = minval, maxval, seed, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        return uniform(shape, self.minval, self.maxval, as_dtype(dtype or self.dtype), self.seed)


class RandomNormal(Initializer):
    def __init__(
        self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.mean, self.stddev, self.seed, self.dtype = mean, stddev, seed, _float(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        return _normal("RandomStandardNormal", shape, self.mean, self.stddev, as_dtype(dtype or self.dtype), self.seed)


class TruncatedNormal(Initializer):
    """Normal, values further than two standard deviations from the mean drawn again."""

    def __init__(
        self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.mean, self.stddev, self.seed, self.dtype = mean, stddev, seed, _float(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        return _normal("TruncatedNormal", shape, self.mean, self.stddev, as_dtype(dtype or self.dtype), self.seed)


def _normal(op: str, shape: Any, mean: float, stddev: float, dtype: DType, seed: int | None) -> Tensor:
    with name_scope(None, "truncated_normal" if op == "TruncatedNormal" else "random_normal") as scope:
        dims = _dims(shape, "shape")
        middle, spread = constant(mean, dtype, name="mean"), constant(stddev, dtype, name="stddev")
        first, second = get_seed(seed)
        noise = apply_op(op, shape=dims, dtype=dtype, seed=first, seed2=second)
        scaled = apply_op("Mul", x=noise, y=spread, name="mul")
        return apply_op("AddV2", x=scaled, y=middle, name=scope)


def uniform(shape: Any, minval: Any, maxval: Any, dtype: DType, seed: int | None) -> Tensor:
    if dtype.is_integer and maxval is None:
        raise ValueError("Must specify maxval for integer dtype")
    with name_scope(None, "random_uniform") as scope:
        dims = _dims(shape, "shape")
        low = convert_to_tensor(minval, dtype, name="min")
        high = convert_to_tensor(1 if maxval is None else maxval, dtype, name="max")
        first, second = get_seed(seed)
        if dtype.is_integer:
            return apply_op(
                "RandomUniformInt", shape=dims, minval=low, maxval=high, seed=first, seed2=second, name=scope
            )
        noise = apply_op("RandomUniform", shape=dims, dtype=dtype, seed=first, seed2=second)
        span = apply_op("Sub", x=high, y=low, name="sub")
        return apply_op("AddV2", x=apply_op("Mul", x=noise, y=span, name="mul"), y=low, name=scope)


class VarianceScaling(Initializer):
    """Noise whose variance is `scale / n`, n the number of inputs, outputs or their mean.

    Args:
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "uniform", "truncated_normal" (also "normal") or "untruncated_normal".
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        if scale <= 0.0:
            raise ValueError(f"Argument `scale` must be a positive float. Received: {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Argument `mode` should be one of fan_in, fan_out, fan_avg. Received: {mode}")
        distribution = distribution.lower()
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(f"Unknown distribution {distribution!r}")
        self.scale, self.mode, self.distribution, self.seed, self.dtype = scale, mode, distribution, seed, _float(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        wanted = as_dtype(dtype or self.dtype)
        fan_in, fan_out = _fans(partition_info.full_shape if partition_info else _shape_list(shape))
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        scale = self.scale / max(1.0, n)
        if self.distribution in ("normal", "truncated_normal"):
            # Standard deviation of a unit normal cut at two: so that the variance is what was asked for.
            return _normal("TruncatedNormal", shape, 0.0, math.sqrt(scale) / 0.87962566103423978, wanted, self.seed)
        if self.distribution == "untruncated_normal":
            return _normal("RandomStandardNormal", shape, 0.0, math.sqrt(scale), wanted, self.seed)
        limit = math.sqrt(3.0 * scale)
        return uniform(shape, -limit, limit, wanted, self.seed)


class GlorotUniform(VarianceScaling):
    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed, "dtype": self.dtype.name}


class GlorotNormal(VarianceScaling):
    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed, "dtype": self.dtype.name}


class UniformUnitScaling(Initializer):
    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.factor, self.seed, self.dtype = factor, seed, _float(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        dims = partition_info.full_shape if partition_info else _shape_list(shape)
        size = 1.0
        for dim in dims[:-1]:
            size *= float(dim)
        limit = math.sqrt(3 / max(size, 1.0)) * self.factor
        return uniform(shape, -limit, limit, as_dtype(dtype or self.dtype), self.seed)


class Orthogonal(Initializer):
    """A (semi-)orthogonal matrix from the QR factors of normal noise; higher ranks are flattened to 2-D."""

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.gain, self.seed, self.dtype = gain, seed, _float(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        wanted, dims = as_dtype(dtype or self.dtype), _shape_list(shape)
        if len(dims) < 2:
            raise ValueError("The tensor to initialize must be at least two-dimensional")
        rows, cols = int(np.prod(dims[:-1])), dims[-1]
        noise = _normal("RandomStandardNormal", [max(rows, cols), min(rows, cols)], 0.0, 1.0, wanted, self.seed)
        q, r = apply_op_outputs("Qr", input=noise, full_matrices=False)
        sign = apply_op("Sign", x=apply_op("MatrixDiagPart", input=r))
        q = apply_op("Mul", x=q, y=sign)
        if rows < cols:
            q = apply_op("Transpose", x=q, perm=[1, 0])
        return apply_op("Mul", x=apply_op("Reshape", tensor=q, shape=dims), y=constant(self.gain, wanted))


class Identity(Initializer):
    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        self.gain, self.dtype = gain, _float(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        dims = _shape_list(shape)
        if len(dims) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices.")
        wanted = as_dtype(dtype or self.dtype)
        return constant(np.eye(*dims, dtype=wanted.np) * wanted.as_numpy_dtype(self.gain), wanted)


def _fans(shape: Sequence[int]) -> tuple[float, float]:
    if len(shape) < 1:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    field = float(np.prod(shape[:-2])) if len(shape) > 2 else 1.0
    return shape[-2] * field, shape[-1] * field


def lecun_normal(seed: int | None = None) -> VarianceScaling:
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def he_normal(seed: int | None = None) -> VarianceScaling:
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> VarianceScaling:
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Constant
random_uniform_initializer = RandomUniform
random_normal_initializer = RandomNormal
truncated_normal_initializer = TruncatedNormal
variance_scaling_initializer = VarianceScaling
glorot_uniform_initializer = GlorotUniform
glorot_normal_initializer = GlorotNormal
uniform_unit_scaling_initializer = UniformUnitScaling
orthogonal_initializer = Orthogonal
