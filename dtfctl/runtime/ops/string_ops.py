"""String functions with TF1's names and argument orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor

# Each wrapper returns what its op gives; shapes are those of the input unless said otherwise.


def string_split(source: Any, delimiter: Any = " ", skip_empty: bool = True, name: str | None = None) -> SparseTensor:
    """Split each string of a vector into pieces, the rows of a SparseTensor."""
    with name_scope(name, "StringSplit"):
        separator = convert_to_tensor(delimiter, dtypes.string)
        indices, values, shape = apply_op_outputs(
            "StringSplit", input=source, delimiter=separator, skip_empty=skip_empty
        )
    indices.set_shape([None, 2])
    values.set_shape([None])
    shape.set_shape([2])
    return SparseTensor(indices, values, shape)


def string_split_v2(source: Any, sep: Any = "", maxsplit: int = -1, name: str | None = None) -> SparseTensor:
    """Split each string of a vector as Python's str.split does, into rows of a SparseTensor."""
    separator = convert_to_tensor(sep, dtypes.string)
    indices, values, shape = apply_op_outputs("StringSplitV2", name, input=source, sep=separator, maxsplit=maxsplit)
    return SparseTensor(indices, values, shape)


def regex_replace(input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None) -> Any:
    """Replace what an RE2 pattern matches; `\\1` in `rewrite` is the first group."""
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        return apply_op(
            "StaticRegexReplace",
            name,
            input=input,
            pattern=pattern,
            rewrite=rewrite,
            replace_global=replace_global,
        )
    return apply_op("RegexReplace", name, input=input, pattern=pattern, rewrite=rewrite, replace_global=replace_global)


def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Any:
    """Tell whether the pattern (RE2) matches each whole string."""
    if isinstance(pattern, (str, bytes)):
        return apply_op("StaticRegexFullMatch", name, input=input, pattern=pattern)
    return apply_op("RegexFullMatch", name, input=input, pattern=pattern)


def string_to_hash_bucket_strong(input: Any, num_buckets: int, key: Sequence[int], name: str | None = None) -> Tensor:
    """Choose a bucket for each string by a keyed hash that resists crafted input."""
    return apply_op("StringToHashBucketStrong", name, input=input, num_buckets=num_buckets, key=list(key))


def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: int | None = None, name: str | None = None, input: Any = None
) -> Tensor:
    """Choose a bucket for each string, by the hash of TF's first releases."""
    source = string_tensor if input is None else input
    return apply_op("StringToHashBucket", name, string_tensor=source, num_buckets=num_buckets)


def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: bool | None = None,
) -> Any:
    """Join strings along dimensions, the first of `axis` fastest; all of them, last first, when None."""
    source = convert_to_tensor(inputs, dtypes.string)
    axes = reduction_indices if axis is None else axis
    if axes is None:
        rank = source.shape.rank
        if rank is None:
            axes = apply_op("Range", start=apply_op("Sub", x=apply_op("Rank", input=source), y=1), limit=-1, delta=-1)
        else:
            axes = constant(list(range(rank - 1, -1, -1)), dtypes.int32)
    keep = bool(keep_dims if keepdims is None else keepdims)
    return apply_op("ReduceJoin", name, inputs=source, reduction_indices=axes, keep_dims=keep, separator=separator)


def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """Replace each placeholder in `template` by a tensor, summarised."""
    items = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    return apply_op("StringFormat", name, inputs=items, template=template, placeholder=placeholder, summarize=summarize)
