"""The body of a function under construction: a graph whose inputs are arguments and captured outer tensors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import context, nest
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape

# Constants up to this many bytes are copied into a body instead of captured: it keeps shapes known. Those that a
# gradient may be asked for are captured.
_COPIED_CONSTANT_BYTES = 1024

# Variables made in a body are the outer graph's.
_VARIABLES = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES)


class FuncGraph(Graph):
    """A function body.

    Attributes:
        outer_graph: where the function is called from.
        inputs: placeholders, arguments first, then captures in the order they were made.
        captures: (outer tensor, placeholder) pairs.
        outputs: what the function returns, flat.
    """

    def __init__(self, name: str, outer_graph: Graph | None = None, in_line: bool = False) -> None:
        """Start an empty body.

        Args:
            in_line: it is control flow of the program's graph, where TensorFlow 1 has its ops: random ops inside are
                numbered with those of the program.
        """
        super().__init__()
        self.name = name
        self.in_line = in_line
        self.outer_graph = outer_graph or context.get_default_graph()
        self.library = self.outer_graph.library
        self.seed = self.outer_graph.seed
        self.building_function = True
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.control_outputs: list[Operation] = []
        self._captures: dict[Tensor, Tensor] = {}
        self._copied: dict[Tensor, Tensor] = {}
        self._scopes.container = self.outer_graph._scopes.container
        for key in self.outer_graph.get_all_collection_keys():
            self._collections[key] = self.outer_graph.get_collection(key)
        for key in _VARIABLES:
            self._collections[key] = self.outer_graph.get_collection_ref(key)

    @property
    def captures(self) -> list[tuple[Tensor, Tensor]]:
        return list(self._captures.items())

    @property
    def external_captures(self) -> list[Tensor]:
        return list(self._captures)

    @property
    def internal_captures(self) -> list[Tensor]:
        return list(self._captures.values())

    def add_argument(self, dtype: DType, shape: TensorShape, name: str = "arg", like: Tensor | None = None) -> Tensor:
        """Add an argument to the function."""
        op = self.add_op(
            get_signature("Placeholder"),
            [],
            {"dtype": encode_attr("type", dtype), "shape": encode_attr("shape", shape)},
            name=name,
            compute_device=False,
        )
        op._control_inputs.clear()
        placeholder = op.outputs[0]
        placeholder._shape = shape
        if like is not None:
            placeholder._handle_data = like._handle_data
        self.inputs.append(placeholder)
        return placeholder

    def capture(self, tensor: Tensor) -> Tensor:
        """Get the placeholder (or copied constant) that stands for an outer tensor here."""
        if tensor.graph is self:
            return tensor
        if tensor.graph is not self.outer_graph:
            outer: Any = self.outer_graph
            if not isinstance(outer, FuncGraph):
                raise ValueError(f"{tensor!r} must be from the graph around the function {self.name!r}")
            tensor = outer.capture(tensor)
        known = self._captures.get(tensor)
        if known is None:
            known = self._copied.get(tensor)
        if known is not None:
            return known
        if tensor._value is not None:
            return self._capture_value(tensor)
        differentiable = tensor.dtype.is_floating or tensor.dtype.is_complex
        small = tensor.op.type == "Const" and tensor.op.attrs["value"].ByteSize() <= _COPIED_CONSTANT_BYTES
        if small and not differentiable:
            attrs = {k: v for k, v in tensor.op.attrs.items() if k != "_class"}
            with self.name_scope(None), self.control_dependencies(None):
                name = tensor.op.name.split("/")[-1].lstrip("_") or "captured"
                op = self.add_op(tensor.op.signature, [], attrs, name=name)
            self._copied[tensor] = op.outputs[0]
            return op.outputs[0]
        return self.capture_always(tensor)

    def _capture_value(self, tensor: Tensor) -> Tensor:
        """Bring in an eager tensor: as a constant where it is small and nothing flows back into it, else captured."""
        dtype = tensor.dtype
        if not (dtype.is_integer or dtype.is_bool) or tensor._value.nbytes > _COPIED_CONSTANT_BYTES:
            return self.capture_always(tensor)
        with self.as_default(), self.name_scope(None), self.control_dependencies(None):
            known = self._copied[tensor] = constant(tensor._value, dtype)
        return known

    def capture_always(self, tensor: Tensor) -> Tensor:
        """Get the placeholder of an outer tensor, also where a constant would have been copied."""
        known = self._captures.get(tensor)
        if known is None:
            with self.name_scope(None):
                # Only inside of a scope may a name begin with an underscore.
                name = tensor.op.name.split("/")[-1].lstrip("_") or "captured"
                known = self.add_argument(tensor.dtype, tensor.shape, name, like=tensor)
            self._captures[tensor] = known
        return known

    def captured_by(self, op: Operation) -> Tensor | None:
        """Return the outer tensor that an op, an argument of this body, stands for; None for other ops."""
        if op.type != "Placeholder":
            return None
        return next((outer for outer, inner in self._captures.items() if inner.op is op), None)

    def trace(self, function: Callable[..., Any], arguments: Sequence[Tensor]) -> Any:
        """Run a Python function on this graph's placeholders and remember what it returns, flat, in `outputs`."""
        with self.as_default():
            structure = function(*arguments)
            flat = nest.flatten(structure, expand_composites=True)
            self.outputs = [self.capture(convert_to_tensor(x)) for x in flat if x is not None]
        return structure

    @property
    def is_stateful(self) -> bool:
        return any(op.signature.is_stateful for op in self.get_operations())

    def to_function_def(self, name: str, attrs: dict[str, graph_pb2.AttrValue] | None = None) -> graph_pb2.FunctionDef:
        """Serialize the body as it travels in a function library."""
        return _Serializer(self, name).build(attrs or {})


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Leave the bodies of functions, loops and conditions, and control dependencies: where variables are made.

    Name scope and devices are those of the innermost graph, or, for devices, of the next that has any.
    """
    inner = outer = context.get_default_graph()
    devices = inner._scopes.devices
    while isinstance(outer, FuncGraph):
        outer = outer.outer_graph
        devices = devices or outer._scopes.devices
    if outer is inner:
        with inner.control_dependencies(None):
            yield
        return
    scope = inner.get_name_scope()
    with outer.as_default(), outer.name_scope(f"{scope}/" if scope else None), outer.control_dependencies(None):
        old = outer._scopes.devices
        outer._scopes.devices = list(devices)
        try:
            yield
        finally:
            outer._scopes.devices = old


def outermost_graph() -> Graph:
    """Find the graph around all bodies under construction."""
    graph = context.get_default_graph()
    while isinstance(graph, FuncGraph):
        graph = graph.outer_graph
    return graph


class _Serializer:
    """Writes a FuncGraph as a FunctionDef: arguments and results get names; inputs are "node:output_arg:index"."""

    def __init__(self, graph: FuncGraph, name: str) -> None:
        self.graph, self.name = graph, name
        self.argument_names: dict[Tensor, str] = {}
        self._taken: set[str] = set()

    def build(self, attrs: dict[str, graph_pb2.AttrValue]) -> graph_pb2.FunctionDef:
        out = graph_pb2.FunctionDef()
        out.signature.name = self.name
        out.signature.is_stateful = self.graph.is_stateful
        argument_ops: set[Operation] = set()
        for tensor in self.graph.inputs:
            arg_name = self._unique(tensor.op.name)
            self.argument_names[tensor] = arg_name
            argument_ops.add(tensor.op)
            out.signature.input_arg.add(name=arg_name, type=tensor.dtype.as_datatype_enum)
        for op in self.graph.get_operations():
            if op in argument_ops:
                continue
            node = out.node_def.add(name=op.name, op=op.type, device=op.device)
            node.input.extend(self._reference(t) for t in op.inputs)
            node.input.extend(f"^{c.name}" for c in op.control_inputs if c not in argument_ops)
            for key, value in op.attrs.items():
                kept = _local_groups(value, self.graph) if key == "_class" else value
                if kept is not None:
                    node.attr[key].CopyFrom(kept)
        for i, tensor in enumerate(self.graph.outputs):
            result = self._unique(f"{tensor.op.name}_{i}_ret" if tensor in self.argument_names else tensor.op.name)
            out.signature.output_arg.add(name=result, type=tensor.dtype.as_datatype_enum)
            out.ret[result] = self._reference(tensor)
        for op in self.graph.control_outputs:
            key = self._unique(f"control_{op.name}")
            out.signature.control_output.append(key)
            out.control_ret[key] = op.name
        for key, value in attrs.items():
            out.attr[key].CopyFrom(value)
        return out

    def _unique(self, name: str) -> str:
        base = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_") or "arg"
        if base[0].isdigit():
            base = f"arg_{base}"
        unique, n = base, 0
        while unique in self._taken:
            n += 1
            unique = f"{base}_{n}"
        self._taken.add(unique)
        return unique

    def _reference(self, tensor: Tensor) -> str:
        known = self.argument_names.get(tensor)
        if known is not None:
            return known
        position = tensor.value_index
        for arg in tensor.op.signature.outputs:
            size = 1
            if arg.is_list:
                op = tensor.op
                size = len(op.attr(arg.type_list_attr)) if arg.type_list_attr else int(op.attr(arg.number_attr))
            if position < size:
                return f"{tensor.op.name}:{arg.name}:{position}"
            position -= size
        raise ValueError(f"{tensor!r} is not an output of {tensor.op!r}")


def _local_groups(value: graph_pb2.AttrValue, graph: FuncGraph) -> graph_pb2.AttrValue | None:
    """List the colocation groups that name ops of this body; others mean nothing inside it."""
    kept = [s for s in value.list.s if s.decode().removeprefix("loc:@") in graph._operations]
    return encode_attr("list(string)", kept) if kept else None
