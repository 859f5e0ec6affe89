"""Two-dimensional convolutions of channels-last float32 arrays, forward and backward, for one geometry."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.kernels.onednn.library import (
    CONVOLUTION_AUTO,
    FORWARD_TRAINING,
    QUERY_DIFF_DST,
    QUERY_DIFF_SRC,
    QUERY_DIFF_WEIGHTS,
    QUERY_DST,
    QUERY_SRC,
    QUERY_WEIGHTS,
    Library,
    arguments,
)

Shape = Sequence[int]


def _image(shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dimensions and strides, as the library orders them (N, C, H, W), of a contiguous (N, H, W, C) array."""
    n, h, w, c = shape
    return (n, c, h, w), (h * w * c, 1, w * c, c)


def _filter(shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same (O, I, H, W) of a contiguous (H, W, I, O) array."""
    h, w, i, o = shape
    return (o, i, h, w), (1, o, w * i * o, i * o)


class _Operand:
    """An argument of a primitive: an array as it is, or a copy in the layout the primitive wants."""

    def __init__(self, library: Library, plain: ctypes.c_void_p, wanted: ctypes.c_void_p) -> None:
        self.library = library
        self.array = library.memory(plain)
        self.copied = not library.same(plain, wanted)
        self.memory = library.memory(wanted, allocate=True) if self.copied else self.array
        self._load = library.reorder(plain, wanted) if self.copied else None
        self._store = library.reorder(wanted, plain) if self.copied else None

    def load(self, array: Any) -> None:
        self.library.point(self.array, array)
        if self._load is not None:
            self.library.execute(self._load, arguments(src=self.array, dst=self.memory))

    def store(self) -> None:
        if self._store is not None:
            self.library.execute(self._store, arguments(src=self.memory, dst=self.array))


class _Pass:
    """One primitive with its operands; the last one named is what it computes."""

    def __init__(self, library: Library, pd: ctypes.c_void_p, **operands: tuple[ctypes.c_void_p, int]) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._primitive = library.primitive(pd)
        self._operands = {
            name: _Operand(library, plain, library.query(pd, query)) for name, (plain, query) in operands.items()
        }
        self._args = arguments(**{name: operand.memory for name, operand in self._operands.items()})

    def run(self, *arrays: Any) -> None:
        with self._lock:
            *inputs, output = self._operands.values()
            for operand, array in zip(inputs, arrays):
                operand.load(array)
            self._library.point(output.array, arrays[-1])
            self._library.execute(self._primitive, self._args)
            output.store()


class Convolution:
    """A convolution; its three passes are made when first needed. Arrays must be contiguous float32.

    Args:
        x: shape (N, H, W, C); w: shape (kh, kw, C, O).
        output: (OH, OW). pads: (before, after) of each spatial dimension.

    Raises:
        OneDnnError: the library has no implementation.
    """

    def __init__(
        self,
        library: Library,
        x: Shape,
        w: Shape,
        output: Shape,
        strides: Shape,
        dilations: Shape,
        pads: Sequence[tuple[int, int]],
    ) -> None:
        self._library = library
        y = (x[0], *output, w[3])
        self._dims = [_image(x)[0], _filter(w)[0], _image(y)[0]]
        self._plain = [library.strided(*_image(x)), library.strided(*_filter(w)), library.strided(*_image(y))]
        self._window = [
            (ctypes.c_int64 * 12)(*values)
            for values in (strides, [d - 1 for d in dilations], [p[0] for p in pads], [p[1] for p in pads])
        ]
        self._lock = threading.Lock()
        self._passes: dict[str, _Pass] = {}
        self._forward_pd = self._describe_forward()

    def _layouts(self) -> list[ctypes.c_void_p]:
        """Images as they are, filters as the library likes them."""
        x, _, y = self._plain
        return [x, self._library.any_layout(self._dims[1]), y]

    def _describe_forward(self) -> ctypes.c_void_p:
        pd = ctypes.c_void_p()
        x, w, y = self._layouts()
        self._library.call(
            "convolution_forward_primitive_desc_create",
            ctypes.byref(pd),
            self._library.engine,
            FORWARD_TRAINING,
            CONVOLUTION_AUTO,
            x,
            w,
            None,
            y,
            *self._window,
            None,
        )
        return pd

    def _pass(self, name: str) -> _Pass:
        found = self._passes.get(name)
        if found is None:
            with self._lock:
                found = self._passes.get(name)
                if found is None:
                    found = self._passes[name] = getattr(self, f"_make_{name}")()
        return found

    def _make_forward(self) -> _Pass:
        x, w, y = self._plain
        return _Pass(
            self._library, self._forward_pd, src=(x, QUERY_SRC), weights=(w, QUERY_WEIGHTS), dst=(y, QUERY_DST)
        )

    def _make_input_gradient(self) -> _Pass:
        pd = ctypes.c_void_p()
        x, w, y = self._layouts()
        self._library.call(
            "convolution_backward_data_primitive_desc_create",
            ctypes.byref(pd),
            self._library.engine,
            CONVOLUTION_AUTO,
            x,
            w,
            y,
            *self._window,
            self._forward_pd,
            None,
        )
        x, w, y = self._plain
        return _Pass(
            self._library,
            pd,
            diff_dst=(y, QUERY_DIFF_DST),
            weights=(w, QUERY_WEIGHTS),
            diff_src=(x, QUERY_DIFF_SRC),
        )

    def _make_filter_gradient(self) -> _Pass:
        pd = ctypes.c_void_p()
        x, w, y = self._layouts()
        self._library.call(
            "convolution_backward_weights_primitive_desc_create",
            ctypes.byref(pd),
            self._library.engine,
            CONVOLUTION_AUTO,
            x,
            w,
            None,
            y,
            *self._window,
            self._forward_pd,
            None,
        )
        x, w, y = self._plain
        return _Pass(
            self._library,
            pd,
            src=(x, QUERY_SRC),
            diff_dst=(y, QUERY_DIFF_DST),
            diff_weights=(w, QUERY_DIFF_WEIGHTS),
        )

    def forward(self, x: Any, w: Any, out: Any) -> None:
        self._pass("forward").run(x, w, out)

    def input_gradient(self, dy: Any, w: Any, out: Any) -> None:
        self._pass("input_gradient").run(dy, w, out)

    def filter_gradient(self, x: Any, dy: Any, out: Any) -> None:
        self._pass("filter_gradient").run(x, dy, out)
