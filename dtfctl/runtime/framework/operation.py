"""Symbolic tensors and operations: what a program holds while it builds a graph."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.attrs import decode_attr, types_of
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.op_signature import OpSignature
from dtfctl.runtime.framework.reference import Reference
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape

if TYPE_CHECKING:
    from dtfctl.runtime.framework.graph import Graph

_PACKAGE = __name__.split(".")[0] + "."


class Tensor:
    """Output `value_index` of an operation. It has no value until a session runs the graph.

    Tensors hash and compare by identity, as in TF1; the arithmetic operators build ops (see ops.math_ops.operators).
    """

    # numpy must not try to apply its operators element by element with us.
    __array_priority__ = 100

    # Of a tensor that runtime.eager computed: its array.
    _value: Any = None
    # Of the handle of an eager variable: a weak reference to the variable.
    _variable: Any = None

    def __init__(self, op: Operation, value_index: int, dtype: DType) -> None:
        self._op = op
        self._value_index = value_index
        self._dtype = dtype
        self._shape = TensorShape(None)
        # For handles: dtype and shape of what the handle refers to.
        self._handle_data: tuple[DType, TensorShape] | None = None

    @property
    def op(self) -> Operation:
        return self._op

    @property
    def value_index(self) -> int:
        return self._value_index

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def graph(self) -> Graph:
        return self._op.graph

    @property
    def name(self) -> str:
        return f"{self._op.name}:{self._value_index}"

    @property
    def device(self) -> str:
        return self._op.device

    @property
    def shape(self) -> TensorShape:
        return self._shape

    def get_shape(self) -> TensorShape:
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Refine the static shape.

        Raises:
            ValueError: it contradicts what is known.
        """
        self._shape = self._shape.merge_with(as_shape(shape))

    @property
    def ndim(self) -> int | None:
        return self._shape.rank

    def consumers(self) -> list[Operation]:
        return [op for op in self._op.graph.get_operations() if any(t is self for t in op.inputs)]

    def ref(self) -> Reference:
        """Give a key for dictionaries and sets."""
        return Reference(self)

    experimental_ref = ref

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Compute this tensor's value in `session`, or in the default session."""
        return _session_for(self.graph, session).run(self, feed_dict)

    def __iter__(self) -> Iterator[Tensor]:
        raise TypeError(
            f"Tensor objects are not iterable when a graph is being built ({self.name}). "
            "Use tf.unstack, tf.map_fn or indexing."
        )

    def __bool__(self) -> bool:
        raise TypeError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed. Use `if t is not None:` instead of `if t:` to test "
            "if a tensor is defined, and use TensorFlow ops such as tf.cond to execute subgraphs conditioned on the "
            "value of a tensor."
        )

    def __len__(self) -> int:
        raise TypeError(
            f"len is not well defined for a symbolic Tensor ({self.name}). Call `x.shape` or `tf.shape(x)`."
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise NotImplementedError(
            f"Cannot convert a symbolic Tensor ({self.name}) to a numpy array. Fetch it with Session.run instead."
        )

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self._shape} dtype={self._dtype.name}>"

    def __str__(self) -> str:
        shape = "" if self._shape.rank is None else f", shape={self._shape}"
        return f'Tensor("{self.name}"{shape}, dtype={self._dtype.name})'

    if TYPE_CHECKING:
        # Set by ops.math_ops.operators and ops.array_ops.slicing through `_override_operator`.
        def __getitem__(self, item: Any) -> Tensor: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __invert__(self) -> Tensor: ...

    @staticmethod
    def _override_operator(operator: str, function: Callable[..., Any]) -> None:
        """Let `operator` (such as "__add__") build an op. For the modules that define the ops."""
        setattr(Tensor, operator, function)


class Operation:
    """A node of a graph under construction: made by `Graph.create_op`."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        signature: OpSignature,
        inputs: Sequence[Tensor],
        attrs: dict[str, graph_pb2.AttrValue],
        control_inputs: Iterable[Operation],
        device: str,
    ) -> None:
        self.graph = graph
        self._name = name
        self.signature = signature
        self._inputs = list(inputs)
        self._control_inputs = list(control_inputs)
        self.attrs = attrs
        self._device = device
        self._id = 0
        self._frames = _user_frames()
        self._gradient_function: Callable[..., Any] | None = None
        # Bodies of an op of control flow, and what its gradient keeps with it.
        self._bodies: list[Any] | None = None
        decoded = {a.name: decode_attr(attrs[a.name]) for a in signature.attrs if a.name in attrs}
        self.outputs = [Tensor(self, i, dtype) for i, dtype in enumerate(types_of(signature.outputs, decoded))]
        self.input_types = types_of(signature.inputs, decoded)

    @property
    def name(self) -> str:
        return self._name

    @property
    def type(self) -> str:
        return self.signature.name

    def values(self) -> tuple[Tensor, ...]:
        return tuple(self.outputs)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(self._inputs)

    @property
    def control_inputs(self) -> list[Operation]:
        return list(self._control_inputs)

    @property
    def device(self) -> str:
        return self._device

    def _set_device(self, device: Any) -> None:
        self._device = "" if device is None else str(device)
        self.graph._changed(self)

    @property
    def op_def(self) -> graph_pb2.OpDef:
        return self.signature.to_proto()

    @property
    def node_def(self) -> graph_pb2.NodeDef:
        return graph_pb2.NodeDef(
            name=self._name, op=self.type, device=self._device, input=self.input_names, attr=self.attrs
        )

    @property
    def input_names(self) -> list[str]:
        """The inputs of this op as its NodeDef has them, control inputs last."""
        inputs = [t.name if t._value_index else t._op._name for t in self._inputs]
        if self._control_inputs:
            inputs += [f"^{op._name}" for op in self._control_inputs]
        return inputs

    @property
    def traceback(self) -> list[traceback.FrameSummary]:
        """Where the program made this op, outermost call first; lines are read only when asked for."""
        out = traceback.StackSummary.from_list([(f, line, name, None) for f, line, name in self._frames])
        return list(out)

    def get_attr(self, name: str) -> Any:
        """Decode an attribute; types are DType, shapes the proto, as in TF1.

        Raises:
            ValueError: the op has no such attribute.
        """
        if name not in self.attrs:
            raise ValueError(f"Operation '{self._name}' has no attr named '{name}'.")
        raw = self.attrs[name]
        if raw.WhichOneof("value") in ("shape", "tensor", "func"):
            return getattr(raw, str(raw.WhichOneof("value")))
        value = decode_attr(raw)
        return list(value) if isinstance(value, tuple) else value

    def _set_attr(self, name: str, value: graph_pb2.AttrValue) -> None:
        self.attrs[name] = value
        self.graph._changed(self)

    def attr(self, name: str, default: Any = None) -> Any:
        """Decode an attribute like `get_attr`, shapes as TensorShape, tensors as arrays; `default` when missing."""
        return decode_attr(self.attrs[name]) if name in self.attrs else default

    def text_attr(self, name: str) -> str:
        return bytes(self.get_attr(name)).decode()

    def colocation_groups(self) -> list[bytes]:
        raw = self.attrs.get("_class")
        groups = [s for s in decode_attr(raw) if s.startswith(b"loc:@")] if raw is not None else []
        return groups or [f"loc:@{self._name}".encode()]

    def _add_control_input(self, op: Operation) -> None:
        self._add_control_inputs([op])

    def _add_control_inputs(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            if op not in self._control_inputs:
                self._control_inputs.append(op)
        self.graph._changed(self)

    def _remove_all_control_inputs(self) -> None:
        self._control_inputs.clear()
        self.graph._changed(self)

    def _update_input(self, index: int, tensor: Tensor) -> None:
        self._inputs[index] = tensor
        self.graph._changed(self)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run this op in `session`, or in the default session."""
        _session_for(self.graph, session).run(self, feed_dict)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self._name}' type={self.type}>"

    def __str__(self) -> str:
        return str(self.node_def)


def _user_frames(limit: int = 8) -> tuple[tuple[str, int, str], ...]:
    """List the (file, line, function) of the innermost callers outside this package."""
    frame: Any = sys._getframe(2)
    out: list[tuple[str, int, str]] = []
    while frame is not None and len(out) < limit:
        if not frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            out.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(reversed(out))


# Set by client.session when it is imported: how `Tensor.eval` and `Operation.run` find the default session.
def _no_session() -> Any:
    return None


_default_session: Callable[[], Any] = _no_session


def set_default_session_getter(getter: Callable[[], Any]) -> None:
    global _default_session
    _default_session = getter


def _session_for(graph: Graph, session: Any) -> Any:
    session = session or _default_session()
    if session is None:
        raise ValueError(
            "Cannot evaluate tensor using `eval()`/`run()`: No default session is registered. Use "
            "`with sess.as_default()` or pass an explicit session."
        )
    if session.graph is not graph:
        raise ValueError("Cannot use the default session: the tensor's graph is different from the session's graph.")
    return session
