"""MetaGraphs brought back into a graph, with what saves and restores their variables."""

from __future__ import annotations

from typing import Any

from dtfctl.protocol import graph_pb2, meta_graph_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.importer import import_graph_def
from dtfctl.runtime.framework.node_graph import parse_input
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train.lifted_loops import lift_loops
from dtfctl.runtime.train.meta_graph import VARIABLE_COLLECTIONS, read_meta_graph_file
from dtfctl.runtime.train.queue_runner import QueueRunner
from dtfctl.runtime.train.saver import Saver


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
    meta = meta_graph_or_file
    if not isinstance(meta, meta_graph_pb2.MetaGraphDef):
        meta = read_meta_graph_file(str(meta_graph_or_file))
    graph = context.get_default_graph()
    graph_def = meta.graph_def
    if clear_devices:
        for node in graph_def.node:
            node.device = ""
    gone: set[str] = set()
    # A loop in a branch is spoken of by the branch.
    if GraphKeys.WHILE_CONTEXT in meta.collection_def or GraphKeys.COND_CONTEXT in meta.collection_def:
        graph_def = graph_pb2.GraphDef.FromString(graph_def.SerializeToString())
        gone = lift_loops(graph_def)
    import_graph_def(graph_def, name=import_scope or "", **options)
    rebuilt: dict[bytes, Variable] = {}
    for key, held in sorted(meta.collection_def.items()):
        kind = held.WhichOneof("kind")
        if key in VARIABLE_COLLECTIONS and kind == "bytes_list":
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
            for content in held.bytes_list.value:
                runner = meta_graph_pb2.QueueRunnerDef.FromString(content)
                graph.add_to_collection(key, QueueRunner.from_proto(runner, import_scope))
        elif kind == "node_list":
            prefix = f"{import_scope}/" if import_scope else ""
            for name in held.node_list.value:
                if parse_input(name)[0] not in gone:
                    graph.add_to_collection(key, graph.as_graph_element(prefix + name))
        elif gone and key in (GraphKeys.WHILE_CONTEXT, GraphKeys.COND_CONTEXT):
            # They speak of nodes inside the loops.
            continue
        elif kind is not None:
            for value in getattr(held, kind).value:
                graph.add_to_collection(key, value)
    if meta.HasField("saver_def"):
        return Saver.from_proto(meta.saver_def, import_scope)
    return Saver() if graph.get_collection(GraphKeys.GLOBAL_VARIABLES) else None
