"""Distributions of one choice: Bernoulli and categorical, by probabilities or their logits."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.distributions.distribution import NOT_REPARAMETERIZED, Distribution, guarded
from dtfctl.runtime.distributions.divergence import RegisterKL


def logits_and_probs(
    logits: Any, probs: Any, validate_args: bool, name: str, multidimensional: bool = False
) -> tuple[Any, Any]:
    """Return both forms of a choice's parameter, given one of them.

    Args:
        multidimensional: whether the last dimension is that of the choices; else each element is a choice of two.

    Raises:
        ValueError: not exactly one of the two is given.
        TypeError: it is not of a floating type.
    """
    with tf.name_scope(name, values=[probs, logits]):
        if (probs is None) == (logits is None):
            raise ValueError("Must pass probs or logits, but not both.")
        given = tf.convert_to_tensor(logits if probs is None else probs, name="logits" if probs is None else "probs")
        if not given.dtype.is_floating:
            raise TypeError(f"{'logits' if probs is None else 'probs'} must having floating type.")
        if probs is None:
            return given, (tf.nn.softmax if multidimensional else tf.sigmoid)(given, name="probs")
        if validate_args:
            with tf.name_scope("validate_probs"):
                checks = [tf.assert_non_negative(given)]
                one = tf.constant(1.0, given.dtype)
                if multidimensional:
                    off = tf.abs(tf.reduce_sum(given, -1) - one)
                    near = tf.constant(10 * 1.2e-7, given.dtype)
                    checks.append(tf.assert_less_equal(off, near, message="probs does not sum to 1."))
                else:
                    checks.append(tf.assert_less_equal(given, one, message="probs has components greater than 1."))
                given = guarded(checks, given)
        with tf.name_scope("logits"):
            return (tf.log(given) if multidimensional else tf.log(given) - tf.log1p(-given)), given


def whole_number(value: Any, what: str) -> Any:
    """Return a value that is checked, in each step, to be a whole number of at least 0."""
    value = tf.convert_to_tensor(value)
    checks = [tf.assert_non_negative(value, message=f"{what} must be non-negative.")]
    if value.dtype.is_floating:
        checks.append(tf.assert_equal(value, tf.round(value), message=f"{what} cannot contain fractional components."))
    return guarded(checks, value)


class Bernoulli(Distribution):
    """The distribution of 0 and 1, where 1 has the probability `probs`, or sigmoid(`logits`)."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = tf.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        given = dict(locals())
        with tf.name_scope(name) as scope:
            self.logits, self.probs = logits_and_probs(logits, probs, validate_args, scope)
        parents = [self.logits, self.probs]
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, given, parents, scope)

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        return {"logits": tf.convert_to_tensor(sample_shape, dtype=tf.int32)}

    def _batch_shape(self) -> Any:
        return self.logits.shape

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self.logits)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        drawn = tf.random_uniform(self._shape_for(n), seed=seed, dtype=self.probs.dtype)
        return tf.cast(tf.less(drawn, self.probs), self.dtype)

    def _log_prob(self, value: Any) -> Any:
        if self.validate_args:
            top = tf.assert_less_equal(value, tf.ones([], value.dtype), message="Elements must be 0 or 1.")
            value = guarded([top], whole_number(value, "Elements"))
        event, logits = tf.cast(value, self.logits.dtype), self.logits
        if not (event.shape.is_fully_defined() and event.shape == logits.shape):
            logits, event = tf.ones_like(event) * logits, tf.ones_like(logits) * event
        return -tf.nn.sigmoid_cross_entropy_with_logits(labels=event, logits=logits)

    def _entropy(self) -> Any:
        return -self.logits * (tf.sigmoid(self.logits) - 1.0) + tf.nn.softplus(-self.logits)

    def _mean(self) -> Any:
        return tf.identity(self.probs)

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self.probs)

    def _mode(self) -> Any:
        return tf.cast(self.probs > 0.5, self.dtype)


@RegisterKL(Bernoulli, Bernoulli)
def _bernoulli_from_bernoulli(a: Bernoulli, b: Bernoulli, name: Any = None) -> Any:
    with tf.name_scope(name, "kl_bernoulli_bernoulli", [a.logits, b.logits]):
        zero = tf.nn.softplus(-b.logits) - tf.nn.softplus(-a.logits)
        one = tf.nn.softplus(b.logits) - tf.nn.softplus(a.logits)
        return tf.sigmoid(a.logits) * zero + tf.sigmoid(-a.logits) * one


class Categorical(Distribution):
    """The distribution of 0..k-1 with the probabilities `probs`, or softmax(`logits`); k is the last dimension."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = tf.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        given = dict(locals())
        with tf.name_scope(name, values=[logits, probs]) as scope:
            self.logits, self.probs = logits_and_probs(logits, probs, validate_args, scope, multidimensional=True)
            self.logits.shape.with_rank_at_least(1)
            size = self.logits.shape[-1].value if self.logits.shape.ndims is not None else None
            if size is not None:
                self.event_size = tf.convert_to_tensor(size, dtype=tf.int32, name="event_size")
            else:
                with tf.name_scope("event_size"):
                    self.event_size = tf.shape(self.logits)[-1]
        parents = [self.logits, self.probs]
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, given, parents, scope)

    def _batch_shape(self) -> Any:
        return self.logits.shape[:-1]

    def _batch_shape_tensor(self) -> Any:
        return tf.shape(self.logits)[:-1]

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        logits = self.logits if self.logits.shape.ndims == 2 else tf.reshape(self.logits, [-1, self.event_size])
        kind = tf.int64 if self.dtype.size > 4 else tf.int32
        drawn = tf.multinomial(logits, n, seed=seed, output_dtype=kind)
        return tf.cast(tf.reshape(tf.transpose(drawn), self._shape_for(n)), self.dtype)

    def _cdf(self, value: Any) -> Any:
        k, probs = self._spread(self._event(value), self.probs)
        below = tf.sequence_mask(tf.reshape(k, [-1]), self.event_size)
        flat = tf.reshape(probs, tf.stack([-1, self.event_size]))
        return tf.reshape(tf.reduce_sum(tf.where_v2(below, flat, tf.zeros_like(flat)), -1), tf.shape(k))

    def _log_prob(self, value: Any) -> Any:
        k, logits = self._spread(self._event(value), self.logits)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=k, logits=logits)

    def _entropy(self) -> Any:
        return -tf.reduce_sum(tf.nn.log_softmax(self.logits) * self.probs, axis=-1)

    def _mode(self) -> Any:
        found = tf.cast(tf.argmax(self.logits, axis=-1), self.dtype)
        found.set_shape(self.batch_shape)
        return found

    def _event(self, value: Any) -> Any:
        k = tf.convert_to_tensor(value, name="k")
        k = whole_number(k, "Elements") if self.validate_args else k
        return k if k.dtype.is_integer else tf.cast(k, tf.int32)

    def _spread(self, k: Any, params: Any) -> tuple[Any, Any]:
        """Broadcast events against the batch."""
        known = params.shape.ndims is not None and params.shape[:-1].is_fully_defined()
        if not (known and k.shape.is_fully_defined() and params.shape[:-1] == k.shape):
            params = params * tf.ones_like(k[..., tf.newaxis], dtype=params.dtype)
            k = k * tf.ones(tf.shape(params)[:-1], dtype=k.dtype)
            if params.shape.ndims is not None:
                k.set_shape(params.shape[:-1])
        return k, params


@RegisterKL(Categorical, Categorical)
def _categorical_from_categorical(a: Categorical, b: Categorical, name: Any = None) -> Any:
    with tf.name_scope(name, "kl_categorical_categorical", [a.logits, b.logits]):
        difference = tf.nn.log_softmax(a.logits) - tf.nn.log_softmax(b.logits)
        return tf.reduce_sum(tf.nn.softmax(a.logits) * difference, axis=-1)
