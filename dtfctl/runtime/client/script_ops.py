"""`tf.py_func`: a Python function as an op, run in the process that built the graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.func_graph import outermost_graph
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.kernels.control.py_func import register_py_func, unregister_py_func


def py_func(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """Call a Python function with arrays.

    Args:
        func: gets one array for each of `inp`, returns one value or a sequence of them.
        Tout: the type of the result, or a list of types.
        stateful: False lets equal calls be joined, and dropped where their value is known.

    Returns:
        A tensor of unknown shape, a list of them when `Tout` is one, or the operation when that is empty.

    The function is kept for as long as the graph. On another task than the client's own the op fails with
    NotFoundError.
    """
    return _call("PyFunc" if stateful else "PyFuncStateless", func, inp, Tout, name)


def _call(op_type: str, func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None) -> Any:
    single = not isinstance(Tout, (list, tuple))
    types = [as_dtype(t) for t in ([Tout] if single else Tout)]
    token = register_py_func(func)
    weakref.finalize(outermost_graph(), unregister_py_func, token)
    op = make_op(
        op_type,
        input=[convert_to_tensor(x) for x in inp],
        token=token,
        Tout=types,
        name=name,
    )
    if single:
        return op.outputs[0]
    return list(op.outputs) if types else op


class _Array(np.ndarray[Any, Any]):
    """An array that a function written for eager tensors can take."""

    def numpy(self) -> Any:
        """Return the array itself; of one string, its bytes."""
        return self.item() if self.dtype == object and not self.ndim else np.asarray(self)


def py_function(
    func: Callable[..., Any] | None = None, inp: Sequence[Any] | None = None, Tout: Any = None, name: str | None = None
) -> Any:
    """Add a `py_func` for a function whose arguments have `.numpy()`.

    It computes with numpy: a gradient through it is a LookupError, where TensorFlow would follow the function's ops.

    Raises:
        ValueError: there is no function.
    """
    if func is None:
        raise ValueError("py_function needs a function")
    eager = lambda *arrays: func(*(np.asarray(a).view(_Array) for a in arrays))  # noqa: E731
    return _call("EagerPyFunc", eager, inp or (), () if Tout is None else Tout, name)


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Sequence[Any] | None = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Add a `py_func`, under TensorFlow's later name.

    Raises:
        ValueError: there is no function.
    """
    if func is None:
        raise ValueError("numpy_function needs a function")
    return py_func(func, inp or (), () if Tout is None else Tout, stateful, name)
