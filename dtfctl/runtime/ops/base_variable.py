"""What variables of every kind have in common. `variables` says which kinds there are."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from dtfctl.protocol import meta_graph_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor, register_tensor_conversion_function
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.func_graph import init_scope, outermost_graph
from dtfctl.runtime.framework.graph_keys import GraphKeys, name_scope
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.reference import Reference
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops.batches import places_in_batches


class VariableSynchronization(Enum):
    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(Enum):
    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


_use_resource_by_default = False


def enable_resource_variables() -> None:
    """Make resource variables from now on, unless told otherwise."""
    global _use_resource_by_default
    _use_resource_by_default = True


def disable_resource_variables() -> None:
    global _use_resource_by_default
    _use_resource_by_default = False


def resource_variables_enabled() -> bool:
    return _use_resource_by_default


_kinds: dict[bool, type[Variable]] = {}


def set_kinds(reference: type[Variable], resource: type[Variable]) -> None:
    """Say what `Variable(...)` makes."""
    _kinds.update({False: reference, True: resource})


class _ByCreators(type):
    """Asks the `variable_creator_scope`s around, the innermost first, for what `Variable(...)` is to give."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        creators = _open_creators() if cls is Variable else []
        if not creators or kwargs.get("variable_def") is not None:
            return super().__call__(*args, **kwargs)
        create: Callable[..., Any] = super().__call__
        for creator in creators:
            create = functools.partial(creator, create)
        return create(**dict(zip(_ARGUMENTS, args)), **kwargs)


def _open_creators() -> list[Callable[..., Any]]:
    """List the creators of the default graph and of those around it, the outermost first."""
    graph: Any = context.get_default_graph()
    found: list[Callable[..., Any]] = []
    while graph is not None:
        found = [*graph._scopes.creators, *found]
        graph = getattr(graph, "outer_graph", None)
    return found


def variable_creator_scope(variable_creator: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
    """Let `variable_creator(next_creator, **arguments)` make the variables of a block.

    It gives what stands for the variable, which it mostly gets from `next_creator(**arguments)`: that of the block
    around, in the end `tf.Variable` itself. The arguments are those that the program names, by name.
    """
    return context.get_default_graph().variable_creator_scope(variable_creator)


class Variable(metaclass=_ByCreators):
    """State kept between runs of a session.

    Args:
        initial_value: what the initializer assigns: what `convert_to_tensor` takes, or a function without arguments.
        trainable: add to the collection optimizers train.
        collections: collections to add to; `GLOBAL_VARIABLES` when None.
        validate_shape: when False the value may change its shape.
        name, dtype: as usual; the dtype of the initial value when None.
        constraint: a function applied to the value after an optimizer's update.
        use_resource: make a resource variable, or a reference variable; the scope around and
            `enable_resource_variables` decide by default.

    Raises:
        ValueError: no initial value, or one whose shape is unknown while `validate_shape` is True.
    """

    SaveSliceInfo: type
    initializer: Operation
    _name: str
    _shape: TensorShape
    _dtype: DType
    _initial_value: Tensor | None
    _save_slice_info: Any = None
    constraint: Callable[[Any], Any] | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Variable:
        if cls is not Variable:
            return super().__new__(cls)
        use_resource = kwargs.get("use_resource")
        if use_resource is None:
            use_resource = _use_resource_by_default
        outermost: Any = outermost_graph()
        if outermost.executes:
            return super().__new__(outermost.make_variable())  # type: ignore[no-any-return]
        return super().__new__(_kinds[bool(use_resource)])

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Iterable[str] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: meta_graph_pb2.VariableDef | None = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: Any = None,
    ) -> None:
        self.synchronization, self.aggregation = synchronization, aggregation
        self.constraint = constraint
        self._caching_device = caching_device
        if variable_def is not None:
            self._init_from_proto(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        self._trainable = trainable if trainable is not None else synchronization != VariableSynchronization.ON_READ
        keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if not isinstance(keys, list) or any(not isinstance(k, str) for k in keys):
            raise ValueError(f"collections argument to Variable constructor must be a list, tuple, or set. Got {keys}")
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
            keys.append(GraphKeys.TRAINABLE_VARIABLES)
        with init_scope():
            self._build(initial_value, dtype, name, validate_shape, shape)
            context.get_default_graph().add_to_collections(keys, self)

    def _build(self, initial_value: Any, dtype: Any, name: str | None, validate_shape: bool, shape: Any) -> None:
        raise NotImplementedError

    def _make_initial(self, initial_value: Any, dtype: Any, scope: str, validate_shape: bool, shape: Any) -> Tensor:
        """Convert the initial value to a tensor, under ".../Initializer" when a function makes it, as in TF1."""
        wanted = None if dtype is None else as_dtype(dtype)
        if callable(initial_value):
            with name_scope("Initializer"), context.get_default_graph().device(None):
                value = convert_to_tensor(initial_value(), wanted, name="initial_value")
        else:
            value = convert_to_tensor(initial_value, wanted, name="initial_value")
        if validate_shape and shape is None and not value.shape.is_fully_defined():
            raise ValueError(f"initial_value must have a shape specified: {value!r}")
        self._initial_value = value
        self._dtype = value.dtype.base_dtype
        self._shape = as_shape(shape) if shape is not None else value.shape if validate_shape else TensorShape(None)
        return value

    # What every kind offers.

    @property
    def name(self) -> str:
        return self._name

    @property
    def _shared_name(self) -> str:
        return self._name[: self._name.index(":")]

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        return self._shape

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        self._shape = self._shape.merge_with(as_shape(shape))

    @property
    def trainable(self) -> bool:
        return self._trainable

    @property
    def graph(self) -> Any:
        return self.op.graph

    @property
    def op(self) -> Operation:
        raise NotImplementedError

    @property
    def device(self) -> str:
        return self.op.device

    @property
    def initial_value(self) -> Tensor | None:
        return self._initial_value

    def initialized_value(self) -> Tensor:
        """Read the value, or the initial value while the variable is uninitialized."""
        from dtfctl.runtime.ops.cond import cond

        value: Tensor = cond(self._is_initialized(), self.read_value, lambda: self._initial_value)
        return value

    def _is_initialized(self) -> Tensor:
        raise NotImplementedError

    def value(self) -> Tensor:
        raise NotImplementedError

    def read_value(self) -> Tensor:
        raise NotImplementedError

    def _operand(self, as_ref: bool) -> Tensor:
        """Get what an op takes for this variable; a reference where the op wants one and this kind has it."""
        return self.value()

    def _as_graph_element(self) -> Tensor:
        raise NotImplementedError

    def _gradient_source_tensor(self) -> Tensor:
        raise NotImplementedError

    @property
    def _gradient_source(self) -> Tensor:
        return self._gradient_source_tensor()

    def eval(self, session: Any = None) -> Any:
        return self._as_graph_element().eval(session=session)

    def load(self, value: Any, session: Any = None) -> None:
        """Assign a Python value in a session."""
        from dtfctl.runtime.framework.operation import _session_for

        _session_for(self.graph, session).run(self.initializer, {self.initializer.inputs[1]: value})

    def _saved_value(self) -> Tensor:
        """Get what a saver reads."""
        raise NotImplementedError

    def _restore(self, value: Tensor, validate_shape: bool) -> Operation | Tensor:
        """Make what assigns a value that a saver has read."""
        raise NotImplementedError

    def _set_save_slice_info(self, info: Any) -> None:
        self._save_slice_info = info

    def _get_save_slice_info(self) -> Any:
        return self._save_slice_info

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("'Variable' object is not iterable.")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise NotImplementedError(f"Cannot convert the variable {self.name} to a numpy array; run it in a session.")

    __array_priority__ = 100

    def __getitem__(self, item: Any) -> Any:
        from dtfctl.runtime.ops.array_ops.slicing import slice_of_variable

        return slice_of_variable(self, item)

    def to_proto(self, export_scope: str | None = None) -> meta_graph_pb2.VariableDef | None:
        """Describe this variable as the MetaGraph keeps it; None when it is outside `export_scope`."""
        if export_scope is not None and not self.name.startswith(export_scope):
            return None

        def strip(name: str) -> str:
            return name.removeprefix(f"{export_scope}/") if export_scope else name

        proto = meta_graph_pb2.VariableDef(
            variable_name=strip(self.name),
            initializer_name=strip(self.initializer.name),
            snapshot_name=strip(self._as_graph_element().name),
            trainable=self.trainable,
            is_resource=self._is_resource,
        )
        if self._initial_value is not None:
            proto.initial_value_name = strip(self._initial_value.name)
        if self._save_slice_info is not None:
            proto.save_slice_info_def.CopyFrom(self._save_slice_info.to_proto())
        return proto

    _is_resource = False

    @staticmethod
    def from_proto(variable_def: meta_graph_pb2.VariableDef, import_scope: str | None = None) -> Variable:
        return Variable(variable_def=variable_def, import_scope=import_scope, use_resource=variable_def.is_resource)

    def _init_from_proto(self, proto: meta_graph_pb2.VariableDef, scope: str | None) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    __str__ = __repr__

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        raise NotImplementedError

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        raise NotImplementedError

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        raise NotImplementedError

    def count_up_to(self, limit: int) -> Tensor:
        raise NotImplementedError

    def _scatter(self, kind: str, indices: Any, updates: Any, use_locking: bool | None, name: str | None) -> Any:
        raise NotImplementedError

    def _scatter_nd(self, kind: str, indices: Any, updates: Any, name: str | None) -> Any:
        raise NotImplementedError

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """Read elements or slices at coordinates."""
        raise NotImplementedError

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Read rows."""
        raise NotImplementedError

    def scatter_add(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Add `tf.IndexedSlices` to their rows; TypeError for anything else, as of all that take some."""
        return self._scatter("Add", *_rows(sparse_delta), use_locking, name)

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._scatter("Sub", *_rows(sparse_delta), use_locking, name)

    def scatter_mul(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._scatter("Mul", *_rows(sparse_delta), use_locking, name)

    def scatter_div(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._scatter("Div", *_rows(sparse_delta), use_locking, name)

    def scatter_min(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._scatter("Min", *_rows(sparse_delta), use_locking, name)

    def scatter_max(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._scatter("Max", *_rows(sparse_delta), use_locking, name)

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._scatter("Update", *_rows(sparse_delta), use_locking, name)

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Assign rows within each batch: self[i, indices[i, j]] = values[i, j]."""
        indices, updates = _rows(sparse_delta)
        with name_scope(name, "batch_scatter_update"):
            return self._scatter_nd("Update", places_in_batches(indices), updates, None)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        return self._scatter_nd("Add", indices, updates, name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        return self._scatter_nd("Sub", indices, updates, name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        return self._scatter_nd("Update", indices, updates, name)

    def ref(self) -> Reference:
        """Give a key for dictionaries and sets."""
        return Reference(self)

    experimental_ref = ref


def _rows(delta: Any) -> tuple[Tensor, Tensor]:
    """Give the indices and the values of what a scatter method was given."""
    if not isinstance(delta, IndexedSlices):
        raise TypeError(f"sparse_delta is not IndexedSlices: {delta}")
    return delta.indices, delta.values


_ARGUMENTS = tuple(inspect.signature(Variable.__init__).parameters)[1:]


def _delegate(operator: str) -> Callable[..., Any]:
    def method(self: Variable, *args: Any) -> Any:
        return getattr(Tensor, operator)(self.value(), *args)

    method.__name__ = operator
    return method


OPERATORS = (
    *(f"__{r}{o}__" for o in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul") for r in ("", "r")),
    *(f"__{r}{o}__" for o in ("and", "or", "xor") for r in ("", "r")),
    *("__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__abs__", "__invert__", "__div__", "__rdiv__"),
)
for _operator in OPERATORS:
    setattr(Variable, _operator, _delegate(_operator))


class SaveSliceInfo:
    """Where a part of a partitioned variable lies in the whole."""

    def __init__(
        self,
        full_name: str = "",
        full_shape: Any = (),
        var_offset: Any = (),
        var_shape: Any = (),
        save_slice_info_def: meta_graph_pb2.SaveSliceInfoDef | None = None,
        import_scope: str | None = None,
    ) -> None:
        if save_slice_info_def is not None:
            d = save_slice_info_def
            full_name = f"{import_scope}/{d.full_name}" if import_scope else d.full_name
            full_shape, var_offset, var_shape = d.full_shape, d.var_offset, d.var_shape
        self.full_name = full_name
        self.full_shape = list(full_shape)
        self.var_offset = list(var_offset)
        self.var_shape = list(var_shape)

    @property
    def spec(self) -> str:
        """The slice in the notation of Save and Restore ops: "4 2 0,2:0,2"."""
        shape = " ".join(str(d) for d in self.full_shape)
        return f"{shape} " + ":".join(f"{o},{s}" for o, s in zip(self.var_offset, self.var_shape))

    def to_proto(self) -> meta_graph_pb2.SaveSliceInfoDef:
        return meta_graph_pb2.SaveSliceInfoDef(
            full_name=self.full_name, full_shape=self.full_shape, var_offset=self.var_offset, var_shape=self.var_shape
        )


Variable.SaveSliceInfo = SaveSliceInfo


def _variable_to_tensor(value: Variable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    if dtype is not None and as_dtype(dtype).base_dtype is not value.dtype.base_dtype:
        raise ValueError(
            f"Incompatible type conversion requested to type '{as_dtype(dtype).name}' for variable of type "
            f"'{value.dtype.name}'"
        )
    return value._operand(as_ref)


register_tensor_conversion_function(Variable, _variable_to_tensor, priority=10)
