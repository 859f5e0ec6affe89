"""Static shapes of file, parsing, summary and logging ops."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape


@register_shape("DecodeWav")
def _wav(op: Operation) -> list[Any]:
    samples, channels = op.attr("desired_samples"), op.attr("desired_channels")
    return [[None if samples < 0 else samples, None if channels < 0 else channels], ()]


def _parsed(op: Operation, sparse: int, lead: TensorShape) -> list[Any]:
    rank = 1 + (lead.rank or 0)
    shapes: list[Any] = [[None, rank]] * sparse + [[None]] * sparse + [[rank]] * sparse
    return shapes + [lead.concatenate(s) for s in op.attr("dense_shapes")]


@register_shape("ParseExample")
def _parse_example(op: Operation) -> list[Any]:
    return _parsed(op, op.attr("Nsparse"), op.inputs[0].shape)


@register_shape("ParseSingleExample")
def _parse_single(op: Operation) -> list[Any]:
    return _parsed(op, op.attr("num_sparse"), TensorShape([]))


@register_shape("ParseExampleV2")
def _parse_example_v2(op: Operation) -> list[Any]:
    if op.inputs[0].shape.rank is None:
        return [TensorShape(None)] * len(op.outputs)
    known = _parsed(op, op.attr("num_sparse"), op.inputs[0].shape)
    return known + [[None]] * (len(op.outputs) - len(known))
