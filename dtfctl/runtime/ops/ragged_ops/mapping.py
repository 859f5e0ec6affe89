"""Functions of each row of ragged tensors, and the types of ragged results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops import math_ops
from dtfctl.runtime.ops.function import TensorSpec
from dtfctl.runtime.ops.ragged_ops.conversion import to_variant
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import (
    RaggedTensor,
    convert_to_tensor_or_ragged_tensor,
    row_count,
)
from dtfctl.runtime.ops.tensor_array_ops import TensorArray
from dtfctl.runtime.ops.while_loop import while_loop


class RaggedTensorSpec:
    """Type, shape and ragged rank of a ragged tensor.

    Raises:
        ValueError: a ragged rank that the shape has no room for.
    """

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = dtypes.int64,
        flat_values_spec: Any = None,
    ) -> None:
        self.shape: TensorShape = as_shape(shape)
        self.dtype: DType = as_dtype(dtype)
        self.row_splits_dtype: DType = as_dtype(row_splits_dtype)
        self.flat_values_spec = flat_values_spec
        rank = self.shape.rank
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with a known rank.")
            ragged_rank = rank - 1
        if not isinstance(ragged_rank, int):
            raise TypeError(f"Argument `ragged_rank` must be an int. Received {ragged_rank}.")
        if rank is not None and ragged_rank >= rank:
            raise ValueError(f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank}).")
        self.ragged_rank = ragged_rank

    @property
    def value_type(self) -> type:
        return RaggedTensor if self.ragged_rank else Tensor

    @classmethod
    def from_value(cls, value: Any) -> RaggedTensorSpec:
        return cls(value.shape, value.dtype, value.ragged_rank, value.row_splits.dtype)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Tell whether a value, or what another spec describes, can be of this type and shape."""
        other = spec_or_value
        rank = getattr(other, "ragged_rank", 0)
        return bool(
            rank == self.ragged_rank
            and self.dtype == as_dtype(other.dtype).base_dtype
            and self.shape.is_compatible_with(as_shape(other.shape))
        )

    def _key(self) -> tuple[Any, ...]:
        return self.shape.dims_or_none, self.dtype, self.ragged_rank, self.row_splits_dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedTensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"RaggedTensorSpec({self.shape!r}, {self.dtype!r}, {self.ragged_rank!r}, {self.row_splits_dtype!r})"


class RaggedTensorType:
    """Type of what `map_fn` gives, where it is ragged: that of all rows' results together."""

    def __init__(self, dtype: Any, ragged_rank: int, row_splits_dtype: Any = dtypes.int64) -> None:
        self.dtype, self.ragged_rank = as_dtype(dtype), ragged_rank
        self.row_splits_dtype = as_dtype(row_splits_dtype)

    def __repr__(self) -> str:
        return f"RaggedTensorType({self.dtype!r}, {self.ragged_rank!r}, {self.row_splits_dtype!r})"


def _ragged_kind(spec: Any) -> tuple[DType, int, DType] | None:
    """Give the type, the ragged rank of what a function of a row gives, and the type of row splits."""
    if isinstance(spec, RaggedTensorSpec):
        return spec.dtype, spec.ragged_rank, spec.row_splits_dtype
    if isinstance(spec, RaggedTensorType):
        return spec.dtype, spec.ragged_rank - 1, spec.row_splits_dtype
    return None


def is_ragged_type(signature: Any) -> bool:
    """Tell whether a structure of types has a ragged one."""
    return any(_ragged_kind(leaf) is not None for leaf in nest.flatten(signature))


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Apply `fn` to each row and put what it gives, ragged or not, into rows.

    Args:
        elems: a structure of tensors, ragged or not, of as many rows.
        fn_output_signature: types of what `fn` gives where these differ from the rows': types, TensorSpec or
            RaggedTensorSpec.

    Raises:
        TypeError: what `fn` gives is not of those types.
    """
    if not callable(fn):
        raise TypeError(f"The provided function {fn} is not callable.")
    signature = dtype if fn_output_signature is None else fn_output_signature
    with context.get_default_graph().name_scope(name or "map"):
        leaves = [convert_to_tensor_or_ragged_tensor(e, name="elem") for e in nest.flatten(elems)]
        count = math_ops.cast(row_count(leaves[0]), dtypes.int32)
        structure = elems if signature is None else signature
        if signature is None:
            kinds: list[Any] = [
                RaggedTensorType(t.dtype.base_dtype, t.ragged_rank, t.row_splits.dtype.base_dtype)
                if isinstance(t, RaggedTensor)
                else t.dtype.base_dtype
                for t in leaves
            ]
        else:
            kinds = nest.flatten(signature)
        types = [_ragged_kind(k) for k in kinds]
        arrays = [_read_from(t) for t in leaves]
        results = [
            TensorArray(
                dtypes.variant if ragged is not None else _dense_type(kind),
                size=count,
                infer_shape=infer_shape and ragged is None,
            )
            for kind, ragged in zip(kinds, types)
        ]

        def body(i: Tensor, written: list[TensorArray]) -> Any:
            value = fn(nest.pack_sequence_as(elems, [read(i) for read in arrays]))
            nest.assert_same_structure(structure, value)
            out = []
            for array, kind, item in zip(written, types, nest.flatten(value)):
                out.append(array.write(i, _encoded(item, kind)))
            for outer, inner in zip(results, out):
                outer._element_shape = inner._element_shape
            return i + 1, out

        _, out = while_loop(
            lambda i, _: i < count,
            body,
            (constant(0), results),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            maximum_iterations=count,
        )
        gathered = []
        for array, known, kind in zip(out, results, types):
            array._element_shape = known._element_shape if kind is None else TensorShape([])
            stacked = array.stack()
            if kind is None:
                gathered.append(stacked)
            else:
                gathered.append(RaggedTensor._from_variant(stacked, kind[0], kind[1] + 1, kind[1], kind[2]))
        return nest.pack_sequence_as(structure, gathered)


def _dense_type(kind: Any) -> DType:
    return kind.dtype if isinstance(kind, TensorSpec) else as_dtype(kind)


def _read_from(tensor: Any) -> Callable[[Tensor], Any]:
    if isinstance(tensor, RaggedTensor):
        return lambda i: tensor[i]
    array = TensorArray(tensor.dtype, size=math_ops.cast(row_count(tensor), dtypes.int32), infer_shape=True)
    return array.unstack(tensor).read


def _encoded(item: Any, kind: tuple[DType, int, DType] | None) -> Any:
    if kind is None:
        if isinstance(item, RaggedTensor):
            raise TypeError(
                "fn gives a ragged tensor: name its type, with fn_output_signature=tf.RaggedTensorSpec(...)"
            )
        return item
    value = convert_to_tensor_or_ragged_tensor(item)
    have = value.ragged_rank if isinstance(value, RaggedTensor) else 0
    if have != kind[1]:
        raise ValueError(f"The declared ragged rank ({kind[1]}) mismatches the result ({have})")
    if value.dtype.base_dtype is not kind[0]:
        raise ValueError(f"The declared dtype ({kind[0].name}) mismatches the result ({value.dtype.name})")
    if isinstance(value, RaggedTensor):
        return value.with_row_splits_dtype(kind[2])._to_variant()
    return to_variant(value, False, None)
