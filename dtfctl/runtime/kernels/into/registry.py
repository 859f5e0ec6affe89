"""Kernels that write their results into given arrays, made for inputs of known shapes.

A plan that has seen the shapes of its values (executor/shaped.py) asks here for the form of a kernel that fits them. A
maker gets the node and the shapes; it gives an `Into`, or None when it has nothing better than the usual kernel.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dtfctl.errors import Signal
from dtfctl.runtime.kernels.registry import KernelBuild

if TYPE_CHECKING:
    from dtfctl.runtime.kernels.native.sketch import Sketch
    from dtfctl.runtime.kernels.native.tape import Step


class Unfit(Signal):
    """Operands are not what a form was made for; nothing was changed. The usual kernel takes over."""


class Spec(NamedTuple):
    """What is known of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Into:
    """How to run a node.

    Attributes:
        call: called with the inputs, `extras`, the arrays to fill (one an output) and the scratch arrays. It raises
            `Unfit` where it cannot do it; whatever it raises, it has not changed anything but those arrays.
        scratch: what room it needs besides.
        in_place: inputs whose memory the first output may have, if they are of its shape and type.
        fills: False for a node that returns its outputs as usual, such as one that updates a variable.
        is_guarded: it raises `Unfit` where its results would not have the shapes it was made for. Of others it is known
            that the shapes of their inputs say so: their kernel promises `shape_from`.
        by_rows: it may be called with parts of the arrays, cut along the first dimension: each row of the outputs and
            scratch arrays follows from the same rows of the inputs that have as many rows, and from all of those that
            have fewer dimensions.
        formula: what each element of the output is, in Python, of the elements of the inputs {0}, {1} and so on; empty
            for what is no arithmetic. `zero` and `one` are numbers of the type.
        wants: what could be compiled, and then planned with; what several nodes are done by is not there before.
        beside_onednn: gives the form for plans that have work for oneDNN's threads, if it is another one.
        step: gives the same as a step of a tape; None where there is none.
    """

    call: Callable[..., Any]
    extras: tuple[Any, ...] = ()
    scratch: tuple[Spec, ...] = ()
    in_place: tuple[int, ...] = ()
    fills: bool = True
    is_guarded: bool = False
    by_rows: bool = False
    formula: str = ""
    beside_onednn: Callable[[], Into] | None = None
    wants: tuple[Sketch, ...] = ()
    step: Callable[[], Step | None] | None = None


# For inputs without a static array (references, resource handles) the spec is None.
Maker = Callable[[KernelBuild, list[Any], list[Spec]], Into | None]

MAKERS: dict[str, Maker] = {}
WIDENED: set[str] = set()
"""Ops whose form for float32 does for numbers of 16 bits as well: they are widened, and results are rounded once."""
_LOCK = threading.Lock()
_MODULES = ("convolutions", "elementwise", "linear", "losses", "pools", "rows", "updates", "row_updates")
_loaded = False


def makes(*ops: str, widened: bool = False) -> Callable[[Maker], Maker]:
    """Decorator: the function is the maker of these ops; of types of 16 bits too where their arrays are `widened`."""

    def add(maker: Maker) -> Maker:
        for op in ops:
            MAKERS[op] = maker
        if widened:
            WIDENED.update(ops)
        return maker

    return add


def load_makers() -> dict[str, Maker]:
    """Import the modules of makers, and return all makers by op."""
    global _loaded
    with _LOCK:
        if not _loaded:
            for name in _MODULES:
                importlib.import_module(f"dtfctl.runtime.kernels.into.{name}")
            _loaded = True
    return MAKERS
