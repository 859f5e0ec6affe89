"""`tf.contrib.layers.utils`: outputs by name, and sizes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from dtfctl.runtime.framework.constant_value import constant_value as _constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import add_to_collections, get_collection
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.cond import cond, smart_cond as _smart_cond
from dtfctl.runtime.ops.layer_arguments import sized

__all__ = [
    "append_tensor_alias",
    "channel_dimension",
    "collect_named_outputs",
    "constant_value",
    "convert_collection_to_dict",
    "first_dimension",
    "gather_tensors_aliases",
    "get_tensor_aliases",
    "get_variable_collections",
    "last_dimension",
    "n_positive_integers",
    "smart_cond",
    "static_cond",
    "two_element_tuple",
]


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Note outputs in these collections, if any, under a name, and return them."""
    if collections:
        add_to_collections(collections, append_tensor_alias(outputs, alias))
    return outputs


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """Give a tensor one more name."""
    alias = alias.removesuffix("/")
    tensor.aliases = [*getattr(tensor, "aliases", ()), alias]
    return tensor


def get_tensor_aliases(tensor: Any) -> list[str]:
    """Return the names given to a tensor, or that of its op."""
    name = tensor.name.removesuffix(":0")
    return list(getattr(tensor, "aliases", None) or [name])


def gather_tensors_aliases(tensors: Any) -> list[str]:
    """Return the names of several tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> OrderedDict[str, Any]:
    """Return what is in a collection by name, in its order; and empty it if asked to."""
    from dtfctl.runtime.framework.graph_keys import get_collection_ref

    found = OrderedDict((alias, t) for t in get_collection(collection) for alias in get_tensor_aliases(t))
    if clear_collection:
        del get_collection_ref(collection)[:]
    return found


def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """Return the collections of the variables of one name."""
    return variables_collections.get(name) if isinstance(variables_collections, dict) else variables_collections


def constant_value(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
    """Return a value that is known while the graph is built, or None.

    Raises:
        ValueError: it is None, or of another type.
    """
    if value_or_tensor_or_var is None:
        raise ValueError("value_or_tensor_or_var cannot be None")
    value = value_or_tensor_or_var
    found = value if isinstance(value, (bool, int, float)) else _constant_value(convert_to_tensor(value))
    if dtype and found is not None and not isinstance(found, dtype):
        raise ValueError(f"It has the wrong type {type(found)} instead of {dtype}")
    return found


def static_cond(pred: Any, fn1: Any, fn2: Any) -> Any:
    """Call one of two functions by a Python truth value."""
    return fn1() if pred else fn2()


def smart_cond(pred: Any, fn1: Any, fn2: Any, name: str | None = None) -> Any:
    """Run `cond`, decided at once when `pred` is known while the graph is built."""
    return _smart_cond(pred, fn1, fn2, name) if pred is not None else cond(pred, fn1, fn2, name=name)


def first_dimension(shape: Any, min_rank: int = 1) -> Any:
    """Return the size of the first axis."""
    return _dimension(shape, 0, min_rank)


def last_dimension(shape: Any, min_rank: int = 1) -> Any:
    """Return the size of the last axis."""
    return _dimension(shape, -1, min_rank)


def channel_dimension(shape: Any, data_format: str, min_rank: int = 1) -> Any:
    """Return how many channels there are: NHWC or NCHW."""
    return _dimension(shape, 1 if data_format == "NCHW" else -1, min_rank)


def _dimension(shape: Any, axis: int, min_rank: int) -> Any:
    known = TensorShape(shape)
    if known.rank is None:
        raise ValueError("dims of shape must be known but is None")
    if known.rank < min_rank:
        raise ValueError(f"rank of shape must be at least {min_rank} not: {known.rank}")
    size = known[axis].value
    if size is None:
        raise ValueError("dimension of shape must be known but is None" if axis else "first dimension is None")
    return size


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """Make two numbers of one, or check that there are two."""
    first, second = sized(int_or_tuple, 2, "int_or_tuple")
    return first, second


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """Make n positive numbers of one, or check that there are n.

    Raises:
        ValueError: one is not positive, or there are more or fewer.
    """
    out = sized(value, n, "value")
    if any(v <= 0 for v in out):
        raise ValueError(f"all values should be positive, got {out}")
    return out
