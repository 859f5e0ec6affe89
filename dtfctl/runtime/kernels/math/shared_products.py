"""Products that share a factor or a sum; `compiler/passes/products.py` puts them into graphs."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import text
from dtfctl.runtime.kernels.control.tensor_list import box
from dtfctl.runtime.kernels.into.factors import Factor, ProductSum
from dtfctl.runtime.kernels.into.products import multiply
from dtfctl.runtime.kernels.math.matmul import check_factors
from dtfctl.runtime.kernels.promises import LETS_GO
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


@register_kernel("_Factor")
def _factor(k: KernelBuild) -> Kernel:
    return lambda matrix: box(Factor(matrix))


@register_kernel("_MatMulByFactor", promises=LETS_GO)
def _by_factor(k: KernelBuild) -> Kernel:
    tb = bool(k.attr("transpose_b"))

    def kernel(a: Any, b: Any) -> Any:
        matrix = b.item().array
        check_factors(a, matrix, False, tb)
        return multiply(a, matrix, False, tb)

    return kernel


@register_kernel("_SumOfProducts")
def _begin(k: KernelBuild) -> Kernel:
    return lambda initial: box(ProductSum(initial))


@register_kernel("_AddProduct", promises=LETS_GO)
def _add(k: KernelBuild) -> Kernel:
    def kernel(sum: Any, a: Any, b: Any) -> Any:
        check_factors(a, b, True, False)
        held = sum.item()
        shape = (a.shape[1], b.shape[1])
        if held.shape != shape:
            raise InvalidArgumentError(
                f"Inputs to operation {k.node.name} of type AddN must have the same size and shape.  "
                f"Input 0: {text(held.shape)} != input 1: {text(shape)}"
            )
        held.add(a, b)
        return sum

    return kernel


@register_kernel("_EndSumOfProducts")
def _end(k: KernelBuild) -> Kernel:
    return lambda sum: sum.item().value()
