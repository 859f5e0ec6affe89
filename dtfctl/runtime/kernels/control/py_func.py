"""Python functions inside graphs: PyFunc and EagerPyFunc.

A function lives in the process that registered it; a graph only carries its token. So such nodes run in that process
alone, and say so elsewhere.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import WIRE_NAME, DType, as_dtype
from dtfctl.runtime.framework.errors import (
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)
from dtfctl.runtime.kernels.promises import Promises
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_LOCK = threading.Lock()
_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_NUMBERS = itertools.count()


def register_py_func(function: Callable[..., Any]) -> str:
    """Make a function of arrays callable from graphs run in this process; returns the token for the node."""
    token = f"pyfunc_{os.getpid()}_{next(_NUMBERS)}"
    with _LOCK:
        _FUNCTIONS[token] = function
    return token


def unregister_py_func(token: str) -> None:
    with _LOCK:
        _FUNCTIONS.pop(token, None)


@register_kernel(("PyFunc", "PyFuncStateless", "EagerPyFunc"), promises=Promises(reads_outside=True))
def py_func(k: KernelBuild) -> Kernel:
    token = k.text_attr("token")
    types: tuple[DType, ...] = k.attr("Tout") or ()

    def run(*inputs: Any) -> Any:
        function = _FUNCTIONS.get(token)
        if function is None:
            raise NotFoundError(
                f"Python function '{token}' is not registered in this process. A py_func runs only in the process that "
                "made it: place it on the task the client runs in, or use TensorFlow ops."
            )
        try:
            result = function(*inputs)
        except OpError:
            raise
        except Exception as e:
            raise _error_class(e)(f"{type(e).__name__}: {e}") from e
        return _outputs(result, types, token)

    return run


def _error_class(error: Exception) -> type[OpError]:
    """Find the status TensorFlow gives a Python exception."""
    for kinds, status in _STATUS:
        if isinstance(error, kinds):
            return status
    return UnknownError


_STATUS: tuple[tuple[tuple[type[Exception], ...], type[OpError]], ...] = (
    ((ValueError, TypeError), InvalidArgumentError),
    ((StopIteration,), OutOfRangeError),
    ((MemoryError,), ResourceExhaustedError),
    ((NotImplementedError,), UnimplementedError),
)


def _outputs(result: Any, types: tuple[DType, ...], token: str) -> tuple[Any, ...]:
    """Convert what a Python function returned to tensors of the declared types."""
    values = () if result is None and not types else result if isinstance(result, (list, tuple)) else (result,)
    if len(types) == 1 and len(values) != 1:
        values = (result,)
    if len(values) != len(types):
        raise InvalidArgumentError(f"{token} returns {len(values)} values, but expects to see {len(types)} values.")
    out = []
    for i, (value, dtype) in enumerate(zip(values, types)):
        if dtype.is_object:
            array = np.empty(np.shape(value), object)
            array[...] = value
            out.append(_as_bytes(array))
            continue
        array = np.asarray(value)
        if array.dtype != dtype.np:
            have = array.dtype.name if array.dtype.kind in "OSU" else WIRE_NAME[as_dtype(array.dtype)]
            raise InvalidArgumentError(f"{i}-th value returned by {token} is {have}, but expects {WIRE_NAME[dtype]}")
        out.append(array)
    return tuple(out)


def _as_bytes(array: Any) -> Any:
    flat = array.reshape(-1)
    for i, item in enumerate(flat):
        if isinstance(item, str):
            flat[i] = item.encode()
    return flat.reshape(array.shape)
