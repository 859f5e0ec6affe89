"""Connectionist temporal classification: loss and decoders."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_nested, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor


def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Tensor:
    """Compute the CTC loss (Graves et al. 2006); the last class is the blank.

    Raises:
        TypeError: `labels` is no SparseTensor.
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError("Expected argument `labels` to be a SparseTensor. Received " + type(labels).__name__)
    x = convert_to_tensor(inputs if logits is None else logits)
    if not time_major:
        x = apply_op("Transpose", x=x, perm=[1, 0, 2])
    loss, _ = apply_op_outputs(
        "CTCLoss",
        inputs=x,
        labels_indices=labels.indices,
        labels_values=labels.values,
        sequence_length=sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )
    return loss


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """Choose the best label at each step, repetitions merged and blanks removed."""
    indices, values, shape, probability = apply_op_outputs(
        "CTCGreedyDecoder",
        inputs=inputs,
        sequence_length=sequence_length,
        merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index,
    )
    return [SparseTensor(indices, values, shape)], probability


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> tuple[list[SparseTensor], Tensor]:
    """Find the most probable label sequences by a beam search."""
    indices, values, shapes, probability = apply_op_nested(
        "CTCBeamSearchDecoder",
        inputs=inputs,
        sequence_length=sequence_length,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
    )
    return [SparseTensor(*parts) for parts in zip(indices, values, shapes)], probability
