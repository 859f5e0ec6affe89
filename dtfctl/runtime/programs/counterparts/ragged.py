"""`tensorflow.python.ops.ragged`: the names of all its modules, one module here."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.api import ragged as public
from dtfctl.runtime.ops.ragged_ops import (
    arranging,
    conversion,
    dimensions,
    gathering,
    joining,
    mapping,
    measures,
    ragged_tensor,
    reducing,
    row_partition,
    splitting,
    strings,
)
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor, is_ragged

# Names of functions here that are others in TensorFlow's modules.
_RENAMED = {
    "ragged_batch_gather": gathering.batch_gather,
    "ragged_cross": arranging.cross,
    "ragged_tensor_to_string": strings.as_text,
    "segment_max": reducing.unsorted_segment_max,
    "segment_mean": reducing.unsorted_segment_mean,
    "segment_min": reducing.unsorted_segment_min,
    "segment_prod": reducing.unsorted_segment_prod,
    "segment_sqrt_n": reducing.unsorted_segment_sqrt_n,
    "segment_sum": reducing.unsorted_segment_sum,
    "string_split_v2": strings.strings_split_v2,
    "strings_split_v1": strings.strings_split,
}
_MODULES = (
    public,
    ragged_tensor,
    joining,
    gathering,
    arranging,
    reducing,
    strings,
    measures,
    mapping,
    conversion,
    dimensions,
    row_partition,
    splitting,
)


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        return _RENAMED[name]
    for module in () if name.startswith("__") else _MODULES:
        if name in vars(module):
            return vars(module)[name]
    raise AttributeError(name)


def from_tensor(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a ragged tensor of a dense one; what is ragged stays as it is."""
    return tensor if is_ragged(tensor) else RaggedTensor.from_tensor(tensor, *args, **kwargs)


def from_sparse(source: Any, name: str | None = None) -> Any:
    return RaggedTensor.from_sparse(source, name)


def to_tensor(source: Any, default_value: Any = None, name: str | None = None) -> Any:
    """Fill rows up to a dense tensor; what is dense stays as it is."""
    return source.to_tensor(default_value, name) if is_ragged(source) else source


def to_sparse(source: Any, name: str | None = None) -> Any:
    return source.to_sparse(name)
