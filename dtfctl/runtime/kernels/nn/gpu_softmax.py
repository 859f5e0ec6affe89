"""Softmax and the cross entropies on a GPU, each in one pass of a block of threads over a row."""

from __future__ import annotations

from math import prod
from typing import Any

from dtfctl.runtime.kernels.cuda.arrays import CUDA_FLOATS, contiguous
from dtfctl.runtime.kernels.cuda.launch import launch_rows
from dtfctl.runtime.kernels.nn.softmax import check_classes, check_logits, shape_of_both
from dtfctl.runtime.kernels.registry import GPU, INDICES, Kernel, KernelBuild, register_kernel

# Before the common bodies, which take several passes (and which other types still use).
_FIRST = 1


@register_kernel(("Softmax", "LogSoftmax"), devices=GPU, priority=_FIRST, T=CUDA_FLOATS)
def softmax(k: KernelBuild) -> Kernel:
    xp, logarithm = k.xp, int(k.node.op == "LogSoftmax")

    def kernel(logits: Any) -> Any:
        check_logits(logits)
        out = xp.empty(logits.shape, logits.dtype)
        if out.size:
            rows = prod(logits.shape[:-1])
            arguments = (contiguous(xp, logits), out, rows, logits.shape[-1], logarithm)
            launch_rows(xp, "softmax", "softmax", rows, arguments, element=out.dtype.name)
        return out

    return kernel


@register_kernel("SoftmaxCrossEntropyWithLogits", devices=GPU, priority=_FIRST, T=CUDA_FLOATS)
def softmax_xent(k: KernelBuild) -> Kernel:
    xp = k.xp

    def kernel(logits: Any, labels: Any) -> tuple[Any, Any]:
        shape = shape_of_both(logits, labels)
        loss, grad = xp.zeros(shape[:1], logits.dtype), xp.empty(shape, logits.dtype)
        if grad.size:
            inputs = tuple(contiguous(xp, xp.broadcast_to(x, shape)) for x in (logits, labels))
            launch_rows(
                xp, "softmax", "softmax_xent", shape[0], (*inputs, loss, grad, *shape), element=logits.dtype.name
            )
        return loss, grad

    return kernel


@register_kernel("SparseSoftmaxCrossEntropyWithLogits", devices=GPU, priority=_FIRST, T=CUDA_FLOATS, Tlabels=INDICES)
def sparse_softmax_xent(k: KernelBuild) -> Kernel:
    xp = k.xp

    def kernel(logits: Any, labels: Any) -> tuple[Any, Any]:
        check_classes(logits, labels)
        loss, grad = xp.empty(labels.shape, logits.dtype), xp.empty(logits.shape, logits.dtype)
        arguments = (contiguous(xp, logits), contiguous(xp, labels), loss, grad, *logits.shape)
        types = {"element": logits.dtype.name, "index": labels.dtype.name}
        launch_rows(xp, "softmax", "sparse_softmax_xent", logits.shape[0], arguments, **types)
        return loss, grad

    return kernel
