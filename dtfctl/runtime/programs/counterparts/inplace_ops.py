"""`tensorflow.python.ops.inplace_ops`: rows of a tensor that are set, added to or taken from."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.programs.counterparts import generated


def _updated(op: str, x: Any, i: Any, v: Any) -> Any:
    """Update row i, rows i, or all of x where i is None."""
    x = tf.convert_to_tensor(x)
    v = tf.convert_to_tensor(v, x.dtype)
    if i is None:
        whole = apply_op(op, x=tf.reshape(x, [1, -1]), i=[0], v=tf.reshape(v, [1, -1]))
        return tf.reshape(whole, tf.shape(x))
    i = tf.cast(tf.convert_to_tensor(i), tf.int32)
    if i.shape.ndims == 0:
        return apply_op(op, x=x, i=tf.reshape(i, [1]), v=tf.expand_dims(v, 0))
    return apply_op(op, x=x, i=i, v=v)


def inplace_update(x: Any, i: Any, v: Any) -> Any:
    """Set rows of a copy of x."""
    return _updated("InplaceUpdate", x, i, v)


def inplace_add(x: Any, i: Any, v: Any) -> Any:
    """Add to rows of a copy of x."""
    return _updated("InplaceAdd", x, i, v)


def inplace_sub(x: Any, i: Any, v: Any) -> Any:
    """Take from rows of a copy of x."""
    return _updated("InplaceSub", x, i, v)


# Values of a step never change: what TensorFlow writes over x is a new tensor here, which programs go on with.
alias_inplace_update, alias_inplace_add, alias_inplace_sub = inplace_update, inplace_add, inplace_sub


def __getattr__(name: str) -> Any:
    return getattr(generated, name)
