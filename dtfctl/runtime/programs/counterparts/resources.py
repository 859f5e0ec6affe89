"""`tensorflow.python.ops.resources`: what a session has to make before it is used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtfctl.runtime import api as tf


def register_resource(handle: Any, create_op: Any, is_initialized_op: Any, is_shared: bool = True) -> None:
    """Let `initialize_resources` know of a resource, and of the op that makes it."""
    key = tf.GraphKeys.RESOURCES if is_shared else tf.GraphKeys.LOCAL_RESOURCES
    tf.add_to_collection(key, (handle, create_op, is_initialized_op))


def _made(key: str) -> list[Any]:
    """List the entries of a collection that are of a resource; variables behind handles are initialized apart."""
    return [entry for entry in tf.get_collection(key) if isinstance(entry, tuple)]


def shared_resources() -> list[Any]:
    """List what is shared among the workers: (handle, op that makes it, op that tells)."""
    return _made(tf.GraphKeys.RESOURCES)


def local_resources() -> list[Any]:
    """List what each worker has its own of: (handle, op that makes it, op that tells)."""
    return _made(tf.GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list: Iterable[Any], name: str = "init") -> Any:
    """Return an op that makes these resources."""
    return tf.group(*(entry[1] for entry in resource_list), name=name)
