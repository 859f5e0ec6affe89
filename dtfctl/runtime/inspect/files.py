"""Graphs in files, told by what they hold: their endings are whatever who wrote them liked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError, Message

from dtfctl.protocol import graph_pb2, meta_graph_pb2
from dtfctl.runtime.framework.errors import InvalidArgumentError

TAKEN = (
    "what is taken is a GraphDef, a MetaGraphDef (.meta) or a SavedModel (its folder, too), "
    "in binary, as text (.pbtxt) or as JSON"
)
M = TypeVar("M", bound=Message)
SAVED_MODELS = ("saved_model.pb", "saved_model.pbtxt")
_OP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_>.]*")
_TEXT = re.compile(rb"\s*(#[^\n]*\n\s*)*[a-z_]+\s*[:{]")


def read_graph(path: Path) -> graph_pb2.GraphDef:
    """Read a graph in any of the forms of `TAKEN`; of several in one file the first.

    Raises:
        InvalidArgumentError: there is none. OSError: it cannot be read.
    """
    if path.is_dir():
        inside = next((file for name in SAVED_MODELS if (file := path / name).is_file()), None)
        if inside is None:
            raise InvalidArgumentError(f"{path} is a folder without a saved_model.pb; {TAKEN}")
        path = inside
    data = path.read_bytes()
    for graph in _readings(data):
        # Bytes of one message often read as another one: names and ops of nodes tell.
        if graph.node and all(node.name and _OP.fullmatch(node.op) for node in graph.node):
            return graph
    raise InvalidArgumentError(f"{path} is no graph: {TAKEN}" + _guess(path, data))


def _readings(data: bytes) -> Iterable[graph_pb2.GraphDef]:
    forms: list[Callable[[], graph_pb2.GraphDef]] = [
        lambda: _read(graph_pb2.GraphDef(), data),
        lambda: _read(meta_graph_pb2.MetaGraphDef(), data).graph_def,
        lambda: _read(meta_graph_pb2.SavedModel(), data).meta_graphs[0].graph_def,
    ]
    for form in forms:
        try:
            yield form()
        except (DecodeError, text_format.ParseError, json_format.ParseError, UnicodeDecodeError, IndexError):
            continue


def _read(message: M, data: bytes) -> M:
    if data.lstrip()[:1] == b"{":
        json_format.Parse(data.decode(), message)
    elif _TEXT.match(data) and b"\0" not in data:
        text_format.Parse(data.decode(), message)
    else:
        message.ParseFromString(data)
    return message


def _guess(path: Path, data: bytes) -> str:
    """Say what else a file is, where that leads on."""
    if not data:
        return "; it is empty"
    if path.name.endswith(".index") or ".data-0" in path.name:
        return "; a checkpoint's values lie in it, the graph is in the .meta beside it"
    if data[:8] == b"\x89HDF\r\n\x1a\n":
        return "; it is HDF5, as Keras saves models"
    if data[4:8] == b"TFL3":
        return "; it is a TensorFlow Lite model"
    return ""
