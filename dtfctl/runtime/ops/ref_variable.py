"""Variables whose op gives a reference to their value."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from dtfctl.protocol import meta_graph_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.base_variable import SaveSliceInfo, Variable
from dtfctl.runtime.ops.transfer_compression import compressed_parameter


class RefVariable(Variable):
    """A variable whose op gives a reference to its value (VariableV2)."""

    _variable: Tensor
    _snapshot: Tensor

    def _build(self, initial_value: Any, dtype: Any, name: str | None, validate_shape: bool, shape: Any) -> None:
        with name_scope(name, "Variable") as scope:
            if callable(initial_value):
                group = encode_attr("list(string)", [b"loc:@" + scope.rstrip("/").encode()])
                with context.get_default_graph().attr_scope({"_class": group}):
                    value = self._make_initial(initial_value, dtype, scope, validate_shape, shape)
            else:
                value = self._make_initial(initial_value, dtype, scope, validate_shape, shape)
            self._variable = make_op(
                "VariableV2", name=scope, shape=self._shape if validate_shape else value.shape, dtype=self._dtype
            ).outputs[0]
            if not validate_shape:
                self._variable._shape = TensorShape(None)
            self._name = self._variable.name
            graph = context.get_default_graph()
            assigned = apply_op(
                "Assign",
                ref=self._variable,
                value=value,
                validate_shape=validate_shape,
                use_locking=True,
                name="Assign",
            )
            self.initializer = assigned.op
            with graph.colocate_with(self._variable.op), self._caching():
                read = apply_op("Identity", input=self._variable, name="read")
                self._snapshot = read if self._caching_device is not None else compressed_parameter(self, read)

    @contextlib.contextmanager
    def _caching(self) -> Iterator[None]:
        if self._caching_device is None:
            yield
            return
        graph = context.get_default_graph()
        with graph.colocate_with(None, ignore_existing=True), graph.device(self._caching_device):
            yield

    def _init_from_proto(self, proto: meta_graph_pb2.VariableDef, scope: str | None) -> None:
        graph = context.get_default_graph()
        prefix = f"{scope}/" if scope else ""
        self._variable = graph.get_tensor_by_name(prefix + proto.variable_name)
        self.initializer = graph.get_operation_by_name(prefix + proto.initializer_name)
        self._snapshot = graph.get_tensor_by_name(prefix + proto.snapshot_name)
        self._initial_value = (
            graph.get_tensor_by_name(prefix + proto.initial_value_name) if proto.initial_value_name else None
        )
        self._name = self._variable.name
        self._dtype = self._variable.dtype.base_dtype
        self._shape = self._variable.shape
        self._trainable = proto.trainable
        if proto.HasField("save_slice_info_def"):
            self._save_slice_info = SaveSliceInfo(save_slice_info_def=proto.save_slice_info_def, import_scope=scope)

    @property
    def op(self) -> Operation:
        return self._variable.op

    @property
    def dtype(self) -> DType:
        return self._variable.dtype

    def _operand(self, as_ref: bool) -> Tensor:
        return self._ref() if as_ref else self.value()

    def _ref(self) -> Tensor:
        return self._variable

    def value(self) -> Tensor:
        return self._snapshot

    def read_value(self) -> Tensor:
        return apply_op("Identity", input=self._variable, name="read")

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def _gradient_source_tensor(self) -> Tensor:
        return self._variable

    def _is_initialized(self) -> Tensor:
        return apply_op("IsVariableInitialized", ref=self._variable)

    def _saved_value(self) -> Tensor:
        return self._variable

    def _restore(self, value: Tensor, validate_shape: bool) -> Operation | Tensor:
        return apply_op("Assign", ref=self._variable, value=value, validate_shape=validate_shape, use_locking=True)

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        out = apply_op("Assign", ref=self._variable, value=value, use_locking=use_locking, name=name)
        return out if read_value else out.op

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        out = apply_op("AssignAdd", ref=self._variable, value=delta, use_locking=use_locking, name=name)
        return out if read_value else out.op

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        out = apply_op("AssignSub", ref=self._variable, value=delta, use_locking=use_locking, name=name)
        return out if read_value else out.op

    def count_up_to(self, limit: int) -> Tensor:
        return apply_op("CountUpTo", ref=self._variable, limit=limit)

    def _scatter(self, kind: str, indices: Any, updates: Any, use_locking: bool | None, name: str | None) -> Tensor:
        return apply_op(
            f"Scatter{kind}", ref=self._variable, indices=indices, updates=updates, use_locking=use_locking, name=name
        )

    def _scatter_nd(self, kind: str, indices: Any, updates: Any, name: str | None) -> Tensor:
        return apply_op(
            f"ScatterNd{kind}", ref=self._variable, indices=indices, updates=updates, use_locking=True, name=name
        )

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        return apply_op("GatherNd", params=self._variable, indices=indices, name=name)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        return apply_op("GatherV2", params=self._variable, indices=indices, axis=0, name=name)
