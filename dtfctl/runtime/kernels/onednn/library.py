"""oneDNN's C interface (version 3) through ctypes: the few of its objects that are used. `find` finds the library."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from dtfctl.cores import available, granted, pinned
from dtfctl.errors import Signal
from dtfctl.runtime.kernels.teams import on_idle

log = logging.getLogger(__name__)

FORWARD_TRAINING = 64
CONVOLUTION_AUTO = 3
SRC, DST, WEIGHTS, BIAS = 1, 17, 33, 41
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS, DIFF_BIAS = 129, 145, 161, 169
SCRATCHPAD = 80
QUERY_SRC, QUERY_DIFF_SRC, QUERY_WEIGHTS, QUERY_DIFF_WEIGHTS, QUERY_DST, QUERY_DIFF_DST = range(129, 135)
_QUERY_SCRATCHPAD = 136
_QUERY_IMPLEMENTATION = 8
# How implementations are called that are for lack of a better one.
SLOW = "ref"
_F32 = 3
_BF16 = 2
_PAUSE_SOFT = 1
_SCRATCHPAD_USER = 1
# How the kernel calls what multiplies bfloat16.
_BF16_FLAGS = {"avx512_bf16", "amx_bf16"}
_TAG_ANY = 1
_CPU = 1
_IN_ORDER = 1
_ALLOCATE = ctypes.c_void_p(-1)
_MATRIX = (ctypes.c_void_p, ctypes.c_int64)
_SGEMM = (
    *(ctypes.c_char,) * 2,
    *(ctypes.c_int64,) * 3,
    *(ctypes.c_float, *_MATRIX, *_MATRIX),
    *(ctypes.c_float, *_MATRIX),
)


class OneDnnError(Signal):
    """The library refused something."""


class _Arg(ctypes.Structure):
    _fields_ = (("arg", ctypes.c_int), ("memory", ctypes.c_void_p))


def _dims(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * 12)(*values)


class Library:
    """The loaded library with one engine; streams are a thread's own.

    Raises:
        OSError: it cannot be loaded.
        OneDnnError: it does not do what it should.
    """

    def __init__(self, path: str) -> None:
        # Threads look for work for half a millisecond, as from one operation of a step to the next, then they
        # sleep: for longer they would take the cores from those that have some.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
        if available() < pinned():
            os.environ.setdefault("OMP_NUM_THREADS", str(available()))
        self._dll = ctypes.CDLL(path)
        self._streams = threading.local()
        self._lock = threading.Lock()
        self._layouts: list[ctypes.c_void_p] = []
        self._reorders: dict[tuple[int, int, bool], ctypes.c_void_p] = {}
        self._point = self._declared("memory_set_data_handle", ctypes.c_void_p, ctypes.c_void_p)
        self._execute = self._declared(
            "primitive_execute", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
        )
        self._wait = self._declared("stream_wait", ctypes.c_void_p)
        self._sgemm = self._declared("sgemm", *_SGEMM)
        self.engine = ctypes.c_void_p()
        self.call("engine_create", ctypes.byref(self.engine), _CPU, ctypes.c_size_t(0))
        # A forked process has none of the threads, and the library would wait for them.
        self.is_forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        # Of OpenMP 5: it ends the calling thread's team. Where there is none, or no such function, nothing happens.
        pause = getattr(self._dll, "omp_pause_resource_all", None)
        if pause is not None:
            on_idle(lambda: None if self.is_forked else pause(_PAUSE_SOFT))

    @cached_property
    def usual_threads(self) -> int:
        """How many threads the library gives to a call, where nobody has set less for a while."""
        return min(available(), granted())

    def threads(self) -> int:
        """Count the threads the library gives to what the calling thread wants."""
        return min(int(self._dll.omp_get_max_threads()), granted())

    def set_threads(self, count: int) -> None:
        """Let what the calling thread wants from now on have so many threads; not what is made already."""
        self._dll.omp_set_num_threads(count)

    @contextmanager
    def by_one_thread(self) -> Iterator[None]:
        """Make primitives that the calling thread runs alone."""
        count = self.threads()
        self.set_threads(1)
        try:
            yield
        finally:
            self.set_threads(count)

    def address(self, name: str) -> int:
        """Return the address of dnnl_NAME, or of a function of OpenMP's by its whole name."""
        function = getattr(self._dll, name if name.startswith("omp_") else f"dnnl_{name}")
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def _forked(self) -> None:
        self.is_forked = True

    def _declared(self, name: str, *types: Any) -> Any:
        """Find the function dnnl_NAME, ready for calls that come often."""
        function = getattr(self._dll, f"dnnl_{name}", None)
        if function is None:
            raise OneDnnError(f"the library has no dnnl_{name}")
        function.argtypes = types
        return function

    def call(self, name: str, *args: Any) -> None:
        """Call dnnl_NAME.

        Raises:
            OneDnnError: its status is not success, or there is no such function.
        """
        function = getattr(self._dll, f"dnnl_{name}", None)
        if function is None:
            raise OneDnnError(f"the library has no dnnl_{name}")
        _check(name, function(*args))

    @property
    def stream(self) -> ctypes.c_void_p:
        found: ctypes.c_void_p | None = getattr(self._streams, "stream", None)
        if found is None:
            found = self._streams.stream = self._new_stream()
        return found

    @cached_property
    def shared_stream(self) -> ctypes.c_void_p:
        """One for primitives that the thread which runs them runs alone: of such a stream nothing is changed."""
        return self._new_stream()

    def _new_stream(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call("stream_create", ctypes.byref(made), self.engine, ctypes.c_uint(_IN_ORDER))
        return made

    # Descriptions and memory ------------------------------------------------------------------------------------------

    def any_layout(self, dims: Sequence[int], is_bfloat16: bool = False) -> ctypes.c_void_p:
        """Describe numbers of that size in whatever layout suits the library best."""
        md, kind = ctypes.c_void_p(), _BF16 if is_bfloat16 else _F32
        self.call("memory_desc_create_with_tag", ctypes.byref(md), len(dims), _dims(dims), kind, _TAG_ANY)
        return md

    def strided(self, dims: Sequence[int], strides: Sequence[int], is_bfloat16: bool = False) -> ctypes.c_void_p:
        md, kind = ctypes.c_void_p(), _BF16 if is_bfloat16 else _F32
        self.call("memory_desc_create_with_strides", ctypes.byref(md), len(dims), _dims(dims), kind, _dims(strides))
        return md

    def vector(self, size: int) -> ctypes.c_void_p:
        return self.strided((size,), (1,))

    def attributes(self, adds: bool = False, has_scratch: bool = False) -> ctypes.c_void_p:
        """Make attributes of a primitive.

        Args:
            adds: its result is added to what is there.
            has_scratch: the memory that it computes in is an argument, so that several threads may run it at once.
        """
        operations, attributes = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("primitive_attr_create", ctypes.byref(attributes))
        if adds:
            self.call("post_ops_create", ctypes.byref(operations))
            self.call("post_ops_append_sum", operations, ctypes.c_float(1), 0, 0)
            self.call("primitive_attr_set_post_ops", attributes, operations)
        if has_scratch:
            self.call("primitive_attr_set_scratchpad_mode", attributes, _SCRATCHPAD_USER)
        return attributes

    def scratchpad(self, pd: ctypes.c_void_p) -> ctypes.c_void_p:
        """Describe the memory that a primitive computes in, where that is an argument."""
        return self.query(pd, _QUERY_SCRATCHPAD)

    def query(self, pd: ctypes.c_void_p, what: int, index: int = 0) -> ctypes.c_void_p:
        """Return the description a primitive has of one of its arguments; it stays the primitive's own."""
        function = self._dll.dnnl_primitive_desc_query_md
        function.restype = ctypes.c_void_p
        return ctypes.c_void_p(function(pd, what, index))

    def implementation(self, pd: ctypes.c_void_p) -> str:
        """Name the code that a primitive would run, as the library does: `brg:avx512_core`."""
        name = ctypes.c_char_p()
        self.call("primitive_desc_query", pd, _QUERY_IMPLEMENTATION, 0, ctypes.byref(name))
        return (name.value or b"").decode()

    def same(self, a: ctypes.c_void_p, b: ctypes.c_void_p) -> bool:
        return bool(self._dll.dnnl_memory_desc_equal(a, b))

    def nbytes(self, md: ctypes.c_void_p) -> int:
        function = self._dll.dnnl_memory_desc_get_size
        function.restype = ctypes.c_size_t
        return int(function(md))

    def layout(self, md: ctypes.c_void_p) -> int:
        """Number a description that stays: equal ones have one number."""
        with self._lock:
            for n, known in enumerate(self._layouts):
                if self.same(md, known):
                    return n
            self._layouts.append(md)
            return len(self._layouts) - 1

    def numbered(self, number: int) -> ctypes.c_void_p:
        """Return the description that `layout` has given a number."""
        return self._layouts[number]

    def memory(self, md: ctypes.c_void_p, *, allocate: bool = False) -> ctypes.c_void_p:
        """Make a memory object: with memory of its own, or to be pointed at arrays."""
        memory = ctypes.c_void_p()
        handle = _ALLOCATE if allocate else ctypes.c_void_p(0)
        self.call("memory_create", ctypes.byref(memory), md, self.engine, handle)
        return memory

    def primitive(self, pd: ctypes.c_void_p) -> ctypes.c_void_p:
        primitive = ctypes.c_void_p()
        self.call("primitive_create", ctypes.byref(primitive), pd)
        return primitive

    def reorder_alone(self, source: ctypes.c_void_p, target: ctypes.c_void_p, adds: bool = False) -> ctypes.c_void_p:
        """Return the primitive that does so by one thread, for any memory of these layouts."""
        key = self.layout(source), self.layout(target), adds
        found = self._reorders.get(key)
        if found is None:
            with self.by_one_thread():
                found = self._reorders[key] = self.reorder(self.numbered(key[0]), self.numbered(key[1]), adds)
        return found

    def reorder(self, source: ctypes.c_void_p, target: ctypes.c_void_p, adds: bool = False) -> ctypes.c_void_p:
        """Make the primitive that copies from one layout to another, or adds to what is there."""
        pd, attributes = ctypes.c_void_p(), self.attributes(adds=True) if adds else None
        create = "reorder_primitive_desc_create"
        self.call(create, ctypes.byref(pd), source, self.engine, target, self.engine, attributes)
        return self.primitive(pd)

    def point(self, memory: ctypes.c_void_p, array: Any) -> None:
        """Let a memory object be the array's memory."""
        _check("memory_set_data_handle", self._point(memory, array.__array_interface__["data"][0]))

    def execute(self, primitive: ctypes.c_void_p, args: Any) -> None:
        stream = self.stream
        _check("primitive_execute", self._execute(primitive, stream, len(args), args))
        _check("stream_wait", self._wait(stream))

    def add_product(
        self, alpha: float, a: Any, b: Any, c: Any, ta: bool = False, tb: bool = False, beta: float = 1.0
    ) -> None:
        """c = beta * c + alpha * a @ b of contiguous float32 matrices, a and b transposed where the flags say so."""
        rows, columns = c.shape
        status = self._sgemm(
            b"T" if ta else b"N",
            b"T" if tb else b"N",
            rows,
            columns,
            a.shape[0] if ta else a.shape[1],
            alpha,
            a.__array_interface__["data"][0],
            a.shape[1],
            b.__array_interface__["data"][0],
            b.shape[1],
            beta,
            c.__array_interface__["data"][0],
            columns,
        )
        _check("sgemm", status)


def _check(name: str, status: int) -> None:
    if status:
        raise OneDnnError(f"dnnl_{name} gave status {status}")


def arguments(**memories: Any) -> Any:
    """Make the argument list of a primitive, from memory objects by name of argument ("src", "diff_dst", ...)."""
    pairs = [(_NUMBERS[name], memory) for name, memory in memories.items()]
    return (_Arg * len(pairs))(*(_Arg(number, memory) for number, memory in pairs))


_NUMBERS = {
    "src": SRC,
    "dst": DST,
    "weights": WEIGHTS,
    "bias": BIAS,
    "diff_src": DIFF_SRC,
    "diff_dst": DIFF_DST,
    "diff_weights": DIFF_WEIGHTS,
    "diff_bias": DIFF_BIAS,
    "scratchpad": SCRATCHPAD,
}


@lru_cache(1)
def multiplies_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Tell whether this CPU has instructions for products of bfloat16 (AVX512-BF16 or AMX)."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith("flags") and not _BF16_FLAGS.isdisjoint(line.split()) for line in lines)
