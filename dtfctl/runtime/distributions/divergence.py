"""Kullback-Leibler divergences, by the classes of two distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime import api as tf

_DIVERGENCES: dict[tuple[type, type], Callable[..., Any]] = {}


class RegisterKL:
    """Register the decorated function as the divergence between two classes of distributions.

    Raises:
        ValueError: the pair has one already.
    """

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _DIVERGENCES:
            a, b = (cls.__name__ for cls in self._key)
            raise ValueError(f"KL({a} || {b}) has already been registered to: {_DIVERGENCES[self._key]}")
        _DIVERGENCES[self._key] = kl_fn
        return kl_fn


def _registered(a: type, b: type) -> Callable[..., Any] | None:
    """Find the function registered for the nearest of two classes' bases."""
    pairs = [(i + j, (x, y)) for i, x in enumerate(a.__mro__) for j, y in enumerate(b.__mro__)]
    near = sorted(((distance, key) for distance, key in pairs if key in _DIVERGENCES), key=lambda pair: pair[0])
    return _DIVERGENCES[near[0][1]] if near else None


def kl_divergence(distribution_a: Any, distribution_b: Any, allow_nan_stats: bool = True, name: Any = None) -> Any:
    """Return KL(a || b), by batch member.

    Args:
        distribution_a, distribution_b: distributions whose classes, or bases of them, have a divergence.
        allow_nan_stats: whether a result may be NaN; if not, the step fails.

    Raises:
        NotImplementedError: no divergence is registered for the two.
    """
    function = _registered(type(distribution_a), type(distribution_b))
    if function is None:
        a, b = type(distribution_a).__name__, type(distribution_b).__name__
        raise NotImplementedError(
            f"No KL(distribution_a || distribution_b) registered for distribution_a type {a} and "
            f"distribution_b type {b}; register one with tf.distributions.RegisterKL"
        )
    with tf.name_scope("KullbackLeibler"):
        found = function(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return found
        found = tf.identity(found, name="kl")
        message = (
            f"KL calculation between {distribution_a.name} and {distribution_b.name} returned NaN values "
            "(and was called with allow_nan_stats=False). Values:"
        )
        check = tf.Assert(tf.logical_not(tf.reduce_any(tf.is_nan(found))), [message, found])
        with tf.control_dependencies([check]):
            return tf.identity(found, name="checked_kl")


def cross_entropy(ref: Any, other: Any, allow_nan_stats: bool = True, name: Any = None) -> Any:
    """Return the entropy of `ref` plus its divergence from `other`."""
    with tf.name_scope(name, "cross_entropy"):
        return ref.entropy() + kl_divergence(ref, other, allow_nan_stats=allow_nan_stats)
