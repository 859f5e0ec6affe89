"""`tf.contrib.distributions`: `tf.distributions`, and the normal distribution of vectors with independent elements."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf, distributions as plain
from dtfctl.runtime.distributions import Normal

__all__ = [*plain.__all__, "MultivariateNormalDiag"]


def __getattr__(name: str) -> Any:
    return getattr(plain, name)


class MultivariateNormalDiag:
    """Vectors whose elements are normal and independent: [..., n]."""

    def __init__(self, loc: Any = None, scale_diag: Any = None, name: str = "MultivariateNormalDiag") -> None:
        if loc is None and scale_diag is None:
            raise ValueError("loc or scale_diag must be given")
        with tf.name_scope(name):
            scale = tf.ones_like(loc) if scale_diag is None else tf.convert_to_tensor(scale_diag)
            self.loc = tf.zeros_like(scale) if loc is None else tf.convert_to_tensor(loc)
            self.stddev_ = scale
            self._parts = Normal(self.loc, scale)
        self.name = name

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Draw vectors: [*sample_shape, ..., n]."""
        return self._parts.sample(sample_shape, seed, name)

    def log_prob(self, value: Any, name: str = "log_prob") -> Any:
        """Compute the logarithm of the density of vectors."""
        return tf.reduce_sum(self._parts.log_prob(value), axis=-1)

    def prob(self, value: Any, name: str = "prob") -> Any:
        """Compute the density of vectors."""
        return tf.exp(self.log_prob(value))

    def entropy(self, name: str = "entropy") -> Any:
        """Compute the entropy in nats."""
        return tf.reduce_sum(self._parts.entropy(), axis=-1)

    def mean(self, name: str = "mean") -> Any:
        """Return the mean vector."""
        return self._parts.mean()

    mode = mean

    def stddev(self, name: str = "stddev") -> Any:
        """Return the standard deviation of each element."""
        return self._parts.stddev()

    def variance(self, name: str = "variance") -> Any:
        """Return the variance of each element."""
        return tf.square(self.stddev())

    def kl_divergence(self, other: Any, name: str = "kl_divergence") -> Any:
        """Compute the divergence from another of the kind."""
        return tf.reduce_sum(self._parts.kl_divergence(other._parts), axis=-1)


def kl_divergence(distribution_a: Any, distribution_b: Any, **options: Any) -> Any:
    """Compute the divergence of one distribution from another."""
    if isinstance(distribution_a, MultivariateNormalDiag):
        return distribution_a.kl_divergence(distribution_b)
    return plain.kl_divergence(distribution_a, distribution_b, **options)
