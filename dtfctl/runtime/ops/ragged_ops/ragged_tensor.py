"""Tensors whose rows have lengths of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.composite import CompositeTensor
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops import array_ops, check_ops
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue
from dtfctl.runtime.ops.ragged_ops.row_partition import RowPartition

F = TypeVar("F", bound=Callable[..., Any])


class RaggedTensor(CompositeTensor):
    """A tensor with one or more ragged dimensions: values, and how they are cut into rows.

    Made by the `from_...` methods and `tf.ragged.constant`. Beyond the first, dimension i is ragged where the rows of
    partition i - 1 may differ in length; dimensions inside `flat_values` are uniform.

    Attributes:
        values: what the rows are made of: a Tensor of rank 1 or more, or the next inner RaggedTensor.
    """

    # Numpy's operators leave theirs to this class.
    __array_priority__ = 100

    # Given by the modules above this one, each under its own name there (`method_of_ragged_tensors`).
    from_tensor: ClassVar[Callable[..., Any]]
    from_sparse: ClassVar[Callable[..., Any]]
    row_lengths: ClassVar[Callable[..., Any]]
    bounding_shape: ClassVar[Callable[..., Any]]
    merge_dims: ClassVar[Callable[..., Any]]
    to_tensor: ClassVar[Callable[..., Any]]
    to_sparse: ClassVar[Callable[..., Any]]
    _to_variant: ClassVar[Callable[..., Any]]
    _from_variant: ClassVar[Callable[..., Any]]
    __getitem__: ClassVar[Callable[..., Any]]

    def __init__(self, values: Any, row_partition: RowPartition, internal: bool = False) -> None:
        if not internal:
            raise ValueError(
                "RaggedTensor constructor is private; please use one of the factory methods instead (e.g., "
                "RaggedTensor.from_row_lengths())"
            )
        if not isinstance(values, (Tensor, RaggedTensor)):
            raise TypeError(f"Argument `values` must be a Tensor or RaggedTensor. Received {values!r}.")
        if not isinstance(row_partition, RowPartition):
            raise TypeError(f"Argument `row_partition` must be a RowPartition. Received {row_partition!r}.")
        if isinstance(values, Tensor):
            if values.shape.rank == 0:
                raise ValueError(f"Shape {values.shape} must have rank at least 1")
        elif values.row_splits.dtype is not row_partition.splits.dtype:
            raise ValueError(
                "dtype mismatch for row_splits: `row_splits` and `values.row_splits` must have the same dtype"
            )
        self.values = values
        self._row_partition = row_partition

    # Made of values and one of the encodings of rows.

    @classmethod
    def _made(
        cls, values: Any, make: Callable[[Any], RowPartition], validate: bool, name: str | None, scope: str
    ) -> Any:
        if not isinstance(validate, bool):
            raise TypeError(f"Argument `validate` must have type bool. Received {validate}.")
        with name_scope(name, scope):
            inner = _as_values(values)
            hint = inner.row_splits.dtype if isinstance(inner, RaggedTensor) else None
            partition = make(hint)
            inner, partition = same_splits_type(inner, partition)
            return cls._with_partition(inner, partition, validate)

    @classmethod
    def _with_partition(cls, values: Any, partition: RowPartition, validate: bool) -> RaggedTensor:
        if validate:
            count = row_count(values, partition.dtype)
            check = check_ops.assert_equal(
                partition.nvals(), count, message="Arguments to _from_row_partition do not form a valid RaggedTensor"
            )
            if getattr(check, "type", "NoOp") != "NoOp":
                partition = partition.with_dependencies([check])
        return cls(values, partition, internal=True)

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True) -> Any:
        """Cut values into rows: row i is values[row_splits[i]:row_splits[i + 1]].

        Args:
            values: a tensor of rank 1 or more, or a ragged tensor.
            row_splits: [nrows + 1], int64 or int32, from 0 to the number of values.
            validate: check that in steps.
        """
        return cls._made(
            values,
            lambda hint: RowPartition.from_row_splits(row_splits, validate, dtype_hint=hint),
            validate,
            name,
            "RaggedFromRowSplits",
        )

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any, name: str | None = None, validate: bool = True) -> Any:
        """Cut values into rows of these lengths."""
        return cls._made(
            values,
            lambda hint: RowPartition.from_row_lengths(row_lengths, validate, dtype_hint=hint),
            validate,
            name,
            "RaggedFromRowLengths",
        )

    @classmethod
    def from_value_rowids(
        cls, values: Any, value_rowids: Any, nrows: Any = None, name: str | None = None, validate: bool = True
    ) -> Any:
        """Cut values into rows by each value's row, in ascending order."""
        return cls._made(
            values,
            lambda hint: RowPartition.from_value_rowids(value_rowids, nrows, validate, dtype_hint=hint),
            validate,
            name,
            "RaggedFromValueRowIds",
        )

    @classmethod
    def from_row_starts(cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True) -> Any:
        """Cut values into rows that begin there."""
        inner = _as_values(values)
        return cls._made(
            inner,
            lambda hint: RowPartition.from_row_starts(row_starts, row_count(inner), validate, dtype_hint=hint),
            validate,
            name,
            "RaggedFromRowStarts",
        )

    @classmethod
    def from_row_limits(cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True) -> Any:
        """Cut values into rows that end there."""
        return cls._made(
            values,
            lambda hint: RowPartition.from_row_limits(row_limits, validate, dtype_hint=hint),
            validate,
            name,
            "RaggedFromRowLimits",
        )

    @classmethod
    def from_uniform_row_length(
        cls, values: Any, uniform_row_length: Any, nrows: Any = None, validate: bool = True, name: str | None = None
    ) -> Any:
        """Cut values into rows of one length; `nrows` is needed where that is 0."""
        inner = _as_values(values)
        return cls._made(
            inner,
            lambda hint: RowPartition.from_uniform_row_length(
                uniform_row_length, row_count(inner), nrows, validate, dtype_hint=hint
            ),
            False,
            name,
            "RaggedFromUniformRowLength",
        )

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """Cut values into rows, those into rows and so on; the outermost splits come first."""
        return cls._nested(cls.from_row_splits, flat_values, nested_row_splits, validate, name, "nested_row_splits")

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """Cut values into rows, those into rows and so on; the outermost lengths come first."""
        return cls._nested(cls.from_row_lengths, flat_values, nested_row_lengths, validate, name, "nested_row_lengths")

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Sequence[Any],
        nested_nrows: Sequence[Any] | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Cut values into rows, those into rows and so on, by each value's row; the outermost come first."""
        _check_list(nested_value_rowids, "nested_value_rowids")
        rows = [None] * len(nested_value_rowids) if nested_nrows is None else _check_list(nested_nrows, "nested_nrows")
        if len(rows) != len(nested_value_rowids):
            raise ValueError("Argument `nested_nrows` must have the same length as `nested_value_rowids`.")
        with name_scope(name, "RaggedFromNestedValueRowIds"):
            result = flat_values
            for ids, count in reversed(list(zip(nested_value_rowids, rows))):
                result = cls.from_value_rowids(result, ids, count, validate=validate)
            return result

    @classmethod
    def _nested(cls, make: Any, values: Any, nested: Any, validate: bool, name: str | None, what: str) -> Any:
        _check_list(nested, what)
        with name_scope(name, f"RaggedFromNested{'RowSplits' if 'splits' in what else 'RowLengths'}"):
            result = values
            for part in reversed(nested):
                result = make(result, part, validate=validate)
            return result

    @classmethod
    def _from_nested_row_partitions(cls, flat_values: Any, partitions: Sequence[RowPartition]) -> Any:
        result = flat_values
        for partition in reversed(partitions):
            result = cls(result, partition, internal=True)
        return result

    @classmethod
    def _from_row_partition(cls, values: Any, row_partition: RowPartition, validate: bool = True) -> Any:
        inner, partition = same_splits_type(_as_values(values), row_partition)
        return cls._with_partition(inner, partition, validate)

    # What it is.

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape: None for what is ragged or unknown."""
        partition = self._row_partition
        inner = self.values.shape
        if inner.rank is None:
            return TensorShape(None)
        return TensorShape([partition.static_nrows, partition.static_uniform_row_length]).concatenate(inner[1:])

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Note what is known of the shape.

        Raises:
            ValueError: it is not that of this tensor.
        """
        known = as_shape(shape)
        if known.rank is None:
            return
        merged = self.shape.merge_with(known)
        dims = merged.dims_or_none
        if dims is None:
            return
        if dims[0] is not None:
            self._row_partition.splits.set_shape([dims[0] + 1])
        if isinstance(self.values, RaggedTensor):
            self.values.set_shape([None, *dims[2:]])
        else:
            self.values.set_shape([None, *dims[2:]])

    @property
    def ragged_rank(self) -> int:
        """How many partitions there are between the outermost rows and `flat_values`."""
        return 1 + (self.values.ragged_rank if isinstance(self.values, RaggedTensor) else 0)

    @property
    def uniform_row_length(self) -> Tensor | None:
        """The one length of all rows, None where the dimension is ragged."""
        return self._row_partition.uniform_row_length()

    @property
    def flat_values(self) -> Any:
        """The innermost values, a Tensor."""
        return self.values.flat_values if isinstance(self.values, RaggedTensor) else self.values

    @property
    def row_splits(self) -> Tensor:
        return self._row_partition.splits

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """The row splits of all partitions, outermost first."""
        return tuple(p.splits for p in self._nested_row_partitions)

    @property
    def _nested_row_partitions(self) -> tuple[RowPartition, ...]:
        inner = self.values._nested_row_partitions if isinstance(self.values, RaggedTensor) else ()
        return (self._row_partition, *inner)

    @property
    def op(self) -> Any:
        return self.flat_values.op

    @property
    def graph(self) -> Any:
        return self.flat_values.graph

    @property
    def name(self) -> str:
        return str(self.flat_values.name)

    def value_rowids(self, name: str | None = None) -> Tensor:
        """Find each value's row: [nvals]."""
        with name_scope(name, "RaggedValueRowIds"):
            return self._row_partition.value_rowids()

    def nested_value_rowids(self, name: str | None = None) -> tuple[Tensor, ...]:
        with name_scope(name, "RaggedNestedValueRowIds"):
            return tuple(p.value_rowids() for p in self._nested_row_partitions)

    def nrows(self, out_type: Any = None, name: str | None = None) -> Tensor:
        """Count the rows."""
        with name_scope(name, "RaggedNRows"):
            return self._row_partition.nrows(out_type)

    def row_starts(self, name: str | None = None) -> Tensor:
        with name_scope(name, "RaggedRowStarts"):
            return self._row_partition.row_starts()

    def row_limits(self, name: str | None = None) -> Tensor:
        with name_scope(name, "RaggedRowLimits"):
            return self._row_partition.row_limits()

    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        with name_scope(name, "RaggedNestedRowLengths"):
            return tuple(p.row_lengths() for p in self._nested_row_partitions)

    # The same rows of other values, and other rows of the same.

    def with_values(self, new_values: Any) -> Any:
        """Cut other values, as many, into the same rows."""
        values, partition = same_splits_type(_as_values(new_values), self._row_partition)
        values.shape[:1].assert_is_compatible_with(self.values.shape[:1])
        if isinstance(values, Tensor) and partition.static_nvals is not None:
            values.shape.with_rank_at_least(1)
        return RaggedTensor(values, partition, internal=True)

    def with_flat_values(self, new_values: Any) -> Any:
        """Cut other innermost values, as many, into the same nested rows."""
        if isinstance(self.values, RaggedTensor):
            return self.with_values(self.values.with_flat_values(new_values))
        return self.with_values(new_values)

    def with_row_splits_dtype(self, dtype: Any) -> Any:
        """Give the same tensor with row splits of another type, int64 or int32."""
        wanted = as_dtype(dtype)
        partition = self._row_partition.with_dtype(wanted)
        if partition is self._row_partition:
            return self
        inner = self.values.with_row_splits_dtype(wanted) if isinstance(self.values, RaggedTensor) else self.values
        return RaggedTensor(inner, partition, internal=True)

    # In sessions and programs.

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        from dtfctl.runtime.framework.operation import _session_for

        return _session_for(self.graph, session).run(self, feed_dict)

    def consumers(self) -> list[Any]:
        """List the ops that take one of its tensors."""
        return [op for tensor in self.components() for op in tensor.consumers()]

    def numpy(self) -> Any:
        """Make an array of its rows (eager): of arrays where their lengths differ.

        Raises:
            ValueError: its tensors are of a graph.
        """
        value = self._value()
        rows = (
            [np.asarray(value.values[a:b]) for a, b in zip(value.row_splits, value.row_splits[1:])]
            if isinstance(value.values, np.ndarray)
            else value.to_list()
        )
        if rows and isinstance(rows[0], np.ndarray) and len({row.shape for row in rows}) == 1:
            return np.stack(rows)
        out = np.empty(len(rows), object)
        for i, row in enumerate(rows):
            out[i] = np.asarray(row, dtype=object) if isinstance(row, list) else row
        return out

    def to_list(self) -> list[Any]:
        """Make nested lists of Python's values (eager).

        Raises:
            ValueError: its tensors are of a graph.
        """
        return list(self._value().to_list())

    def _value(self) -> RaggedTensorValue:
        if not context.get_default_graph().executes or not hasattr(self.flat_values, "numpy"):
            raise ValueError("to_list() and numpy() can only be used in eager mode: run the tensor in a session")
        value: Any = np.asarray(self.flat_values.numpy())
        for splits in reversed(self.nested_row_splits):
            value = RaggedTensorValue(value, np.asarray(splits.numpy()))  # type: ignore[attr-defined]
        return value  # type: ignore[no-any-return]

    @property
    def differentiated(self) -> Any:
        return self.flat_values

    def with_gradient(self, gradient: Any) -> Any:
        return None if gradient is None else self.with_flat_values(convert_to_tensor(gradient))

    def components(self) -> list[Any]:
        return [self.flat_values, *self.nested_row_splits]

    def with_components(self, components: Iterator[Any]) -> Any:
        flat = next(components)
        splits = [next(components) for _ in range(self.ragged_rank)]
        result = flat
        for partition, own in reversed(list(zip(self._nested_row_partitions, splits))):
            result = RaggedTensor(result, RowPartition(own, uniform=partition.uniform_row_length()), internal=True)
        return result

    def component_shapes(self, invariant: TensorShape | None) -> list[TensorShape]:
        dims = (self.shape if invariant is None else invariant).dims_or_none
        splits = [TensorShape([None])] * self.ragged_rank
        if dims is None:
            return [TensorShape(None), *splits]
        splits[0] = TensorShape([None if dims[0] is None else dims[0] + 1])
        return [TensorShape([None, *dims[self.ragged_rank + 1 :]]), *splits]

    def __repr__(self) -> str:
        if context.get_default_graph().executes and hasattr(self.flat_values, "numpy"):
            return f"<tf.RaggedTensor {self.to_list()}>"
        return f"tf.RaggedTensor(values={self.values}, row_splits={self.row_splits})"

    def __len__(self) -> int:
        if context.get_default_graph().executes:
            return int(self.nrows().numpy())  # type: ignore[attr-defined]
        raise TypeError("object of type 'RaggedTensor' has no len() in a graph: use nrows()")

    def __bool__(self) -> bool:
        raise TypeError("Using a `tf.RaggedTensor` as a Python `bool` is not allowed: use tf.cond")

    def __iter__(self) -> Iterator[Any]:
        if context.get_default_graph().executes:
            return (self[i] for i in range(len(self)))
        raise TypeError("RaggedTensor objects are only iterable when eager execution is enabled: use tf.map_fn")


def method_of_ragged_tensors(name: str, of_class: bool = False) -> Callable[[F], F]:
    """Let a function be a method of ragged tensors; of the class, which it does not get, where it makes one."""

    def decorate(function: F) -> F:
        setattr(RaggedTensor, name, staticmethod(function) if of_class else function)
        return function

    return decorate


def is_ragged(value: Any) -> bool:
    """Tell whether a value is a ragged tensor, in a graph or fetched."""
    return isinstance(value, (RaggedTensor, RaggedTensorValue))


def convert_to_tensor_or_ragged_tensor(
    value: Any, dtype: Any = None, preferred_dtype: Any = None, name: str | None = None
) -> Any:
    """Convert to a tensor; what is ragged stays so, and ragged values become tensors of the graph.

    Raises:
        ValueError: a ragged value has another type than `dtype`.
    """
    if isinstance(value, RaggedTensor):
        _check_type(value, dtype, value.dtype.base_dtype)
        return value
    if isinstance(value, RaggedTensorValue):
        with name_scope(name, "ConvertToTensorOrRaggedTensor"):
            flat = convert_to_tensor(value.flat_values, dtype, preferred_dtype=preferred_dtype)
            return RaggedTensor.from_nested_row_splits(flat, list(value.nested_row_splits), validate=False)
    return convert_to_tensor(value, dtype, name=name, preferred_dtype=preferred_dtype)


def _check_type(value: Any, dtype: Any, have: DType) -> None:
    wanted = have if dtype is None else as_dtype(dtype)
    if not wanted.is_compatible_with(have):
        raise ValueError(
            f"Tensor conversion requested dtype {wanted.name} for RaggedTensor with dtype {have.name}: {value!r}"
        )


def row_count(values: Any, dtype: Any = None) -> Tensor:
    """Count the outermost rows of a tensor, ragged or not."""
    if isinstance(values, RaggedTensor):
        return values._row_partition.nrows(dtype)
    return array_ops.shape(values, out_type=dtype or dtypes.int64)[0]


def same_splits_type(values: Any, partition: RowPartition) -> tuple[Any, RowPartition]:
    """Let inner and outer row splits have one type, int64 where they differ."""
    if isinstance(values, RaggedTensor) and values.row_splits.dtype is not partition.splits.dtype:
        return values.with_row_splits_dtype(dtypes.int64), partition.with_dtype(dtypes.int64)
    return values, partition


def match_row_splits_dtypes(*tensors: Any) -> list[Any]:
    """Give all ragged tensors of a list row splits of one type: int64 where they differ."""
    kinds = {t.row_splits.dtype.base_dtype for t in tensors if isinstance(t, RaggedTensor)}
    if len(kinds) < 2:
        return list(tensors)
    return [t.with_row_splits_dtype(dtypes.int64) if isinstance(t, RaggedTensor) else t for t in tensors]


def _as_values(values: Any) -> Any:
    if isinstance(values, (RaggedTensor, RaggedTensorValue)):
        return convert_to_tensor_or_ragged_tensor(values)
    tensor = convert_to_tensor(values, name="values")
    if tensor.shape.rank == 0:
        raise ValueError(f"Shape {tensor.shape} must have rank at least 1")
    return tensor


def _check_list(value: Any, name: str) -> list[Any]:
    if isinstance(value, Tensor):
        raise TypeError(f"Argument `{name}` must be a list of Tensors. Received {value}.")
    return list(value)
