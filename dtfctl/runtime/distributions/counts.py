"""Distributions of how often each of k choices was made: multinomial and Dirichlet-multinomial."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.distributions.discrete import logits_and_probs, whole_number
from dtfctl.runtime.distributions.distribution import NOT_REPARAMETERIZED, Distribution, guarded, new_seed
from dtfctl.runtime.distributions.gammas import Concentrated, concentrations


def _log_combinations(n: Any, counts: Any) -> Any:
    """Return the logarithm of n! / (count_0! count_1! ...)."""
    with tf.name_scope("log_combinations", values=[n, counts]):
        return tf.lgamma(n + 1.0) - tf.reduce_sum(tf.lgamma(counts + 1.0), axis=[-1])


class _Counts(Distribution):
    total_count: Any

    def _counts(self, counts: Any) -> Any:
        if not self.validate_args:
            return counts
        message = "counts must sum to `self.total_count`"
        same = tf.assert_equal(self.total_count, tf.reduce_sum(counts, -1), message=message)
        return guarded([same], whole_number(counts, "counts"))


class Multinomial(_Counts):
    """The counts of k choices in `total_count` draws; k is the last dimension of `logits` or `probs`."""

    def __init__(
        self,
        total_count: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Multinomial",
    ) -> None:
        given = dict(locals())
        with tf.name_scope(name, values=[total_count, logits, probs]) as scope:
            total = tf.convert_to_tensor(total_count, name="total_count")
            self.total_count = whole_number(total, "total_count") if validate_args else total
            self.logits, self.probs = logits_and_probs(logits, probs, validate_args, scope, multidimensional=True)
            self._mean_val = self.total_count[..., tf.newaxis] * self.probs
        parents = [self.total_count, self.logits, self.probs]
        super().__init__(self.probs.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, given, parents, scope)

    def _batch_shape(self) -> Any:
        return self._mean_val.shape.with_rank_at_least(1)[:-1]

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self._mean_val)[:-1]

    def _event_shape(self) -> Any:
        return self._mean_val.shape.with_rank_at_least(1)[-1:]

    def _event_shape_tensor(self) -> Any:
        return tf.shape(self._mean_val)[-1:]

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        draws, k = tf.cast(self.total_count, tf.int32), self.event_shape_tensor()[0]
        draws = tf.ones_like(self.logits[..., 0], dtype=tf.int32) * draws
        logits = tf.ones_like(draws[..., tf.newaxis], dtype=self.logits.dtype) * self.logits

        def one(args: Any) -> Any:
            made = tf.multinomial(args[0][tf.newaxis, ...], args[1], seed)
            made = tf.one_hot(tf.reshape(made, [n, -1]), depth=k, dtype=self.dtype)
            return tf.reduce_sum(made, axis=-2)

        flat = [tf.reshape(logits, tf.stack([-1, k])), n * tf.reshape(draws, [-1])]
        made = tf.transpose(tf.map_fn(one, flat, dtype=self.dtype), [1, 0, 2])
        return tf.reshape(made, tf.concat([[n], self.batch_shape_tensor(), [k]], 0))

    def _log_prob(self, value: Any) -> Any:
        counts = self._counts(value)
        likelihood = tf.reduce_sum(counts * tf.nn.log_softmax(self.logits), -1)
        return likelihood + _log_combinations(self.total_count, counts)

    def _mean(self) -> Any:
        return tf.identity(self._mean_val)

    def _covariance(self) -> Any:
        p = self.probs * tf.ones_like(self.total_count)[..., tf.newaxis]
        outer = tf.matmul(self._mean_val[..., tf.newaxis], p[..., tf.newaxis, :])
        return tf.matrix_set_diag(-outer, self._variance())

    def _variance(self) -> Any:
        p = self.probs * tf.ones_like(self.total_count)[..., tf.newaxis]
        return self._mean_val - self._mean_val * p


class DirichletMultinomial(Concentrated, _Counts):
    """The counts of k choices in `total_count` draws with probabilities drawn from a Dirichlet."""

    def __init__(
        self,
        total_count: Any,
        concentration: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "DirichletMultinomial",
    ) -> None:
        given = dict(locals())
        with tf.name_scope(name, values=[total_count, concentration]) as scope:
            total = tf.convert_to_tensor(total_count, name="total_count")
            self.total_count = whole_number(total, "total_count") if validate_args else total
            self.concentration = concentrations(
                tf.convert_to_tensor(concentration, name="concentration"), validate_args
            )
            self.total_concentration = tf.reduce_sum(self.concentration, -1)
        parents = [self.total_count, self.concentration]
        super().__init__(
            self.concentration.dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, given, parents, scope
        )

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        draws, k = tf.cast(self.total_count, tf.int32), self.event_shape_tensor()[0]
        weights = tf.random_gamma([n], self.concentration, dtype=self.dtype, seed=seed)
        logits = tf.reshape(tf.log(weights), tf.stack([-1, k]))
        made = tf.multinomial(logits, draws, seed=new_seed(seed, "dirichlet_multinomial"))
        counted = tf.reduce_sum(tf.one_hot(made, depth=k, dtype=self.dtype), -2)
        return tf.reshape(counted, tf.concat([[n], self.batch_shape_tensor(), [k]], 0))

    def _log_prob(self, value: Any) -> Any:
        counts = self._counts(value)
        ordered = tf.lbeta(self.concentration + counts) - tf.lbeta(self.concentration)
        return ordered + _log_combinations(self.total_count, counts)

    def _mean(self) -> Any:
        return self.total_count * (self.concentration / self.total_concentration[..., tf.newaxis])

    def _variance(self) -> Any:
        scale = self._scale()
        x = scale * self._mean()
        return x * (self.total_count * scale - x)

    def _scale(self) -> Any:
        total = self.total_concentration[..., tf.newaxis]
        return tf.sqrt((1.0 + total / self.total_count) / (1.0 + total))
