"""Gradients of recurrent blocks."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op_outputs
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_gradient


@register_gradient("BlockLSTM", "BlockLSTMV2")
def _block_lstm(op: Operation, *grads: Any) -> Any:
    names = ("seq_len_max", "x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
    outputs = ("i", "cs", "f", "o", "ci", "co", "h")
    given: dict[str, Any] = dict(zip(names, op.inputs)) | dict(zip(outputs, op.outputs))
    results = apply_op_outputs(
        "BlockLSTMGrad" if op.type == "BlockLSTM" else "BlockLSTMGradV2",
        **given,
        cs_grad=grads[1],
        h_grad=grads[6],
        use_peephole=op.attr("use_peephole"),
    )
    return [None, *results]
