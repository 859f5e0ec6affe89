"""MetaGraphs: a graph with its collections, written beside checkpoints and read back."""

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
from dtfctl.runtime.framework.importer import import_graph_def
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train.checkpoint_management import write_atomically

# Collections whose values are saved as protos, and how to rebuild one.
_VARIABLE_COLLECTIONS = (
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
    **unused: Any,
) -> meta_graph_pb2.MetaGraphDef:
    """Return the MetaGraphDef of a graph, also written to `filename` when given.

    Collections of variables, tensors, operations, numbers, strings and protos are kept; values of other kinds are not.
    """
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
    if key in _VARIABLE_COLLECTIONS:
        protos = [v.to_proto(scope) for v in values if isinstance(v, Variable)]
        target.bytes_list.value.extend(p.SerializeToString() for p in protos if p is not None)
    elif all(isinstance(v, (Tensor, Operation)) for v in values):
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


def import_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    **options: Any,
) -> Any:
    """Add a MetaGraph to the default graph, with its collections.

    Returns:
        A Saver for it, or None when it has no variables.
    """
    from dtfctl.runtime.train.saver import Saver

    meta = meta_graph_or_file
    if not isinstance(meta, meta_graph_pb2.MetaGraphDef):
        meta = read_meta_graph_file(str(meta_graph_or_file))
    graph = context.get_default_graph()
    graph_def = meta.graph_def
    if clear_devices:
        for node in graph_def.node:
            node.device = ""
    import_graph_def(graph_def, name=import_scope or "", **options)
    rebuilt: dict[bytes, Variable] = {}
    for key, held in sorted(meta.collection_def.items()):
        kind = held.WhichOneof("kind")
        if key in _VARIABLE_COLLECTIONS and kind == "bytes_list":
            for content in held.bytes_list.value:
                if content not in rebuilt:
                    proto = meta_graph_pb2.VariableDef.FromString(content)
                    rebuilt[content] = Variable.from_proto(proto, import_scope)
                graph.add_to_collection(key, rebuilt[content])
        elif key == GraphKeys.SAVERS and kind == "bytes_list":
            for content in held.bytes_list.value:
                proto_saver = meta_graph_pb2.SaverDef.FromString(content)
                graph.add_to_collection(key, Saver.from_proto(proto_saver, import_scope))
        elif key == GraphKeys.QUEUE_RUNNERS and kind == "bytes_list":
            from dtfctl.runtime.train.queue_runner import QueueRunner

            for content in held.bytes_list.value:
                runner = meta_graph_pb2.QueueRunnerDef.FromString(content)
                graph.add_to_collection(key, QueueRunner.from_proto(runner, import_scope))
        elif kind == "node_list":
            prefix = f"{import_scope}/" if import_scope else ""
            for name in held.node_list.value:
                graph.add_to_collection(key, graph.as_graph_element(prefix + name))
        elif kind is not None:
            for value in getattr(held, kind).value:
                graph.add_to_collection(key, value)
    if meta.HasField("saver_def"):
        return Saver.from_proto(meta.saver_def, import_scope)
    return Saver() if graph.get_collection(GraphKeys.GLOBAL_VARIABLES) else None
