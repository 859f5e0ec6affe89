"""A buffer between the stages of a pipeline."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.data_flow_ops.components import as_shapes, as_types


class StagingArea:
    """A buffer between the stages of a pipeline.

    Args:
        capacity: elements, memory_limit: bytes it holds at most; 0 for no bound.
    """

    def __init__(
        self,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        self.dtypes = as_types(dtypes)
        self.shapes = as_shapes(shapes, self.dtypes, True) or [TensorShape(None)] * len(self.dtypes)
        self.names = list(names) if names is not None else None
        graph = context.get_default_graph()
        self._name = shared_name or graph.unique_name("StagingArea")
        self._limits = {"capacity": capacity, "memory_limit": memory_limit}

    @property
    def name(self) -> str:
        return self._name

    def _arguments(self) -> dict[str, Any]:
        return {"shared_name": self._name, **self._limits}

    def put(self, values: Any, name: str | None = None) -> Operation:
        if self.names is not None:
            values = [values[n] for n in self.names]
        items = list(values) if isinstance(values, (list, tuple)) else [values]
        tensors = [convert_to_tensor(v, t) for v, t in zip(items, self.dtypes, strict=True)]
        return make_op("Stage", name or f"{self._name}_put", values=tensors, **self._arguments())

    def _out(self, outputs: list[Tensor]) -> Any:
        for tensor, shape in zip(outputs, self.shapes):
            tensor.set_shape(shape)
        return dict(zip(self.names, outputs)) if self.names is not None else outputs

    def get(self, name: str | None = None) -> Any:
        outputs = apply_op_outputs("Unstage", name or f"{self._name}_get", dtypes=self.dtypes, **self._arguments())
        return self._out(outputs)

    def peek(self, index: Any, name: str | None = None) -> Any:
        outputs = apply_op_outputs(
            "StagePeek", name or f"{self._name}_peek", index=index, dtypes=self.dtypes, **self._arguments()
        )
        return self._out(outputs)

    def size(self, name: str | None = None) -> Tensor:
        return apply_op("StageSize", name or f"{self._name}_size", dtypes=self.dtypes, **self._arguments())

    def clear(self, name: str | None = None) -> Operation:
        return make_op("StageClear", name or f"{self._name}_clear", dtypes=self.dtypes, **self._arguments())
