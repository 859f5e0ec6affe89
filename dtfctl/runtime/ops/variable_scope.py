"""Sharing variables by name: `get_variable` and `variable_scope`, as in TF1."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.func_graph import init_scope, outermost_graph
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.partitioned_variables import PartitionedVariable
from dtfctl.runtime.ops.variables import SaveSliceInfo, Variable, VariableAggregation, VariableSynchronization


class Reuse(Enum):
    AUTO_REUSE = 1


AUTO_REUSE = Reuse.AUTO_REUSE


@dataclass
class VariableScope:
    """What a `with variable_scope(...)` block sets for the variables made inside it."""

    reuse: Any = False
    name: str = ""
    initializer: Any = None
    regularizer: Any = None
    caching_device: Any = None
    partitioner: Any = None
    custom_getter: Any = None
    name_scope: str = ""
    dtype: Any = dtypes.float32
    use_resource: bool | None = None
    constraint: Any = None

    @property
    def original_name_scope(self) -> str:
        return self.name_scope

    def reuse_variables(self) -> None:
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        self.regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        self.caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        self.partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        self.custom_getter = custom_getter

    def set_dtype(self, dtype: Any) -> None:
        self.dtype = dtype

    def set_use_resource(self, use_resource: bool) -> None:
        self.use_resource = use_resource

    def get_collection(self, name: str) -> list[Any]:
        return context.get_default_graph().get_collection(name, self.name + "/" if self.name else None)

    def get_variable(
        self,
        var_store: Any,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Any = None,
        constraint: Any = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
    ) -> Any:
        """Get the variable of this name in this scope, with the arguments of `tf.get_variable`.

        Args:
            var_store: TensorFlow's way to say which graph's variables; None, as there is one store a graph here.

        Raises:
            ValueError: another store is given.
        """
        if var_store is not None:
            raise ValueError("variables are kept by graph: give None for var_store, inside `graph.as_default()`")
        of_value = (shape, dtype, initializer, regularizer, trainable, collections, caching_device, partitioner)
        how = (validate_shape, use_resource, custom_getter, constraint, synchronization, aggregation)
        with variable_scope(self, reuse=reuse, auxiliary_name_scope=False):
            return get_variable(name, *of_value, *how)

    def trainable_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)


class _Open(threading.local):
    """The scope that a thread is in, and how often it has opened each scope name."""

    def __init__(self) -> None:
        self.scope = VariableScope()
        self.scope_counts: dict[str, int] = {}


@dataclass
class _Store:
    """Variables of one graph by name, and what is open in each thread."""

    variables: dict[str, Any] = field(default_factory=dict)
    _open: _Open = field(default_factory=_Open)

    @property
    def scope(self) -> VariableScope:
        return self._open.scope

    @scope.setter
    def scope(self, scope: VariableScope) -> None:
        self._open.scope = scope

    @property
    def scope_counts(self) -> dict[str, int]:
        return self._open.scope_counts

    def open(self, scope_name: str) -> None:
        self.scope_counts[scope_name] = self.scope_counts.get(scope_name, 0) + 1

    def close_subscopes(self, scope_name: str) -> None:
        for name in self.scope_counts:
            if not scope_name or name.startswith(scope_name + "/"):
                self.scope_counts[name] = 0


_STORE_KEY = ("__variable_store",)


def _store() -> _Store:
    ref = outermost_graph().get_collection_ref(_STORE_KEY)
    if not ref:
        ref.append(_Store())
    store: _Store = ref[0]
    return store


def open_scopes() -> tuple[VariableScope, dict[str, int]]:
    """Return the scope that this thread is in, and how often it has opened which, for `take_scopes` of another."""
    return _store().scope, dict(_store().scope_counts)


def take_scopes(scopes: tuple[VariableScope, dict[str, int]]) -> None:
    """Let this thread be in the scope that another one was in, and go on counting where that was."""
    store = _store()
    store.scope = scopes[0]
    store.scope_counts.clear()
    store.scope_counts.update(scopes[1])


def get_variable_scope() -> VariableScope:
    """Get the current scope of the default graph."""
    return _store().scope


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """Get the variable of this name in the current scope: a new one, or the existing one when the scope reuses.

    Raises:
        ValueError: it exists and the scope does not reuse, does not exist and the scope reuses, or shapes differ.
    """
    scope = get_variable_scope()
    full_name = f"{scope.name}/{name}" if scope.name else name
    options = {
        "shape": shape,
        "dtype": dtype or scope.dtype,
        "initializer": scope.initializer if initializer is None else initializer,
        "regularizer": scope.regularizer if regularizer is None else regularizer,
        "reuse": scope.reuse,
        "trainable": trainable,
        "collections": collections,
        "caching_device": scope.caching_device if caching_device is None else caching_device,
        "partitioner": scope.partitioner if partitioner is None else partitioner,
        "validate_shape": validate_shape,
        "use_resource": scope.use_resource if use_resource is None else use_resource,
        "constraint": scope.constraint if constraint is None else constraint,
        "synchronization": synchronization,
        "aggregation": aggregation,
    }
    getter: Callable[..., Any] = _get_true_variable
    for custom in (scope.custom_getter, custom_getter):
        if custom is not None:
            getter = _wrap(custom, getter)
    with context.get_default_graph().name_scope(None):
        return getter(name=full_name, **options)


def _wrap(custom: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    def outer(*args: Any, **kwargs: Any) -> Any:
        return custom(inner, *args, **kwargs)

    return outer


def get_local_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    """Get a variable like `get_variable`, kept in LOCAL_VARIABLES and not trained."""
    kwargs["trainable"] = False
    kwargs["collections"] = [*(kwargs.get("collections") or []), GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, *args, **kwargs)


def _get_true_variable(
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
    """Get what a custom getter asks for, with TensorFlow's order and defaults: getters need not pass all on."""
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
        return _get_partitioned(name, static, partitioner, **options)
    return _get_single(name, static, None, **options)


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
    store = _store()
    found = store.variables.get(name)
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
    store.variables[name] = variable
    if regularizer is not None:
        graph = variable.graph
        with init_scope(), graph.colocate_with(variable.op), graph.name_scope(f"{name}/Regularizer/"):
            loss = regularizer(variable)
        if loss is not None:
            graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


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


def _get_partitioned(name: str, shape: TensorShape, partitioner: Any, **options: Any) -> Any:
    store = _store()
    found = store.variables.get(name)
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
        piece = _get_single(f"{name}/part_{i}", TensorShape(part_shape), info, **options)
        piece._set_save_slice_info(SaveSliceInfo(name, dims, offsets, part_shape))
        pieces.append(piece)
        offset += part_shape[axis]
    whole = PartitionedVariable(name, shape, as_dtype(options["dtype"]), pieces, parts)
    store.variables[name] = whole
    context.get_default_graph().add_to_collection(GraphKeys.CONCATENATED_VARIABLES, whole)
    return whole


@contextlib.contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Prefix the names of variables made inside, and set their defaults.

    Args:
        name_or_scope: a name below the current scope, or a scope object to enter again as it is.
        default_name: used, made unique, when `name_or_scope` is None.
        reuse: True, False/None (inherit) or AUTO_REUSE.
        auxiliary_name_scope: open a name scope for ops too.

    Raises:
        ValueError: neither name is given, or a default name is used while reusing.
    """
    graph, store = context.get_default_graph(), _store()
    old = store.scope
    if name_or_scope is None and default_name is None:
        raise TypeError("If default_name is None then name_or_scope is required")
    if isinstance(name_or_scope, VariableScope):
        new = replace(name_or_scope)
        op_scope: str | None = name_or_scope.name.split("/")[-1] or None
        new.reuse = reuse if reuse is not None else name_or_scope.reuse or old.reuse
    else:
        if name_or_scope is None:
            assert default_name is not None
            if reuse is True:
                raise ValueError("reuse=True cannot be used without a name_or_scope")
            own, op_scope = _unique_scope(store, default_name), default_name
        else:
            own = op_scope = name_or_scope
        full = f"{old.name}/{own}" if old.name and own else own or old.name
        new = replace(old, name=full)
        new.reuse = reuse if reuse is not None and reuse is not False else old.reuse
    for key, value in {
        "initializer": initializer,
        "regularizer": regularizer,
        "caching_device": caching_device,
        "partitioner": partitioner,
        "dtype": dtype,
        "use_resource": use_resource,
        "constraint": constraint,
    }.items():
        if value is not None:
            setattr(new, key, value)
    if custom_getter is not None:
        new.custom_getter = _compose(old.custom_getter, custom_getter)
    store.open(new.name)
    saved = dict(store.scope_counts)
    store.scope = new
    try:
        if op_scope and auxiliary_name_scope:
            with graph.name_scope(op_scope) as opened:
                new.name_scope = opened
                yield new
        else:
            new.name_scope = graph.get_name_scope()
            yield new
    finally:
        store.close_subscopes(new.name)
        if isinstance(name_or_scope, VariableScope):
            store.scope_counts.update(saved)
        store.scope = old


def _compose(outer: Any, inner: Any) -> Any:
    if outer is None:
        return inner

    def both(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return inner(_wrap_positional(outer, getter), *args, **kwargs)

    return both


def _wrap_positional(custom: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: custom(inner, *args, **kwargs)


def _unique_scope(store: _Store, prefix: str) -> str:
    base = f"{store.scope.name}/{prefix}" if store.scope.name else prefix
    if not store.scope_counts.get(base):
        return prefix
    index = 1
    while store.scope_counts.get(f"{base}_{index}"):
        index += 1
    return f"{prefix}_{index}"


@contextlib.contextmanager
def variable_op_scope(
    values: Any,
    name_or_scope: Any,
    default_name: str | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> Iterator[Any]:
    """Open a variable scope, by the order of arguments of TensorFlow's first releases."""
    kinds = (initializer, regularizer, caching_device, partitioner, custom_getter, reuse, dtype)
    with variable_scope(name_or_scope, default_name, values, *kinds, use_resource, constraint) as scope:
        yield scope


def no_regularizer(_: Any) -> None:
    """Leave a part of a scope without a regularizer."""
