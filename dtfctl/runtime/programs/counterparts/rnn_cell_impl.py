"""`tensorflow.python.ops.rnn_cell_impl`: the cells, and the layer that programs' own cells take from it."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.framework import nest
from dtfctl.runtime.ops.rnn_cell import (
    BasicLSTMCell,
    BasicRNNCell,
    DropoutWrapper,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    ResidualWrapper,
    RNNCell,
)

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerRNNCell",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
    "assert_like_rnncell",
]

LayerRNNCell = RNNCell
_BIAS_VARIABLE_NAME, _WEIGHTS_VARIABLE_NAME = "bias", "kernel"


def assert_like_rnncell(cell_name: str, cell: Any) -> None:
    """Refuse what cannot be called as a cell.

    Raises:
        TypeError: it is callable and has sizes, or not.
    """
    wanted = ("output_size", "state_size", "zero_state")
    absent = [name for name in wanted if not hasattr(cell, name)]
    if absent or not callable(cell):
        raise TypeError(f"The argument {cell_name!r} ({cell}) is not an RNNCell: {', '.join(absent)} not found.")


def _like_rnncell(cell: Any) -> bool:
    """Tell whether something can be called as a cell."""
    return callable(cell) and all(hasattr(cell, name) for name in ("output_size", "state_size", "zero_state"))


def _concat(prefix: Any, suffix: Any, static: bool = False) -> Any:
    """Join a shape's beginning and end, each a number, a shape or a tensor: a tensor, or a list where `static`."""
    if static:
        return [size for part in (prefix, suffix) for size in tf.TensorShape(_sizes(part)).as_list()]
    parts = [
        tf.reshape(part, [-1]) if isinstance(part, tf.Tensor) else tf.constant(_sizes(part), tf.int32)
        for part in (prefix, suffix)
    ]
    return tf.concat(parts, 0)


def _sizes(part: Any) -> Any:
    return [part] if isinstance(part, int) else tf.TensorShape(part).as_list()


class _Linear:
    """Compute [args] . kernel + bias; the variables are made when this is."""

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        tensors = args if isinstance(args, (list, tuple)) else [args]
        widths = [t.shape[1].value for t in tensors]
        if not tensors or None in widths:
            raise ValueError(f"linear expects shapes of known width, got {[t.shape for t in tensors]}")
        dtype = tensors[0].dtype
        self._weights = tf.get_variable(
            _WEIGHTS_VARIABLE_NAME, [sum(widths), output_size], dtype, initializer=kernel_initializer
        )
        start = bias_initializer or tf.constant_initializer(0.0)
        self._biases = tf.get_variable(_BIAS_VARIABLE_NAME, [output_size], dtype, start) if build_bias else None

    def __call__(self, args: Any) -> Any:
        tensors = nest.flatten(args)
        joined = tensors[0] if len(tensors) == 1 else tf.concat(tensors, 1)
        product = tf.matmul(joined, self._weights)
        return product if self._biases is None else tf.nn.bias_add(product, self._biases)


def _linear(
    args: Any, output_size: int, bias: bool, bias_initializer: Any = None, kernel_initializer: Any = None
) -> Any:
    """Compute [args] . kernel + bias, with variables of the scope around."""
    return _Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)
