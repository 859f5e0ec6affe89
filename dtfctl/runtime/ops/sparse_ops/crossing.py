"""Combinations of features, as strings or as hashes."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op_outputs
from dtfctl.runtime.ops.math_ops import cast

DEFAULT_HASH_KEY = 0xDECAFCAFFE


def sparse_cross(inputs: Any, name: str | None = None, separator: str | None = None) -> SparseTensor:
    """Combine the values of each example: "a_X_b" for each a of the first input and b of the second.

    Args:
        inputs: sparse or dense matrices of strings or int64, of one batch size.
        separator: what is put between the values, "_X_" if it is None.

    Returns:
        A sparse matrix of strings.
    """
    if separator is None:
        return _crossed(inputs, hashed=False, name=name)
    parts, _ = _parts(inputs)
    return SparseTensor(*apply_op_outputs("SparseCrossV2", name, **parts, sep=separator))


def sparse_cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """Combine the values of each example, and hash the combinations.

    Args:
        inputs: sparse or dense matrices of strings or int64, of one batch size.
        num_buckets: hashes are below it, if it is not 0.

    Returns:
        A sparse matrix of int64.
    """
    return _crossed(inputs, hashed=True, num_buckets=num_buckets, hash_key=hash_key, name=name)


def _parts(inputs: Any) -> tuple[dict[str, Any], dtypes.DType]:
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("Inputs must be a list")
    tensors = [i if isinstance(i, SparseTensor) else convert_to_tensor(i) for i in inputs]
    sparse = [i for i in tensors if isinstance(i, SparseTensor)]
    dense = [i for i in tensors if not isinstance(i, SparseTensor)]
    internal = dtypes.string if all(i.dtype == dtypes.string for i in tensors) else dtypes.int64
    values = [i.values if i.dtype == dtypes.string else cast(i.values, dtypes.int64) for i in sparse]
    parts = {
        "indices": [i.indices for i in sparse],
        "values": values,
        "shapes": [i.dense_shape for i in sparse],
        "dense_inputs": [i if i.dtype == dtypes.string else cast(i, dtypes.int64) for i in dense],
    }
    return parts, internal


def _crossed(
    inputs: Any, hashed: bool, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    parts, internal = _parts(inputs)
    made = apply_op_outputs(
        "SparseCross",
        name,
        **parts,
        hashed_output=hashed,
        num_buckets=num_buckets,
        hash_key=DEFAULT_HASH_KEY if hash_key is None else hash_key,
        out_type=dtypes.int64 if hashed else dtypes.string,
        internal_type=internal,
    )
    return SparseTensor(*made)
