"""Datasets written as graphs, and made of graphs again: how they travel to other tasks.

Such a graph has a node for each dataset and constants for what these got; its `_Retval` node is the dataset itself. The
library has all functions that they call, so that nothing of the session that wrote it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import GRAPH_DEF_VERSION
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.framework.tensor_codec import encode_tensor
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import Dataset, dataset_of
from dtfctl.runtime.kernels.dataset.external_state import functions_named, require_no_external_state
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

FAIL = 2
"""The `external_state_policy` that refuses; others write what functions keep as if they had not begun."""


@register_kernel(("DatasetToGraph", "DatasetToGraphV2"))
def dataset_to_graph(k: KernelBuild) -> Kernel:
    is_second = k.node.op == "DatasetToGraphV2"
    refuses = k.attr("external_state_policy") == FAIL if is_second else not k.attr("allow_stateful")
    strips = bool(k.attr("strip_device_assignment"))

    def run(value: Any) -> Any:
        dataset = dataset_of(value)
        if refuses:
            require_no_external_state(dataset)
        written = _Writer(strips).write(dataset)
        return np.array(written.SerializeToString(deterministic=True), object)

    return run


@register_kernel("DatasetFromGraph", step=True)
def dataset_from_graph(k: KernelBuild) -> Kernel:
    def run(step: StepContext, content: Any) -> Any:
        try:
            graph = graph_pb2.GraphDef.FromString(content.item())
        except DecodeError:
            raise InvalidArgumentError("The input is no GraphDef of a dataset", k.node.name) from None
        functions, make = k.function_caller.of_graph(graph)
        results = make([], replace(step, functions=functions))
        if len(results) != 1:
            raise InvalidArgumentError(f"A dataset's graph has one result, but this has {len(results)}", k.node.name)
        return dataset_of(results[0]).scalar()

    return run


class _Writer:
    """Writes one graph; what several datasets share is one node."""

    def __init__(self, strips: bool) -> None:
        self._graph = graph_pb2.GraphDef()
        self._graph.versions.producer = GRAPH_DEF_VERSION
        self._strips = strips
        self._written: dict[int, str] = {}
        self._functions: set[str] = set()

    def write(self, dataset: Dataset) -> graph_pb2.GraphDef:
        source = self._dataset(dataset)
        node = self._graph.node.add(name="dataset", op="_Retval", input=[source])
        node.attr["T"].type = dtypes.variant.as_datatype_enum  # type: ignore[assignment]
        node.attr["index"].i = 0
        return self._graph

    def _dataset(self, dataset: Dataset) -> str:
        known = self._written.get(id(dataset))
        if known is not None:
            return known
        origin = dataset.origin
        if origin is None:
            raise UnimplementedError(
                f"{type(dataset).__name__.strip('_')} cannot be written as a graph: no op made it. "
                "Make the whole dataset on the task that is to read it"
            )
        inputs = [self._value(value, origin.op) for value in origin.inputs]
        node = self._graph.node.add(name=self._name(origin.op), op=origin.op, input=inputs)
        for name, value in origin.attrs.items():
            node.attr[name].CopyFrom(value)
        self._add_functions(origin.attrs.values(), origin.library)
        self._written[id(dataset)] = node.name
        return node.name

    def _value(self, value: Any, op: str) -> str:
        array = np.asarray(value)
        item = array.item() if array.dtype.kind == "O" and array.size == 1 else None
        if isinstance(item, Dataset):
            return self._dataset(item)
        if array.dtype.kind == "O":
            for each in array.reshape(-1).tolist():
                if not isinstance(each, bytes):
                    what = f"resource {each.name}" if isinstance(each, ResourceHandle) else type(each).__name__
                    raise UnimplementedError(
                        f"A {op} cannot be written as a graph: it holds {what}, which other tasks have not got"
                    )
        dtype: DType = dtypes.string if array.dtype.kind == "O" else dtypes.as_dtype(array.dtype)
        node = self._graph.node.add(name=self._name("Const"), op="Const")
        node.attr["dtype"].type = dtype.as_datatype_enum  # type: ignore[assignment]
        node.attr["value"].tensor.CopyFrom(encode_tensor(array, dtype))
        return node.name

    def _name(self, op: str) -> str:
        return f"{op}/_{len(self._graph.node)}"

    def _add_functions(self, attrs: Iterable[graph_pb2.AttrValue], library: FunctionLibrary) -> None:
        waiting = list(functions_named(attrs))
        while waiting:
            name = waiting.pop()
            body = library.find(name)
            if body is None or name in self._functions:
                continue
            self._functions.add(name)
            written = self._graph.library.function.add()
            written.CopyFrom(body)
            gradient = library.gradients.get(name)
            if gradient is not None:
                self._graph.library.gradient.add(function_name=name, gradient_func=gradient)
                waiting.append(gradient)
            for node in written.node_def:
                waiting += (node.op, *functions_named(node.attr.values()))
                if self._strips and node.device:
                    spec = DeviceSpec.from_string(node.device)
                    node.device = spec.replace(job=None, replica=None, task=None).to_string()
