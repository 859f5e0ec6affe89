"""`tf.contrib.eager`: eager execution under its former names, and gradients of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.train.checkpoint import Checkpoint

__all__ = [
    "Checkpoint",
    "Iterator",
    "Variable",
    "defun",
    "enable_eager_execution",
    "executing_eagerly",
    "gradients_function",
    "implicit_gradients",
    "implicit_value_and_gradients",
    "in_eager_mode",
    "in_graph_mode",
    "list_devices",
    "num_gpus",
    "py_func",
    "value_and_gradients_function",
]

Variable = tf.Variable
defun = tf.function
enable_eager_execution = tf.enable_eager_execution
executing_eagerly = in_eager_mode = tf.executing_eagerly
py_func = tf.py_function


def in_graph_mode() -> bool:
    """Tell whether ops become nodes of a graph."""
    return not tf.executing_eagerly()


def Iterator(dataset: Any) -> Any:
    """Return an iterator of a dataset's elements."""
    return iter(dataset)


def list_devices() -> list[str]:
    """List the names of the devices of this process."""
    return [device.name for device in tf.config.list_logical_devices()]


def num_gpus() -> int:
    """Count the GPUs of this process."""
    return len(tf.config.list_logical_devices("GPU"))


def value_and_gradients_function(f: Callable[..., Any], params: Sequence[Any] | None = None) -> Callable[..., Any]:
    """Make a function that returns f's value and its gradients by its arguments.

    Args:
        params: which arguments, by place or by name; all when None.
    """

    def both(*args: Any, dy: Any = None) -> tuple[Any, list[Any]]:
        names = list(inspect.signature(f).parameters)
        places = range(len(args)) if params is None else [names.index(p) if isinstance(p, str) else p for p in params]
        tensors = [tf.convert_to_tensor(a) if i in places else a for i, a in enumerate(args)]
        with tf.GradientTape() as tape:
            for i in places:
                tape.watch(tensors[i])
            value = f(*tensors)
        return value, list(tape.gradient(value, [tensors[i] for i in places], output_gradients=dy))

    return both


def gradients_function(f: Callable[..., Any], params: Sequence[Any] | None = None) -> Callable[..., list[Any]]:
    """Make a function that returns f's gradients by its arguments."""
    both = value_and_gradients_function(f, params)
    return lambda *args, dy=None: both(*args, dy=dy)[1]


def implicit_value_and_gradients(f: Callable[..., Any]) -> Callable[..., tuple[Any, list[tuple[Any, Any]]]]:
    """Make a function that returns f's value, and its gradients by the variables that it reads with the variables.

    Raises:
        ValueError: when called, if f reads no trainable variable.
    """

    def both(*args: Any, **kwargs: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        with tf.GradientTape() as tape:
            value = f(*args, **kwargs)
        variables = tape.watched_variables()
        if not variables:
            raise ValueError(
                "No trainable variables were accessed while the function was being computed: what is differentiated "
                "must read a tf.Variable"
            )
        return value, list(zip(tape.gradient(value, variables), variables, strict=True))

    return both


def implicit_gradients(f: Callable[..., Any]) -> Callable[..., list[tuple[Any, Any]]]:
    """Make a function that returns f's gradients by the variables that it reads, with the variables."""
    both = implicit_value_and_gradients(f)
    return lambda *args, **kwargs: both(*args, **kwargs)[1]
