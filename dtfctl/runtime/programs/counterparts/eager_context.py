"""`tensorflow.python.eager.context`: which mode a program is in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dtfctl.runtime.eager.enable import executing_eagerly
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.graph import Graph

__all__ = ["eager_mode", "executing_eagerly", "graph_mode", "in_graph_mode", "num_gpus"]


@contextlib.contextmanager
def graph_mode() -> Iterator[None]:
    """Build graphs, in a block: in the default graph where that is what the program does already."""
    if not executing_eagerly():
        yield
        return
    with Graph().as_default():
        yield


def eager_mode() -> None:
    """Raise NotImplementedError: a program executes eagerly from its start or not at all."""
    raise NotImplementedError(
        "eager execution in a block is not there; call tf.enable_eager_execution() at the program's start"
        " (docs/eager.md)"
    )


def in_graph_mode() -> bool:
    """Tell whether an op called here goes into a graph."""
    return not executing_eagerly()


def num_gpus() -> int:
    """Return how many GPUs this process has."""
    from dtfctl.runtime.client.session import Session

    with Graph().as_default(), Session() as session:
        return sum(d.device_type == "GPU" for d in session.list_devices())


def __getattr__(name: str) -> object:
    return getattr(context, name)
