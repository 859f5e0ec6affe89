"""Slice and StridedSlice with all masks, their gradient, and assignment through a slice."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.array.common import Shape, ints, text
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.ops.shapes.indexing import Index, strided_index


@register_kernel("Slice", devices=CPU_GPU, host_inputs=("begin", "size"))
def _slice(k: KernelBuild) -> Kernel:
    def kernel(x: Any, begin: Any, size: Any) -> Any:
        if begin.ndim != 1 or size.ndim != 1 or begin.shape[0] != x.ndim or size.shape[0] != x.ndim:
            raise InvalidArgumentError(
                f"Expected begin and size arguments to be 1-D tensors of size {x.ndim}, but got shapes "
                f"{text(begin.shape)} and {text(size.shape)} instead."
            )
        index: list[Any] = []
        for i, (b, s, d) in enumerate(zip(begin.tolist(), size.tolist(), x.shape)):
            if s == -1:
                s = d - b
            if d == 0:
                if b != 0 or s != 0:
                    raise InvalidArgumentError(
                        f"Expected begin[{i}] == 0 (got {b}) and size[{i}] == 0 (got {s}) when input.dim_size({i}) == 0"
                    )
            else:
                if not 0 <= b <= d:
                    raise InvalidArgumentError(f"Expected begin[{i}] in [0, {d}], but got {b}")
                if not (s >= 0 and b + s <= d):
                    raise InvalidArgumentError(f"Expected size[{i}] in [0, {d - b}], but got {s}")
            index.append(slice(b, b + s))
        return x[(*index, ...)]

    return kernel


class _Indexer:
    """Turns the three index tensors into a numpy index, remembering the last one (they are constants mostly)."""

    def __init__(self, k: KernelBuild) -> None:
        self.masks = tuple(int(k.attr(f"{m}_mask")) for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis"))
        self.last: tuple[Any, Index] | None = None

    def __call__(self, shape: Shape, begin: Any, end: Any, strides: Any) -> Index:
        last, asked = self.last, (shape, begin.tolist(), end.tolist(), strides.tolist())
        if last is not None and last[0] == asked:
            return last[1]
        if not (begin.ndim == 1 and begin.shape == end.shape == strides.shape and begin.size < 32):
            raise InvalidArgumentError(
                f"Expected begin, end, and strides to be 1D equal size tensors, but got shapes {text(begin.shape)}, "
                f"{text(end.shape)}, and {text(strides.shape)} instead."
            )
        index = strided_index(shape, ints(begin), ints(end), ints(strides), self.masks)  # type: ignore[arg-type]
        self.last = (asked, index)
        return index


_HOST = ("begin", "end", "strides")


@register_kernel("StridedSlice", devices=CPU_GPU, host_inputs=_HOST)
def _strided_slice(k: KernelBuild) -> Kernel:
    indexer = _Indexer(k)
    return lambda x, begin, end, strides: x[indexer(x.shape, begin, end, strides)]


@register_kernel("StridedSliceGrad", devices=CPU_GPU, host_inputs=("shape", *_HOST))
def _strided_slice_grad(k: KernelBuild) -> Kernel:
    indexer, xp = _Indexer(k), k.xp
    is_object = k.dtype("T").is_object

    def kernel(shape: Any, begin: Any, end: Any, strides: Any, dy: Any) -> Any:
        if shape.ndim != 1:
            raise InvalidArgumentError(f"shape must be 1-D, got shape.shape = {text(shape.shape)}")
        dims = ints(shape)
        out = object_array([b""] * int(np.prod(dims)), dims) if is_object else xp.zeros(dims, dy.dtype)
        index = indexer(dims, begin, end, strides)
        part = out[index]
        if part.shape != dy.shape:
            raise InvalidArgumentError(f"shape of dy was {text(dy.shape)} instead of {text(part.shape)}")
        out[index] = dy
        return out

    return kernel


def _assign(target: Any, index: Index, value: Any) -> None:
    part = target[index]
    if value.ndim and part.shape != value.shape:
        try:
            if np.broadcast_shapes(part.shape, value.shape) != part.shape:
                raise ValueError
        except ValueError:
            raise InvalidArgumentError(
                f"Cannot broadcast input shape {text(value.shape)} into final shape {text(part.shape)}"
            ) from None
    target[index] = value


@register_kernel("TensorStridedSliceUpdate", devices=CPU_GPU, host_inputs=_HOST)
def _tensor_strided_slice_update(k: KernelBuild) -> Kernel:
    indexer = _Indexer(k)

    def kernel(x: Any, begin: Any, end: Any, strides: Any, value: Any) -> Any:
        out = k.xp.array(x)
        _assign(out, indexer(x.shape, begin, end, strides), value)
        return out

    return kernel


@register_kernel("StridedSliceAssign", devices=CPU_GPU, host_inputs=_HOST)
def _strided_slice_assign(k: KernelBuild) -> Kernel:
    indexer = _Indexer(k)

    def kernel(ref: Variable, begin: Any, end: Any, strides: Any, value: Any) -> Any:
        with ref.lock:
            index = indexer(ref.read().shape, begin, end, strides)
            ref.change(lambda array: _assign(array, index, value))
        return ref

    return kernel


@register_kernel("ResourceStridedSliceAssign", devices=CPU_GPU, step=True, host_inputs=_HOST)
def _resource_strided_slice_assign(k: KernelBuild) -> Kernel:
    indexer = _Indexer(k)

    def kernel(step: StepContext, handle: Any, begin: Any, end: Any, strides: Any, value: Any) -> None:
        h = handle.item()
        variable = step.resources.lookup(h.container, h.name, Variable)
        with variable.lock:
            index = indexer(variable.read().shape, begin, end, strides)
            variable.change(lambda array: _assign(array, index, value))

    return kernel
