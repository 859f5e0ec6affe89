"""Ops whose result may be far larger than what they are given: its size is looked at before anything is allocated.

Linux grants memory that there is not, and kills the process that uses it. So what is large is compared with the memory
that is free, and refused as TensorFlow's allocator refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, ResourceExhaustedError
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild

LOOKED_AT_BYTES = 64 << 20
"""What is smaller is given without a look at the free memory."""
MOST_UNSEEN = LOOKED_AT_BYTES // 16
"""Elements that take less than that whatever they are."""
_MOST_ELEMENTS = 2**63 - 1
_OBJECT_BYTES = 64
_SLOT_BYTES = 128
_SHARE = 0.75
"""Of the free memory that one result may take: there is always some that is only for its making."""
_MEMINFO = Path("/proc/meminfo")

Size = Callable[[KernelBuild, Sequence[Any]], tuple[Iterable[Any], int]]
"""The shape of the result and the bytes of an item. What it raises for wrong inputs, the kernel says better."""

_GROWING: dict[str, Size] = {}


def free_bytes() -> int:
    """Read how much memory this host can still give."""
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return sum(int(lines[name].split()[0]) << 10 for name in ("MemAvailable", "SwapFree") if name in lines)
    except (OSError, ValueError, IndexError):
        return _MOST_ELEMENTS  # a system that does not say


def admit(shape: Iterable[Any], item_bytes: int) -> None:
    """Refuse an array that cannot be.

    Raises:
        InvalidArgumentError: nothing can have so many elements.
        ResourceExhaustedError: there is not so much memory.
    """
    dims = [int(dim) for dim in shape]
    if any(dim < 0 for dim in dims):
        return  # the kernel says what is wrong
    count = math.prod(dims)
    if count > _MOST_ELEMENTS:
        # TensorFlow's words.
        text = ", ".join(map(str, dims))
        raise InvalidArgumentError(f"Encountered overflow when multiplying [{text}], result: -1")
    size = count * item_bytes
    if size >= LOOKED_AT_BYTES and size > free_bytes() * _SHARE:
        raise ResourceExhaustedError(
            f"OOM when allocating tensor with shape {dims}: it takes {size:,} bytes, more than are free"
        )


def admit_broadcast(*inputs: Any, item_bytes: int | None = None) -> None:
    """Refuse a result that arrays are broadcast to, where it is larger than each of them and cannot be.

    Kernels call it only where the sizes of their inputs multiply to more than `MOST_UNSEEN`: small ones pay nothing.

    Args:
        item_bytes: of the result; those of the largest input's items otherwise.

    Raises:
        ResourceExhaustedError, InvalidArgumentError: see `admit`.
    """
    if not all(isinstance(x, (np.ndarray, np.generic)) for x in inputs):
        return  # memory of another device
    try:
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
    except ValueError:
        return
    if math.prod(shape) > max(x.size for x in inputs):
        admit(shape, max(map(_item, inputs)) if item_bytes is None else item_bytes)


def admitting(build: KernelBuild, kernel: Kernel, with_step: bool) -> Kernel:
    """The kernel, after a look at how large its result will be if its op is one that grows."""
    size = _GROWING.get(build.node.op)
    if size is None:
        return kernel
    known = size

    def look(inputs: Sequence[Any]) -> None:
        try:
            shape, item_bytes = known(build, inputs)
            dims = [int(dim) for dim in shape]
        except (TypeError, ValueError, IndexError, AttributeError, OverflowError, ZeroDivisionError):
            return
        admit(dims, item_bytes)

    if with_step:

        def run_in_step(step: Any, *inputs: Any) -> Any:
            look(inputs)
            return kernel(step, *inputs)

        return run_in_step

    def run(*inputs: Any) -> Any:
        look(inputs)
        return kernel(*inputs)

    return run


def _grows(*ops: str) -> Callable[[Size], Size]:
    def add(size: Size) -> Size:
        _GROWING.update(dict.fromkeys(ops, size))
        return size

    return add


def _item(value: Any) -> int:
    return _OBJECT_BYTES if value.dtype == object else int(value.dtype.itemsize)


def _of_type(k: KernelBuild, attr: str) -> int:
    dtype = k.dtype(attr)
    return _OBJECT_BYTES if dtype.is_object else int(np.dtype(dtype.np).itemsize)


def _ints(value: Any) -> list[int]:
    return [int(item) for item in value.reshape(-1).tolist()]


@_grows("Fill")
def _fill(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return _ints(inputs[0]), _item(inputs[1])


@_grows("Empty")
def _empty(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return _ints(inputs[0]), _of_type(k, "dtype")


@_grows("BroadcastTo")
def _broadcast_to(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return _ints(inputs[1]), _item(inputs[0])


@_grows("Range")
def _range(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    start, limit, delta = (value.item() for value in inputs)
    return [max(0, math.ceil((limit - start) / delta))], _item(inputs[0])


@_grows("LinSpace")
def _lin_space(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[2].item()], _item(inputs[0])


@_grows("Tile")
def _tile(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    value, times = inputs[0], _ints(inputs[1])
    return [dim * many for dim, many in zip(value.shape, times, strict=True)], _item(value)


@_grows("OneHot")
def _one_hot(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [*inputs[0].shape, inputs[1].item()], _item(inputs[2])


@_grows("Pad", "PadV2", "MirrorPad")
def _pad(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    value, pads = inputs[0], inputs[1].tolist()
    return [dim + before + after for dim, (before, after) in zip(value.shape, pads, strict=True)], _item(value)


@_grows("SpaceToBatchND", "SpaceToBatch")
def _space_to_batch(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    value, pads = inputs[0], inputs[-1].tolist()
    shape = list(value.shape)
    for i, (before, after) in enumerate(pads, 1):
        shape[i] += before + after
    return shape, _item(value)


@_grows(
    "RandomUniform",
    "RandomStandardNormal",
    "TruncatedNormal",
    "StatelessRandomUniform",
    "StatelessRandomNormal",
    "StatelessTruncatedNormal",
    "StatelessRandomUniformFullInt",
    "StatelessRandomUniformV2",
    "StatelessRandomNormalV2",
    "StatelessTruncatedNormalV2",
    "StatelessRandomUniformFullIntV2",
)
def _random(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return _ints(inputs[0]), _of_type(k, "dtype")


@_grows("StatelessRandomUniformInt", "StatelessRandomUniformIntV2", "RandomUniformInt", "ParameterizedTruncatedNormal")
def _random_between(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return _ints(inputs[0]), _item(inputs[-1])


@_grows("RandomGamma", "RandomPoisson", "RandomPoissonV2")
def _random_each(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [*_ints(inputs[0]), *inputs[1].shape], _item(inputs[1])


@_grows("Multinomial", "StatelessMultinomial")
def _multinomial(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[0].shape[0], inputs[1].item()], 8


@_grows("ResizeBilinear", "ResizeNearestNeighbor", "ResizeArea", "ResizeBicubic")
def _resize(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    images, size = inputs[0], _ints(inputs[1])
    return [images.shape[0], *size, images.shape[3]], _item(images) if k.node.op == "ResizeNearestNeighbor" else 4


@_grows("CropAndResize")
def _crop_and_resize(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[1].shape[0], *_ints(inputs[3]), inputs[0].shape[3]], 4


@_grows("ScatterNd")
def _scatter_nd(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return _ints(inputs[2]), _item(inputs[1])


@_grows("SparseToDense")
def _sparse_to_dense(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return _ints(inputs[1]), _item(inputs[2])


@_grows("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_segment(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    data, ids, count = inputs
    return [count.item(), *data.shape[ids.ndim :]], _item(data)


@_grows("SparseSegmentSumWithNumSegments", "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments")
def _sparse_segment(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[3].item(), *inputs[0].shape[1:]], _item(inputs[0])


@_grows("Bincount", "DenseBincount")
def _bincount(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    rows = inputs[0].shape[:1] if k.node.op == "DenseBincount" and inputs[0].ndim == 2 else ()
    return [*rows, inputs[1].item()], max(_item(inputs[2]), 4)


@_grows("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def _input_sizes(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return _ints(inputs[0]), _item(inputs[1])


@_grows("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    diagonal, _, rows, columns = inputs[:4]
    return [max(1, *diagonal.shape[:-2]), max(1, rows.item()), max(1, columns.item())], _item(diagonal)


@_grows("TensorArray", "TensorArrayV2", "TensorArrayV3")
def _tensor_array(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[0].item()], _SLOT_BYTES


@_grows("TensorListReserve", "TensorListResize")
def _tensor_list(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[1].item()], _SLOT_BYTES


@_grows("AsString")
def _as_string(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    # Each number is text twice for a moment, once as characters and once as bytes.
    return [*inputs[0].shape, 2], max(64, k.attr("width"), k.attr("precision"))


@_grows("StringNGrams")
def _string_ngrams(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    tokens, rows, pad = inputs[0].size, max(1, inputs[1].size - 1), k.attr("pad_width")
    edges = max(len(k.attr("left_pad")), len(k.attr("right_pad"))) + len(k.attr("separator"))
    size = 0
    for width in k.attr("ngram_widths"):
        padding = min(width - 1 if pad < 0 else pad, width - 1)
        grams = max(0, tokens + rows * (2 * padding - width + 1))
        size += rows * 2 * padding * 8 + grams * (_OBJECT_BYTES + width * edges)
    return [size], 1


@_grows("StringFormat")
def _string_format(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    ends, size = k.attr("summarize"), 0
    for value in inputs:
        shown = value.size if ends < 0 else math.prod(min(dim, 2 * ends) for dim in value.shape)
        size += shown * (2 * _OBJECT_BYTES)
        if value.dtype == object and shown == value.size:
            # A byte is up to four characters, which are there as parts and as a whole.
            size += 8 * sum(len(item) for item in value.flat)
    return [size], 1


@_grows("RaggedRange")
def _ragged_range(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    starts, limits, deltas = (np.asarray(value, np.float64) for value in inputs)
    with np.errstate(all="ignore"):
        counts = np.ceil(np.maximum((limits - starts) / deltas, 0))
    return [float(counts.sum())], _item(inputs[0])
