"""Two-dimensional convolutions of channels-last float32 or bfloat16 arrays, forward and backward, for one geometry."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import partial
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
        self._library = library
        self._images, self._is_bfloat16 = x[0], is_bfloat16
        self._of_images: Callable[[int], Convolution] = lambda images: Convolution(
            library, (images, *x[1:]), w, output, strides, dilations, pads, is_bfloat16
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
        self._passes: dict[_Kind, Callable[..., None]] = {}
        self._forward_pd = self._describe_forward()
        if is_bfloat16 and library.implementation(self._forward_pd).startswith(SLOW):
            raise OneDnnError("a convolution has a slow implementation only")

    def forward(self, x: Any, w: Any, out: Any) -> None:
        self._pass(_FORWARD)(x, w, out)

    def biased(self, x: Any, w: Any, bias: Any, out: Any) -> None:
        """Compute the convolution plus a bias for each filter."""
        self._pass(_BIASED)(x, w, bias, out)

    def rectified(self, x: Any, w: Any, bias: Any, out: Any) -> None:
        """Compute the convolution plus a bias, and zero for what is below it then."""
        self._pass(_RECTIFIED)(x, w, bias, out)

    def input_gradient(self, dy: Any, w: Any, out: Any) -> None:
        self._pass(_INPUT_GRADIENT)(dy, w, out)

    def filter_gradient(self, x: Any, dy: Any, out: Any) -> None:
        self._pass(_FILTER_GRADIENT)(x, dy, out)

    def filter_and_bias_gradient(self, x: Any, dy: Any, out: Any, bias: Any) -> None:
        self._pass(_FILTER_AND_BIAS_GRADIENT)(x, dy, out, bias)

    def _pass(self, kind: _Kind) -> Callable[..., None]:
        found = self._passes.get(kind)
        if found is None:
            with self._lock:
                found = self._passes.get(kind)
                if found is None:
                    made = adapted(self._library, partial(kind.make, self), self._in_parts(kind))
                    found = self._passes[kind] = made
        return found

    def _in_parts(self, kind: _Kind) -> Callable[..., None] | None:
        """Make a pass that is done in parts of the images, which threads claim; None where there is none."""
        # What is summed up would be rounded too often.
        if self._images < 2 or (self._is_bfloat16 and kind.sums):
            return None

        def make(images: int) -> Pass:
            return kind.make(self._of_images(images))

        return InParts(self._library, self._images, make, kind.cut, kind.sums)

    def _make_forward(self) -> Pass:
        x, w, y = self._plain
        return Pass(
            self._library,
            # Not the hint of the gradients: how many threads it has was settled when that was made.
            self._describe_forward(),
            1,
            src=(x, QUERY_SRC, 0),
            weights=(w, QUERY_WEIGHTS, 0),
            dst=(y, QUERY_DST, 0),
        )

    def _make_biased(self, attributes: ctypes.c_void_p | None = None) -> Pass:
        x, w, y = self._plain
        return Pass(
            self._library,
            self._describe_forward(self._bias, attributes),
            1,
            src=(x, QUERY_SRC, 0),
            weights=(w, QUERY_WEIGHTS, 0),
            bias=(self._bias, QUERY_WEIGHTS, 1),
            dst=(y, QUERY_DST, 0),
        )

    def _make_rectified(self) -> Pass:
        return self._make_biased(self._library.then_relu())

    def _make_input_gradient(self) -> Pass:
        pd = self._describe("convolution_backward_data", *self._wanted)
        x, w, y = self._plain
        return Pass(
            self._library,
            pd,
            1,
            diff_dst=(y, QUERY_DIFF_DST, 0),
            weights=(w, QUERY_WEIGHTS, 0),
            diff_src=(x, QUERY_DIFF_SRC, 0),
        )

    def _make_filter_gradient(self) -> Pass:
        x, w, y = self._plain
        return Pass(
            self._library,
            self._describe_filter_gradient(None),
            1,
            src=(x, QUERY_SRC, 0),
            diff_dst=(y, QUERY_DIFF_DST, 0),
            diff_weights=(w, QUERY_DIFF_WEIGHTS, 0),
        )

    def _make_filter_and_bias_gradient(self) -> Pass:
        x, w, y = self._plain
        return Pass(
            self._library,
            self._describe_filter_gradient(self._bias),
            2,
            src=(x, QUERY_SRC, 0),
            diff_dst=(y, QUERY_DIFF_DST, 0),
            diff_weights=(w, QUERY_DIFF_WEIGHTS, 0),
            diff_bias=(self._bias, QUERY_DIFF_WEIGHTS, 1),
        )

    def _describe_filter_gradient(self, bias: ctypes.c_void_p | None) -> ctypes.c_void_p:
        x, w, y = self._wanted
        return self._describe("convolution_backward_weights", x, w, bias, y)

    def _describe(self, name: str, *operands: ctypes.c_void_p | None) -> ctypes.c_void_p:
        """Describe a gradient to the library."""
        pd, engine, hint = ctypes.c_void_p(), self._library.engine, self._forward_pd
        create = f"{name}_primitive_desc_create"
        self._library.call(create, ctypes.byref(pd), engine, CONVOLUTION_AUTO, *operands, *self._window, hint, None)
        return pd

    def _describe_forward(
        self, bias: ctypes.c_void_p | None = None, attributes: ctypes.c_void_p | None = None
    ) -> ctypes.c_void_p:
        pd = ctypes.c_void_p()
        x, w, y = self._wanted
        self._library.call(
            "convolution_forward_primitive_desc_create",
            ctypes.byref(pd),
            self._library.engine,
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


class _Kind(NamedTuple):
    """One of the passes of a convolution.

    Attributes:
        cut: which of its arrays have a row for each image.
        sums: how many of the last are sums over all images.
    """

    make: Callable[[Convolution], Pass]
    cut: tuple[bool, ...]
    sums: int = 0


_FORWARD = _Kind(Convolution._make_forward, (True, False, True))
_BIASED = _Kind(Convolution._make_biased, (True, False, False, True))
_RECTIFIED = _Kind(Convolution._make_rectified, (True, False, False, True))
_INPUT_GRADIENT = _Kind(Convolution._make_input_gradient, (True, False, True))
_FILTER_GRADIENT = _Kind(Convolution._make_filter_gradient, (True, True, False), 1)
_FILTER_AND_BIAS_GRADIENT = _Kind(Convolution._make_filter_and_bias_gradient, (True, True, False, False), 2)
