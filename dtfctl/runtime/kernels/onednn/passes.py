"""Primitives with their operands, as calls on arrays."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.threads import adapts, by_one, threaded
from dtfctl.runtime.kernels.onednn.library import Library, arguments

# Bytes of a line of the caches.
_LINE = 64


def _nothing() -> None:
    return None


class Operand:
    """An argument of a primitive: an array as it is, or a copy in the layout the primitive wants."""

    def __init__(self, library: Library, plain: ctypes.c_void_p, wanted: ctypes.c_void_p) -> None:
        self.library = library
        self.array = library.memory(plain)
        self.copied = not library.same(plain, wanted)
        self.memory = library.memory(wanted, allocate=True) if self.copied else self.array
        self._load = library.reorder(plain, wanted) if self.copied else None
        self._store = library.reorder(wanted, plain) if self.copied else None
        # Not held: a variable's array that nobody else holds is updated in place.
        self._pointed_at: Callable[[], Any] = _nothing

    def point(self, array: Any) -> None:
        """Let the argument be the array's memory, which mostly is that of the step before."""
        if self._pointed_at() is not array:
            self.library.point(self.array, array)
            self._pointed_at = weakref.ref(array)

    def load(self, array: Any) -> None:
        self.point(array)
        if self._load is not None:
            self.library.execute(self._load, arguments(src=self.array, dst=self.memory))

    def store(self) -> None:
        if self._store is not None:
            self.library.execute(self._store, arguments(src=self.memory, dst=self.array))


class Shared(Operand):
    """An argument that comes as a `Factor`, which keeps its copy in the layout the primitive wants."""

    def __init__(self, library: Library, plain: ctypes.c_void_p, wanted: ctypes.c_void_p) -> None:
        super().__init__(library, plain, wanted)
        if self.copied:
            self.memory = library.memory(wanted)
        self.nbytes = library.nbytes(wanted)
        self._lock = threading.Lock()
        # A square matrix and what it is transposed are wanted in one layout.
        self.form = library.layout(plain), library.layout(wanted)

    def load(self, array: Any) -> None:
        self.library.point(self.memory, self.given(array))

    def given(self, factor: Any) -> Any:
        """Return the array that the primitive gets: the factor's own, or the copy that it keeps."""
        return factor.form(self.form, self._packed) if self.copied else factor.array

    def _packed(self, array: Any) -> Any:
        assert self._load is not None
        packed = aligned(self.nbytes)
        with self._lock:
            self.library.point(self.array, array)
            self.library.point(self.memory, packed)
            self.library.execute(self._load, arguments(src=self.array, dst=self.memory))
        return packed


def aligned(nbytes: int) -> Any:
    """Make room that begins where a line of the caches does."""
    room = np.empty(nbytes + _LINE, np.uint8)
    start = -room.__array_interface__["data"][0] % _LINE
    return room[start : start + nbytes]


class Pass:
    """One primitive with its operands; the last `results` of them are what it computes.

    Args:
        shared: operands that come as a `Factor`.
    """

    def __init__(
        self,
        library: Library,
        pd: ctypes.c_void_p,
        results: int,
        shared: Collection[str] = (),
        **operands: tuple[ctypes.c_void_p, int, int],
    ) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._primitive = library.primitive(pd)
        made = {
            name: (Shared if name in shared else Operand)(library, plain, library.query(pd, query, index))
            for name, (plain, query, index) in operands.items()
        }
        self._inputs = list(made.values())[:-results]
        self._results = list(made.values())[-results:]
        self._args = arguments(**{name: operand.memory for name, operand in made.items()})

    def run(self, *arrays: Any) -> None:
        with self._lock:
            for operand, array in zip(self._inputs, arrays):
                operand.load(array)
            for operand, array in zip(self._results, arrays[len(self._inputs) :]):
                operand.point(array)
            self._library.execute(self._primitive, self._args)
            for operand in self._results:
                operand.store()


def adapted(
    library: Library, make: Callable[[], Pass], claimed: Callable[..., None] | None = None
) -> Callable[..., None]:
    """Make a call of a pass. How many threads one has is settled when it is made: there is one for one thread too.

    That one is made at once, and the other when threads are first used: on a busy machine that may be never.

    Args:
        claimed: the same in parts that threads claim.
    """
    count = library.threads()
    if count < 2 or not adapts():
        return make().run
    for_all: list[Pass] = []

    def together(*arrays: Any) -> None:
        if not for_all:
            for_all.append(make())
        for_all[0].run(*arrays)

    with library.by_one_thread():
        for_one = make()
    return threaded(together, by_one(for_one.run, library.set_threads, count), count, claimed=claimed)
