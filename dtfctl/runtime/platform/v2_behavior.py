"""Switches of `tensorflow.compat.v1` that turn TensorFlow 2's behaviour off, which here was never on.

Scripts written for TensorFlow 2's `compat.v1` call one of them first; they need no change for it.
"""

from __future__ import annotations

from dtfctl.runtime.framework import context


def disable_v2_behavior() -> None:
    """Do nothing: graphs, sessions and reference variables are what this module does by default."""


def disable_eager_execution() -> None:
    """Ops are added to a graph, which is the default, also after `enable_eager_execution`."""
    if context.global_graph_type() is not None:
        context.set_global_graph_type(None)


def disable_v2_tensorshape() -> None:
    """Do nothing: items of a TensorShape are Dimensions."""


def disable_control_flow_v2() -> None:
    """Do nothing: loops and conditions are TensorFlow 1's."""


def enable_control_flow_v2() -> None:
    """Do nothing: loops and conditions are single ops with bodies already, under TensorFlow 1's names."""


def enable_v2_tensorshape() -> None:
    """Refuse to give items of a TensorShape as numbers.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("enable_v2_tensorshape: items of a TensorShape are Dimensions here; use shape.as_list()")


def disable_tensor_equality() -> None:
    """Do nothing: tensors are equal where they are the same."""


def enable_tensor_equality() -> None:
    """Refuse to let `==` compare values.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("enable_tensor_equality: `==` of tensors compares identity here; use tf.equal")


def control_flow_v2_enabled() -> bool:
    return False
