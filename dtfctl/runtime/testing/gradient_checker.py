"""Gradients beside what differences say they should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.client.default_session import get_default_session
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.gradients import as_dense, gradients
from dtfctl.runtime.framework.operation import Tensor

Jacobians = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def compute_gradient(
    x: Any,
    x_shape: Any,
    y: Tensor,
    y_shape: Any,
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Sequence[Any] | None = None,
    extra_feed_dict: dict[Any, Any] | None = None,
) -> Jacobians | list[Jacobians]:
    """Compute the Jacobian dy/dx as `tf.gradients` has it and by central differences, each [elements of x, of y].

    Runs in the default session; complex elements count twice, real part first.

    Args:
        x, x_shape, x_init_value: a float or complex tensor, its shape and where to look (random when None), or lists.
        delta: half the width of a difference.
        init_targets: operations to run first.
        extra_feed_dict: feeds beside x.

    Raises:
        ValueError: there is no default session, or y does not depend on x.
    """
    for target in init_targets or ():
        target.run()
    if isinstance(x, (list, tuple)):
        starts = x_init_value if x_init_value is not None else [None] * len(x)
        return [_both(a, s, y, y_shape, v, delta, extra_feed_dict) for a, s, v in zip(x, x_shape, starts)]
    return _both(x, x_shape, y, y_shape, x_init_value, delta, extra_feed_dict)


def compute_gradient_error(
    x: Any,
    x_shape: Any,
    y: Tensor,
    y_shape: Any,
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Sequence[Any] | None = None,
    extra_feed_dict: dict[Any, Any] | None = None,
) -> float:
    """Compute the greatest difference between the two Jacobians of `compute_gradient`."""
    found = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    pairs = found if isinstance(found, list) else [found]
    return max((float(np.abs(a - b).max()) for a, b in pairs if a.size), default=0.0)


def _both(x: Tensor, x_shape: Any, y: Tensor, y_shape: Any, start: Any, delta: float, extra: Any) -> Jacobians:
    session = get_default_session()
    if session is None:
        raise ValueError("compute_gradient needs a default session: call it inside `with tf.Session()`")
    dtype = x.dtype.base_dtype
    if start is None:
        start = np.random.random_sample(x_shape)
        if dtype.is_complex:
            start = start + 1j * np.random.random_sample(x_shape)
    # A zero-dimensional array would come out of arithmetic as a number.
    at = np.array(start, dtype.np)
    with x.graph.as_default():
        weights = constant(np.ones([int(d) for d in y_shape]), y.dtype.base_dtype)
        gradient = as_dense(gradients(y, x, weights)[0])
    if gradient is None:
        raise ValueError(f"{y.name} does not depend on {x.name}")
    feeds = dict(extra or {})
    return (
        _symbolic(session, gradient, weights, {**feeds, x: at}, at),
        _numeric(session, x, y, feeds, at, delta),
    )


def _real(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """View an array flat, so that complex numbers are two."""
    flat = array.reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _symbolic(session: Any, gradient: Any, weights: Tensor, feeds: dict[Any, Any], at: Any) -> np.ndarray[Any, Any]:
    each = np.zeros(weights.shape.known(), weights.dtype.np)
    columns = []
    for column in range(_real(each).size):
        _real(each)[column] = 1
        found = np.ascontiguousarray(session.run(gradient, {**feeds, weights: each}))
        columns.append(_real(found).copy())
        _real(each)[column] = 0
    return np.stack(columns, axis=1) if columns else np.zeros((_real(at).size, 0))


def _numeric(session: Any, x: Tensor, y: Tensor, feeds: dict[Any, Any], at: Any, delta: float) -> np.ndarray[Any, Any]:
    rows = []
    for row in range(_real(at).size):
        ends = []
        for step in (delta, -delta):
            moved = at.copy()
            _real(moved)[row] += step
            ends.append(_real(np.ascontiguousarray(session.run(y, {**feeds, x: moved}))).astype(np.float64))
        rows.append((ends[0] - ends[1]) / (2 * delta))
    return np.stack(rows) if rows else np.zeros((0, 0))
