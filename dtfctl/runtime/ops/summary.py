"""Summary ops (`tf.summary.scalar` and its siblings), collected under GraphKeys.SUMMARIES."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys, add_to_collections, get_collection, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor


def _emit(
    op: str, name: str, family: str | None, collections: Sequence[str] | None, arguments: dict[str, Any]
) -> Tensor:
    # A variable's name, "w:0", makes a tag too.
    clean = re.sub(r"[^-/\w.]", "_", name).lstrip("/")
    scope_name = f"{family}/{clean}" if family else clean
    graph = context.get_default_graph()
    with graph.name_scope(scope_name) as scope:
        tag = scope.rstrip("/")
        if family:
            tag = f"{family}/{tag}"
        tag_name = "tags" if op == "ScalarSummary" else "tag"
        out = apply_op(op, scope, **{tag_name: tag}, **arguments)
    add_to_collections(list(collections) if collections is not None else [GraphKeys.SUMMARIES], out)
    return out


def scalar(name: str, tensor: Any, collections: Sequence[str] | None = None, family: str | None = None) -> Tensor:
    """Summarize one number."""
    return _emit("ScalarSummary", name, family, collections, {"values": convert_to_tensor(tensor)})


def histogram(name: str, values: Any, collections: Sequence[str] | None = None, family: str | None = None) -> Tensor:
    """Summarize how values are distributed."""
    return _emit("HistogramSummary", name, family, collections, {"values": convert_to_tensor(values)})


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Summarize images [batch, height, width, channels] of 1, 3 or 4 channels."""
    arguments = {"tensor": convert_to_tensor(tensor), "max_images": max_outputs}
    return _emit("ImageSummary", name, family, collections, arguments)


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Summarize clips [batch, frames, channels] or [batch, frames] of values in -1..1."""
    rate = convert_to_tensor(sample_rate, dtypes.float32)
    arguments = {"tensor": convert_to_tensor(tensor), "sample_rate": rate, "max_outputs": max_outputs}
    return _emit("AudioSummaryV2", name, family, collections, arguments)


def text(name: str, tensor: Any, collections: Sequence[str] | None = None) -> Tensor:
    """Summarize strings, shown by TensorBoard's text plugin."""
    from dtfctl.protocol import summary_pb2

    value = convert_to_tensor(tensor)
    if value.dtype is not dtypes.string:
        raise ValueError(f"Expected tensor {value.name} to have dtype string, got {value.dtype}")
    metadata = summary_pb2.SummaryMetadata()
    metadata.plugin_data.plugin_name = "text"
    return tensor_summary(name, value, collections=collections, summary_metadata=metadata)


def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: str | None = None,
    collections: Sequence[str] | None = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """Summarize any tensor, with metadata that tells a plugin how to show it."""
    from dtfctl.protocol import summary_pb2

    metadata = summary_pb2.SummaryMetadata()
    if summary_metadata is not None:
        metadata.CopyFrom(summary_metadata)
    if display_name is not None:
        metadata.display_name = display_name
    if summary_description is not None:
        metadata.summary_description = summary_description
    serialized = metadata.SerializeToString()
    arguments = {"tensor": convert_to_tensor(tensor), "serialized_summary_metadata": serialized}
    return _emit("TensorSummaryV2", name, family, collections, arguments)


def merge(inputs: Sequence[Any], collections: Sequence[str] | None = None, name: str | None = None) -> Tensor:
    """Merge several summaries into one."""
    with name_scope(name, "Merge"):
        out = apply_op("MergeSummary", name, inputs=list(inputs))
    add_to_collections(list(collections or []), out)
    return out


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """Merge all collected summaries into one; None when there are none."""
    found = get_collection(key, scope)
    return merge(found, name=name) if found else None
