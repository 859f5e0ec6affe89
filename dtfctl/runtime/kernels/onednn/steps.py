"""Products as steps of tapes (kernels/native/tape.py)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Spec, Unfit
from dtfctl.runtime.kernels.native import machine, tape
from dtfctl.runtime.kernels.native.tape import Step, described
from dtfctl.runtime.kernels.onednn.library import (
    QUERY_DST,
    QUERY_SRC,
    QUERY_WEIGHTS,
    SLOW,
    Library,
    OneDnnError,
    arguments,
)
from dtfctl.runtime.kernels.onednn.passes import Shared

_FLOAT32 = np.dtype(np.float32)
Sizes = tuple[int, int, int]
"""Rows of a product, inner dimension and columns."""


def product_step(
    library: Library, sizes: Sizes, ta: bool, tb: bool, biased: bool = False, is_shared: bool = False
) -> Step | None:
    """Make a product of matrices a step; see `Product`. None where it needs copies in other layouts, or tapes cannot be
    had.

    Raises:
        KeyError: the code of tapes was not compiled yet.
        OneDnnError: the library has nothing good for that.
        OSError: the system lets nobody run what they have written.
    """
    code = tape.image()
    made = None if code is None else _primitive(library, sizes, ta, tb, biased, is_shared)
    if code is None or made is None:
        return None
    rows, inner, columns = sizes
    memories = [library.memory(layout) for layout in made.layouts]
    names = ["src", "weights", *(["bias"] if biased else ()), "dst"]
    given = arguments(**dict(zip(names, memories)))
    matrix = (columns, inner) if tb else (inner, columns)
    specs = [Spec((inner, rows) if ta else (rows, inner), _FLOAT32), Spec(matrix, _FLOAT32)]
    if made.packed is not None and made.packed.copied:
        specs[1] = Spec((made.packed.nbytes,), np.dtype(np.uint8))
    specs += [Spec((columns,), _FLOAT32)] if biased else []
    specs += [Spec((rows, columns), _FLOAT32)]
    own = [
        library.address("memory_set_data_handle"),
        library.address("primitive_execute"),
        *(made.primitive.value or 0, library.shared_stream.value or 0),
        *(len(given), ctypes.addressof(given)),
        *(memory.value or 0 for memory in memories),
    ]
    entry, held = machine.entry(code, "product")
    table = machine.table_of(machine.numbers_of(own, described(specs, 1)))
    makes = {} if made.packed is None else {1: _Form(made.packed.form, matrix, made.packed)}
    return Step(entry, table, specs, len(specs) - 1, makes, held=(held, given, memories, made))


@dataclass(frozen=True)
class _Primitive:
    """Attributes: layouts: of its arguments; packed: makes the second factor what it gets, where that is shared."""

    primitive: ctypes.c_void_p
    layouts: Sequence[ctypes.c_void_p]
    packed: Shared | None


@lru_cache(256)
def _primitive(library: Library, sizes: Sizes, ta: bool, tb: bool, biased: bool, is_shared: bool) -> _Primitive | None:
    """Make the primitive of a product for one thread; products of one kind in several plans have one."""
    rows, inner, columns = sizes
    a = library.strided((rows, inner), (1, rows) if ta else (inner, 1))
    b = library.strided((inner, columns), (1, inner) if tb else (columns, 1))
    bias = library.strided((1, columns), (columns, 1)) if biased else None
    out = library.strided((rows, columns), (columns, 1))
    wanted = library.any_layout((inner, columns)) if is_shared else b
    pd = ctypes.c_void_p()
    with library.by_one_thread():
        library.call("matmul_primitive_desc_create", ctypes.byref(pd), library.engine, a, wanted, bias, out, None)
        if library.implementation(pd).startswith(SLOW):
            raise OneDnnError("a product has a slow implementation only")
        primitive = library.primitive(pd)
    plain = [(a, QUERY_SRC, 0), (b, QUERY_WEIGHTS, 0), (out, QUERY_DST, 0)]
    if bias is not None:
        plain.insert(2, (bias, QUERY_WEIGHTS, 1))
    layouts = [library.query(pd, what, index) for _, what, index in plain]
    if any(not library.same(x, layouts[n]) for n, (x, *_) in enumerate(plain) if not (is_shared and n == 1)):
        return None
    return _Primitive(primitive, layouts, Shared(library, b, layouts[1]) if is_shared else None)


@dataclass(frozen=True)
class _Form:
    """Makes of a `Factor`, in an array without dimensions, the array that primitives get which want it in this form."""

    form: tuple[int, int]
    shape: tuple[int, int]
    packed: Shared = field(compare=False)

    def __call__(self, value: Any) -> Any:
        factor = value.item()
        if factor.array.shape != self.shape or factor.array.dtype != _FLOAT32:
            raise Unfit
        return self.packed.given(factor)


def gemm_step(library: Library, sizes: Sizes, ta: bool, tb: bool) -> Step | None:
    """Make a product of matrices a step by the library's general routine; None where tapes cannot be had.

    Raises:
        KeyError: the code of tapes was not compiled yet.
        OSError: the system lets nobody run what they have written.
    """
    code = tape.image()
    if code is None:
        return None
    rows, inner, columns = sizes
    shapes = [(inner, rows) if ta else (rows, inner), (columns, inner) if tb else (inner, columns)]
    specs = [Spec(shape, _FLOAT32) for shape in (*shapes, (rows, columns))]
    flags = [ord("T" if t else "N") for t in (ta, tb)]
    own = [library.address("sgemm"), *flags, rows, columns, inner, shapes[0][1], shapes[1][1]]
    entry, held = machine.entry(code, "gemm")
    table = machine.table_of(machine.numbers_of(own, described(specs, 1)))
    return Step(entry, table, specs, 2, pool=(library.address("omp_set_num_threads"), library.threads()), held=held)
