"""The global step: how many updates the model has seen."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import init_ops, variable_scope
from dtfctl.runtime.ops.variables import Variable, VariableAggregation


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Return the global step's value in a session."""
    return int(sess.run(global_step_tensor))


def get_global_step(graph: Graph | None = None) -> Any:
    """Return the global step variable of a graph, or None.

    Raises:
        TypeError: what is called global_step is no integer scalar; ValueError: there are several.
    """
    graph = graph or context.get_default_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple tensors in global_step collection.")
    if found:
        step = found[0]
    else:
        step = next((v for v in graph.get_collection(GraphKeys.GLOBAL_VARIABLES) if v.name == "global_step:0"), None)
        if step is None:
            return None
    assert_global_step(step)
    return step


def create_global_step(graph: Graph | None = None) -> Any:
    """Make the global step variable.

    Raises:
        ValueError: it exists.
    """
    graph = graph or context.get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return variable_scope.get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=dtypes.int64,
            initializer=init_ops.Zeros(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
            aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
        )


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """Return the global step of the graph; make it if there is none."""
    graph = graph or context.get_default_graph()
    step = get_global_step(graph)
    return create_global_step(graph) if step is None else step


def assert_global_step(global_step_tensor: Any) -> None:
    """Raise TypeError unless it is an integer scalar variable or tensor."""
    if not isinstance(global_step_tensor, (Variable, Tensor)):
        raise TypeError(f"Existing 'global_step' must be a Variable or Tensor: {global_step_tensor!r}.")
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(f"Existing 'global_step' does not have integer type: {global_step_tensor.dtype}")
    if global_step_tensor.shape.rank not in (0, None):
        raise TypeError(f"Existing 'global_step' is not scalar: {global_step_tensor.shape}")
