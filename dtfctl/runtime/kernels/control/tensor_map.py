"""TensorMap: a variant that maps tensors to tensors, and its ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.control.tensor_list import box, shape_text, type_name, zeros_for
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

Key = tuple[str, tuple[int, ...], Any]


class TensorMap:
    """An immutable map; keys are compared by type, shape and value."""

    __slots__ = ("entries",)

    def __init__(self, entries: Mapping[Key, tuple[Any, Any]] | None = None) -> None:
        self.entries: dict[Key, tuple[Any, Any]] = dict(entries or {})

    def __len__(self) -> int:
        return len(self.entries)

    def zeros_like_variant(self) -> TensorMap:
        """ZerosLike: the same keys with zeros."""
        return TensorMap({k: (key, _zeros(value)) for k, (key, value) in self.entries.items()})

    def add_variant(self, other: Any) -> TensorMap:
        """AddN: the union of both, values of common keys added."""
        if not isinstance(other, TensorMap):
            raise InvalidArgumentError(f"Cannot add a TensorMap and {other!r}")
        out = dict(self.entries)
        for k, (key, value) in other.entries.items():
            out[k] = (key, out[k][1] + value) if k in out else (key, value)
        return TensorMap(out)

    def __repr__(self) -> str:
        return f"TensorMap({len(self)} entries)"


def _zeros(value: Any) -> Any:
    if value.dtype != object:
        return np.zeros(value.shape, value.dtype)
    is_string = all(isinstance(v, bytes) for v in value.reshape(-1))
    return zeros_for(dtypes.string if is_string else dtypes.variant, value.shape, value)


def _key(tensor: Any) -> Key:
    value = tuple(tensor.reshape(-1).tolist()) if tensor.dtype == object else tensor.tobytes()
    return str(tensor.dtype), tensor.shape, value


def _map_in(handle: Any) -> TensorMap:
    if handle.shape != ():
        raise InvalidArgumentError(f"Input map must be a scalar. Saw: {shape_text(handle.shape)}")
    found = handle[()]
    if not isinstance(found, TensorMap):
        raise InvalidArgumentError(f"Input handle is not a map. Saw: '{found!r}'")
    return found


@register_kernel("EmptyTensorMap")
def empty_tensor_map(k: KernelBuild) -> Kernel:
    return lambda: box(TensorMap())


@register_kernel("TensorMapSize")
def tensor_map_size(k: KernelBuild) -> Kernel:
    return lambda handle: np.array(len(_map_in(handle)), np.int32)


@register_kernel("TensorMapHasKey")
def tensor_map_has_key(k: KernelBuild) -> Kernel:
    return lambda handle, key: np.array(_key(key) in _map_in(handle).entries)


@register_kernel("TensorMapInsert")
def tensor_map_insert(k: KernelBuild) -> Kernel:
    def run(handle: Any, key: Any, value: Any) -> Any:
        return box(TensorMap({**_map_in(handle).entries, _key(key): (key, value)}))

    return run


@register_kernel("TensorMapLookup")
def tensor_map_lookup(k: KernelBuild) -> Kernel:
    dtype = k.dtype("value_dtype")

    def run(handle: Any, key: Any) -> Any:
        found = _map_in(handle).entries.get(_key(key))
        if found is None:
            raise InvalidArgumentError(f'Trying to lookup non-existent key. Could not find key "{key}".')
        if found[1].dtype != dtype.np:
            raise InvalidArgumentError(f"Value does not match requested dtype {type_name(dtype)}.")
        return found[1]

    return run


@register_kernel("TensorMapErase")
def tensor_map_erase(k: KernelBuild) -> Kernel:
    def run(handle: Any, key: Any) -> Any:
        entries = dict(_map_in(handle).entries)
        if entries.pop(_key(key), None) is None:
            raise InvalidArgumentError(f'Trying to erase non-existent item. Could not find key "{key}".')
        return box(TensorMap(entries))

    return run


@register_kernel("TensorMapStackKeys")
def tensor_map_stack_keys(k: KernelBuild) -> Kernel:
    dtype = k.dtype("key_dtype")

    def run(handle: Any) -> Any:
        keys = [key for key, _ in _map_in(handle).entries.values()]
        if not keys:
            raise InvalidArgumentError("TensorMapStackKeys cannot be called on empty map.")
        if any(key.dtype != dtype.np for key in keys):
            raise InvalidArgumentError("Key does not match requested dtype.")
        if any(key.shape != keys[0].shape for key in keys):
            raise InvalidArgumentError("Keys must all have the same shape.")
        return np.stack(keys)

    return run
