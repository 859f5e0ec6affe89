"""Gradients of io ops: Print passes them on, everything else stops them."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import not_differentiable, register_gradient

not_differentiable(
    "ReaderReadV2",
    "ReaderReadUpToV2",
    "StringToNumber",
    "DecodeRaw",
    "DecodeCSV",
    "ParseExample",
    "ParseExampleV2",
    "ParseSingleExample",
    "ParseTensor",
    "SerializeTensor",
    "ScalarSummary",
    "HistogramSummary",
    "ImageSummary",
    "AudioSummary",
    "AudioSummaryV2",
    "MergeSummary",
    "TensorSummary",
    "TensorSummaryV2",
    "RestoreV2",
    "Timestamp",
)


@register_gradient("Print")
def _print(op: Operation, grad: Any) -> list[Any]:
    return [grad, *[None] * (len(op.inputs) - 1)]
