"""Nodes of a GraphDef as the bytes they travel as, without a message of protobuf's for each.

A message of a node takes Python's protobuf 4 us to make and 5 to look through. Nodes that repeat each other differ in
little more than their names and inputs, and their bytes are fields one after the other, by rising numbers: name, op,
inputs, device, attributes. So what is alike is made, and read, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.varints import read_varint, varint

# Longer values of attributes are not looked for among those written before.
_SHORT = 8
# Tags of a GraphDef's first field, and of a NodeDef's.
_NODE = 0x0A
_NAME, _OP, _INPUT = 0x0A, 0x12, 0x1A


class NodeWriter:
    """Makes a GraphDef of nodes. Attributes must not change before it is done."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._heads: dict[str, bytes] = {}
        # Names with their lengths.
        self._texts: dict[str, bytes] = {}
        self._devices: dict[str, bytes] = {}
        # By identity of the values, which are held so that it stays theirs.
        self._attrs: dict[tuple[str, int], tuple[bytes, graph_pb2.AttrValue]] = {}

    def add(self, name: str, op: str, inputs: Iterable[str], rest: bytes) -> None:
        """Add another node.

        Args:
            rest: see `rest`.
        """
        head = self._heads.get(op)
        if head is None:
            head = self._heads[op] = graph_pb2.NodeDef(op=op).SerializeToString()
        texts = self._texts
        text = name.encode()
        text = texts[name] = _size(text) + text
        node = b"\x0a" + text + head
        for source in inputs:
            known = texts.get(source)
            if known is None:
                text = source.encode()
                known = texts[source] = _size(text) + text
            node += b"\x1a" + known
        node += rest
        self._nodes += b"\x0a", _size(node), node

    def write(self, graph_def: graph_pb2.GraphDef) -> None:
        """Put what was added at the end of a graph's nodes."""
        graph_def.MergeFromString(b"".join(self._nodes))

    def rest(self, device: str, attrs: Mapping[str, graph_pb2.AttrValue]) -> bytes:
        """Encode a node's device and attributes."""
        rest = self._devices.get(device)
        if rest is None:
            rest = self._devices[device] = graph_pb2.NodeDef(device=device).SerializeToString()
        known = self._attrs
        for name, value in attrs.items():
            key = name, id(value)
            found = known.get(key)
            if found is None:
                text, data = name.encode(), value.SerializeToString()
                entry = b"\x0a%b%b\x12%b%b" % (_size(text), text, _size(data), data)
                found = b"\x2a%b%b" % (_size(entry), entry), value
                # Types and the like are shared; tensors seldom are.
                if len(data) < _SHORT:
                    known[key] = found
            rest += found[0]
        return rest


def nodes_of(graph_def: graph_pb2.GraphDef) -> Iterator[tuple[str, list[str], bytes]]:
    """Name and inputs of each node, and all else it says, as the bytes of a NodeDef without these."""
    data = graph_def.SerializeToString()
    at, end = 0, len(data)
    # The other fields come after the nodes.
    while at < end and data[at] == _NODE:
        size = data[at + 1]
        at += 2
        if size > 127:
            size, at = read_varint(data, at - 1)
        yield _node(data, at, at + size)
        at += size


def _node(data: bytes, at: int, end: int) -> tuple[str, list[str], bytes]:
    name = ""
    if at < end and data[at] == _NAME:
        size = data[at + 1]
        at += 2
        if size > 127:
            size, at = read_varint(data, at - 1)
        name = data[at : at + size].decode()
        at += size
    head = at
    if at < end and data[at] == _OP:
        size = data[at + 1]
        at += 2
        if size > 127:
            size, at = read_varint(data, at - 1)
        at += size
    op = data[head:at]
    inputs = []
    while at < end and data[at] == _INPUT:
        size = data[at + 1]
        at += 2
        if size > 127:
            size, at = read_varint(data, at - 1)
        inputs.append(data[at : at + size].decode())
        at += size
    return name, inputs, op + data[at:end]


_SIZES = [bytes([size]) for size in range(128)]


def _size(data: bytes) -> bytes:
    """Encode the length of a field, as it stands before it."""
    value = len(data)
    return _SIZES[value] if value < 128 else varint(value)
