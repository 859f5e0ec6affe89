"""Names of the standard collections, and the module-level forms of a graph's scopes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from dtfctl.runtime.framework.context import get_default_graph


class GraphKeys:
    """Standard collection names, as in TF1."""

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    CONCATENATED_VARIABLES = "concatenated_variables"
    SAVERS = "savers"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    TRAIN_OP = "train_op"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"

    # Old name of GLOBAL_VARIABLES.
    VARIABLES = GLOBAL_VARIABLES


def device(device_name_or_function: Any) -> AbstractContextManager[None]:
    return get_default_graph().device(device_name_or_function)


def container(container_name: str) -> AbstractContextManager[str]:
    return get_default_graph().container(container_name)


def colocate_with(op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
    return get_default_graph().colocate_with(op, ignore_existing)


def control_dependencies(control_inputs: Iterable[Any] | None) -> AbstractContextManager[None]:
    return get_default_graph().control_dependencies(control_inputs)


@contextlib.contextmanager
def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Iterator[str]:
    """Prefix names of ops made inside with `name`, or `default_name` when it is None.

    Raises:
        ValueError: both are None while `values` is given.
    """
    chosen = default_name if name is None else name
    if chosen is None and values is not None:
        raise ValueError("At least one of name and default_name must be provided")
    with get_default_graph().name_scope(chosen) as scope:
        yield scope


@contextlib.contextmanager
def op_scope(values: Any, name: str | None, default_name: str | None = None) -> Iterator[str]:
    with name_scope(name, default_name, values) as scope:
        yield scope


def add_to_collection(name: Any, value: Any) -> None:
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    get_default_graph().add_to_collections(names, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: Any) -> list[Any]:
    return get_default_graph().get_collection_ref(key)


def set_random_seed(seed: int | None) -> None:
    """Set the graph-level seed of the default graph."""
    get_default_graph().seed = seed


DEFAULT_GRAPH_SEED = 87654321


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """Combine the graph's seed and a random op's own into the op's two, as TF1 does."""
    graph = get_default_graph()
    if graph.seed is not None:
        if op_seed is None:
            program: Any = graph
            while getattr(program, "in_line", False):
                program = program.outer_graph
            op_seed = program.seeds_given
            program.seeds_given += 1
        seeds: tuple[int | None, int | None] = (graph.seed, op_seed)
    elif op_seed is not None:
        seeds = (DEFAULT_GRAPH_SEED, op_seed)
    else:
        return None, None
    first, second = (int(s) & 0x7FFFFFFFFFFFFFFF for s in seeds if s is not None)
    # Two zeros mean "seed from the clock".
    return (0, 0x7FFFFFFF) if (first, second) == (0, 0) else (first, second)
