"""Sharing variables by name: `get_variable` and `variable_scope`, as in TF1."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.func_graph import outermost_graph
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.ops.shared_variables import get_or_make
from dtfctl.runtime.ops.variables import VariableAggregation, VariableSynchronization


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


def create_partitioned_variables(
    shape: Any,
    slicing: Sequence[int],
    initializer: Any,
    dtype: Any = dtypes.float32,
    trainable: bool = True,
    collections: Any = None,
    name: str | None = None,
    reuse: Any = None,
) -> list[Any]:
    """Make the parts of one variable, cut along one axis; `get_variable` with a partitioner makes them as well.

    Args:
        slicing: the number of parts along each axis.

    Raises:
        ValueError: more than one axis is cut.
    """
    if sum(n > 1 for n in slicing) > 1:
        raise ValueError(f"Can only slice a variable along one dimension: shape: {shape}, slicing: {slicing}")
    with variable_scope(name, "PartitionedVariable", reuse=reuse):
        whole = get_variable(
            "part",
            shape,
            dtype,
            initializer,
            trainable=trainable,
            collections=collections,
            partitioner=lambda **_: list(slicing),
        )
    return list(whole)


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


def _get_true_variable(*args: Any, **kwargs: Any) -> Any:
    return get_or_make(_store().variables, *args, **kwargs)


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
