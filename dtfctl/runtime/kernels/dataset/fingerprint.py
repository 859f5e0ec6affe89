"""What tells datasets apart that are built in the same way: the ops they are made of and the values these got.

Names of nodes and functions do not count, nor does the process: a program started again builds the same fingerprints.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.kernels.dataset.core import Dataset

# What a node says that is not what it computes.
_ASIDE = {"metadata", "output_shapes", "shared_name", "container"}
# Resources that a dataset makes for itself: their names count up.
_OWN = ("SeedGenerator", "MemoryCache")


def fingerprint(dataset: Dataset, *more: str) -> int:
    """64 bits; `more` counts too."""
    return int.from_bytes(_digest(_dataset(dataset), *(text.encode() for text in more))[:8], "little")


def _digest(*parts: bytes) -> bytes:
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.digest()


def _dataset(dataset: Dataset) -> bytes:
    origin = dataset.origin
    if origin is None:
        return _digest(b"dataset", str(dataset).encode())
    functions = _Functions(origin.library)
    return _digest(
        b"op", origin.op.encode(), functions.attrs(origin.attrs), *(_value(value) for value in origin.inputs)
    )


def _value(value: Any) -> bytes:
    array = np.asarray(value)
    shape = str(array.shape).encode()
    if array.dtype.kind == "O":
        return _digest(b"objects", shape, *(_item(item) for item in array.reshape(-1).tolist()))
    return _digest(b"array", array.dtype.name.encode(), shape, np.ascontiguousarray(array).tobytes())


def _item(item: Any) -> bytes:
    if isinstance(item, bytes):
        return _digest(b"string", item)
    if isinstance(item, Dataset):
        return _dataset(item)
    if isinstance(item, ResourceHandle):
        name = "" if item.type_name in _OWN else f"{item.container}/{item.name}"
        return _digest(b"resource", item.type_name.encode(), name.encode())
    return _digest(b"variant", type(item).__name__.encode())


def _name(reference: str) -> str:
    return reference.removeprefix("^").partition(":")[0]


def _port(reference: str) -> bytes:
    return reference.partition(":")[2].encode()


class _Functions:
    """Fingerprints of what is in a library."""

    def __init__(self, library: FunctionLibrary) -> None:
        self._library = library
        self._known: dict[str, bytes] = {}

    def attrs(self, attrs: Mapping[str, graph_pb2.AttrValue]) -> bytes:
        return _digest(
            *(
                part
                for name in sorted(attrs)
                if name not in _ASIDE and not name.startswith("_")
                for part in (name.encode(), self._attr(attrs[name]))
            )
        )

    def _attr(self, value: graph_pb2.AttrValue) -> bytes:
        if value.HasField("func"):
            return _digest(b"function", self._function(value.func.name), self.attrs(value.func.attr))
        if value.HasField("list") and value.list.func:
            return _digest(b"functions", *(self._function(f.name) for f in value.list.func))
        return value.SerializeToString(deterministic=True)

    def _function(self, name: str) -> bytes:
        """Digest a function, by what its outputs and its side effects are made of."""
        if name in self._known:
            return self._known[name]
        self._known[name] = _digest(b"recursive")
        body = self._library.find(name)
        self._known[name] = _digest(b"op", name.encode()) if body is None else self._body(body)
        return self._known[name]

    def _body(self, function: graph_pb2.FunctionDef) -> bytes:
        nodes = {node.name: node for node in function.node_def}
        known = {arg.name: _digest(b"argument", str(i).encode()) for i, arg in enumerate(function.signature.input_arg)}
        outputs = [function.ret[arg.name] for arg in function.signature.output_arg]
        effects = [f"^{name}" for name in function.control_ret.values()]
        begun: set[str] = set()
        stack = [_name(reference) for reference in (*outputs, *effects)]

        def of(reference: str) -> bytes:
            # Unknown is only what a loop leads back to.
            inner = known.get(_name(reference), b"cycle")
            return _digest(b"control" if reference.startswith("^") else b"output", inner, _port(reference))

        while stack:
            name = stack[-1]
            if name in known:
                stack.pop()
                continue
            node = nodes[name]
            if name not in begun:
                begun.add(name)
                stack.extend(i for i in map(_name, node.input) if i not in known and i not in begun)
                continue
            known[name] = _digest(
                b"op",
                self._called(node.op),
                self.attrs(node.attr),
                *(of(i) for i in node.input if not i.startswith("^")),
                *sorted(of(i) for i in node.input if i.startswith("^")),
            )
        return _digest(*map(of, outputs), *sorted(map(of, effects)))

    def _called(self, op: str) -> bytes:
        return self._function(op) if self._library.find(op) is not None else op.encode()
