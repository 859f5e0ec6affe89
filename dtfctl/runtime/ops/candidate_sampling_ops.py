"""Candidate samplers and the losses over many classes built on them (TF1's `tf.nn.sampled_softmax_loss` and kin)."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import get_seed, name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import nn_ops
from dtfctl.runtime.ops.embedding_ops import embedding_lookup
from dtfctl.runtime.ops.operands import apply_mixed


def _as_int64(labels: Any) -> Tensor:
    labels = convert_to_tensor(labels)
    return labels if labels.dtype.base_dtype is dtypes.int64 else apply_op("Cast", x=labels, DstT=dtypes.int64)


def _sampler(op: str, true_classes: Any, seed: int | None, name: str | None, **attrs: Any) -> list[Tensor]:
    seed1, seed2 = get_seed(seed)
    classes = convert_to_tensor(true_classes, dtypes.int64)
    return apply_op_outputs(op, true_classes=classes, seed=seed1, seed2=seed2, name=name, **attrs)


def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Sample classes; give them and the expected counts of true and sampled ones."""
    return _sampler(
        "UniformCandidateSampler",
        true_classes,
        seed,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
    )


def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Sample classes in order of falling frequency, drawn by Zipf's law."""
    return _sampler(
        "LogUniformCandidateSampler",
        true_classes,
        seed,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
    )


def learned_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Sample classes as often as they were seen so far."""
    return _sampler(
        "LearnedUnigramCandidateSampler",
        true_classes,
        seed,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
    )


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Any = (),
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Sample classes by given frequencies, from a file or a list."""
    return _sampler(
        "FixedUnigramCandidateSampler",
        true_classes,
        seed,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_reserved_ids=num_reserved_ids,
        num_shards=num_shards,
        shard=shard,
        unigrams=list(unigrams),
    )


def all_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    return _sampler(
        "AllCandidateSampler", true_classes, seed, name, num_true=num_true, num_sampled=num_sampled, unique=unique
    )


def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None, name: str | None = None
) -> Any:
    """Find where sampled classes are among the true ones: rows, positions, and -FLOAT_MAX for each."""
    seed1, seed2 = get_seed(seed)
    return apply_op_outputs(
        "ComputeAccidentalHits",
        true_classes=true_classes,
        sampled_candidates=sampled_candidates,
        num_true=num_true,
        seed=seed1,
        seed2=seed2,
        name=name,
    )


def _op(op: str, x: Any, y: Any = None) -> Tensor:
    return apply_mixed(op, x, y)


def _reshape(x: Any, shape: Any) -> Tensor:
    return apply_op("Reshape", tensor=x, shape=shape)


def _sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Any,
    remove_hits: bool,
    partition_strategy: str,
    name: str | None,
) -> tuple[Tensor, Tensor]:
    """Compute logits and labels of the true classes followed by the sampled ones (Jean et al. 2014)."""
    with name_scope(name, "compute_sampled_logits"):
        labels = _as_int64(labels)
        inputs = convert_to_tensor(inputs)
        labels_flat = _reshape(labels, constant([-1]))
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes)
        sampled, true_expected, sampled_expected = (apply_op("StopGradient", input=value) for value in sampled_values)
        sampled = (
            sampled if sampled.dtype.base_dtype is dtypes.int64 else apply_op("Cast", x=sampled, DstT=dtypes.int64)
        )
        both = apply_op("ConcatV2", values=[labels_flat, sampled], axis=0)
        all_w = embedding_lookup(weights, both, partition_strategy=partition_strategy)
        all_b = embedding_lookup(biases, both, partition_strategy=partition_strategy)
        count = apply_op("Shape", input=labels_flat)
        width = inputs.shape[-1].value
        dim = (
            constant([width])
            if width is not None
            else apply_op(
                "StridedSlice", input=apply_op("Shape", input=inputs), begin=[-1], end=[0], strides=[1], end_mask=1
            )
        )
        true_w = apply_op(
            "Slice",
            input=all_w,
            begin=constant([0, 0]),
            size=apply_op("ConcatV2", values=[count, constant([-1])], axis=0),
        )
        sampled_w = apply_op(
            "Slice",
            input=all_w,
            begin=apply_op("ConcatV2", values=[count, constant([0])], axis=0),
            size=constant([-1, -1]),
        )
        true_b = apply_op("Slice", input=all_b, begin=constant([0]), size=count)
        sampled_b = apply_op("Slice", input=all_b, begin=count, size=constant([-1]))
        sampled_logits = apply_op("MatMul", a=inputs, b=sampled_w, transpose_b=True)
        shape = apply_op("ConcatV2", values=[constant([-1, num_true]), dim], axis=0)
        rows = apply_op("Mul", x=apply_op("ExpandDims", input=inputs, dim=1), y=_reshape(true_w, shape))
        dots = apply_op("Sum", input=rows, reduction_indices=constant([2]))
        true_logits = _op("AddV2", _reshape(dots, constant([-1, num_true])), _reshape(true_b, constant([-1, num_true])))
        sampled_logits = _op("AddV2", sampled_logits, sampled_b)
        if remove_hits:
            sampled_logits = _without_hits(sampled_logits, labels, sampled, num_true, num_sampled)
        true_logits = _op("Sub", true_logits, _op("Log", true_expected))
        sampled_logits = _op("Sub", sampled_logits, _op("Log", sampled_expected))
        logits = apply_op("ConcatV2", values=[true_logits, sampled_logits], axis=1)
        share = _op("RealDiv", apply_op("OnesLike", x=true_logits), float(num_true))
        out_labels = apply_op("ConcatV2", values=[share, apply_op("ZerosLike", x=sampled_logits)], axis=1)
        return logits, out_labels


def _without_hits(logits: Tensor, labels: Tensor, sampled: Tensor, num_true: int, num_sampled: int) -> Tensor:
    """Make the logits of sampled classes that are true ones so small that they do not count."""
    rows, columns, weights = compute_accidental_hits(labels, sampled, num_true)
    column = apply_op("Cast", x=columns, DstT=dtypes.int32)
    places = apply_op("Pack", values=[rows, column], axis=1)
    shape = apply_op("Shape", input=logits)
    if logits.dtype.base_dtype is not dtypes.float32:
        weights = apply_op("Cast", x=weights, DstT=logits.dtype.base_dtype)
    return _op("AddV2", logits, apply_op("ScatterNd", indices=places, updates=weights, shape=shape))


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Compute softmax cross entropy over the true classes and some sampled ones; for training only."""
    if sampled_values is None and seed is not None:
        sampled_values = log_uniform_candidate_sampler(
            _as_int64(labels), num_true, num_sampled, True, num_classes, seed
        )
    logits, targets = _sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
        partition_strategy,
        name,
    )
    targets = apply_op("StopGradient", input=targets)
    return nn_ops.softmax_cross_entropy_with_logits_v2(targets, logits)


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Tensor:
    """Estimate noise-contrastively (Gutmann and Hyvarinen 2010): independent logistic losses, summed by example."""
    logits, targets = _sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
        partition_strategy,
        name,
    )
    losses = nn_ops.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    return apply_op("Sum", input=losses, reduction_indices=constant([1]))
