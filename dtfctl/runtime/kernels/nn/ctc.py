"""Connectionist temporal classification: loss with gradient, greedy and beam search decoding (ctc_*_op)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError, OpError
from dtfctl.runtime.kernels.nn.common import shape_text
from dtfctl.runtime.kernels.pieces import each, look
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_FLOATS = (dtypes.float32, dtypes.float64)
_NEVER = -np.inf


def _log_softmax(x: Any) -> Any:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _check_inputs(inputs: Any, sequence_length: Any, too_long: type[OpError] = InvalidArgumentError) -> None:
    if inputs.ndim != 3:
        raise InvalidArgumentError(f"inputs is not a 3-Tensor: {shape_text(inputs.shape)}")
    if sequence_length.ndim != 1:
        raise InvalidArgumentError(f"sequence_length is not a vector: {shape_text(sequence_length.shape)}")
    if sequence_length.shape[0] != inputs.shape[1]:
        raise InvalidArgumentError(
            f"len(sequence_length) != batch_size.  len(sequence_length):  {sequence_length.shape[0]} batch_size: "
            f"{inputs.shape[1]}"
        )
    for b, length in enumerate(sequence_length):
        if length < 0 or length > inputs.shape[0]:
            raise too_long(f"sequence_length({b}) <= {inputs.shape[0]}")


def _labels_of(batch: int, indices: Any, values: Any) -> list[list[int]]:
    if indices.ndim != 2 or indices.shape[1] != 2 or values.shape != indices.shape[:1]:
        raise InvalidArgumentError(
            f"labels_indices must be a matrix of two columns and a row for each of labels_values, got "
            f"{shape_text(indices.shape)} and {shape_text(values.shape)}"
        )
    out: list[list[int]] = [[] for _ in range(batch)]
    for (row, _), value in zip(indices, values):
        if not 0 <= row < batch:
            raise InvalidArgumentError(f"label batch index must be between 0 and {batch} but saw: {row}")
        out[int(row)].append(int(value))
    for b, labels in enumerate(out):
        if not labels:
            raise InvalidArgumentError(f"Labels length is zero in batch {b}")
    return out


def _extended(labels: list[int], classes: int, blank: int, collapse: bool, row: int) -> Any:
    """Put a blank around each label; repeated ones count once if `collapse`."""
    kept: list[int] = []
    for label in labels:
        if label == blank or not 0 <= label < classes:
            raise InvalidArgumentError(
                f"Saw a non-null label (index >= num_classes - 1) following a null label, batch: {row} "
                f"num_classes: {classes} labels: {','.join(map(str, labels))}"
            )
        if not (collapse and kept and kept[-1] == label):
            kept.append(label)
    out = np.full(2 * len(kept) + 1, blank)
    out[1::2] = kept
    return out


def _log_add(a: Any, b: Any) -> Any:
    return np.logaddexp(a, b)


def _forward(log_y: Any, path: Any, merge: bool, blank: int) -> Any:
    """log alpha (time, positions): all ways to be at a position after a time step, that step included."""
    steps, size = log_y.shape[0], path.size
    alpha = np.full((steps, size), _NEVER)
    alpha[0, 0] = log_y[0, path[0]]
    if size > 1:
        alpha[0, 1] = log_y[0, path[1]]
    stays = (path == blank) | merge
    skips = _may_skip(path, merge, blank)
    for t in range(1, steps):
        before = alpha[t - 1]
        total = np.where(stays, before, _NEVER)
        total[1:] = _log_add(total[1:], before[:-1])
        total[2:] = _log_add(total[2:], np.where(skips[2:], before[:-2], _NEVER))
        alpha[t] = total + log_y[t, path]
    return alpha


def _backward(log_y: Any, path: Any, merge: bool, blank: int) -> Any:
    """log beta: all ways to finish from a position after a time step, that step excluded."""
    steps, size = log_y.shape[0], path.size
    beta = np.full((steps, size), _NEVER)
    beta[-1, -1] = 0
    if size > 1:
        beta[-1, -2] = 0
    stays = (path == blank) | merge
    skips = _may_skip(path, merge, blank)
    for t in range(steps - 2, -1, -1):
        after = beta[t + 1] + log_y[t + 1, path]
        total = np.where(stays, after, _NEVER)
        total[:-1] = _log_add(total[:-1], after[1:])
        total[:-2] = _log_add(total[:-2], np.where(skips[2:], after[2:], _NEVER))
        beta[t] = total
    return beta


def _may_skip(path: Any, merge: bool, blank: int) -> Any:
    """Tell for each position of a path whether it can be reached from two before it."""
    out = np.zeros(path.size, bool)
    out[2:] = (path[2:] != blank) & ~(merge & (path[2:] == path[:-2]))
    return out


@register_kernel("CTCLoss", T=_FLOATS)
@register_kernel("CTCLossV2")
def ctc_loss(k: KernelBuild) -> Kernel:
    collapse, merge = k.attr("preprocess_collapse_repeated", False), k.attr("ctc_merge_repeated", True)
    ignore_longer, first = k.attr("ignore_longer_outputs_than_inputs", False), k.node.op == "CTCLossV2"

    def kernel(inputs: Any, indices: Any, values: Any, sequence_length: Any) -> tuple[Any, Any]:
        _check_inputs(inputs, sequence_length)
        time, batch, classes = inputs.shape
        if not batch:
            raise InvalidArgumentError("batch_size must not be 0")
        blank = 0 if first else classes - 1
        loss = np.zeros(batch, inputs.dtype)
        gradient = np.zeros_like(inputs)
        if not time:
            return loss, gradient
        log_y = _log_softmax(inputs.astype(np.float64))
        for b, labels in enumerate(_labels_of(batch, indices, values)):
            steps = int(sequence_length[b])
            if steps == 0:
                continue
            path = _extended(labels, classes, blank, collapse, b)
            needed = _shortest(path, merge)
            if needed > steps:
                if ignore_longer:
                    continue
                raise InvalidArgumentError(
                    f"Not enough time for target transition sequence (required: {needed}, available: {steps}){b}You "
                    "can turn this error into a warning by using the flag ignore_longer_outputs_than_inputs"
                )
            own = log_y[:steps, b]
            with np.errstate(invalid="ignore", divide="ignore"):
                alpha, beta = _forward(own, path, merge, blank), _backward(own, path, merge, blank)
                through = alpha + beta
                log_p = np.logaddexp.reduce(through[0])
                loss[b] = -log_p
                posterior = np.full((steps, classes), _NEVER)
                for position, label in enumerate(path):
                    posterior[:, label] = _log_add(posterior[:, label], through[:, position])
                y = np.exp(own)
                gradient[:steps, b] = y - np.exp(posterior - log_p) if np.isfinite(log_p) else y
        return loss, gradient

    return kernel


def _shortest(path: Any, merge: bool) -> int:
    """Time steps a path needs at least: one a label, and a blank between equal neighbours."""
    labels = path[1::2]
    return int(labels.size + (np.count_nonzero(labels[1:] == labels[:-1]) if merge else 0))


def _sparse(decoded: list[list[int]]) -> tuple[Any, Any, Any]:
    indices = np.array([[b, i] for b, row in enumerate(decoded) for i in range(len(row))], np.int64).reshape(-1, 2)
    values = np.array([v for row in decoded for v in row], np.int64)
    return indices, values, np.array([len(decoded), max(map(len, decoded), default=0)], np.int64)


@register_kernel("CTCGreedyDecoder", pieces=True, T=_FLOATS)
def ctc_greedy_decoder(k: KernelBuild) -> Kernel:
    merge, blank_index = k.attr("merge_repeated", False), k.attr("blank_index", -1)

    def kernel(inputs: Any, sequence_length: Any) -> tuple[Any, ...]:
        _check_inputs(inputs, sequence_length, FailedPreconditionError)
        _, batch, classes = inputs.shape
        if not -classes <= blank_index < classes:
            raise InvalidArgumentError(
                f"blank_index expected to be between {-classes} and {classes - 1} but was {blank_index}"
            )
        blank = blank_index % classes
        best = inputs.argmax(axis=2)
        log_probability = np.zeros((batch, 1), inputs.dtype)
        decoded = []
        for b in each(range(batch)):
            steps = int(sequence_length[b])
            own = best[:steps, b]
            log_probability[b, 0] = -inputs[np.arange(steps), b, own].sum()
            keep = own != blank
            if merge:
                keep[1:] &= own[1:] != own[:-1]
            decoded.append(own[keep].tolist())
        return (*_sparse(decoded), log_probability)

    return kernel


def _beam_search(log_y: Any, width: int, blank: int) -> list[tuple[tuple[int, ...], float]]:
    """Prefix beam search: the likeliest label sequences and their log probabilities, best first."""
    # For each prefix the log probabilities of ending in a blank and in its last label.
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, _NEVER)}
    for row in log_y:
        look()
        following: dict[tuple[int, ...], list[float]] = {}
        for prefix, (in_blank, in_label) in beams.items():
            look()
            total = float(np.logaddexp(in_blank, in_label))
            entry = following.setdefault(prefix, [_NEVER, _NEVER])
            entry[0] = float(np.logaddexp(entry[0], total + row[blank]))
            if prefix:
                entry[1] = float(np.logaddexp(entry[1], in_label + row[prefix[-1]]))
            for label, log_p in enumerate(row):
                if label == blank:
                    continue
                source = in_blank if prefix and prefix[-1] == label else total
                longer = following.setdefault((*prefix, label), [_NEVER, _NEVER])
                longer[1] = float(np.logaddexp(longer[1], source + log_p))
        ranked = sorted(following.items(), key=lambda item: -float(np.logaddexp(item[1][0], item[1][1])))
        beams = {prefix: (both[0], both[1]) for prefix, both in ranked[:width]}
    return [(prefix, float(np.logaddexp(*both))) for prefix, both in beams.items()]


@register_kernel("CTCBeamSearchDecoder", pieces=True, T=_FLOATS)
def ctc_beam_search_decoder(k: KernelBuild) -> Kernel:
    width, paths, merge = k.attr("beam_width"), k.attr("top_paths"), k.attr("merge_repeated", True)
    if paths > width:
        raise InvalidArgumentError(f"requested more paths than the beam width: {paths} > {width}", k.node.name)

    def kernel(inputs: Any, sequence_length: Any) -> tuple[Any, ...]:
        _check_inputs(inputs, sequence_length, FailedPreconditionError)
        _, batch, classes = inputs.shape
        decoded: list[list[list[int]]] = [[] for _ in range(paths)]
        log_probability = np.zeros((batch, paths), inputs.dtype)
        log_y = _log_softmax(inputs.astype(np.float64))
        for b in range(batch):
            found = _beam_search(log_y[: int(sequence_length[b]), b], width, classes - 1)
            if len(found) < paths:
                raise InvalidArgumentError("Less leaves in the beam search than requested.")
            for p, (prefix, value) in enumerate(found[:paths]):
                labels = list(prefix)
                if merge:
                    labels = [v for i, v in enumerate(labels) if i == 0 or v != labels[i - 1]]
                decoded[p].append(labels)
                log_probability[b, p] = value
        parts = [_sparse(rows) for rows in decoded]
        return (*(p[0] for p in parts), *(p[1] for p in parts), *(p[2] for p in parts), log_probability)

    return kernel
