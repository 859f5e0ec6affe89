"""The base of all distributions: what users call, each under a name scope, over what subclasses define.

A subclass defines what it has a formula for (`_log_prob`, `_mean`, ...). What it leaves out is made of what it has:
`prob` of `log_prob` and the other way round, `variance` of `stddev`, `survival_function` of `cdf`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.distributions import divergence


class ReparameterizationType:
    """Say whether samples are differentiable with respect to a distribution's parameters."""

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


class Distribution:
    """A random variable, or a batch of them that are independent.

    Shapes: a sample has `sample_shape + batch_shape + event_shape`; densities have `sample_shape + batch_shape`,
    statistics `batch_shape + event_shape`. Parameters are broadcast against each other.
    """

    def __init__(
        self,
        dtype: Any,
        reparameterization_type: ReparameterizationType,
        validate_args: bool,
        allow_nan_stats: bool,
        parameters: dict[str, Any] | None = None,
        graph_parents: Any = None,
        name: str | None = None,
    ) -> None:
        for i, parent in enumerate(graph_parents or ()):
            if not tf.is_tensor(parent):
                raise ValueError(f"Graph parent item {i} is not a Tensor; {parent}.")
        if not name or not name.endswith("/"):
            with tf.name_scope(name or type(self).__name__) as scope:
                name = scope
        self._dtype = tf.as_dtype(dtype)
        self._reparameterization_type = reparameterization_type
        self._allow_nan_stats = allow_nan_stats
        self._validate_args = validate_args
        self._parameters = {k: v for k, v in (parameters or {}).items() if k not in ("self", "__class__")}
        self._graph_parents = list(graph_parents or ())
        self._name = name

    # What subclasses define.

    def _undefined(self, what: str) -> Any:
        raise NotImplementedError(f"{what} is not implemented: {type(self).__name__}")

    def _batch_shape(self) -> Any:
        return tf.TensorShape(None)

    def _batch_shape_tensor(self) -> Any:
        return self._undefined("batch_shape_tensor")

    def _event_shape(self) -> Any:
        return tf.TensorShape([])

    def _event_shape_tensor(self) -> Any:
        return tf.constant([], tf.int32)

    def _sample_n(self, n: Any, seed: int | None = None) -> Any:
        return self._undefined("sample_n")

    def _log_prob(self, value: Any) -> Any:
        return self._undefined("log_prob")

    def _prob(self, value: Any) -> Any:
        return self._undefined("prob")

    def _log_cdf(self, value: Any) -> Any:
        return self._undefined("log_cdf")

    def _cdf(self, value: Any) -> Any:
        return self._undefined("cdf")

    def _log_survival_function(self, value: Any) -> Any:
        return self._undefined("log_survival_function")

    def _survival_function(self, value: Any) -> Any:
        return self._undefined("survival_function")

    def _quantile(self, value: Any) -> Any:
        return self._undefined("quantile")

    def _entropy(self) -> Any:
        return self._undefined("entropy")

    def _mean(self) -> Any:
        return self._undefined("mean")

    def _variance(self) -> Any:
        return self._undefined("variance")

    def _stddev(self) -> Any:
        return self._undefined("stddev")

    def _covariance(self) -> Any:
        return self._undefined("covariance")

    def _mode(self) -> Any:
        return self._undefined("mode")

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Any]:
        raise NotImplementedError("_param_shapes not implemented")

    # What users call.

    @classmethod
    def param_shapes(cls, sample_shape: Any, name: str = "DistributionParamShapes") -> dict[str, Any]:
        """Return the shapes that parameters need for one sample to have `sample_shape`, as tensors by name."""
        with tf.name_scope(name, values=[sample_shape]):
            return cls._param_shapes(sample_shape)

    @classmethod
    def param_static_shapes(cls, sample_shape: Any) -> dict[str, Any]:
        """Return the shapes of `param_shapes` as TensorShapes."""
        if isinstance(sample_shape, tf.TensorShape):
            if not sample_shape.is_fully_defined():
                raise ValueError("TensorShape sample_shape must be fully defined")
            sample_shape = sample_shape.as_list()
        static = {}
        for name, shape in cls.param_shapes(sample_shape).items():
            value = tf.get_static_value(shape)
            if value is None:
                raise ValueError("sample_shape must be a fully-defined TensorShape or list/tuple")
            static[name] = tf.TensorShape([int(n) for n in value])
        return static

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def parameters(self) -> dict[str, Any]:
        """What the distribution was made with, by argument."""
        return dict(self._parameters)

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        return self._reparameterization_type

    @property
    def allow_nan_stats(self) -> bool:
        return self._allow_nan_stats

    @property
    def validate_args(self) -> bool:
        return self._validate_args

    def copy(self, **override_parameters_kwargs: Any) -> Any:
        """Make another of this class, with some parameters replaced."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    @property
    def batch_shape(self) -> Any:
        """The shape of the batch as far as it is known while the graph is built."""
        return tf.TensorShape(self._batch_shape())

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """Return the shape of the batch as an int32 vector."""
        with self._scope(name):
            if self.batch_shape.is_fully_defined():
                return tf.convert_to_tensor(self.batch_shape.as_list(), dtype=tf.int32, name="batch_shape")
            return self._batch_shape_tensor()

    @property
    def event_shape(self) -> Any:
        """The shape of one draw as far as it is known while the graph is built."""
        return tf.TensorShape(self._event_shape())

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Any:
        """Return the shape of one draw as an int32 vector."""
        with self._scope(name):
            if self.event_shape.is_fully_defined():
                return tf.convert_to_tensor(self.event_shape.as_list(), dtype=tf.int32, name="event_shape")
            return self._event_shape_tensor()

    def is_scalar_event(self, name: str = "is_scalar_event") -> Any:
        """Tell whether one draw is a scalar, as a bool tensor."""
        with self._scope(name):
            return _is_scalar(self.event_shape, self.event_shape_tensor)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Any:
        """Tell whether there is one random variable, as a bool tensor."""
        with self._scope(name):
            return _is_scalar(self.batch_shape, self.batch_shape_tensor)

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Any:
        """Draw samples.

        Args:
            sample_shape: how many, as a scalar or a shape.
            seed: of the random ops.

        Returns:
            A tensor of shape `sample_shape + batch_shape + event_shape`.
        """
        with self._scope(name, [sample_shape]):
            shape = tf.convert_to_tensor(sample_shape, dtype=tf.int32, name="sample_shape")
            shape, n = _as_vector(shape)
            samples = self._sample_n(n, seed)
            samples = tf.reshape(samples, tf.concat([shape, tf.shape(samples)[1:]], 0))
            known = tf.get_static_value(shape)
            static = tf.TensorShape(None if known is None else [int(k) for k in known])
            samples.set_shape(static.concatenate(self.batch_shape).concatenate(self.event_shape))
            return samples

    def log_prob(self, value: Any, name: str = "log_prob") -> Any:
        """Return the logarithm of the density or mass at `value`."""
        return self._either(name, value, self._log_prob, lambda x: tf.log(self._prob(x)))

    def prob(self, value: Any, name: str = "prob") -> Any:
        """Return the density or mass at `value`."""
        return self._either(name, value, self._prob, lambda x: tf.exp(self._log_prob(x)))

    def log_cdf(self, value: Any, name: str = "log_cdf") -> Any:
        """Return the logarithm of P[X <= value]."""
        return self._either(name, value, self._log_cdf, lambda x: tf.log(self._cdf(x)))

    def cdf(self, value: Any, name: str = "cdf") -> Any:
        """Return P[X <= value]."""
        return self._either(name, value, self._cdf, lambda x: tf.exp(self._log_cdf(x)))

    def log_survival_function(self, value: Any, name: str = "log_survival_function") -> Any:
        """Return the logarithm of P[X > value]."""
        return self._either(name, value, self._log_survival_function, lambda x: tf.log1p(-self.cdf(x)))

    def survival_function(self, value: Any, name: str = "survival_function") -> Any:
        """Return P[X > value]."""
        return self._either(name, value, self._survival_function, lambda x: 1.0 - self.cdf(x))

    def quantile(self, value: Any, name: str = "quantile") -> Any:
        """Return the x for which P[X <= x] is `value`."""
        with self._scope(name, [value]):
            return self._quantile(self._tensor(value))

    def entropy(self, name: str = "entropy") -> Any:
        """Return Shannon's entropy, in nats."""
        with self._scope(name):
            return self._entropy()

    def mean(self, name: str = "mean") -> Any:
        """Return the mean."""
        with self._scope(name):
            return self._mean()

    def variance(self, name: str = "variance") -> Any:
        """Return the variance."""
        with self._scope(name):
            return _first(self._variance, lambda: tf.square(self._stddev()))

    def stddev(self, name: str = "stddev") -> Any:
        """Return the standard deviation."""
        with self._scope(name):
            return _first(self._stddev, lambda: tf.sqrt(self._variance()))

    def covariance(self, name: str = "covariance") -> Any:
        """Return the covariance matrix of a draw that is a vector."""
        with self._scope(name):
            return self._covariance()

    def mode(self, name: str = "mode") -> Any:
        """Return the most likely value."""
        with self._scope(name):
            return self._mode()

    def cross_entropy(self, other: Any, name: str = "cross_entropy") -> Any:
        """Return the cross entropy with another distribution, in nats."""
        with self._scope(name):
            return divergence.cross_entropy(self, other, allow_nan_stats=self.allow_nan_stats)

    def kl_divergence(self, other: Any, name: str = "kl_divergence") -> Any:
        """Return KL(self || other), in nats."""
        with self._scope(name):
            return divergence.kl_divergence(self, other, allow_nan_stats=self.allow_nan_stats)

    def __repr__(self) -> str:
        return (
            f"<tf.distributions.{type(self).__name__} '{self.name}' batch_shape={self.batch_shape} "
            f"event_shape={self.event_shape} dtype={self.dtype.name}>"
        )

    # What is shared.

    @contextmanager
    def _scope(self, name: str, values: Any = None) -> Iterator[str]:
        with tf.name_scope(self.name), tf.name_scope(name, values=[*(values or []), *self._graph_parents]) as scope:
            yield scope

    def _tensor(self, value: Any) -> Any:
        if tf.is_tensor(value):
            return value
        given = np.asarray(value)
        same = self.dtype.is_floating or not np.issubdtype(given.dtype, np.floating)
        return tf.convert_to_tensor(value, dtype=self.dtype if same else None, name="value")

    def _either(self, name: str, value: Any, direct: Any, indirect: Any) -> Any:
        with self._scope(name, [value]):
            x = self._tensor(value)
            return _first(lambda: direct(x), lambda: indirect(x))

    def _ones(self) -> Any:
        return tf.ones(self.batch_shape_tensor(), dtype=self.dtype)

    def _shape_for(self, n: Any) -> Any:
        """Return the shape of `n` draws of a batch whose events are scalars."""
        return tf.concat([[n], self.batch_shape_tensor()], 0)


def _first(direct: Any, indirect: Any) -> Any:
    """Call the first of two ways that is implemented; if neither is, the first one's error is raised."""
    try:
        return direct()
    except NotImplementedError as e:
        try:
            return indirect()
        except NotImplementedError:
            raise e from None


def _is_scalar(static: Any, dynamic: Any) -> Any:
    if static.ndims is not None:
        return tf.convert_to_tensor(static.ndims == 0)
    return tf.equal(tf.shape(dynamic())[0], 0)


def _as_vector(shape: Any) -> tuple[Any, Any]:
    """Return a sample shape as a vector, and its product."""
    known = tf.get_static_value(shape)
    n = tf.reduce_prod(shape) if known is None else np.prod(known, dtype=np.int32)
    rank = shape.shape.ndims
    if rank not in (None, 0, 1):
        raise ValueError("Input is neither scalar nor vector.")
    if rank == 1:
        return shape, n
    return (tf.reshape(shape, [-1]) if known is None else tf.constant(np.reshape(known, [1]), tf.int32)), n


def guarded(checks: Any, value: Any) -> Any:
    """Return a value that is there only when checks have passed."""
    with tf.control_dependencies(checks):
        return tf.identity(value)


def parameter(value: Any, name: str) -> Any:
    """Return a parameter as a tensor of its own, float32 where Python does not say."""
    return tf.identity(value, name=name)


def require_same_floats(*tensors: Any) -> None:
    """Raise ValueError where parameters are not of one floating type."""
    types = {t.dtype.base_dtype for t in tensors}
    if len(types) > 1 or not next(iter(types)).is_floating:
        raise ValueError(f"parameters must be of one floating type, not {sorted(t.name for t in types)}")


def broadcast_static(*shapes: Any) -> Any:
    """Return the shape to which static shapes are broadcast."""
    found = shapes[0]
    for shape in shapes[1:]:
        found = tf.broadcast_static_shape(found, shape)
    return found


def broadcast_dynamic(*tensors: Any) -> Any:
    """Return the shape to which tensors are broadcast, as a vector."""
    found = tf.shape(tensors[0])
    for tensor in tensors[1:]:
        found = tf.broadcast_dynamic_shape(found, tf.shape(tensor))
    return found


def new_seed(seed: int | None, salt: str) -> int | None:
    """Derive the seed of a second random op."""
    if seed is None:
        return None
    return int(hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF
