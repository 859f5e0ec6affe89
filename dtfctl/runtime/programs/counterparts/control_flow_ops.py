"""`tensorflow.python.ops.control_flow_ops`: what is not a public name of it."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf


def with_dependencies(dependencies: Any, output_tensor: Any, name: str | None = None) -> Any:
    """Return a tensor that is there only when these ops have run."""
    with tf.name_scope(name, "control_dependency", [output_tensor]), tf.control_dependencies(list(dependencies)):
        if isinstance(output_tensor, tf.IndexedSlices):
            values = tf.identity(output_tensor.values)
            return tf.IndexedSlices(values, output_tensor.indices, output_tensor.dense_shape)
        return tf.identity(output_tensor)


def switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Return data at one of two outputs, (false, true), by a truth value."""
    return tf.raw_ops.Switch(data=tf.convert_to_tensor(data, dtype), pred=pred, name=name)


def merge(inputs: Any, name: str | None = None) -> Any:
    """Return the first tensor that is there of several, and which it was."""
    return tf.raw_ops.Merge(inputs=[tf.convert_to_tensor(t) for t in inputs], name=name)
