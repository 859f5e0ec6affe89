"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import is_low_precision, text
from dtfctl.runtime.kernels.into.low_precision import BFLOAT16, multiply_bfloat16
from dtfctl.runtime.kernels.into.products import multiply, multiply_stacks
from dtfctl.runtime.kernels.promises import OF_SHAPES
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel


def check_factors(a: Any, b: Any, ta: bool, tb: bool) -> None:
    """Refuse factors that are no matrices, or do not fit.

    Raises:
        InvalidArgumentError: that, as TensorFlow says it.
    """
    if a.ndim != 2 or b.ndim != 2:
        raise InvalidArgumentError(
            f"In[0] and In[1] ndims must be == 2: {a.ndim if a.ndim != 2 else b.ndim}"
            if a.ndim == b.ndim
            else f"In[0] and In[1] has different ndims: {text(a.shape)} vs. {text(b.shape)}"
        )
    if a.shape[0 if ta else 1] != b.shape[1 if tb else 0]:
        raise InvalidArgumentError(f"Matrix size-incompatible: In[0]: {text(a.shape)}, In[1]: {text(b.shape)}")


@register_kernel("MatMul", devices=CPU_GPU, promises=OF_SHAPES)
def _matmul(k: KernelBuild) -> Kernel:
    ta, tb = bool(k.attr("transpose_a")), bool(k.attr("transpose_b"))
    dtype = k.dtype("T").np
    matmul = k.xp.matmul
    product: Kernel | None
    if is_low_precision(dtype):

        def product(a: Any, b: Any) -> Any:
            return matmul(a.astype(np.float32), b.astype(np.float32)).astype(dtype)

    elif k.xp is np:
        product = None
    else:
        product = matmul

    def kernel(a: Any, b: Any) -> Any:
        check_factors(a, b, ta, tb)
        if dtype == BFLOAT16 and k.xp is np:
            found = multiply_bfloat16(a, b, ta, tb)
            if found is not None:
                return found
        return multiply(a, b, ta, tb) if product is None else product(a.T if ta else a, b.T if tb else b)

    return kernel


def _adjoint(x: Any) -> Any:
    return x.swapaxes(-1, -2).conj() if x.dtype.kind == "c" else x.swapaxes(-1, -2)


@register_kernel(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), devices=CPU_GPU, promises=OF_SHAPES)
def _batch_matmul(k: KernelBuild) -> Kernel:
    ax, ay = bool(k.attr("adj_x")), bool(k.attr("adj_y"))
    op, matmul = k.node.op, multiply_stacks if k.xp is np else k.xp.matmul
    out = k.dtype("Tout" if op == "BatchMatMulV3" else "T").np
    work = np.dtype(np.float32) if is_low_precision(out) else out

    def kernel(x: Any, y: Any) -> Any:
        if x.ndim < 2:
            raise InvalidArgumentError(f"In[0] ndims must be >= 2: {x.ndim}")
        if y.ndim < 2:
            raise InvalidArgumentError(f"In[1] ndims must be >= 2: {y.ndim}")
        if op == "BatchMatMul":
            if x.ndim != y.ndim:
                raise InvalidArgumentError(f"In[0] and In[1] has different ndims: {text(x.shape)} vs. {text(y.shape)}")
            for d, (p, q) in enumerate(zip(x.shape[:-2], y.shape[:-2])):
                if p != q:
                    raise InvalidArgumentError(
                        f"In[0].dim({d}) and In[1].dim({d}) must be the same: {text(x.shape)} vs {text(y.shape)}"
                    )
        a, b = (_adjoint(x) if ax else x), (_adjoint(y) if ay else y)
        if a.shape[-1] != b.shape[-2]:
            raise InvalidArgumentError(f"Matrix size-incompatible: In[0]: {text(x.shape)}, In[1]: {text(y.shape)}")
        try:
            return matmul(a.astype(work, copy=False), b.astype(work, copy=False)).astype(out, copy=False)
        except ValueError:
            raise InvalidArgumentError(
                f"In[0] and In[1] must have compatible batch dimensions: {text(x.shape)} vs. {text(y.shape)}"
            ) from None

    return kernel


@register_kernel("SparseMatMul")
def _sparse_matmul(k: KernelBuild) -> Kernel:
    """Dense product of matrices that hold many zeros (the flags are hints only)."""
    ta, tb = bool(k.attr("transpose_a")), bool(k.attr("transpose_b"))

    def kernel(a: Any, b: Any) -> Any:
        if a.ndim != 2:
            raise InvalidArgumentError("a is not a matrix")
        if b.ndim != 2:
            raise InvalidArgumentError("b is not a matrix")
        x, y = (a.T if ta else a), (b.T if tb else b)
        if x.shape[1] != y.shape[0]:
            raise InvalidArgumentError(f"Matrix size incompatible: a: {text(a.shape)}, b: {text(b.shape)}")
        return np.matmul(x.astype(np.float32, copy=False), y.astype(np.float32, copy=False))

    return kernel
