"""Where a functional model begins: a placeholder, as a layer."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import state
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.node import Node
from dtfctl.runtime.ops import array_ops


class InputLayer(Layer):
    """A placeholder for a batch of inputs, or a tensor that the program gives.

    Args:
        input_shape: without the batch; batch_size: if it is fixed.
        batch_input_shape: both in one.
        input_tensor: takes the place of the placeholder.
    """

    def __init__(
        self,
        input_shape: Any = None,
        batch_size: int | None = None,
        dtype: Any = None,
        input_tensor: Any = None,
        sparse: bool = False,
        name: str | None = None,
        batch_input_shape: Any = None,
        ragged: bool = False,
        optional: bool = False,
        **kwargs: Any,
    ) -> None:
        if optional:
            raise NotImplementedError("tf.keras inputs are not optional here: feed every one")
        if ragged:
            raise NotImplementedError("tf.keras inputs are not ragged here; feed a dense tensor and its lengths")
        if kwargs:
            raise ValueError(f"Unrecognized keyword arguments: {sorted(kwargs)}")
        name = name or state.unique_name("input", zero_based=False)
        if dtype is None:
            dtype = dtypes.float32 if input_tensor is None else input_tensor.dtype
        super().__init__(name=name, dtype=dtype)
        self.built = True
        self.sparse, self.supports_masking = sparse, True
        if batch_input_shape is not None:
            shape: Any = tuple(batch_input_shape)
        elif input_shape is not None:
            shape = (batch_size, *([input_shape] if isinstance(input_shape, int) else input_shape))
        else:
            shape = None
        if input_tensor is None:
            graph: Any = context.get_default_graph()
            with graph.name_scope(None):
                if sparse:
                    input_tensor = array_ops.sparse_placeholder(as_dtype(dtype), shape=shape, name=name)
                else:
                    input_tensor = array_ops.placeholder(as_dtype(dtype), shape=shape, name=name)
            self.is_placeholder = True
        else:
            if not isinstance(input_tensor, Tensor):
                raise TypeError(f"tf.keras.Input: `tensor` must be a tensor, not {input_tensor!r}")
            self.is_placeholder = False
        if not sparse:
            self._batch_input_shape = tuple(input_tensor.shape.as_list()) if input_tensor.shape.dims_or_none else shape
        Node(self, input_tensor, (), {}, input_tensor)

    def _shape(self, what: str) -> Any:
        return [super()._shape(what)]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        shape = getattr(self, "_batch_input_shape", None)
        own = {"sparse": self.sparse, "ragged": False, "name": self.name}
        return {"batch_input_shape": shape, "dtype": self.dtype, **own}


def Input(
    shape: Any = None,
    batch_size: int | None = None,
    name: str | None = None,
    dtype: Any = None,
    sparse: bool = False,
    tensor: Any = None,
    batch_shape: Any = None,
    ragged: bool = False,
) -> Any:
    """Make the tensor that a functional model begins with.

    Args:
        shape: of one example, without the batch.
        tensor: used in place of a new placeholder.

    Raises:
        ValueError: neither a shape nor a tensor is given, or both `shape` and `batch_shape`.
    """
    if batch_shape is not None and shape is not None:
        raise ValueError(
            "Only provide the `shape` OR `batch_input_shape` argument to Input, not both at the same time."
        )
    if batch_shape is None and shape is None and tensor is None:
        raise ValueError(
            "Please provide to Input a `shape` or a `tensor` argument. Note that "
            "`shape` does not include the batch dimension."
        )
    layer = InputLayer(
        input_shape=shape,
        batch_size=batch_size,
        dtype=dtype,
        input_tensor=tensor,
        sparse=sparse,
        name=name,
        batch_input_shape=batch_shape,
        ragged=ragged,
    )
    return layer._inbound_nodes[0].outputs
