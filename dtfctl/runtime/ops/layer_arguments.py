"""Arguments and names of layers, as `tf.layers` and `tf.keras.layers` read them."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

from dtfctl.runtime.ops.variable_scope import VariableScope, variable_scope


def snake_case(name: str) -> str:
    """Make a scope's name of a class's, as TensorFlow does: "BasicLSTMCell" is "basic_lstm_cell"."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    snake = re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()
    return f"private{snake}" if snake.startswith("_") else snake


def sized(value: Any, n: int, what: str) -> tuple[int, ...]:
    """Make n numbers of one, or check that there are n.

    Raises:
        ValueError: there are more or fewer.
    """
    out = (int(value),) * n if isinstance(value, int) else tuple(int(v) for v in value)
    if len(out) != n:
        raise ValueError(f"The `{what}` argument must be an integer or a tuple of {n} integers. Received: {value}")
    return out


def grown_length(length: Any, kernel: int, stride: int, padding: str) -> Any:
    """Compute how long a transposed convolution makes an axis."""
    return length * stride + (max(kernel - stride, 0) if padding.upper() == "VALID" else 0)


def layer_scope(name: str | None, base: str, reuse: Any) -> AbstractContextManager[VariableScope]:
    """Open the scope of a layer's variables.

    A layer that has no name of its own and reuses variables has those of the first of its kind.
    """
    return variable_scope(base if name is None and reuse else name, base, reuse=reuse)
