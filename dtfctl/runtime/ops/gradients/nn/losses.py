"""Gradients of softmax, cross entropies and CTC."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops.gradients.common import add, is_zeros, mul, neg, sub, sum_over


@register_gradient("Softmax")
def _softmax(op: Operation, grad: Tensor) -> Any:
    softmax = op.outputs[0]
    return mul(sub(grad, sum_over(mul(grad, softmax), [-1], True)), softmax)


def _per_row(vector: Tensor, matrix: Tensor) -> Tensor:
    """Multiply the rows of a matrix by the elements of a vector."""
    return mul(apply_op("ExpandDims", input=vector, dim=constant(-1, dtypes.int32)), matrix)


def _second_order(grad: Tensor, grad_grad: Tensor, logits: Tensor) -> Tensor:
    softmax = apply_op("Softmax", logits=logits)
    along = sum_over(mul(grad_grad, softmax), [1], True)
    return add(grad, mul(sub(grad_grad, along), softmax))


@register_gradient("SoftmaxCrossEntropyWithLogits")
def _softmax_xent(op: Operation, grad_loss: Tensor, grad_grad: Tensor) -> Any:
    logits = op.inputs[0]
    grad = _per_row(grad_loss, op.outputs[1])
    if not is_zeros(grad_grad):
        grad = _second_order(grad, grad_grad, logits)
    return grad, _per_row(grad_loss, neg(apply_op("LogSoftmax", logits=logits)))


@register_gradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_softmax_xent(op: Operation, grad_loss: Tensor, grad_grad: Tensor) -> Any:
    grad = _per_row(grad_loss, op.outputs[1])
    if not is_zeros(grad_grad):
        grad = _second_order(grad, grad_grad, op.inputs[0])
    return grad, None


@register_gradient("CTCLoss", "CTCLossV2")
def _ctc_loss(op: Operation, grad_loss: Tensor, _: Tensor) -> Any:
    scale = apply_op("ExpandDims", input=grad_loss, dim=constant(-1, dtypes.int32))
    return mul(scale, op.outputs[1]), None, None, None
