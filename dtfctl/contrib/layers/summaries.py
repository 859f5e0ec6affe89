"""Summaries of tensors, by their names: `tf.contrib.layers.summarize_*`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dtfctl.runtime import api as tf

__all__ = [
    "summarize_activation",
    "summarize_activations",
    "summarize_collection",
    "summarize_tensor",
    "summarize_tensors",
    "summarize_variables",
]


def summarize_tensor(tensor: Any, tag: str | None = None) -> Any:
    """Summarize a number as such, and anything else as a histogram."""
    found = tf.convert_to_tensor(tensor)
    write = tf.summary.scalar if found.shape.rank == 0 else tf.summary.histogram
    return write(tag or tensor.op.name, found)


def summarize_tensors(tensors: Iterable[Any], summarizer: Callable[[Any], Any] = summarize_tensor) -> list[Any]:
    """Summarize each of some tensors."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(
    collection: str, name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Summarize what is in a collection, under names that `name_filter` matches."""
    return summarize_tensors(tf.get_collection(collection, name_filter), summarizer)


def summarize_variables(name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor) -> Any:
    """Summarize variables."""
    return summarize_collection(tf.GraphKeys.GLOBAL_VARIABLES, name_filter, summarizer)


def summarize_activation(op: Any) -> Any:
    """Summarize a layer's result: the share of zeros after a ReLU, and a histogram."""
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        with tf.name_scope("summaries"):
            zeros = tf.reduce_mean(tf.cast(tf.less(op, 1e-6), tf.float32))
            tf.summary.scalar(f"{op.op.name}/zeros", zeros)
    if op.op.type == "Relu6":
        tf.summary.scalar(f"{op.op.name}/sixes", tf.reduce_mean(tf.cast(tf.greater(op, 6.0 - 1e-6), tf.float32)))
    return tf.summary.histogram(f"{op.op.name}/activation", op)


def summarize_activations(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_activation
) -> list[Any]:
    """Summarize the results that layers keep in the collection ACTIVATIONS."""
    return summarize_collection(tf.GraphKeys.ACTIVATIONS, name_filter, summarizer)
