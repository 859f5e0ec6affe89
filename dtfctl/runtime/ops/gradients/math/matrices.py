"""Gradients of products of matrices."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.gradients.common import sum_to
from dtfctl.runtime.ops.shapes.indexing import broadcast_gradient_axes


@register_gradient("MatMul")
def _matmul(op: Operation, grad: Tensor) -> Any:
    ta, tb = op.attr("transpose_a"), op.attr("transpose_b")
    a, b = math_ops.conj(op.inputs[0]), math_ops.conj(op.inputs[1])

    def product(x: Tensor, y: Tensor, tx: bool = False, ty: bool = False) -> Tensor:
        return apply_op("MatMul", a=x, b=y, transpose_a=tx, transpose_b=ty)

    if not ta and not tb:
        return [product(grad, b, ty=True), product(a, grad, tx=True)]
    if not ta:
        return [product(grad, b), product(grad, a, tx=True)]
    if not tb:
        return [product(b, grad, ty=True), product(a, grad)]
    return [product(b, grad, True, True), product(grad, a, True, True)]


@register_gradient("SparseMatMul")
def _sparse_matmul(op: Operation, grad: Tensor) -> Any:
    ta, tb = op.attr("transpose_a"), op.attr("transpose_b")
    a, b = op.inputs
    sparse = {a: op.attr("a_is_sparse"), b: op.attr("b_is_sparse"), grad: grad.op.type == "ReluGrad"}

    def product(x: Tensor, y: Tensor, out: Any, tx: bool = False, ty: bool = False) -> Tensor:
        z = apply_op(
            "SparseMatMul", a=x, b=y, transpose_a=tx, transpose_b=ty, a_is_sparse=sparse[x], b_is_sparse=sparse[y]
        )
        return math_ops.cast(z, out)

    da, db = a.dtype, b.dtype
    if not ta and not tb:
        return [product(grad, b, da, ty=True), product(a, grad, db, tx=True)]
    if not ta:
        return [product(grad, b, da), product(grad, a, db, tx=True)]
    if not tb:
        return [product(b, grad, da, ty=True), product(a, grad, db)]
    return [product(b, grad, da, True, True), product(grad, a, db, True, True)]


@register_gradient("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    ax, ay = op.attr("adj_x"), op.attr("adj_y")

    def product(a: Tensor, b: Tensor, adj_a: bool, adj_b: bool) -> Tensor:
        return apply_op("BatchMatMulV2", x=a, y=b, adj_x=adj_a, adj_y=adj_b)

    if not ax:
        gx = product(grad, y, False, not ay)
        gy = product(grad, x, True, False) if ay else product(x, grad, True, False)
    else:
        gx = product(y, grad, ay, True)
        gy = product(grad, x, True, True) if ay else product(x, grad, False, False)
    if op.type == "BatchMatMul":
        return [gx, gy]
    sx, sy = x.shape, y.shape
    if sx.is_fully_defined() and sy.is_fully_defined():
        bx, by = sx.known()[:-2], sy.known()[:-2]
        if bx == by:
            return [gx, gy]
        rx, ry = (constant(r, dtypes.int32) for r in broadcast_gradient_axes(bx, by))
        return [sum_to(gx, rx, array_ops.shape(x)), sum_to(gy, ry, array_ops.shape(y))]
    dx, dy = apply_op("Shape", input=x), apply_op("Shape", input=y)
    rx, ry = apply_op_outputs("BroadcastGradientArgs", s0=dx[:-2], s1=dy[:-2])
    return [sum_to(gx, rx, dx), sum_to(gy, ry, dy)]
