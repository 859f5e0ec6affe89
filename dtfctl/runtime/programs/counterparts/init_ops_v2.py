"""`tensorflow.python.ops.init_ops_v2`: initializers that are made without a type, which comes with the shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.ops import init_ops

_PARTITION = ("partition_shape", "partition_offset")


class Initializer:
    """Makes the first value of a variable from its shape and type."""

    made: Any = None

    def __call__(self, shape: Any, dtype: Any = tf.float32, **kwargs: Any) -> Any:
        unknown = [key for key in kwargs if key not in _PARTITION]
        if unknown:
            raise TypeError(f"Keyword argument should be one of {list(_PARTITION)}. Received: {unknown[0]}")
        self._check(tf.as_dtype(dtype), bool(kwargs))
        return self.made(kwargs.get("partition_shape", shape), dtype=tf.as_dtype(dtype))

    def _check(self, dtype: Any, partitioned: bool) -> None:
        if not (dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex):
            raise ValueError(f"Argument `dtype` expected to be numeric or boolean. Received {dtype}.")

    def get_config(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "made"}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**{key: value for key, value in config.items() if key != "dtype"})


class _OfFloats(Initializer):
    def _check(self, dtype: Any, partitioned: bool) -> None:
        if not dtype.is_floating:
            raise ValueError(f"Argument `dtype` expected to be numeric or boolean. Received {dtype}.")


class _Whole(_OfFloats):
    def _check(self, dtype: Any, partitioned: bool) -> None:
        super()._check(dtype, partitioned)
        if partitioned:
            raise ValueError(f"{type(self).__name__} initializer doesn't support partition-related arguments")


class Zeros(Initializer):
    """Fills a variable with zeros."""

    made = staticmethod(tf.zeros_initializer())


class Ones(Initializer):
    """Fills a variable with ones."""

    made = staticmethod(tf.ones_initializer())


class Constant(Initializer):
    """One number, or numbers."""

    def __init__(self, value: Any = 0, support_partition: bool = False) -> None:
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                f"Invalid type for initial value: {type(value).__name__}. "
                "Expected Python scalar, list or tuple of values, or numpy.ndarray."
            )
        self.value, self.support_partition = value, support_partition

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if kwargs and not self.support_partition:
            raise ValueError("Constant initializer doesn't support partition-related arguments")
        return tf.constant(self.value, dtype=dtype, shape=shape)

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value}


class RandomUniform(Initializer):
    """Numbers drawn between two."""

    def __init__(self, minval: Any = -0.05, maxval: Any = 0.05, seed: Any = None) -> None:
        self.minval, self.maxval, self.seed = minval, maxval, seed
        self.made = tf.random_uniform_initializer(minval, maxval, seed)


class RandomNormal(_OfFloats):
    """Numbers drawn from a normal distribution."""

    def __init__(self, mean: Any = 0.0, stddev: Any = 0.05, seed: Any = None) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed
        self.made = tf.random_normal_initializer(mean, stddev, seed)


class TruncatedNormal(_OfFloats):
    """Numbers drawn from a normal distribution, within two deviations."""

    def __init__(self, mean: Any = 0.0, stddev: Any = 0.05, seed: Any = None) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed
        self.made = tf.truncated_normal_initializer(mean, stddev, seed)


class VarianceScaling(_OfFloats):
    """Numbers drawn with a variance by how many inputs and outputs a layer has."""

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: Any = None,
    ) -> None:
        if scale <= 0.0:
            raise ValueError(f"Argument `scale` must be a positive float. Received: {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Argument `mode` should be one of ('fan_in', 'fan_out', 'fan_avg'). Received: {mode}")
        kind = {"normal": "truncated_normal"}.get(distribution.lower(), distribution.lower())
        if kind not in ("uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(
                "Argument `distribution` should be one of ('uniform', 'truncated_normal', 'untruncated_normal'). "
                f"Received: {kind}"
            )
        self.scale, self.mode, self.distribution, self.seed = scale, mode, kind, seed
        self.made = tf.variance_scaling_initializer(scale, mode, kind, seed)


class Orthogonal(_Whole):
    """A matrix of orthogonal rows or columns."""

    def __init__(self, gain: float = 1.0, seed: Any = None) -> None:
        self.gain, self.seed = gain, seed
        self.made = tf.orthogonal_initializer(gain, seed)


class Identity(_Whole):
    """The identity matrix, scaled."""

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def made(self, shape: Any, dtype: Any) -> Any:
        if len(shape) != 2:
            raise ValueError(
                f"The tensor to initialize, specified by argument `shape` must be at least two-dimensional. "
                f"Received shape={shape}"
            )
        return tf.eye(shape[0], shape[1], dtype=dtype) * self.gain


class GlorotUniform(VarianceScaling):
    """Glorot's uniform numbers."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed}


class GlorotNormal(VarianceScaling):
    """Glorot's normal numbers."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed}


def lecun_normal(seed: Any = None) -> Any:
    """Make an initializer of normal numbers of variance 1 / inputs."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: Any = None) -> Any:
    """Make an initializer of uniform numbers of variance 1 / inputs."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def he_normal(seed: Any = None) -> Any:
    """Make an initializer of normal numbers of variance 2 / inputs."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: Any = None) -> Any:
    """Make an initializer of uniform numbers of variance 2 / inputs."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


# TensorFlow 1.15's second names of them.
zeros, ones, constant = Zeros, Ones, Constant
random_uniform, random_normal, truncated_normal = RandomUniform, RandomNormal, TruncatedNormal
variance_scaling, orthogonal, identity = VarianceScaling, Orthogonal, Identity
glorot_uniform, glorot_normal = GlorotUniform, GlorotNormal

_compute_fans = init_ops._fans
