"""Tensors that have a value, and the records of the ops that made them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.op_signature import OpSignature
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape

if TYPE_CHECKING:
    from dtfctl.runtime.eager.graph import EagerGraph

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
_PACKAGE = __name__.split(".")[0] + "."


class EagerOperation(Operation):
    """What is known of an op that ran: what gradient functions and callers of `make_op` look at.

    Attributes:
        origin: the same record without tensors. Tensors refer to this one, so that a tensor never keeps alive what it
            was computed from; only tapes do.
    """

    def __init__(
        self,
        graph: EagerGraph,
        name: str,
        signature: OpSignature,
        attrs: Mapping[str, graph_pb2.AttrValue],
        inputs: Sequence[Tensor] = (),
        origin: EagerOperation | None = None,
    ) -> None:
        self.graph = graph
        self._name = name
        self.signature = signature
        self.attrs = dict(attrs)
        self._inputs = list(inputs)
        self._control_inputs: list[Operation] = []
        self._device = DEVICE
        self._frames = ()
        self._id = 0
        self._bodies: list[Any] | None = None
        self.outputs: list[Tensor] = []
        self.input_types = tuple(t.dtype for t in inputs)
        self.origin = origin
        self.kernel: Any = None

    @property
    def _gradient_function(self) -> Any:
        return self.__dict__.get("_own_gradient") if self.origin is None else self.origin._gradient_function

    @_gradient_function.setter
    def _gradient_function(self, function: Any) -> None:
        if self.origin is None:
            self.__dict__["_own_gradient"] = function
        else:
            self.origin._gradient_function = function

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        raise RuntimeError("Operation.run is not supported when eager execution is enabled: the op has run already.")


class EagerTensor(Tensor):
    """A tensor with a value. Immutable; operators and functions of tensors compute at once.

    Attributes that only make sense in a graph (`op`, `graph`, `name`) raise AttributeError, as in TensorFlow.
    """

    def __init__(self, origin: EagerOperation, value_index: int, dtype: DType, value: Any) -> None:
        self._op = origin
        self._value_index = value_index
        self._dtype = dtype
        self._value = value
        self._shape = TensorShape(getattr(value, "shape", ()))
        self._handle_data = None

    # The modules of the runtime look at the record of the op through the same names as in a graph.
    @property
    def op(self) -> Operation:
        if _called_from_outside():
            raise AttributeError("Tensor.op is undefined when eager execution is enabled.")
        return self._op

    @property
    def graph(self) -> Any:
        if _called_from_outside():
            raise AttributeError("Tensor.graph is undefined when eager execution is enabled.")
        return self._op.graph

    @property
    def name(self) -> str:
        if _called_from_outside():
            raise AttributeError("Tensor.name is undefined when eager execution is enabled.")
        return f"{self._op.name}:{self._value_index}"

    @property
    def value_index(self) -> int:
        if _called_from_outside():
            raise AttributeError("Tensor.value_index is undefined when eager execution is enabled.")
        return self._value_index

    @property
    def device(self) -> str:
        return DEVICE

    def set_shape(self, shape: Any) -> None:
        """Check a shape; the tensor's own is known.

        Raises:
            ValueError: it contradicts the tensor's.
        """
        if self._dtype.name not in ("resource", "variant") and not self._shape.is_compatible_with(shape):
            raise ValueError(f"Tensor's shape {self._shape} is not compatible with supplied shape {shape}")

    def numpy(self) -> Any:
        """Return the value: a copy as an array, or for a scalar the numpy scalar (bytes for a string)."""
        if self._dtype.name in ("resource", "variant"):
            raise TypeError(f"Cannot convert a Tensor of dtype {self._dtype.name} to a NumPy array.")
        value = np.asarray(self._value)
        return value[()] if value.ndim == 0 else value.copy()

    def consumers(self) -> list[Operation]:
        raise NotImplementedError("Tensor.consumers is not supported when eager execution is enabled.")

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        raise NotImplementedError(
            "eval is not supported when eager execution is enabled, is .numpy() what you're looking for?"
        )

    def cpu(self) -> EagerTensor:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        value = np.asarray(self.numpy())
        return value if dtype is None else value.astype(dtype)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> int:
        return int(self._scalar())

    def __float__(self) -> float:
        return float(self._scalar())

    def __complex__(self) -> complex:
        return complex(self._scalar())

    def __index__(self) -> int:
        return int(self._scalar().__index__())

    def _scalar(self) -> Any:
        value = np.asarray(self._value)
        if value.ndim:
            raise TypeError("only length-1 arrays can be converted to Python scalars")
        return value[()]

    def __len__(self) -> int:
        if not self._shape.rank:
            raise TypeError("Scalar tensor has no `len()`")
        return int(self._value.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self._shape.rank:
            raise TypeError("Cannot iterate over a scalar tensor.")
        return (self[i] for i in range(len(self)))

    def __format__(self, spec: str) -> str:
        return format(self.numpy(), spec) if spec else str(self)

    def __deepcopy__(self, memo: Any) -> EagerTensor:
        return self

    def __reduce__(self) -> Any:
        return _restored, (self.numpy(), self._dtype.name)

    def _text(self) -> str:
        return "<unprintable>" if self._dtype.name in ("resource", "variant") else repr(self.numpy())

    def __repr__(self) -> str:
        return f"<tf.Tensor: shape={self._shape_text()}, dtype={self._dtype.name}, numpy={self._text()}>"

    def __str__(self) -> str:
        text = "<unprintable>" if self._dtype.name in ("resource", "variant") else str(self.numpy())
        return f"tf.Tensor({text}, shape={self._shape_text()}, dtype={self._dtype.name})"

    def _shape_text(self) -> str:
        return str(tuple(self._shape.known()))

    __hash__ = Tensor.__hash__


def _restored(value: Any, dtype: str) -> Tensor:
    from dtfctl.runtime.framework.convert import constant

    return constant(value, dtype)


def _called_from_outside() -> bool:
    return not sys._getframe(2).f_globals.get("__name__", "").startswith(_PACKAGE)
