"""Connectionist temporal classification: loss and decoders."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_nested, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops


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


def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """Find the most probable label sequences by a beam search; repeated labels stay."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)


def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Compute the CTC loss of labels that are dense, [batch, n] with their lengths, or sparse.

    Args:
        unique: what TensorFlow takes to save memory; it changes nothing here.
        blank_index: the class of the blank, 0 where it is None and the labels are dense; -1 is the last.

    Raises:
        ValueError: the labels are sparse and `blank_index` is None, or there is no such class.
    """
    with name_scope(name, "ctc_loss_dense"):
        x = convert_to_tensor(logits, name="logits")
        if not isinstance(labels, SparseTensor):
            dense = convert_to_tensor(labels, name="labels")
            lengths = convert_to_tensor(label_length)
            inside = apply_op(
                "Less",
                x=apply_op("Range", start=0, limit=apply_op("Shape", input=dense)[1], delta=1),
                y=math_ops.cast(lengths, dtypes.int32)[:, None],
            )
            indices = apply_op("Where", input=inside)
            labels = SparseTensor(
                indices,
                apply_op("GatherNd", params=math_ops.cast(dense, dtypes.int32), indices=indices),
                apply_op("Shape", input=dense, out_type=dtypes.int64),
            )
        elif blank_index is None:
            raise ValueError("Argument `blank_index` must be provided when labels is a SparseTensor.")
        blank: int = blank_index or 0
        count = x.shape.with_rank(3).as_list()[2]
        if count is None:
            raise ValueError("The number of classes, the last dimension of `logits`, must be known")
        if not -count <= blank < count:
            raise ValueError(f"Argument `blank_index` must be a class, within [0, {count}); received {blank}")
        blank %= count
        if blank != count - 1:
            x = array_ops.concat([x[:, :, :blank], x[:, :, blank + 1 :], x[:, :, blank : blank + 1]], 2)
            moved = math_ops.cast(math_ops.greater(labels.values, blank), labels.values.dtype)
            labels = SparseTensor(labels.indices, labels.values - moved, labels.dense_shape)
        return ctc_loss(labels, x, logit_length, time_major=logits_time_major)


def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Merge labels that follow each other and are the same: [batch, longest], 0 after the end, and the lengths."""
    with name_scope(name, "collapse_repeated_labels"):
        x, lengths = convert_to_tensor(labels, name="labels"), convert_to_tensor(seq_length, name="seq_length")
        changes = math_ops.not_equal(x[:, 1:], x[:, :-1])
        first = array_ops.ones_like(x[:, :1], dtype=dtypes.bool_)
        inside = array_ops.sequence_mask(lengths, maxlen=array_ops.shape(x)[1])
        kept = math_ops.logical_and(array_ops.concat([first, changes], 1), inside)
        counts = math_ops.reduce_sum(math_ops.cast(kept, lengths.dtype), axis=1)
        places = array_ops.sequence_mask(counts, maxlen=math_ops.reduce_max(counts))
        found = apply_op(
            "ScatterNd",
            indices=apply_op("Where", input=places),
            updates=array_ops.boolean_mask(x, kept),
            shape=array_ops.shape(places, out_type=dtypes.int64),
        )
        return found, counts
