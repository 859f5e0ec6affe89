"""Two-dimensional convolutions of channels-last float32 or bfloat16 arrays, forward and backward, for one geometry."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from dtfctl.runtime.kernels.onednn.library import (
    CONVOLUTION_AUTO,
    FORWARD_TRAINING,
    QUERY_DIFF_DST,
    QUERY_DIFF_SRC,
    QUERY_DIFF_WEIGHTS,
    QUERY_DST,
    QUERY_SRC,
    QUERY_WEIGHTS,
    SLOW,
    Library,
    OneDnnError,
)
from dtfctl.runtime.kernels.onednn.parts import InParts
from dtfctl.runtime.kernels.onednn.passes import Pass, adapted

Shape = Sequence[int]
_LARGEST = 2**31 - 1


def _image(shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dimensions and strides, as the library orders them (N, C, H, W), of a contiguous (N, H, W, C) array."""
    n, h, w, c = shape
    return (n, c, h, w), (h * w * c, 1, w * c, c)


def _filter(shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return dimensions and strides, as the library orders them (O, I, H, W), of a contiguous (H, W, I, O) array."""
    h, w, i, o = shape
    return (o, i, h, w), (1, o, w * i * o, i * o)


class Convolution:
    """A convolution; its passes are made when first needed. Arrays must be contiguous.

    Args:
        x: shape (N, H, W, C); w: shape (kh, kw, C, O).
        output: (OH, OW). pads: (before, after) of each spatial dimension.
        is_bfloat16: whether arrays are, instead of float32; sums are float32's all the same.

    Raises:
        OneDnnError: the library has no implementation, or in bfloat16 no good one.
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
        is_bfloat16: bool = False,
    ) -> None:
        spans = [(size - 1) * dilation for size, dilation in zip(w[:2], dilations)]
        numbers = [*x, *w, *output, *strides, *dilations, *spans, *(side for pad in pads for side in pad)]
        if max(numbers) > _LARGEST:
            raise OneDnnError(f"a convolution with {max(numbers)} in its geometry, which the library counts in 32 bits")
        self.library = library
        self.images, self.is_bfloat16 = x[0], is_bfloat16
        self.of_images: Callable[[int], Convolution] = lru_cache(16)(
            lambda images: Convolution(library, (images, *x[1:]), w, output, strides, dilations, pads, is_bfloat16)
        )
        y = (x[0], *output, w[3])
        self._plain = [library.strided(*sizes, is_bfloat16) for sizes in (_image(x), _filter(w), _image(y))]
        # Images as they are, filters as the library likes them.
        self._wanted = [self._plain[0], library.any_layout(_filter(w)[0], is_bfloat16), self._plain[2]]
        self._bias = library.strided((w[3],), (1,), is_bfloat16)
        self._window = [
            (ctypes.c_int64 * 12)(*values)
            for values in (strides, [d - 1 for d in dilations], [p[0] for p in pads], [p[1] for p in pads])
        ]
        self._lock = threading.Lock()
        self._passes: dict[Kind, Callable[..., None]] = {}
        self._alone: dict[Kind, Alone] = {}
        self._forward_pd = self._describe_forward()
        if is_bfloat16 and library.implementation(self._forward_pd).startswith(SLOW):
            raise OneDnnError("a convolution has a slow implementation only")

    def forward(self, x: Any, w: Any, out: Any) -> None:
        self._pass(FORWARD)(x, w, out)

    def biased(self, x: Any, w: Any, bias: Any, out: Any) -> None:
        """Compute the convolution plus a bias for each filter."""
        self._pass(BIASED)(x, w, bias, out)

    def input_gradient(self, dy: Any, w: Any, out: Any) -> None:
        self._pass(INPUT_GRADIENT)(dy, w, out)

    def filter_gradient(self, x: Any, dy: Any, out: Any) -> None:
        self._pass(FILTER_GRADIENT)(x, dy, out)

    def filter_and_bias_gradient(self, x: Any, dy: Any, out: Any, bias: Any) -> None:
        self._pass(FILTER_AND_BIAS_GRADIENT)(x, dy, out, bias)

    def _pass(self, kind: Kind) -> Callable[..., None]:
        found = self._passes.get(kind)
        if found is None:
            with self._lock:
                found = self._passes.get(kind)
                if found is None:
                    made = adapted(self.library, partial(self.made, kind), self._in_parts(kind))
                    found = self._passes[kind] = made
        return found

    def made(self, kind: Kind) -> Pass:
        """Make a pass with as many threads as the library now gives to one."""
        pd, operands = self.described(kind)
        return Pass(self.library, pd, kind.results, (), **operands)

    def _in_parts(self, kind: Kind) -> Callable[..., None] | None:
        """Make a pass that is done in parts of the images, which threads claim; None where there is none."""
        # What is summed up would be rounded too often.
        if self.images < 2 or (self.is_bfloat16 and kind.sums):
            return None
        return InParts(self.library, self.images, lambda n: self.of_images(n).made(kind), kind.cut, kind.sums)

    def described(
        self, kind: Kind, has_scratch: bool = False
    ) -> tuple[ctypes.c_void_p, dict[str, tuple[ctypes.c_void_p, int, int]]]:
        """Describe a pass, and its operands by name: how the array lies, and what to ask the description for it.

        Args:
            has_scratch: the memory that it computes in is an argument.
        """
        x, w, y = self._plain
        attributes = self.library.attributes(has_scratch=True) if has_scratch else None
        bias = self._bias if "bias" in kind.names or "diff_bias" in kind.names else None
        if kind is INPUT_GRADIENT:
            pd = self._describe("convolution_backward_data", *self._wanted, attributes=attributes)
        elif "diff_weights" in kind.names:
            wanted = (*self._wanted[:2], bias, self._wanted[2])
            pd = self._describe("convolution_backward_weights", *wanted, attributes=attributes)
        else:
            # Not the hint of the gradients: how many threads it has was settled when that was made.
            pd = self._describe_forward(bias, attributes)
        arrays = {
            "src": (x, QUERY_SRC, 0),
            "weights": (w, QUERY_WEIGHTS, 0),
            "bias": (self._bias, QUERY_WEIGHTS, 1),
            "dst": (y, QUERY_DST, 0),
            "diff_src": (x, QUERY_DIFF_SRC, 0),
            "diff_dst": (y, QUERY_DIFF_DST, 0),
            "diff_weights": (w, QUERY_DIFF_WEIGHTS, 0),
            "diff_bias": (self._bias, QUERY_DIFF_WEIGHTS, 1),
        }
        return pd, {name: arrays[name] for name in kind.names}

    def alone(self, kind: Kind) -> Alone:
        """Return a pass for the thread that runs it, which others may run at the same time."""
        with self._lock:
            if kind not in self._alone:
                with self.library.by_one_thread():
                    pd, operands = self.described(kind, has_scratch=True)
                    primitive = self.library.primitive(pd)
                plain = {name: layout for name, (layout, _, _) in operands.items()}
                wanted = {name: self.library.query(pd, query, n) for name, (_, query, n) in operands.items()}
                self._alone[kind] = Alone(primitive, plain, wanted, self.library.scratchpad(pd))
            return self._alone[kind]

    def _describe(
        self, name: str, *operands: ctypes.c_void_p | None, attributes: ctypes.c_void_p | None
    ) -> ctypes.c_void_p:
        """Describe a gradient to the library."""
        pd, engine = ctypes.c_void_p(), self.library.engine
        given = (CONVOLUTION_AUTO, *operands, *self._window, self._forward_pd, attributes)
        self.library.call(f"{name}_primitive_desc_create", ctypes.byref(pd), engine, *given)
        return pd

    def _describe_forward(
        self, bias: ctypes.c_void_p | None = None, attributes: ctypes.c_void_p | None = None
    ) -> ctypes.c_void_p:
        pd = ctypes.c_void_p()
        x, w, y = self._wanted
        self.library.call(
            "convolution_forward_primitive_desc_create",
            ctypes.byref(pd),
            self.library.engine,
            FORWARD_TRAINING,
            CONVOLUTION_AUTO,
            x,
            w,
            bias,
            y,
            *self._window,
            attributes,
        )
        return pd


class Alone(NamedTuple):
    """A pass for one thread, which gets the memory that it computes in.

    Attributes:
        plain, wanted: how operands lie, and how the library wants them. scratchpad: what it computes in.
    """

    primitive: ctypes.c_void_p
    plain: dict[str, ctypes.c_void_p]
    wanted: dict[str, ctypes.c_void_p]
    scratchpad: ctypes.c_void_p


class Kind(NamedTuple):
    """One of the passes of a convolution.

    Attributes:
        names: of its operands, as the library calls them, in the order in which calls have them.
        cut: which of its arrays have a row for each image.
        results: how many of the last it computes; sums: how many of these are sums over all images.
    """

    names: tuple[str, ...]
    cut: tuple[bool, ...]
    results: int = 1
    sums: int = 0


FORWARD = Kind(("src", "weights", "dst"), (True, False, True))
BIASED = Kind(("src", "weights", "bias", "dst"), (True, False, False, True))
INPUT_GRADIENT = Kind(("diff_dst", "weights", "diff_src"), (True, False, True))
FILTER_GRADIENT = Kind(("src", "diff_dst", "diff_weights"), (True, True, False), 1, 1)
FILTER_AND_BIAS_GRADIENT = Kind(("src", "diff_dst", "diff_weights", "diff_bias"), (True, True, False, False), 2, 2)
