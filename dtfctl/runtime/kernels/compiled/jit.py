"""Loops as machine code, if numba is there: compiled when a plan or a kernel first wants them, and kept like regions.

Another process compiles them (compile.py), as numba takes some 100 MB and most of a second to import; what it has made
is read by all later ones. A loop is waited for: whether it is compiled depends on sizes and types only, so that the
same program rounds the same way every time. `DTF_NUMBA=0` turns it off.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl import later
from dtfctl.runtime.framework.errors import InternalError
from dtfctl.runtime.kernels.compiled import loops
from dtfctl.runtime.kernels.into.registry import Spec
from dtfctl.runtime.kernels.native import machine
from dtfctl.runtime.kernels.native.compiler import Compiler, Process
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.kept import Compiled, rules_of

log = logging.getLogger(__name__)

# Bytes of an array below which numpy's passes stay in cache and do well enough.
LEAST_BYTES = 2 << 20
# The function of an image.
ENTRY = "loop"
# What compiles may be killed, as others are where memory is short.
_MOST_TRIES = 2
# A loop takes 0.3 to 3 s, and many times as long beside much other work.
_MOST_S = 300.0

# What an argument is: its type, its rank, and how it lies in memory, which is empty for a number.
Kind = tuple[str, int, str]


def is_available() -> bool:
    """Tell whether numba is installed and not turned off; it is not imported for that. On a host it may come later."""
    return later.arrived("fast") and _is_installed()


@lru_cache(1)
def _is_installed() -> bool:
    found = os.environ.get("DTF_NUMBA", "1") != "0" and importlib.util.find_spec("numba") is not None
    return found and machine.can_compile()


def compiled(
    loop: Callable[..., None], dtype: np.dtype[Any], nbytes: int, least: int = LEAST_BYTES
) -> Callable[..., None] | None:
    """Compile a loop of `loops` for arrays of `nbytes` bytes; None where numpy is to do it, as below `least`."""
    if nbytes < least or dtype not in (np.float32, np.float64) or not is_available() or not _works():
        return None
    return _loop(loop.__name__, "")


def jitted(source: str) -> Callable[..., None] | None:
    """Compile the only function of a source; None where there is no numba.

    It may use `ahead`, `stream` and `fence` of streams.py.
    """
    return _loop("", source) if is_available() and _works() else None


@dataclass(frozen=True)
class Ordered:
    """A loop for arguments of some kinds; see `Order`."""

    name: str
    source: str
    kinds: tuple[Kind, ...]

    @cached_property
    def text(self) -> str:
        what = {"loop": self.name} if self.name else {"source": self.source}
        return json.dumps({**what, "kinds": self.kinds})

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(f"{_rules()} {self.text}".encode()).hexdigest()


class Loop:
    """A loop as machine code, which is made for each kind of arguments that it is called with."""

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source
        self._made: dict[tuple[Kind, ...], Callable[..., None]] = {}

    def __call__(self, *args: Any) -> None:
        kinds = tuple(map(kind_of, args))
        made = self._made.get(kinds)
        if made is None:
            made = self._made[kinds] = self.made_for(kinds)
        made(args)

    def made_for(self, kinds: tuple[Kind, ...]) -> Callable[..., None]:
        """Make the code for arguments of some kinds.

        Raises:
            InternalError: it cannot be made, or not be run.
        """
        what = self._name or "a chain of operations"
        found = _found(Ordered(self._name, self._source, kinds))
        if found is None:
            raise InternalError(f"{what} could not be compiled. Set DTF_NUMBA=0 to do without.")
        try:
            call = machine.function(found.image, ENTRY)
        except (OSError, AttributeError) as e:
            raise InternalError(f"{what} cannot be run: {e}. Set DTF_NUMBA=0 to do without.") from e
        pack = struct.Struct("".join(map(packed_kind, kinds))).pack
        arrays = [bool(layout) for _, _, layout in kinds]

        def run(args: Sequence[Any]) -> None:
            given: list[Any] = []
            for arg, is_array in zip(args, arrays):
                if is_array:
                    place = arg.__array_interface__["data"][0]
                    # Who holds it, whose it is, sizes, and where it is.
                    given += (0, 0, arg.size, arg.itemsize, place, *arg.shape, *arg.strides)
                else:
                    given.append(arg)
            if call(pack(*given)):
                raise InternalError(f"{what} has failed")

        return run


def _found(order: Ordered) -> Compiled | None:
    """Find the code of a loop, compiled if it was not yet; None where it cannot be."""
    for _ in range(_MOST_TRIES):
        try:
            return _COMPILER.find(order)
        except KeyError:
            if not _COMPILER.request([order]).wait(_MOST_S):
                raise InternalError(
                    f"{order.name or 'a chain of operations'} was not compiled within {_MOST_S:g} s: the process that "
                    "compiles hangs, or the machine has no time for it. Set DTF_NUMBA=0 to do without."
                ) from None
    try:
        return _COMPILER.find(order)
    except KeyError:
        return None


# Numbers take eight bytes each.
_PACKED = {"f": "f4x", "d": "d", "l": "q", "i": "i4x", "?": "?7x"}


def packed_kind(kind: Kind) -> str:
    """Tell how `struct` packs an argument."""
    char, rank, layout = kind
    return "q" * (5 + 2 * rank) if layout else _PACKED[char]


def code_of(name: str, kinds: Sequence[Kind]) -> Image | None:
    """Find the code of a loop of `loops`, whose entry is "loop", compiled if it was not yet; None where it cannot be.

    Raises:
        InternalError: nothing was compiled for minutes.
    """
    found = _found(Ordered(name, "", tuple(kinds)))
    return None if found is None else found.image


def kind_of(arg: Any) -> Kind:
    """Tell what kind of argument something is, or what is known of a contiguous array."""
    if isinstance(arg, Spec):
        return arg.dtype.char, len(arg.shape), "C"
    if isinstance(arg, np.ndarray):
        return arg.dtype.char, arg.ndim, "C" if arg.flags.c_contiguous else "A"
    if isinstance(arg, np.generic):
        return arg.dtype.char, 0, ""
    return "?" if isinstance(arg, bool) else "l" if isinstance(arg, int) else "d", 0, ""


@lru_cache(256)
def _loop(name: str, source: str) -> Loop:
    return Loop(name, source)


@lru_cache(1)
def _works() -> bool:
    """Find out whether loops can be compiled and run here; say so where not."""
    try:
        loop, one, two = _loop("below_largest", ""), np.ones((1, 2), np.float32), np.empty((1, 2), np.float32)
        loop(one, two)
    except InternalError as e:
        log.warning("numba is installed, but cannot be used: %s", e)
        return False
    return True


@lru_cache(1)
def _rules() -> str:
    """Say what loops' code depends on, besides what regions' does."""
    return rules_of(Path(__file__).parent, "numba")


_PROCESS = Process("dtfctl.runtime.kernels.compiled.compile")
_COMPILER = Compiler(_PROCESS.compile, _PROCESS.end)

__all__ = ["LEAST_BYTES", "code_of", "compiled", "is_available", "jitted", "kind_of", "loops", "packed_kind"]
