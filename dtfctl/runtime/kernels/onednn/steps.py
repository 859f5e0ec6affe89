"""Products as steps of tapes (kernels/native/tape.py)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.registry import Spec, Unfit
from dtfctl.runtime.kernels.native import machine, tape
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.matrices import Matrices, Sizes
from dtfctl.runtime.kernels.native.tape import Part, Pool, Step, described, rows_of
from dtfctl.runtime.kernels.onednn.library import (
    QUERY_DST,
    QUERY_SRC,
    QUERY_WEIGHTS,
    SLOW,
    Library,
    OneDnnError,
    arguments,
)
from dtfctl.runtime.kernels.onednn.passes import Shared, aligned

_FLOAT32 = np.dtype(np.float32)


def product_step(
    library: Library, sizes: Sizes, tb: bool, biased: bool = False, is_shared: bool = False
) -> Step | None:
    """Make a product of matrices a step; see `Product`. None where it needs copies in other layouts, or tapes cannot be
    had.

    Raises:
        KeyError: the code of tapes was not compiled yet.
        OneDnnError: the library has nothing good for that.
        OSError: the system lets nobody run what they have written.
    """
    code = tape.image()
    made = None if code is None else _primitive(library, sizes, tb, biased, is_shared)
    if code is None or made is None:
        return None
    rows, inner, columns = sizes
    matrix = (columns, inner) if tb else (inner, columns)
    specs = [Spec((rows, inner), _FLOAT32), Spec(matrix, _FLOAT32)]
    if made.packed is not None and made.packed.copied:
        specs[1] = Spec((made.packed.nbytes,), np.dtype(np.uint8))
    specs += [Spec((columns,), _FLOAT32)] if biased else []
    specs += [Spec((rows, columns), _FLOAT32)]
    names = ["src", "weights", *(["bias"] if biased else ()), "dst"]

    def executed(made: _Primitive, first: int) -> tuple[int, Any, Any]:
        memories = [library.memory(layout) for layout in made.layouts]
        # Two threads may run one primitive at once.
        scratch, scratchpad = aligned(made.scratch_bytes), library.memory(made.scratchpad)
        library.point(scratchpad, scratch)
        given = {**dict(zip(names, memories)), "scratchpad": scratchpad}
        begins = [first * inner * _FLOAT32.itemsize, *[0] * (len(specs) - 2), first * columns * _FLOAT32.itemsize]
        points = [(memory, n, begin) for n, (memory, begin) in enumerate(zip(memories, begins))]
        return executing(library, code, specs, 1, points, [(made.primitive, given)], (made, scratch))

    def part(first: int, end: int) -> tuple[int, Any, Any]:
        of_rows = _primitive(library, (end - first, inner, columns), tb, biased, is_shared, made.weights)
        if of_rows is None:
            raise OneDnnError("a part of a product needs copies in other layouts")
        return executed(of_rows, first)

    def cut(count: int) -> list[list[Part]]:
        try:
            return [rows_of(rows, count, specs, False, part)]
        except OneDnnError:
            return []

    entry, words, held = executed(made, 0)
    makes = {} if made.packed is None else {1: _Form(made.packed.form, matrix, made.packed)}
    return Step(entry, words, specs, len(specs) - 1, makes, pool_of(library), cut, held)


def pool_of(library: Library) -> Pool:
    """Return the library's threads: some of its primitives ask for them when they run, not when they are made."""
    return Pool(library.address("omp_set_num_threads"), library.usual_threads, True)


def executing(
    library: Library,
    code: Image,
    specs: Sequence[Spec],
    outputs: int,
    points: Sequence[tuple[ctypes.c_void_p, int, int]],
    runs: Sequence[tuple[ctypes.c_void_p, Mapping[str, ctypes.c_void_p]]],
    held: Any,
) -> tuple[int, Any, Any]:
    """Make primitives, one after the other, a step: its entry, words and what is to be held.

    Args:
        specs: the arrays it gets, of which it writes the last `outputs`.
        points: memory objects, with the number of the array whose memory each is, and how far behind its beginning.
        runs: primitives with their arguments.
    """
    entry, memory = machine.entry(code, "execute")
    pointed = np.array([(m.value or 0, n, begin) for m, n, begin in points], np.int64)
    given = [arguments(**of) for _, of in runs]
    executed = np.array([(p.value or 0, len(a), ctypes.addressof(a)) for (p, _), a in zip(runs, given)], np.int64)
    own = [
        library.address("memory_set_data_handle"),
        library.address("primitive_execute"),
        library.shared_stream.value or 0,
        *(len(pointed), pointed.ctypes.data),
        *(len(executed), executed.ctypes.data),
    ]
    table = machine.table_of(machine.numbers_of(own, described(specs, outputs)))
    return entry, table, (memory, pointed, given, executed, points, runs, held)


@dataclass(frozen=True)
class _Primitive:
    """A product of some rows.

    Attributes:
        layouts: of its arguments; scratchpad: of what it computes in, of so many bytes.
        packed: makes the second factor what it gets, where that is shared.
        weights: the layout in which it then has the second factor.
    """

    primitive: ctypes.c_void_p
    layouts: Sequence[ctypes.c_void_p]
    scratchpad: ctypes.c_void_p
    scratch_bytes: int
    packed: Shared | None

    @property
    def weights(self) -> ctypes.c_void_p | None:
        return None if self.packed is None else self.layouts[1]


def _primitive(
    library: Library,
    sizes: Sizes,
    tb: bool,
    biased: bool,
    is_shared: bool,
    weights: ctypes.c_void_p | None = None,
) -> _Primitive | None:
    """Make the primitive of a product for one thread; products of one kind in several plans have one.

    Args:
        weights: in which layout the second factor comes, if it is shared and that is settled.
    """
    form = None if weights is None else library.layout(weights)
    return _of_form(library, sizes, tb, biased, is_shared, form)


@lru_cache(256)
def _of_form(
    library: Library, sizes: Sizes, tb: bool, biased: bool, is_shared: bool, form: int | None
) -> _Primitive | None:
    rows, inner, columns = sizes
    a = library.strided((rows, inner), (inner, 1))
    b = library.strided((inner, columns), (1, inner) if tb else (columns, 1))
    bias = library.strided((1, columns), (columns, 1)) if biased else None
    out = library.strided((rows, columns), (columns, 1))
    wanted = b if not is_shared else library.any_layout((inner, columns)) if form is None else library.numbered(form)
    pd, attributes = ctypes.c_void_p(), library.attributes(has_scratch=True)
    with library.by_one_thread():
        create = "matmul_primitive_desc_create"
        library.call(create, ctypes.byref(pd), library.engine, a, wanted, bias, out, attributes)
        if library.implementation(pd).startswith(SLOW):
            raise OneDnnError("a product has a slow implementation only")
        primitive = library.primitive(pd)
    plain = [(a, QUERY_SRC, 0), (b, QUERY_WEIGHTS, 0), (out, QUERY_DST, 0)]
    if bias is not None:
        plain.insert(2, (bias, QUERY_WEIGHTS, 1))
    layouts = [library.query(pd, what, index) for _, what, index in plain]
    if any(not library.same(x, layouts[n]) for n, (x, *_) in enumerate(plain) if not (is_shared and n == 1)):
        return None
    scratchpad = library.scratchpad(pd)
    packed = Shared(library, b, layouts[1]) if is_shared else None
    return _Primitive(primitive, layouts, scratchpad, library.nbytes(scratchpad), packed)


@dataclass(frozen=True)
class _Form:
    """Makes of a `Factor`, in an array without dimensions, the array that primitives get which want it in this form."""

    form: tuple[int, int]
    shape: tuple[int, int]
    packed: Shared = field(compare=False)

    def __call__(self, value: Any) -> Any:
        factor = value.item()
        # A forked process has none of the threads that putting it in order would wait for.
        if factor.array.shape != self.shape or factor.array.dtype != _FLOAT32 or self.packed.library.is_forked:
            raise Unfit
        return self.packed.given(factor)


def gemm_step(library: Library, matrices: Matrices) -> Step | None:
    """Make products of matrices a step by the library's general routine; None where tapes cannot be had.

    Raises:
        KeyError: the code of tapes was not compiled yet.
        OSError: the system lets nobody run what they have written.
    """
    code = tape.image()
    if code is None:
        return None
    head = [library.address("sgemm"), *(ord("T" if t else "N") for t in (matrices.ta, matrices.tb))]
    return matrices.step(code, "gemm", head, pool_of(library), library)
