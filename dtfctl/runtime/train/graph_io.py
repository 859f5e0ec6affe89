"""Graphs as files."""

from __future__ import annotations

import os
from pathlib import Path

from google.protobuf import text_format

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.train.checkpoint_management import write_atomically


def write_graph(
    graph_or_graph_def: Graph | graph_pb2.GraphDef,
    logdir: str | os.PathLike[str],
    name: str,
    as_text: bool = True,
) -> str:
    """Write a graph to the file `name` in `logdir`, which is made, as text or binary; gives the file's path.

    Raises:
        OpError: the file system refuses.
    """
    graph_def = graph_or_graph_def.as_graph_def() if isinstance(graph_or_graph_def, Graph) else graph_or_graph_def
    path = Path(logdir) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if as_text:
        content = text_format.MessageToString(graph_def).encode()
    else:
        content = graph_def.SerializeToString(deterministic=True)
    write_atomically(path, content)
    return str(path)
