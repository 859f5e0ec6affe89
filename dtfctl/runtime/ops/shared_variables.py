"""Variables that are shared by name: the one there is, or a new one, whole or in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.func_graph import init_scope, outermost_graph
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.partitioned_variables import PartitionedVariable
from dtfctl.runtime.ops.variables import SaveSliceInfo, Variable, VariableAggregation, VariableSynchronization


def get_or_make(
    variables: dict[str, Any],
    name: str,
    shape: Any = None,
    dtype: Any = dtypes.float32,
    initializer: Any = None,
    regularizer: Any = None,
    reuse: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    constraint: Any = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """Get what a custom getter asks for, with TensorFlow's order and defaults: getters need not pass all on.

    Args:
        variables: those there are, by name; gets what is made.

    Raises:
        ValueError: it is there and not reused, or to be reused and not there, or of another shape or type.
    """
    options = {
        "dtype": dtype,
        "initializer": initializer,
        "regularizer": regularizer,
        "reuse": reuse,
        "trainable": trainable,
        "collections": collections,
        "caching_device": caching_device,
        "validate_shape": validate_shape,
        "use_resource": use_resource,
        "constraint": constraint,
        "synchronization": synchronization,
        "aggregation": aggregation,
    }
    static = None if shape is None else as_shape(shape)
    if partitioner is not None and static is not None and static.is_fully_defined() and (static.rank or 0) > 0:
        return _get_partitioned(variables, name, static, partitioner, **options)
    return _get_single(variables, name, static, None, **options)


def _check_reuse(name: str, reuse: Any, existing: Any) -> None:
    if existing is not None and not reuse:
        frames = existing.op._frames if hasattr(existing, "op") else ()
        where = f" Originally defined at {frames[-1][0]}:{frames[-1][1]}." if frames else ""
        raise ValueError(
            f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
            f"VarScope?{where}"
        )
    if existing is None and reuse is True:
        raise ValueError(
            f"Variable {name} does not exist, or was not created with tf.get_variable(). Did you mean to set "
            "reuse=tf.AUTO_REUSE in VarScope?"
        )


def _get_single(
    variables: dict[str, Any],
    name: str,
    shape: TensorShape | None,
    partition: init_ops.PartitionInfo | None,
    dtype: Any,
    initializer: Any,
    regularizer: Any,
    reuse: Any,
    trainable: bool | None,
    collections: Any,
    caching_device: Any,
    validate_shape: bool,
    use_resource: bool | None,
    constraint: Any,
    synchronization: VariableSynchronization,
    aggregation: VariableAggregation,
) -> Any:
    found = variables.get(name)
    if outermost_graph().executes and not reuse:
        # An eager program shares variables by sharing the object: asking again makes another, as in TensorFlow.
        found = None
    _check_reuse(name, reuse, found)
    if found is not None:
        if shape is not None and not shape.is_compatible_with(found.shape):
            raise ValueError(
                f"Trying to share variable {name}, but specified shape {shape} and found shape {found.shape}."
            )
        if as_dtype(dtype).base_dtype is not found.dtype.base_dtype:
            raise ValueError(
                f"Trying to share variable {name}, but specified dtype {as_dtype(dtype).name} and found dtype "
                f"{found.dtype.base_dtype.name}."
            )
        return found
    initial, dtype = _initial_value(name, shape, dtype, initializer, partition)
    variable = Variable(
        initial_value=initial,
        name=name,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        dtype=dtype,
        validate_shape=validate_shape,
        constraint=constraint,
        use_resource=use_resource,
        synchronization=synchronization,
        aggregation=aggregation,
    )
    variables[name] = variable
    graph = variable.graph
    for one in regularizer if isinstance(regularizer, Regularizers) else (regularizer,):
        if one is None:
            continue
        with init_scope(), graph.colocate_with(variable.op), graph.name_scope(f"{name}/Regularizer/"):
            loss = one(variable)
        if loss is not None:
            graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


class Regularizers(tuple[Any, ...]):
    """Several regularizers of one variable: that of its scope, then that of its layer. Each has its own loss."""


def _initial_value(
    name: str, shape: TensorShape | None, dtype: Any, initializer: Any, partition: init_ops.PartitionInfo | None
) -> tuple[Any, Any]:
    wanted = as_dtype(dtype)
    if initializer is None:
        if wanted.is_floating:
            initializer = init_ops.GlorotUniform()
        elif wanted.is_integer or wanted.is_bool or wanted is dtypes.string:
            initializer = init_ops.Zeros()
        else:
            raise ValueError(f"An initializer for variable {name} of {wanted.name} is required")
    if isinstance(initializer, type):
        initializer = initializer()
    if not callable(initializer):
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        return initializer, None if dtype is dtypes.float32 else wanted
    if shape is None or not shape.is_fully_defined():
        if not isinstance(initializer, init_ops.Initializer) and shape is None:
            return initializer, wanted
        raise ValueError(
            f"Shape of a new variable ({name}) must be fully defined, but instead was {shape or '<unknown>'}."
        )
    dims = list(shape.known())
    if partition is not None and isinstance(initializer, init_ops.Initializer):
        return _Initial(lambda: initializer(dims, dtype=wanted, partition_info=partition), shape), wanted
    if isinstance(initializer, init_ops.Initializer):
        return _Initial(lambda: initializer(dims, dtype=wanted), shape), wanted
    return _Initial(lambda: initializer(dims, dtype=wanted, partition_info=partition), shape), wanted


class _Initial:
    """Makes an initial value, whose shape creators may ask for before."""

    def __init__(self, make: Callable[[], Any], shape: TensorShape) -> None:
        self._make, self.shape = make, shape

    def __call__(self) -> Any:
        return self._make()


def _get_partitioned(variables: dict[str, Any], name: str, shape: TensorShape, partitioner: Any, **options: Any) -> Any:
    found = variables.get(name)
    _check_reuse(name, options["reuse"], found)
    if found is not None:
        return found
    parts = [int(p) for p in partitioner(shape=shape, dtype=as_dtype(options["dtype"]))]
    axes = [i for i, p in enumerate(parts) if p > 1]
    if len(parts) != shape.rank or len(axes) > 1 or any(p < 1 for p in parts):
        raise ValueError(f"Partitioner gave {parts} for variable {name} of shape {shape}: one axis only may be cut")
    axis, dims = (axes or [0])[0], list(shape.known())
    count = parts[axis]
    size, extra = divmod(dims[axis], count)
    pieces: list[Any] = []
    offset = 0
    for i in range(count):
        part_shape = [*dims]
        part_shape[axis] = size + (1 if i < extra else 0)
        offsets = [0] * len(dims)
        offsets[axis] = offset
        info = init_ops.PartitionInfo(dims, offsets)
        piece = _get_single(variables, f"{name}/part_{i}", TensorShape(part_shape), info, **options)
        piece._set_save_slice_info(SaveSliceInfo(name, dims, offsets, part_shape))
        pieces.append(piece)
        offset += part_shape[axis]
    whole = PartitionedVariable(name, shape, as_dtype(options["dtype"]), pieces, parts)
    variables[name] = whole
    context.get_default_graph().add_to_collection(GraphKeys.CONCATENATED_VARIABLES, whole)
    return whole
