"""Variables behind a resource handle: reads and writes are ordered by the graph, never racing."""

from __future__ import annotations

import contextlib
from typing import Any

from dtfctl.protocol import meta_graph_pb2
from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.base_variable import SaveSliceInfo, Variable
from dtfctl.runtime.ops.transfer_compression import compressed_parameter


class ResourceVariable(Variable):
    """A variable reached through the handle of a VarHandleOp."""

    _is_resource = True
    handle: Tensor
    _graph_element: Tensor

    def _build(self, initial_value: Any, dtype: Any, name: str | None, validate_shape: bool, shape: Any) -> None:
        graph = context.get_default_graph()
        with name_scope(name, "Variable") as scope:
            group = encode_attr("list(string)", [b"loc:@" + scope.rstrip("/").encode()])
            with graph.attr_scope({"_class": group}) if callable(initial_value) else contextlib.nullcontext():
                value = self._make_initial(initial_value, dtype, scope, validate_shape, shape)
            self.handle = make_op(
                "VarHandleOp", name=scope, dtype=self._dtype, shape=self._shape, shared_name=scope.rstrip("/")
            ).outputs[0]
            self.handle._handle_data = (self._dtype, self._shape)
            self._name = f"{self.handle.op.name}:0"
            with name_scope("IsInitialized"):
                self._initialized = apply_op("VarIsInitializedOp", resource=self.handle)
            with name_scope("Assign") as assign_scope:
                self.initializer = make_op(
                    "AssignVariableOp", name=assign_scope, resource=self.handle, value=value, dtype=self._dtype
                )
            with name_scope("Read"), graph.colocate_with(self.handle.op):
                self._graph_element = self._read()

    def _read(self) -> Tensor:
        value: Tensor = apply_op("ReadVariableOp", resource=self.handle, dtype=self._dtype)
        value.set_shape(self._shape)
        return value

    def _init_from_proto(self, proto: meta_graph_pb2.VariableDef, scope: str | None) -> None:
        graph = context.get_default_graph()
        prefix = f"{scope}/" if scope else ""
        self.handle = graph.get_tensor_by_name(prefix + proto.variable_name)
        self.initializer = graph.get_operation_by_name(prefix + proto.initializer_name)
        self._graph_element = graph.get_tensor_by_name(prefix + proto.snapshot_name)
        self._initial_value = (
            graph.get_tensor_by_name(prefix + proto.initial_value_name) if proto.initial_value_name else None
        )
        self._name = self.handle.name
        self._dtype = self.handle.op.get_attr("dtype")
        self._shape = TensorShape(self.handle.op.get_attr("shape"))
        self.handle._handle_data = (self._dtype, self._shape)
        self._trainable = proto.trainable
        self._initialized = apply_op("VarIsInitializedOp", resource=self.handle)
        if proto.HasField("save_slice_info_def"):
            self._save_slice_info = SaveSliceInfo(save_slice_info_def=proto.save_slice_info_def, import_scope=scope)

    @property
    def op(self) -> Operation:
        return self.handle.op

    def value(self) -> Tensor:
        """Read the value now: after what the current control dependencies name."""
        graph = context.get_default_graph()
        with graph.colocate_with(None, ignore_existing=True):
            handle = self.handle if self.handle.graph is graph else graph.capture(self.handle)
            with graph.device(self.handle.device) if graph is self.graph else contextlib.nullcontext():
                value: Tensor = apply_op("ReadVariableOp", resource=handle, dtype=self._dtype)
                value.set_shape(self._shape)
                return compressed_parameter(self, value) if graph is self.graph else value

    def read_value(self) -> Tensor:
        with name_scope("Read"):
            value = self.value()
        return apply_op("Identity", input=value)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Read rows of the value, without touching the others."""
        return apply_op("ResourceGather", resource=self.handle, indices=indices, dtype=self._dtype, name=name)

    def _as_graph_element(self) -> Tensor:
        return self._graph_element

    def _gradient_source_tensor(self) -> Tensor:
        return self.handle

    def _is_initialized(self) -> Tensor:
        return apply_op("VarIsInitializedOp", resource=self.handle)

    def is_initialized(self, name: str | None = None) -> Tensor:
        return apply_op("VarIsInitializedOp", resource=self.handle, name=name)

    def _saved_value(self) -> Tensor:
        return self.value()

    def _restore(self, value: Tensor, validate_shape: bool) -> Operation | Tensor:
        return make_op("AssignVariableOp", resource=self.handle, value=value, dtype=value.dtype)

    def _after(self, op: Operation) -> ResourceVariable:
        """Make this variable stand for what it is once `op` has run."""
        return _Assigned(self, op)

    def __bool__(self) -> bool:
        return bool(self.value())

    def _update(self, op_type: str, value: Any, name: str | None, read_value: bool) -> Any:
        tensor = convert_to_tensor(value, self._dtype)
        if not self._shape.is_compatible_with(tensor.shape):
            raise ValueError(
                f"Cannot assign value to variable '{self.name}': Shape mismatch. The variable shape {self._shape}, and "
                f"the assigned value shape {tensor.shape} are incompatible."
            )
        op = make_op(op_type, name=name, resource=self.handle, value=tensor, dtype=self._dtype)
        return self._after(op) if read_value else op

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        return self._update("AssignVariableOp", value, name, read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._update("AssignAddVariableOp", delta, name, read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._update("AssignSubVariableOp", delta, name, read_value)

    def count_up_to(self, limit: int) -> Tensor:
        return apply_op("ResourceCountUpTo", resource=self.handle, limit=limit, T=self._dtype)

    def _scatter(self, kind: str, indices: Any, updates: Any, use_locking: bool | None, name: str | None) -> Any:
        op = make_op(
            f"ResourceScatter{kind}",
            name=name,
            resource=self.handle,
            indices=indices,
            updates=convert_to_tensor(updates, self._dtype),
            dtype=self._dtype,
        )
        return self._after(op)

    def _scatter_nd(self, kind: str, indices: Any, updates: Any, name: str | None) -> Any:
        updates = convert_to_tensor(updates, self._dtype)
        return self._after(
            make_op(f"ResourceScatterNd{kind}", name=name, ref=self.handle, indices=indices, updates=updates)
        )

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        with name_scope(name, "GatherNd") as scope:
            value = apply_op("ResourceGatherNd", resource=self.handle, indices=indices, dtype=self._dtype, name=scope)
        return apply_op("Identity", input=value)


class _Assigned(ResourceVariable):
    """The variable after an update: reading it runs the update first. What `assign` and its kin return."""

    def __init__(self, parent: ResourceVariable, op: Operation) -> None:
        self.__dict__.update(parent.__dict__)
        self._parent_op = op

    @property
    def op(self) -> Operation:
        return self._parent_op

    def value(self) -> Tensor:
        with context.get_default_graph().control_dependencies([self._parent_op]):
            return super().value()

    def _as_graph_element(self) -> Tensor:
        if "_read_after" not in self.__dict__:
            with self._parent_op.graph.as_default():
                self._read_after = self.value()
        return self._read_after


def variable_shape(handle: Tensor, out_type: Any = dtypes.int32) -> Tensor:
    """Get the shape of what a handle's variable holds: a constant when it is known."""
    data = handle._handle_data
    if data is not None and data[1].is_fully_defined():
        return convert_to_tensor(list(data[1].known()), out_type)
    return apply_op("VariableShape", input=handle, out_type=out_type)
