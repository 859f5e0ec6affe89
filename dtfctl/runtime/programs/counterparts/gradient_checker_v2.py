"""`tensorflow.python.ops.gradient_checker_v2`: Jacobians of functions rather than of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.testing.gradient_checker import compute_gradient as compute_gradient_of_tensor

Jacobians = list[np.ndarray[Any, Any]]


def compute_gradient(
    f: Callable[..., Any], x: Sequence[Any], delta: float | None = None
) -> tuple[Jacobians, Jacobians]:
    """Compute the Jacobians of f at x as `tf.gradients` has them and by central differences, in the default session.

    Args:
        x: the arguments, each a value or a tensor.
        delta: half the width of a difference; 1/1024 where it is not given.

    Returns:
        (those of gradients, those of differences): for each argument one of [elements of f(x), elements of it].

    Raises:
        ValueError: x is no list, or there is no default session.
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(
            f"`x` must be a list or tuple of values convertible to a Tensor (arguments to `f`), not a {type(x)}"
        )
    session = tf.get_default_session()
    if session is None:
        raise ValueError("compute_gradient needs a default session: call it inside `with tf.Session()`")
    tensors = [tf.convert_to_tensor(value) for value in x]
    values = session.run(tensors)
    arguments = [tf.placeholder(t.dtype.base_dtype, value.shape) for t, value in zip(tensors, values)]
    y = f(*arguments)
    fed = dict(zip(arguments, values))
    y_shape = session.run(y, fed).shape
    pairs = [
        compute_gradient_of_tensor(argument, value.shape, y, y_shape, value, delta or 1 / 1024, extra_feed_dict=fed)
        for argument, value in zip(arguments, values)
    ]
    return [a.T for a, _ in pairs], [b.T for _, b in pairs]  # type: ignore[union-attr]


def max_error(grad1: Sequence[Any], grad2: Sequence[Any]) -> float:
    """Compute the greatest difference between two lists of arrays."""
    return max((float(np.fabs(a - b).max()) for a, b in zip(grad1, grad2) if a.size or b.size), default=0.0)
