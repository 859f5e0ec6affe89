"""MetaGraphs: a graph with its collections, written beside checkpoints and read from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.any_pb2 import Any as Any_
from google.protobuf.message import DecodeError, Message

from dtfctl.protocol import graph_pb2, meta_graph_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train.checkpoint_management import write_atomically

# Collections whose values are saved as protos, and how to rebuild one.
VARIABLE_COLLECTIONS = (
    GraphKeys.GLOBAL_VARIABLES,
    GraphKeys.LOCAL_VARIABLES,
    GraphKeys.MODEL_VARIABLES,
    GraphKeys.TRAINABLE_VARIABLES,
    GraphKeys.MOVING_AVERAGE_VARIABLES,
    GraphKeys.METRIC_VARIABLES,
    GraphKeys.GLOBAL_STEP,
)


def export_meta_graph(
    filename: str | None = None,
    meta_info_def: Any = None,
    graph_def: graph_pb2.GraphDef | None = None,
    saver_def: meta_graph_pb2.SaverDef | None = None,
    collection_list: list[str] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
) -> meta_graph_pb2.MetaGraphDef:
    """Return the MetaGraphDef of a graph, also written to `filename` when given.

    Collections of variables, tensors, operations, numbers, strings and protos are kept; values of other kinds are not.
    Ops of other savers and attributes that have their defaults are kept as well, whether or not they are to go
    (`clear_extraneous_savers`, `strip_default_attrs`): the graph computes the same.

    Raises:
        ValueError: `save_debug_info` asks for a file of stack traces.
    """
    if save_debug_info:
        raise ValueError("stack traces of ops are not written: leave save_debug_info out")
    graph = graph or context.get_default_graph()
    out = meta_graph_pb2.MetaGraphDef()
    out.graph_def.CopyFrom(graph_def or graph.as_graph_def(add_shapes=True))
    out.meta_info_def.tensorflow_version = "2.21.0"
    if clear_devices:
        for node in out.graph_def.node:
            node.device = ""
    if saver_def is not None:
        out.saver_def.CopyFrom(saver_def)
    for key in graph.get_all_collection_keys() if collection_list is None else collection_list:
        _export_collection(out, key, graph.get_collection(key), export_scope)
    if filename is not None:
        content = text_format.MessageToString(out).encode() if as_text else out.SerializeToString()
        write_atomically(Path(filename), content)
    return out


def _export_collection(out: meta_graph_pb2.MetaGraphDef, key: str, values: list[Any], scope: str | None) -> None:
    target = meta_graph_pb2.CollectionDef()
    if key in VARIABLE_COLLECTIONS:
        protos = [v.to_proto(scope) for v in values if isinstance(v, Variable)]
        target.bytes_list.value.extend(p.SerializeToString() for p in protos if p is not None)
    elif all(isinstance(v, (Tensor, Operation, Variable)) for v in values):
        # In collections of a program's own variables are what their names stand for, as in TensorFlow.
        target.node_list.value.extend(v.name for v in values)
    elif all(hasattr(v, "to_proto") for v in values):
        # What feeds from this process's memory says that it cannot be written down, and stays here.
        written = [v for v in values if getattr(v, "is_writable", True)]
        target.bytes_list.value.extend(v.to_proto().SerializeToString() for v in written)
    elif all(isinstance(v, Any_) for v in values):
        target.any_list.value.extend(values)
    elif all(isinstance(v, Message) for v in values):
        target.bytes_list.value.extend(v.SerializeToString() for v in values)
    elif all(isinstance(v, bool) is False and isinstance(v, int) for v in values):
        target.int64_list.value.extend(values)
    elif all(isinstance(v, float) for v in values):
        target.float_list.value.extend(values)
    elif all(isinstance(v, (str, bytes)) for v in values):
        target.bytes_list.value.extend(v.encode() if isinstance(v, str) else v for v in values)
    else:
        return
    out.collection_def[key].CopyFrom(target)


def read_meta_graph_file(filename: str) -> meta_graph_pb2.MetaGraphDef:
    """Read a MetaGraphDef, binary or text.

    Raises:
        OSError: the file is missing or holds no MetaGraphDef.
    """
    path = Path(filename)
    if not path.exists():
        raise OSError(f"File {filename} does not exist.")
    content = path.read_bytes()
    try:
        return meta_graph_pb2.MetaGraphDef.FromString(content)
    except DecodeError:
        pass
    try:
        return text_format.Parse(content.decode(), meta_graph_pb2.MetaGraphDef())
    except (text_format.ParseError, UnicodeDecodeError) as e:
        raise OSError(f"Cannot parse file {filename}: {e}.") from e
