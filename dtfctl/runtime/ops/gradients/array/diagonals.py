"""Gradients of diagonals and bands of matrices."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops


@register_gradient("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag_v3(op: Operation, grad: Tensor) -> Any:
    align = op.text_attr("align") if op.type.endswith("3") else "LEFT_LEFT"
    part = array_ops.matrix_diag_part(grad, k=op.inputs[1], align=align)
    return [part, None, None, None, None]


@register_gradient("MatrixDiagPart")
def _matrix_diag_part(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    return apply_op("MatrixSetDiag", input=array_ops.zeros_like(x), diagonal=grad)


@register_gradient("MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diag_part_v3(op: Operation, grad: Tensor) -> Any:
    align = op.text_attr("align") if op.type.endswith("3") else "LEFT_LEFT"
    out = array_ops.matrix_set_diag(array_ops.zeros_like(op.inputs[0]), grad, k=op.inputs[1], align=align)
    return [out, None, None]


@register_gradient("MatrixSetDiag")
def _matrix_set_diag(op: Operation, grad: Tensor) -> Any:
    part = apply_op("MatrixDiagPart", input=grad)
    zeros = array_ops.zeros_like(op.inputs[1])
    return [apply_op("MatrixSetDiag", input=grad, diagonal=zeros), part]


@register_gradient("MatrixSetDiagV2", "MatrixSetDiagV3")
def _matrix_set_diag_v3(op: Operation, grad: Tensor) -> Any:
    align = op.text_attr("align") if op.type.endswith("3") else "LEFT_LEFT"
    diagonal, k = op.inputs[1], op.inputs[2]
    part = array_ops.matrix_diag_part(grad, k=k, align=align)
    rest = array_ops.matrix_set_diag(grad, array_ops.zeros_like(diagonal), k=k, align=align)
    return [rest, part, None]
