"""`tensorflow.python.ops.math_ops`: what is a name of TensorFlow 2 outside, or none."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.ops import math_ops as own
from dtfctl.runtime.programs.counterparts import generated

_bucketize = own.bucketize


def _segments(op: str) -> Any:
    def function(
        data: Any,
        indices: Any,
        segment_ids: Any,
        num_segments: Any = None,
        name: str | None = None,
        sparse_gradient: bool = False,
    ) -> Any:
        reduced = getattr(tf, op)
        return reduced(data, indices, segment_ids, name=name, num_segments=num_segments)

    function.__doc__ = f"Apply `{op}`, with the number of segments before the name."
    return function


sparse_segment_sum_v2 = _segments("sparse_segment_sum")
sparse_segment_mean_v2 = _segments("sparse_segment_mean")
sparse_segment_sqrt_n_v2 = _segments("sparse_segment_sqrt_n")


def tensor_equals(self: Any, other: Any) -> Any:
    """Tell whether two are one tensor, as `==` does in TensorFlow 1."""
    return self is other


def tensor_not_equals(self: Any, other: Any) -> Any:
    """Tell whether two are not one tensor, as `!=` does in TensorFlow 1."""
    return self is not other


def erfcinv(x: Any, name: str | None = None) -> Any:
    """Return what `erfc` has been taken of."""
    with tf.name_scope(name, "erfcinv", [x]):
        x = tf.convert_to_tensor(x, name="start")
        return -tf.math.ndtri(0.5 * x) * (0.5**0.5)


def __getattr__(name: str) -> Any:
    try:
        return getattr(own, name)
    except AttributeError:
        # `sparse_segment_sum_grad` and others that are an op and no public name.
        if name.startswith("sparse_segment_") or name in ("igamma_grad_a", "truncate_mod", "complex_abs", "add_v2"):
            return getattr(generated, name)
        raise
