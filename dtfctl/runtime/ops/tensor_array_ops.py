"""`TensorArray`: a list of tensors that loops read and write by index. It lives in a tensor list (a variant)."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.constant_value import computed_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape


class TensorArray:
    """An array of tensors of one type, each written once; methods that write return the array to use from then on.

    Args:
        dtype: element type.
        size: number of elements; with `dynamic_size` it grows by writing further.
        element_shape: shape of every element, as far as known.
        infer_shape: take the shape of the first element written for all.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        self._dtype = as_dtype(dtype).base_dtype
        self._element_shape = as_shape(element_shape)
        self._infer_shape = infer_shape
        self._dynamic_size = bool(dynamic_size)
        self._known_size: int | None = None
        if flow is not None:
            self._flow = flow
            return
        if size is None:
            raise ValueError("Size must be provided if flow is not provided.")
        graph = context.get_default_graph()
        with graph.name_scope(name or "TensorArray"):
            count = convert_to_tensor(size, dtypes.int32)
            if not self._dynamic_size and (known := computed_value(count)) is not None:
                self._known_size = int(known)
            self._flow = apply_op(
                "TensorListReserve",
                element_shape=self._shape_tensor(),
                num_elements=count,
                element_dtype=self._dtype,
            )

    @property
    def flow(self) -> Tensor:
        return self._flow

    # How loops and conditionals recognise an array among their values.
    @property
    def _flow_of_array(self) -> Tensor:
        return self._flow

    @property
    def handle(self) -> Tensor | None:
        return None

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        return self._dynamic_size

    @property
    def element_shape(self) -> TensorShape:
        return self._element_shape

    def _with_flow(self, flow: Tensor) -> TensorArray:
        made = TensorArray(
            self._dtype,
            flow=flow,
            dynamic_size=self._dynamic_size,
            infer_shape=self._infer_shape,
            element_shape=self._element_shape,
        )
        made._known_size = self._known_size
        return made

    def _shape_tensor(self) -> Tensor:
        dims = self._element_shape.dims_or_none
        return constant(-1 if dims is None else [-1 if d is None else d for d in dims], dtypes.int32)

    def _merge(self, shape: TensorShape) -> None:
        if self._infer_shape:
            if not self._element_shape.is_compatible_with(shape):
                raise ValueError(
                    f"Inconsistent shapes: saw {shape} but expected {self._element_shape} (and infer_shape=True)"
                )
            self._element_shape = self._element_shape.merge_with(shape)

    def identity(self) -> TensorArray:
        return self._with_flow(apply_op("Identity", input=self._flow))

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        raise NotImplementedError(
            "TensorArray.grad: differentiate with tf.gradients; arrays carry their gradient themselves"
        )

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Read element `index`."""
        value: Tensor = apply_op(
            "TensorListGetItem",
            input_handle=self._flow,
            index=convert_to_tensor(index, dtypes.int32),
            element_shape=self._shape_tensor(),
            element_dtype=self._dtype,
            name=name or "TensorArrayReadV3",
        )
        value._shape = value.shape.merge_with(self._element_shape)
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Set element `index`, in a new array."""
        tensor = convert_to_tensor(value, self._dtype)
        self._merge(tensor.shape)
        flow = apply_op(
            "TensorListSetItem",
            input_handle=self._flow,
            index=convert_to_tensor(index, dtypes.int32),
            item=tensor,
            element_dtype=self._dtype,
            resize_if_index_out_of_bounds=self._dynamic_size,
            name=name,
        )
        return self._with_flow(flow)

    def stack(self, name: str | None = None) -> Tensor:
        """Stack all elements along a new first axis."""
        # The names are those that TensorFlow's arrays give, which programs look up.
        with name_scope(name, "TensorArrayStack"):
            size = computed_value(self.size())
            value: Tensor = apply_op(
                "TensorListStack",
                input_handle=self._flow,
                element_shape=self._shape_tensor(),
                element_dtype=self._dtype,
                num_elements=-1 if size is None or self._dynamic_size else int(size),
                name="TensorArrayGatherV3",
            )
        if self._element_shape.rank is not None:
            value._shape = value.shape.merge_with(TensorShape([self._known_size]).concatenate(self._element_shape))
        return value

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Stack the elements at `indices` (1-D)."""
        value: Tensor = apply_op(
            "TensorListGather",
            input_handle=self._flow,
            indices=convert_to_tensor(indices, dtypes.int32),
            element_shape=self._shape_tensor(),
            element_dtype=self._dtype,
            name=name or "TensorArrayGatherV3",
        )
        value.op._set_attr("_sums", encode_attr("bool", True))
        if self._element_shape.rank is not None:
            value._shape = TensorShape([None]).concatenate(self._element_shape)
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """Concatenate all elements along their first axis."""
        dims = self._element_shape.dims_or_none
        value, _ = apply_op_outputs(
            "TensorListConcatV2",
            input_handle=self._flow,
            element_shape=constant(
                -1 if dims is None else [-1, *[-1 if d is None else d for d in dims[1:]]], dtypes.int32
            ),
            leading_dims=convert_to_tensor([], dtypes.int64),
            element_dtype=self._dtype,
            name=name or "TensorArrayConcatV3",
        )
        if dims is not None:
            count = self._known_size if self._infer_shape else None
            length = None if count is None or dims[0] is None else count * dims[0]
            value._shape = value.shape.merge_with([length, *dims[1:]])
        return value

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Fill an array with the slices of `value` along its first axis."""
        tensor = convert_to_tensor(value, self._dtype)
        self._merge(tensor.shape[1:])
        flow = apply_op("TensorListFromTensor", tensor=tensor, element_shape=self._shape_tensor(), name=name)
        return self._with_flow(flow)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Set the elements at `indices` to the slices of `value`, in a new array."""
        tensor = convert_to_tensor(value, self._dtype)
        self._merge(tensor.shape[1:])
        flow = apply_op(
            "TensorListScatterIntoExistingList",
            input_handle=self._flow,
            tensor=tensor,
            indices=convert_to_tensor(indices, dtypes.int32),
            element_dtype=self._dtype,
            name=name,
        )
        return self._with_flow(flow)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Fill an array with pieces of `value` of these lengths along its first axis."""
        tensor = convert_to_tensor(value, self._dtype)
        dims = tensor.shape.dims_or_none
        shape = constant(-1 if dims is None else [-1, *[-1 if d is None else d for d in dims[1:]]], dtypes.int32)
        flow = apply_op(
            "TensorListSplit",
            tensor=tensor,
            element_shape=shape,
            lengths=convert_to_tensor(lengths, dtypes.int64),
            name=name,
        )
        return self._with_flow(flow)

    def size(self, name: str | None = None) -> Tensor:
        """Count the elements, as an int32 scalar."""
        if self._known_size is not None:
            return constant(self._known_size, dtypes.int32, name=name or "Const")
        if not self._dynamic_size and self._flow.op.type == "TensorListReserve":
            return apply_op("Identity", input=self._flow.op.inputs[1])
        count = apply_op("TensorListLength", input_handle=self._flow, name=name)
        count.set_shape([])
        return count

    def close(self, name: str | None = None) -> Operation:
        from dtfctl.runtime.ops.op_defs.control import no_op

        return no_op(name)
