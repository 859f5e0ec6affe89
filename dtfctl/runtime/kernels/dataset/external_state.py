"""State that a dataset's functions keep outside the iterator, which a saved iterator does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.errors import FailedPreconditionError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.op_signature import find_signature
from dtfctl.runtime.kernels.dataset.core import Dataset

# Stateful by declaration, but a saved position is right all the same: those that TensorFlow lets pass too.
_HARMLESS = {
    "Assert",
    "LegacyStatefulReader",
    "LookupTableFindV2",
    "LookupTableSize",
    "LookupTableSizeV2",
    "Print",
    "PrintV2",
    "Timestamp",
}


def require_no_external_state(dataset: Dataset) -> None:
    """Refuse a dataset whose functions keep state.

    Raises:
        FailedPreconditionError: a function of the dataset, or of one it is made of, keeps state.
    """
    origin = dataset.origin
    if origin is None:
        return
    _check(origin.attrs.values(), origin.library, set())
    for value in origin.inputs:
        if isinstance(value, np.ndarray) and value.dtype.kind == "O":
            for item in value.reshape(-1).tolist():
                if isinstance(item, Dataset):
                    require_no_external_state(item)


def _check(attrs: Iterable[graph_pb2.AttrValue], library: FunctionLibrary, seen: set[str]) -> None:
    for name in functions_named(attrs):
        body = library.find(name)
        if name in seen or body is None:
            continue
        seen.add(name)
        for node in body.node_def:
            called = any(functions_named(node.attr.values()))
            signature = find_signature(node.op)
            if signature is None or called:
                call = graph_pb2.AttrValue(func=graph_pb2.NameAttrList(name=node.op))
                _check([call, *node.attr.values()], library, seen)
            elif signature.is_stateful and node.op not in _HARMLESS and not node.op.endswith(("Dataset", "DatasetV2")):
                raise FailedPreconditionError(f"{node.op} is stateful.")


def functions_named(attrs: Iterable[graph_pb2.AttrValue]) -> Iterator[str]:
    """Name the functions that attributes hold."""
    for value in attrs:
        if value.HasField("func"):
            yield value.func.name
        elif value.HasField("list"):
            yield from (f.name for f in value.list.func)
