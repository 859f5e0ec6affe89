"""A stand-in for cupy without a GPU, strict where cupy is: arrays of the host and of the GPU never mix.

`GpuArray` holds a numpy array and has what cupy's arrays have; the module has the functions cupy 14 shares with numpy
(cupy_names.txt) and refuses numpy arrays in them. `RawModule` and `RawKernel` build CUDA sources with a C++ compiler.
An array is on the GPU that was the thread's current one when it was made, and may be used while that one is the current
one.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

_HERE = Path(__file__).resolve().parent
# For each function its parameters, where cupy's signature tells them.
_NAMES = {
    words[0]: frozenset(words[1].split(",")) if len(words) == 2 else None
    for words in map(str.split, (_HERE / "cupy_names.txt").read_text("utf-8").splitlines())
}
# From the host on purpose.
_FROM_HOST = frozenset({"asarray", "array", "ascontiguousarray", "asanyarray"})
_MIXED = "cupy refuses a numpy array here: {}"


class _Current(threading.local):
    device = 0


_current = _Current()


class FakeDevice:
    """cupy.cuda.Device: inside it the thread's arrays are made and used on that GPU."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._before: list[int] = []

    def __enter__(self) -> FakeDevice:
        self._before.append(_current.device)
        _current.device = self._index
        return self

    def __exit__(self, *exception: object) -> None:
        _current.device = self._before.pop()


def _on_current(value: GpuArray, where: str) -> GpuArray:
    assert value.device == _current.device, f"{where}: array of GPU {value.device}, current is {_current.device}"
    return value


def _inward(value: Any, where: str) -> Any:
    """A value as numpy takes it; numpy arrays are refused as cupy refuses them."""
    if isinstance(value, GpuArray):
        return _on_current(value, where).host
    if isinstance(value, np.ndarray):
        raise TypeError(_MIXED.format(where))
    if isinstance(value, (tuple, list)):
        return type(value)(_inward(v, where) for v in value)
    return value


def _outward(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return GpuArray(np.asarray(value))
    if isinstance(value, (tuple, list)):
        return type(value)(_outward(v) for v in value)
    return value


def _apply(function: Callable[..., Any], where: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    known = _NAMES.get(where)
    unknown = set(options) - known if known is not None else set()
    if unknown and not isinstance(getattr(function, "__self__", None), np.ndarray):
        raise TypeError(f"cupy.{where} takes no {sorted(unknown)}")
    out = options.get("out")
    options = {k: _inward(v, where) for k, v in options.items()}
    with np.errstate(all="ignore"):
        result = function(*(_inward(a, where) for a in args), **options)
    return out if isinstance(out, GpuArray) else _outward(result)


class GpuArray:
    """An array only its own module computes with."""

    __slots__ = ("device", "host")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, host: np.ndarray) -> None:
        if host.dtype.hasobject or (host.dtype.isbuiltin != 1 and host.dtype.name != "bfloat16"):
            raise ValueError(f"Unsupported dtype {host.dtype}")
        self.host = host
        self.device = _current.device

    def get(self) -> np.ndarray:
        return self.host.copy()

    def item(self, *at: int) -> Any:
        return self.host.item(*at)

    def tolist(self) -> Any:
        return self.host.tolist()

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or ufunc.__name__ not in _NAMES:
            return NotImplemented
        out = options.pop("out", None)
        if out is not None:
            options["out"] = out[0]
        return _apply(ufunc, ufunc.__name__, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function.__name__ not in _NAMES:
            return NotImplemented
        return _apply(function, function.__name__, args, options)

    def __getitem__(self, key: Any) -> Any:
        return GpuArray(np.asarray(self.host[_inward(key, "index")]))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[_inward(key, "index")] = _inward(value, "assigned value")

    def __len__(self) -> int:
        return len(self.host)

    def __iter__(self) -> Any:
        return (GpuArray(np.asarray(x)) for x in self.host)

    def __bool__(self) -> bool:
        return bool(self.host)

    def __int__(self) -> int:
        return int(self.host)

    def __float__(self) -> float:
        return float(self.host)

    def __complex__(self) -> complex:
        return complex(self.host)

    def __index__(self) -> int:
        return self.host.__index__()

    def __repr__(self) -> str:
        return f"GpuArray({self.host!r})"


def _operator(name: str) -> Callable[..., Any]:
    method: Any = getattr(np.ndarray, name)

    def call(self: GpuArray, *others: Any) -> Any:
        for other in others:
            if not isinstance(other, (GpuArray, np.generic, int, float, complex, bool)):
                if isinstance(other, np.ndarray):
                    raise TypeError(_MIXED.format(name))
                return NotImplemented
        with np.errstate(all="ignore"):
            result = method(_on_current(self, name).host, *(_inward(other, name) for other in others))
        return self if name.startswith("__i") and name != "__invert__" else _outward(result)

    return call


_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul"]
for _name in [
    *(f"__{n}__" for n in _BINARY),
    *(f"__r{n}__" for n in _BINARY),
    *(f"__i{n}__" for n in _BINARY if n != "matmul"),
    *(f"__{n}__" for n in ["eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "divmod", "rdivmod"]),
]:
    setattr(GpuArray, _name, _operator(_name))

_PLAIN = ("dtype", "shape", "ndim", "size", "nbytes", "itemsize", "strides", "flags")
_VIEWS = ("T", "real", "imag", "mT")
_METHODS = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "astype",
    "clip",
    "conj",
    "copy",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "fill",
    "flatten",
    "max",
    "mean",
    "min",
    "nonzero",
    "prod",
    "ravel",
    "repeat",
    "reshape",
    "round",
    "sort",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "transpose",
    "var",
    "view",
]
for _name in _PLAIN:
    setattr(GpuArray, _name, property(lambda self, n=_name: getattr(self.host, n)))
for _name in _VIEWS:
    setattr(
        GpuArray,
        _name,
        property(
            lambda self, n=_name: GpuArray(getattr(self.host, n)),
            lambda self, value, n=_name: setattr(self.host, n, _inward(value, n)),
        ),
    )
for _name in _METHODS:
    setattr(
        GpuArray,
        _name,
        lambda self, *args, _n=_name, **options: _apply(getattr(self.host, _n), _n, args, options),
    )


class _FakeModule(ModuleType):
    ndarray = GpuArray

    def __getattr__(self, name: str) -> Any:
        if name not in _NAMES:
            value = getattr(np, name, None)
            if value is not None and (isinstance(value, (float, type(None), type)) or name in ("newaxis", "e", "pi")):
                return value
            raise AttributeError(f"module 'cupy' has no attribute '{name}'")
        function = getattr(np, name)
        if isinstance(function, type):
            return function
        if name in _FROM_HOST:
            return lambda x, *a, **o: (
                x
                if isinstance(x, GpuArray) and name == "asarray" and not a and not o
                else _outward(function(x.host if isinstance(x, GpuArray) else x, *a, **o))
            )
        return lambda *args, **options: _apply(function, name, args, options)


_SIGNATURE = re.compile(r"__global__\s+void\s+(\w+)\s*\(([^)]*)\)", re.S)


class RawModule:
    """cupy.RawModule by way of g++. Threads are few: kernels must not depend on how many there are."""

    def __init__(self, *, code: str, options: tuple[str, ...] = ()) -> None:
        self._library = _build(code)

    def get_function(self, name: str) -> Callable[[tuple[int], tuple[int], tuple[Any, ...]], None]:
        function = getattr(self._library, f"run_{name}")

        def call(grid: tuple[int], block: tuple[int], args: tuple[Any, ...]) -> None:
            function(min(grid[0], 3), 4, *(_c_argument(a) for a in args))

        return call


class RawKernel:
    """cupy.RawKernel by way of g++: one kernel of a source, compiled when it is first called."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
        self._code, self._name = code, name

    def __call__(self, grid: tuple[int], block: tuple[int], args: tuple[Any, ...]) -> None:
        RawModule(code=self._code).get_function(self._name)(grid, block, args)


def _c_argument(value: Any) -> Any:
    if isinstance(value, GpuArray):
        _on_current(value, "kernel argument")
        assert value.host.flags.c_contiguous, "a kernel was given an array that is not contiguous"
        return ctypes.c_void_p(value.host.ctypes.data)
    assert isinstance(value, np.generic), f"cupy takes device arrays and numpy scalars, not {type(value)}"
    kinds: dict[str, Any] = {
        "float32": ctypes.c_float,
        "float64": ctypes.c_double,
        "int64": ctypes.c_int64,
        "int32": ctypes.c_int32,
        "uint64": ctypes.c_uint64,
        "uint32": ctypes.c_uint32,
        "uint8": ctypes.c_uint8,
    }
    return kinds[value.dtype.name](value.item())


def compiler() -> str | None:
    return shutil.which("g++")


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="dtfctl-cuda-shim-")


@cache
def _build(code: str) -> ctypes.CDLL:
    command = compiler()
    assert command is not None, "no g++"
    text = f'#include "{_HERE / "cuda_shim.h"}"\n{code}\n'
    expanded = subprocess.run([command, "-E", "-P", "-xc++", "-"], input=code + "\n", text=True, capture_output=True)
    assert expanded.returncode == 0, expanded.stderr
    wrappers = []
    for name, parameters in _SIGNATURE.findall(expanded.stdout):
        names = [re.split(r"[\s*]+", p.strip())[-1] for p in parameters.split(",")]
        wrappers.append(
            f'extern "C" void run_{name}(unsigned blocks, unsigned threads, {parameters}) '
            f"{{ dtf_run(blocks, threads, [=] {{ {name}({', '.join(names)}); }}); }}"
        )
    assert wrappers, "no kernels found"
    stem = Path(_folder().name) / hashlib.sha256(text.encode()).hexdigest()[:16]
    source, library = stem.with_suffix(".cpp"), stem.with_suffix(".so")
    source.write_text(text + "\n".join(wrappers), "utf-8")
    flags = ["-std=c++17", "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
    built = subprocess.run([command, *flags, str(source), "-o", str(library)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return ctypes.CDLL(str(library))


def fake_cupy() -> Any:
    """A module that behaves as cupy does with one GPU."""
    module: Any = _FakeModule("fake_cupy")
    module.RawModule = RawModule
    module.RawKernel = RawKernel
    module.cuda = SimpleNamespace(Device=FakeDevice)
    return module
