"""What nn kernels share: low-precision types computed in float32, and the geometry of sliding windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild
from dtfctl.runtime.kernels.state.common import shape_text

__all__ = ["Geometry", "Window", "channels_last", "is_low", "low_in_float32", "shape_text", "window_of", "work_dtype"]

_LOW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def is_low(dtype: np.dtype[Any]) -> bool:
    """Tell whether a type is half or bfloat16."""
    return dtype in _LOW


def work_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Choose the type to accumulate in: float32 for half and bfloat16, else the type itself."""
    return np.dtype(np.float32) if dtype in _LOW else dtype


def low_in_float32(dtype: np.dtype[Any], function: Kernel) -> Kernel:
    """`function` itself, or for half and bfloat16 one that computes in float32 and rounds every result once."""
    if dtype not in _LOW:
        return function

    def wrapped(*inputs: Any) -> Any:
        result = function(*(x.astype(np.float32) if x.dtype in _LOW else x for x in inputs))
        if isinstance(result, tuple):
            return tuple(r.astype(dtype) if r.dtype == np.float32 else r for r in result)
        return result.astype(dtype)

    return wrapped


def channels_last(xp: Any, x: Any) -> Any:
    """NCHW (any number of spatial dimensions) -> NHWC, contiguous."""
    return xp.ascontiguousarray(xp.moveaxis(x, 1, -1))


@dataclass(frozen=True)
class Window:
    """A sliding window as attributes give it: per spatial dimension stride and dilation, and the padding rule.

    Attributes:
        explicit: (before, after) for each spatial dimension when padding is "EXPLICIT".
        channels_first: data_format is NCHW or NCDHW.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    explicit: tuple[tuple[int, int], ...] = ()
    channels_first: bool = False
    ksize: tuple[int, ...] = ()

    def geometry(self, input_size: Sequence[int], kernel: Sequence[int]) -> Geometry:
        """Output sizes and paddings for an input.

        Raises:
            InvalidArgumentError: the window does not fit.
        """
        out, pads = [], []
        for i, (size, k, stride, dilation) in enumerate(zip(input_size, kernel, self.strides, self.dilations)):
            span = (k - 1) * dilation + 1
            if self.padding == "SAME":
                count = -(-size // stride)
                needed = max((count - 1) * stride + span - size, 0)
                before, after = needed // 2, needed - needed // 2
            elif self.padding == "EXPLICIT":
                before, after = self.explicit[i]
                count = (size + before + after - span + stride) // stride
            else:
                before = after = 0
                count = (size - span + stride) // stride
            if count < 0:
                raise InvalidArgumentError(
                    f"Computed output size would be negative: {count} [input_size: {size}, "
                    f"effective_filter_size: {span}, stride: {stride}]"
                )
            out.append(count)
            pads.append((before, after))
        return Geometry(tuple(input_size), tuple(kernel), self.strides, self.dilations, tuple(out), tuple(pads))


@dataclass(frozen=True)
class Geometry:
    """A window placed on an input; all tuples are per spatial dimension."""

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    output: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    def trimmed(self) -> Geometry:
        """Leave out those elements of the window that lie beside the input wherever it is placed."""
        kernel, pads = [], []
        for size, k, stride, dilation, count, (before, after) in zip(
            self.input, self.kernel, self.strides, self.dilations, self.output, self.pads
        ):
            first, last = max(0, before - (count - 1) * stride), min(k - 1, before + size - 1)
            if not count:
                kernel.append(1)
                pads.append((0, 0))
            elif dilation != 1 or before < 0 or first > last:
                kernel.append(k)
                pads.append((before, after))
            else:
                end = (count - 1) * stride - before + last + 1
                kernel.append(last - first + 1)
                pads.append((before - first, max(end - size, 0)))
        return replace(self, kernel=tuple(kernel), pads=tuple(pads))

    @property
    def padded(self) -> bool:
        return any(before or after for before, after in self.pads)

    @property
    def reach(self) -> tuple[int, ...]:
        """Size of the padded input that windows touch or that exists, whichever is larger."""
        return tuple(
            max(size + before + after, (count - 1) * stride + (k - 1) * dilation + 1)
            for size, (before, after), count, stride, k, dilation in zip(
                self.input, self.pads, self.output, self.strides, self.kernel, self.dilations
            )
        )

    def tap(self, offset: Sequence[int]) -> tuple[slice, ...]:
        """Slice the positions of the padded input that one element of the window meets, one per output."""
        return tuple(
            slice(o * dilation, o * dilation + (count - 1) * stride + 1, stride) if count else slice(0, 0)
            for o, dilation, stride, count in zip(offset, self.dilations, self.strides, self.output)
        )

    def pad(self, xp: Any, x: Any, value: Any = 0) -> Any:
        """`x` (N, *spatial, C) with its borders, as large as `reach`."""
        reach = self.reach
        if reach == self.input:
            return x
        if xp is np:
            admit((x.shape[0], *reach, x.shape[-1]), x.dtype.itemsize)
        out = xp.empty((x.shape[0], *reach, x.shape[-1]), x.dtype)
        out[...] = value
        out[(slice(None), *self.inner)] = x[(slice(None), *(slice(s.stop - s.start) for s in self.inner))]
        return out

    @property
    def inner(self) -> tuple[slice, ...]:
        """Where the input lies in the padded one."""
        return tuple(slice(max(before, 0), max(before, 0) + n) for n, (before, _) in zip(self.input, self.pads))


def window_of(k: KernelBuild, spatial: int, what: str = "conv") -> Window:
    """Read strides, dilations, ksize, padding and data_format of a node.

    Raises:
        InvalidArgumentError, UnimplementedError: as TensorFlow's kernels refuse them.
    """
    rank = spatial + 2
    data_format = k.text_attr("data_format", "NHWC")
    if data_format == "NCHW_VECT_C":
        raise UnimplementedError("data_format NCHW_VECT_C is not supported on this device", k.node.name)
    first = data_format in ("NCHW", "NCDHW", "CHANNELS_FIRST")
    strides = tuple(k.attr("strides") or ())
    dilations = tuple(k.attr("dilations") or (1,) * rank)
    ksize = tuple(k.attr("ksize") or ())
    for values, name in ((strides, "strides"), (dilations, "dilations")):
        if len(values) != rank:
            raise InvalidArgumentError(f"Sliding window {name} field must specify {rank} dimensions", k.node.name)
    if ksize and len(ksize) != rank:
        raise InvalidArgumentError(f"Sliding window ksize field must specify {rank} dimensions", k.node.name)
    space = range(2, rank) if first else range(1, rank - 1)
    channel = 1 if first else rank - 1
    refuse = UnimplementedError if what in ("conv", "depthwise") and spatial == 2 else InvalidArgumentError
    if what != "pool" or ksize == ():
        if strides[0] != 1 or strides[channel] != 1:
            raise refuse(
                "Current implementation does not yet support strides in the batch and depth dimensions.", k.node.name
            )
        if dilations[0] != 1 or dilations[channel] != 1:
            raise refuse(
                "Current implementation does not yet support dilations in the batch and depth dimensions.",
                k.node.name,
            )
    if min((strides[i] for i in space), default=1) <= 0:
        raise InvalidArgumentError("Row and column strides should be larger than 0.", k.node.name)
    if min((dilations[i] for i in space), default=1) <= 0:
        raise InvalidArgumentError("Dilated rates should be larger than 0.", k.node.name)
    padding = k.text_attr("padding")
    explicit = _explicit(k, padding, rank, space)
    for (before, after), i in zip(explicit, space) if ksize else ():
        last = i == space[-1]
        for side, amount in (("Left" if last else "Top", before), ("Right" if last else "Bottom", after)):
            if amount >= ksize[i]:
                raise InvalidArgumentError(
                    f"{side} padding {amount} needs to be smaller than the window size {ksize[i]}", k.node.name
                )
    return Window(
        tuple(strides[i] for i in space),
        tuple(dilations[i] for i in space),
        padding,
        explicit,
        first,
        tuple(ksize[i] for i in space) if ksize else (),
    )


def _explicit(k: KernelBuild, padding: str, rank: int, space: Sequence[int]) -> tuple[tuple[int, int], ...]:
    values = tuple(k.attr("explicit_paddings") or ())
    if padding != "EXPLICIT":
        if values:
            raise InvalidArgumentError(
                "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT", k.node.name
            )
        return ()
    if len(values) != 2 * rank:
        raise InvalidArgumentError(
            f"explicit_paddings attribute must contain {2 * rank} values, but got: {len(values)}", k.node.name
        )
    if min(values) < 0:
        raise InvalidArgumentError("All elements of explicit_paddings must be nonnegative", k.node.name)
    pairs = [(values[2 * i], values[2 * i + 1]) for i in range(rank)]
    if any(pairs[i] != (0, 0) for i in range(rank) if i not in space):
        raise InvalidArgumentError(
            "Nonzero explicit padding in the batch or depth dimensions is not supported", k.node.name
        )
    return tuple(pairs[i] for i in space)


Pooler = Callable[..., Any]
