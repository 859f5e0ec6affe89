"""Static shapes of what calls make, kinds of errors of those that are refused, and names of what losses are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

A, B = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.arange(12, dtype=np.float32).reshape(4, 3) * 0.1


def _shape(tensor: Any) -> Any:
    return [None if tensor.shape.rank is None else tensor.shape.as_list()]


def _at_once(found: list[Any]) -> list[Any]:
    """What is fetched, as one item: each by itself is a graph of its own to TensorFlow; then the shapes."""
    return [[t for t in found if not isinstance(t, list)], [t for t in found if isinstance(t, list)]]


def tensordots(tf: Any) -> Any:
    """Operands of any rank that is known or not, axes from either end, none, and all."""
    found: list[Any] = []
    for left in ([2, 3, 4], [None, 3, 4], [None, None, None], None):
        for right in ([4, 3], [None, 3], None):
            a, b = tf.placeholder_with_default(A, left), tf.placeholder_with_default(B, right)
            for axes in (1, [[2], [0]], [[-1], [-2]], [[1, 2], [1, 0]], [1, 1], [[2, 1], [0, 1]]):
                made = tf.tensordot(a, b, axes)
                found += [_shape(made), made, *tf.gradients(tf.reduce_sum(made * made), [a, b])]
    return _at_once([*found, tf.tensordot(tf.ones([2]), tf.ones([3]), 0)])


def repeats(tf: Any) -> Any:
    """As often, or each by its own number."""
    found: list[Any] = []
    for known in ([2, 3], [None, 3], [None, None]):
        x = tf.placeholder_with_default(B[:2], known)
        for often in (2, [2], tf.placeholder_with_default([3], [1]), tf.placeholder_with_default(2, [])):
            for axis in (0, 1, -1, -2, None):
                made = tf.repeat(x, often, axis)
                found += [_shape(made), made, tf.gradients(made * made, x)[0]]
    return _at_once([*found, tf.repeat(tf.constant(3.0), 2), tf.repeat(tf.constant(3.0), [2])])


def sliced(tf: Any) -> Any:
    """Static shapes of slices of sizes that are not known: counted from both ends they may be of any length."""
    x = tf.placeholder_with_default(A, [None, 3, None])
    made = [x[-1:1], x[:, -4:3], x[..., -1:2], x[..., 2:-3:-1], x[:0], x[-3:0], x[:, 2:1], x[..., -1:-3]]
    gathered = tf.placeholder_with_default(B, [None, 3])
    rows = tf.gradients(tf.gather(gathered, [0, 2]), gathered)[0]
    return _at_once([*(_shape(t) for t in made), *made, _shape(rows), tf.convert_to_tensor(rows)])


def _kinds(tf: Any, resource: bool) -> Any:
    found: list[Any] = []
    v = tf.get_variable(f"v{resource}", [2], use_resource=resource)
    b, d, m = tf.constant([True, False]), tf.constant([1.0, 2.0], tf.float64), tf.ones([2, 2], tf.float64)
    calls: dict[str, Callable[[], Any]] = {
        "multiply": lambda: tf.multiply(d, v), "by": lambda: tf.multiply(v, d), "*": lambda: d * v,
        "<": lambda: d < v, "stack": lambda: tf.stack([d, v]), "first": lambda: tf.stack([v, d]),
        "concat": lambda: tf.concat([d, v], 0), "where": lambda: tf.where(v, v, v),
        "einsum": lambda: tf.einsum("ij,j->i", m, v), "add_n": lambda: tf.add_n([d, v]),
        "matmul": lambda: tf.matmul(m, v[None]), "and": lambda: tf.logical_and(v, b),
        "equal": lambda: tf.equal(d, v), "convert": lambda: tf.convert_to_tensor(v, tf.float64),
        "assign": lambda: tf.assign(v, d), "method": lambda: v.assign(d), "add": lambda: tf.assign_add(v, d),
        "tensordot": lambda: tf.tensordot(m, v, 1), "minimum": lambda: tf.minimum(d, v),
        "solve": lambda: tf.matrix_solve(m, v[:, None]), "clip": lambda: tf.clip_by_value(d, v, v),
        "not": lambda: tf.logical_not(v), "dense": lambda: tf.layers.dense(b[None], 2),
        "bool": lambda: tf.multiply(b, 1.5), "times bool": lambda: 1.5 * b,
    }  # fmt: skip
    for name, call in calls.items():
        try:
            call()
            found.append([name, "made"])
        except (TypeError, ValueError) as e:
            found.append([name, type(e).__name__])
    return found


def refused(tf: Any) -> Any:
    """The kinds of errors of calls with a variable, of either kind, of another type."""
    b = tf.constant([True, False])
    return [
        *_kinds(tf, False), *_kinds(tf, True), b * b, b * True, b * 1.5, tf.constant([0.5, 2.0]) * b, tf.ones([0, 2]),
        _shape(tf.layers.dense(tf.zeros([1, 0]), 2)),
    ]  # fmt: skip


CASES = {f.__name__: f for f in (tensordots, repeats, sliced, refused)}
