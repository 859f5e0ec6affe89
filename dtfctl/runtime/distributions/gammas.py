"""Distributions made of gamma variables: gamma, exponential, beta, Dirichlet."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    Distribution,
    broadcast_dynamic,
    broadcast_static,
    guarded,
    new_seed,
    parameter,
    require_same_floats,
)
from dtfctl.runtime.distributions.divergence import RegisterKL


class Gamma(Distribution):
    """The gamma distribution with shape `concentration` and inverse scale `rate`."""

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        given = dict(locals())
        with tf.name_scope(name, values=[concentration, rate]) as scope:
            checks = [tf.assert_positive(concentration), tf.assert_positive(rate)] if validate_args else []
            with tf.control_dependencies(checks):
                self.concentration = parameter(concentration, "concentration")
                self.rate = parameter(rate, "rate")
                require_same_floats(self.concentration, self.rate)
        super().__init__(
            self.concentration.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self.concentration, self.rate],
            scope,
        )

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return {key: tf.convert_to_tensor(sample_shape, dtype=tf.int32) for key in ("concentration", "rate")}

    def _batch_shape(self) -> Any:
        return broadcast_static(self.concentration.shape, self.rate.shape)

    def _batch_shape_tensor(self) -> Any:
        return broadcast_dynamic(self.concentration, self.rate)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        return tf.random_gamma([n], self.concentration, beta=self.rate, dtype=self.dtype, seed=seed)

    def _log_prob(self, value: Any) -> Any:
        x = self._sample(value)
        normalization = tf.lgamma(self.concentration) - self.concentration * tf.log(self.rate)
        return tf.math.xlogy(self.concentration - 1.0, x) - self.rate * x - normalization

    def _cdf(self, value: Any) -> Any:
        x = self.rate * self._sample(value)
        return tf.igamma(self.concentration * tf.ones_like(x), x)

    def _entropy(self) -> Any:
        return (
            self.concentration
            - tf.log(self.rate)
            + tf.lgamma(self.concentration)
            + (1.0 - self.concentration) * tf.digamma(self.concentration)
        )

    def _mean(self) -> Any:
        return self.concentration / self.rate

    def _variance(self) -> Any:
        return self.concentration / tf.square(self.rate)

    def _stddev(self) -> Any:
        return tf.sqrt(self.concentration) / self.rate

    def _mode(self) -> Any:
        mode = (self.concentration - 1.0) / self.rate
        if self.allow_nan_stats:
            return tf.where_v2(self.concentration > 1.0, mode, _nan(self.batch_shape_tensor(), self.dtype))
        one = tf.ones([], self.dtype)
        message = "mode not defined when any concentration <= 1"
        return guarded([tf.assert_less(one, self.concentration, message=message)], mode)

    def _sample(self, x: Any) -> Any:
        require_same_floats(x, self.concentration)
        return guarded([tf.assert_positive(x)], x) if self.validate_args else x


def _nan(shape: Any, dtype: Any) -> Any:
    return tf.fill(shape, np.array(np.nan, dtype.as_numpy_dtype), name="nan")


@RegisterKL(Gamma, Gamma)
def _gamma_from_gamma(a: Gamma, b: Gamma, name: Any = None) -> Any:
    with tf.name_scope(name, "kl_gamma_gamma", [a.concentration, a.rate, b.concentration, b.rate]):
        return (
            (a.concentration - b.concentration) * tf.digamma(a.concentration)
            + tf.lgamma(b.concentration)
            - tf.lgamma(a.concentration)
            + b.concentration * tf.log(a.rate)
            - b.concentration * tf.log(b.rate)
            + a.concentration * (b.rate / a.rate - 1.0)
        )


class Exponential(Gamma):
    """The exponential distribution: rate exp(-rate x)."""

    def __init__(
        self, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Exponential"
    ) -> None:
        given = {"rate": rate, "validate_args": validate_args, "allow_nan_stats": allow_nan_stats, "name": name}
        with tf.name_scope(name, values=[rate]) as scope:
            rate = tf.convert_to_tensor(rate, name="rate")
        one = tf.ones([], dtype=rate.dtype)
        super().__init__(one, rate, validate_args=validate_args, allow_nan_stats=allow_nan_stats, name=scope)
        self._parameters = given

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return {"rate": tf.convert_to_tensor(sample_shape, dtype=tf.int32)}

    def _log_survival_function(self, value: Any) -> Any:
        return self._log_prob(value) - tf.log(self.rate)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        # From the open interval: 0 itself would give infinity.
        tiny = np.finfo(self.dtype.as_numpy_dtype).tiny
        shape = tf.concat([[n], tf.shape(self.rate)], 0)
        drawn = tf.random_uniform(shape, minval=tiny, maxval=1.0, seed=seed, dtype=self.dtype)
        return -tf.log(drawn) / self.rate


class Beta(Distribution):
    """The beta distribution: x^(concentration1 - 1) (1 - x)^(concentration0 - 1), normalized."""

    def __init__(
        self,
        concentration1: Any = None,
        concentration0: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        given = dict(locals())
        with tf.name_scope(name, values=[concentration1, concentration0]) as scope:
            self.concentration1 = _positive(tf.convert_to_tensor(concentration1, name="concentration1"), validate_args)
            self.concentration0 = _positive(tf.convert_to_tensor(concentration0, name="concentration0"), validate_args)
            require_same_floats(self.concentration1, self.concentration0)
            self.total_concentration = self.concentration1 + self.concentration0
        super().__init__(
            self.total_concentration.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self.concentration1, self.concentration0, self.total_concentration],
            scope,
        )

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return {key: tf.convert_to_tensor(sample_shape, dtype=tf.int32) for key in ("concentration1", "concentration0")}

    def _batch_shape(self) -> Any:
        return self.total_concentration.shape

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self.total_concentration)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        ones = tf.ones_like(self.total_concentration, dtype=self.dtype)
        first = tf.random_gamma([n], ones * self.concentration1, dtype=self.dtype, seed=seed)
        second = tf.random_gamma([n], ones * self.concentration0, dtype=self.dtype, seed=new_seed(seed, "beta"))
        return first / (first + second)

    def _log_prob(self, value: Any) -> Any:
        x = self._sample(value)
        likelihood = tf.math.xlogy(self.concentration1 - 1.0, x) + (self.concentration0 - 1.0) * tf.log1p(-x)
        return likelihood - self._log_normalization()

    def _cdf(self, value: Any) -> Any:
        ones = tf.ones_like(self.total_concentration * value)
        return tf.betainc(self.concentration1 * ones, self.concentration0 * ones, value * ones)

    def _log_normalization(self) -> Any:
        return tf.lgamma(self.concentration1) + tf.lgamma(self.concentration0) - tf.lgamma(self.total_concentration)

    def _entropy(self) -> Any:
        return (
            self._log_normalization()
            - (self.concentration1 - 1.0) * tf.digamma(self.concentration1)
            - (self.concentration0 - 1.0) * tf.digamma(self.concentration0)
            + (self.total_concentration - 2.0) * tf.digamma(self.total_concentration)
        )

    def _mean(self) -> Any:
        return self.concentration1 / self.total_concentration

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self._mean()) / (1.0 + self.total_concentration)

    def _mode(self) -> Any:
        mode = (self.concentration1 - 1.0) / (self.total_concentration - 2.0)
        if self.allow_nan_stats:
            defined = tf.logical_and(self.concentration1 > 1.0, self.concentration0 > 1.0)
            return tf.where_v2(defined, mode, _nan(self.batch_shape_tensor(), self.dtype))
        one = tf.ones([], dtype=self.dtype)
        checks = [
            tf.assert_less(one, self.concentration1, message="Mode undefined for concentration1 <= 1."),
            tf.assert_less(one, self.concentration0, message="Mode undefined for concentration0 <= 1."),
        ]
        return guarded(checks, mode)

    def _sample(self, x: Any) -> Any:
        if not self.validate_args:
            return x
        below = tf.assert_less(x, tf.ones([], self.dtype), message="sample must be less than `1`.")
        return guarded([tf.assert_positive(x, message="sample must be positive"), below], x)


def _positive(concentration: Any, validate_args: bool) -> Any:
    if not validate_args:
        return concentration
    message = "Concentration parameter must be positive."
    return guarded([tf.assert_positive(concentration, message=message)], concentration)


@RegisterKL(Beta, Beta)
def _beta_from_beta(a: Beta, b: Beta, name: Any = None) -> Any:
    with tf.name_scope(name, "kl_beta_beta", [a.total_concentration, b.total_concentration]):
        return (
            (b._log_normalization() - a._log_normalization())
            - tf.digamma(a.concentration1) * (b.concentration1 - a.concentration1)
            - tf.digamma(a.concentration0) * (b.concentration0 - a.concentration0)
            + tf.digamma(a.total_concentration) * (b.total_concentration - a.total_concentration)
        )


class Concentrated(Distribution):
    """A distribution over vectors that one concentration for each choice shapes."""

    concentration: Any
    total_concentration: Any

    def _batch_shape(self) -> Any:
        return self.total_concentration.shape

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self.total_concentration)

    def _event_shape(self) -> Any:
        return self.concentration.shape.with_rank_at_least(1)[-1:]

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self.concentration)[-1:]

    def _covariance(self) -> Any:
        x = self._scale() * self._mean()
        return tf.matrix_set_diag(-tf.matmul(x[..., tf.newaxis], x[..., tf.newaxis, :]), self._variance())

    def _scale(self) -> Any:
        """Return the factor of the mean in the covariances of the choices."""
        raise NotImplementedError


class Dirichlet(Concentrated):
    """The Dirichlet distribution over the points of a simplex; the last dimension is the event's."""

    def __init__(
        self, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Dirichlet"
    ) -> None:
        given = dict(locals())
        with tf.name_scope(name, values=[concentration]) as scope:
            self.concentration = concentrations(
                tf.convert_to_tensor(concentration, name="concentration"), validate_args
            )
            self.total_concentration = tf.reduce_sum(self.concentration, -1)
        super().__init__(
            self.concentration.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self.concentration, self.total_concentration],
            scope,
        )

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        drawn = tf.random_gamma([n], self.concentration, dtype=self.dtype, seed=seed)
        return drawn / tf.reduce_sum(drawn, -1, keepdims=True)

    def _log_prob(self, value: Any) -> Any:
        x = self._sample(value)
        return tf.reduce_sum(tf.math.xlogy(self.concentration - 1.0, x), -1) - tf.lbeta(self.concentration)

    def _entropy(self) -> Any:
        k = tf.cast(self.event_shape_tensor()[0], self.dtype)
        each = (self.concentration - 1.0) * tf.digamma(self.concentration)
        total = (self.total_concentration - k) * tf.digamma(self.total_concentration)
        return tf.lbeta(self.concentration) + total - tf.reduce_sum(each, -1)

    def _mean(self) -> Any:
        return self.concentration / self.total_concentration[..., tf.newaxis]

    def _variance(self) -> Any:
        scale = self._scale()
        x = scale * self._mean()
        return x * (scale - x)

    def _scale(self) -> Any:
        return tf.rsqrt(1.0 + self.total_concentration[..., tf.newaxis])

    def _mode(self) -> Any:
        k = tf.cast(self.event_shape_tensor()[0], self.dtype)
        mode = (self.concentration - 1.0) / (self.total_concentration[..., tf.newaxis] - k)
        if self.allow_nan_stats:
            defined = tf.reduce_all(self.concentration > 1.0, axis=-1, keepdims=True)
            return tf.where_v2(defined, mode, _nan(tf.shape(mode), self.dtype))
        message = "Mode undefined when any concentration <= 1"
        return guarded([tf.assert_less(tf.ones([], self.dtype), self.concentration, message=message)], mode)

    def _sample(self, x: Any) -> Any:
        if not self.validate_args:
            return x
        off = tf.abs(tf.reduce_sum(x, -1) - 1.0)
        whole = tf.assert_less(off, tf.constant(1e-5, self.dtype), message="sample last-dimension must sum to `1`")
        return guarded([tf.assert_positive(x, message="samples must be positive"), whole], x)


def concentrations(concentration: Any, validate_args: bool) -> Any:
    """Return the concentrations of a Dirichlet, checked in each step if `validate_args`."""
    if not validate_args:
        return concentration
    checks = [
        tf.assert_positive(concentration, message="Concentration parameter must be positive."),
        tf.assert_rank_at_least(concentration, 1, message="Concentration parameter must have >=1 dimensions."),
        tf.assert_less(1, tf.shape(concentration)[-1], message="Concentration parameter must have event_size >= 2."),
    ]
    return guarded(checks, concentration)


@RegisterKL(Dirichlet, Dirichlet)
def _dirichlet_from_dirichlet(a: Dirichlet, b: Dirichlet, name: Any = None) -> Any:
    with tf.name_scope(name, "kl_dirichlet_dirichlet", [a.concentration, b.concentration]):
        expected = tf.digamma(a.concentration) - tf.digamma(tf.reduce_sum(a.concentration, -1, keepdims=True))
        difference = tf.reduce_sum((a.concentration - b.concentration) * expected, -1)
        return difference - tf.lbeta(a.concentration) + tf.lbeta(b.concentration)
