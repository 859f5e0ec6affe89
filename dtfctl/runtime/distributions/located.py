"""Distributions with a place and a width: normal, Laplace, Student's t, uniform."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    Distribution,
    broadcast_dynamic,
    broadcast_static,
    new_seed,
    parameter,
    require_same_floats,
)
from dtfctl.runtime.distributions.divergence import RegisterKL
from dtfctl.runtime.distributions.special import log_cdf_laplace, log_ndtr, ndtr


class _Located(Distribution):
    """Parameters that are broadcast against each other, scalar events."""

    def __init__(self, given: dict[str, Any], checks: Any, name: str, validate_args: bool, allow_nan_stats: bool):
        parameters = {**given, "validate_args": validate_args, "allow_nan_stats": allow_nan_stats, "name": name}
        with (
            tf.name_scope(name, values=list(given.values())) as scope,
            tf.control_dependencies(checks() if validate_args else []),
        ):
            self._own = {key: parameter(value, key) for key, value in given.items()}
            require_same_floats(*self._own.values())
        super().__init__(
            dtype=next(iter(self._own.values())).dtype,
            reparameterization_type=FULLY_REPARAMETERIZED,
            validate_args=validate_args,
            allow_nan_stats=allow_nan_stats,
            parameters=parameters,
            graph_parents=list(self._own.values()),
            name=scope,
        )

    def _batch_shape(self) -> Any:
        return broadcast_static(*(t.shape for t in self._own.values()))

    def _batch_shape_tensor(self) -> Any:
        return broadcast_dynamic(*self._own.values())


def _shapes(sample_shape: Any, *names: str) -> dict[str, Any]:
    return {name: tf.convert_to_tensor(sample_shape, dtype=tf.int32) for name in names}


class Normal(_Located):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Normal"
    ) -> None:
        given = {"loc": loc, "scale": scale}
        super().__init__(given, lambda: [tf.assert_positive(scale)], name, validate_args, allow_nan_stats)
        self.loc, self.scale = self._own["loc"], self._own["scale"]

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return _shapes(sample_shape, "loc", "scale")

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        drawn = tf.random_normal(self._shape_for(n), mean=0.0, stddev=1.0, dtype=self.loc.dtype, seed=seed)
        return drawn * self.scale + self.loc

    def _log_prob(self, value: Any) -> Any:
        return -0.5 * tf.square(self._z(value)) - (0.5 * math.log(2.0 * math.pi) + tf.log(self.scale))

    def _log_cdf(self, value: Any) -> Any:
        return log_ndtr(self._z(value))

    def _cdf(self, value: Any) -> Any:
        return ndtr(self._z(value))

    def _log_survival_function(self, value: Any) -> Any:
        return log_ndtr(-self._z(value))

    def _survival_function(self, value: Any) -> Any:
        return ndtr(-self._z(value))

    def _quantile(self, value: Any) -> Any:
        return tf.math.ndtri(value) * self.scale + self.loc

    def _entropy(self) -> Any:
        return 0.5 * math.log(2.0 * math.pi * math.e) + tf.log(self.scale * tf.ones_like(self.loc))

    def _mean(self) -> Any:
        return self.loc * tf.ones_like(self.scale)

    def _stddev(self) -> Any:
        return self.scale * tf.ones_like(self.loc)

    def _mode(self) -> Any:
        return self._mean()

    def _z(self, x: Any) -> Any:
        with tf.name_scope("standardize", values=[x]):
            return (x - self.loc) / self.scale


@RegisterKL(Normal, Normal)
def _normal_from_normal(a: Normal, b: Normal, name: Any = None) -> Any:
    with tf.name_scope(name, "kl_normal_normal", [a.loc, b.loc]):
        variance = tf.square(b.scale)
        ratio = tf.square(a.scale) / variance
        return tf.squared_difference(a.loc, b.loc) / (2.0 * variance) + 0.5 * (ratio - 1.0 - tf.log(ratio))


class Laplace(_Located):
    """The Laplace distribution: exp(-|x - loc| / scale) / (2 scale)."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Laplace"
    ) -> None:
        given = {"loc": loc, "scale": scale}
        super().__init__(given, lambda: [tf.assert_positive(scale)], name, validate_args, allow_nan_stats)
        self.loc, self.scale = self._own["loc"], self._own["scale"]

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return _shapes(sample_shape, "loc", "scale")

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        # From the open interval: -1 itself would give infinity.
        number = self.dtype.as_numpy_dtype
        low = np.nextafter(number(-1.0), number(0.0))
        drawn = tf.random_uniform(self._shape_for(n), minval=low, maxval=1.0, dtype=self.dtype, seed=seed)
        return self.loc - self.scale * tf.sign(drawn) * tf.log1p(-tf.abs(drawn))

    def _log_prob(self, value: Any) -> Any:
        return -tf.abs(self._z(value)) - (math.log(2.0) + tf.log(self.scale))

    def _log_cdf(self, value: Any) -> Any:
        return log_cdf_laplace(self._z(value))

    def _log_survival_function(self, value: Any) -> Any:
        return log_cdf_laplace(-self._z(value))

    def _cdf(self, value: Any) -> Any:
        z = self._z(value)
        return 0.5 + 0.5 * tf.sign(z) * (1.0 - tf.exp(-tf.abs(z)))

    def _entropy(self) -> Any:
        return math.log(2.0) + 1.0 + tf.log(self.scale + tf.zeros_like(self.loc))

    def _mean(self) -> Any:
        return self.loc + tf.zeros_like(self.scale)

    def _stddev(self) -> Any:
        return math.sqrt(2.0) * self.scale + tf.zeros_like(self.loc)

    def _mode(self) -> Any:
        return self._mean()

    def _z(self, x: Any) -> Any:
        return (x - self.loc) / self.scale


class StudentT(_Located):
    """Student's t with `df` degrees of freedom, moved by `loc` and stretched by `scale`."""

    def __init__(
        self,
        df: Any,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        given = {"df": df, "loc": loc, "scale": scale}
        super().__init__(given, lambda: [tf.assert_positive(df)], name, validate_args, allow_nan_stats)
        self.df, self.loc, self.scale = (self._own[key] for key in ("df", "loc", "scale"))

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return _shapes(sample_shape, "df", "loc", "scale")

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        # A normal over the root of a chi-square divided by its degrees of freedom.
        normal = tf.random_normal(self._shape_for(n), dtype=self.dtype, seed=seed)
        df = self.df * self._ones()
        chi = tf.random_gamma([n], 0.5 * df, beta=0.5, dtype=self.dtype, seed=new_seed(seed, "student_t"))
        return normal * tf.rsqrt(chi / df) * self.scale + self.loc

    def _log_prob(self, value: Any) -> Any:
        y = (value - self.loc) / self.scale
        normalization = (
            tf.log(tf.abs(self.scale))
            + 0.5 * tf.log(self.df)
            + 0.5 * math.log(math.pi)
            + tf.lgamma(0.5 * self.df)
            - tf.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * tf.log1p(y**2.0 / self.df) - normalization

    def _cdf(self, value: Any) -> Any:
        y = (value - self.loc) / tf.abs(self.scale)
        ones = tf.ones_like(self.df * y)
        below = 0.5 * tf.betainc(0.5 * self.df * ones, 0.5 * ones, self.df / (y**2.0 + self.df))
        return tf.where_v2(tf.less(y, 0.0), below, 1.0 - below)

    def _entropy(self) -> Any:
        ones = self._ones()[..., tf.newaxis]
        beta = tf.lbeta(tf.concat([ones * self.df[..., tf.newaxis], ones], -1) / 2.0)
        half = 0.5 * (self.df + 1.0)
        return (
            tf.log(tf.abs(self.scale))
            + 0.5 * tf.log(self.df)
            + beta
            + half * (tf.digamma(half) - tf.digamma(0.5 * self.df))
        )

    def _mean(self) -> Any:
        return self._where_defined("mean", self.loc * self._ones())

    def _variance(self) -> Any:
        # The inner choice keeps NaN out of the gradient.
        above = tf.where_v2(tf.greater(self.df, 2.0), self.df - 2.0, tf.ones_like(self.df))
        finite = self._ones() * tf.square(self.scale) * self.df / above
        infinite = tf.fill(self.batch_shape_tensor(), np.array(np.inf, self.dtype.as_numpy_dtype), name="inf")
        return self._where_defined("variance", tf.where_v2(self.df > 2.0 * self._ones(), finite, infinite))

    def _mode(self) -> Any:
        return tf.identity(self.loc)

    def _where_defined(self, what: str, value: Any) -> Any:
        one = tf.ones([], dtype=self.dtype)
        if self.allow_nan_stats:
            nan = tf.fill(self.batch_shape_tensor(), np.array(np.nan, self.dtype.as_numpy_dtype), name="nan")
            return tf.where_v2(tf.greater(self.df, self._ones()), value, nan)
        check = tf.assert_less(one, self.df, message=f"{what} not defined for components of df <= 1")
        with tf.control_dependencies([check]):
            return tf.identity(value)


class Uniform(_Located):
    """The uniform distribution over [low, high)."""

    def __init__(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        def checks() -> Any:
            return [tf.assert_less(low, high, message="uniform not defined when low >= high.")]

        super().__init__({"low": low, "high": high}, checks, name, validate_args, allow_nan_stats)
        self.low, self.high = self._own["low"], self._own["high"]

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return _shapes(sample_shape, "low", "high")

    def range(self, name: str = "range") -> Any:
        """Return `high - low`."""
        with self._scope(name):
            return self.high - self.low

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        drawn = tf.random_uniform(self._shape_for(n), dtype=self.dtype, seed=seed)
        return self.low + self.range() * drawn

    def _prob(self, value: Any) -> Any:
        x = value * tf.ones(self.batch_shape_tensor(), dtype=value.dtype)
        outside = tf.logical_or(x < self.low, x >= self.high)
        density = tf.where_v2(outside, tf.zeros_like(x), tf.ones_like(x) / self.range())
        return tf.where_v2(tf.is_nan(x), x, density)

    def _cdf(self, value: Any) -> Any:
        shape = tf.broadcast_dynamic_shape(tf.shape(value), self.batch_shape_tensor())
        zeros, ones = tf.zeros(shape, dtype=self.dtype), tf.ones(shape, dtype=self.dtype)
        inside = tf.where_v2(value < self.low, zeros, (value * ones - self.low) / self.range())
        return tf.where_v2(value >= self.high, ones, inside)

    def _entropy(self) -> Any:
        return tf.log(self.range())

    def _mean(self) -> Any:
        return (self.low + self.high) / 2.0

    def _variance(self) -> Any:
        return tf.square(self.range()) / 12.0

    def _stddev(self) -> Any:
        return self.range() / math.sqrt(12.0)
