"""Entries of the data_flow family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import NUMBERS

define = OpFamily("data_flow")

define.op("AccumulatorNumAccumulated(handle: ref(string)) -> (num_accumulated: int32)", shape=[()])
define.op(
    f"AccumulatorTakeGradient(handle: ref(string), num_required: int32) -> (average: dtype); dtype: {NUMBERS}",
    shape=lambda op: [TensorShape(None)],
)
define.op(
    "Barrier() -> (handle: ref(string)); component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; "
    'capacity: int = -1; container: string = ""; shared_name: string = ""; !stateful',
    shape=[[2]],
)
define.op("BarrierIncompleteSize(handle: ref(string)) -> (size: int32)", shape=[()])
define.op("BarrierReadySize(handle: ref(string)) -> (size: int32)", shape=[()])
define.op(
    f"ConditionalAccumulator() -> (handle: ref(string)); dtype: {NUMBERS}; shape: shape; "
    'container: string = ""; shared_name: string = ""; reduction_type: string in {"MEAN", "SUM"} = "MEAN"; '
    "!stateful",
    shape=[[2]],
)
define.op("DeleteSessionTensor(handle: string) -> (); !stateful", gradient="none")


@define.op(
    "DynamicPartition(data: T, partitions: int32) -> (outputs: num_partitions * T); num_partitions: int >= 1; T: type; "
    "!precision(clear)",
    exports=("dynamic_partition",),
)
def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """Deal data out to `num_partitions` tensors; slice i of `data` goes to partition `partitions[i]`."""


@define.op(
    "DynamicStitch(indices: N * int32, data: N * T) -> (merged: T); N: int >= 1; T: type; !precision(clear)",
    exports=("dynamic_stitch",),
)
def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """Put slices of `data` where `indices` say; of several for one place the last wins."""


define.op(
    "FIFOQueue() -> (handle: ref(string)); component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; "
    'capacity: int = -1; container: string = ""; shared_name: string = ""; !stateful',
    shape=[[2]],
)
define.op(
    "FIFOQueueV2() -> (handle: resource); component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; "
    'capacity: int = -1; container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
    gradient="none",
)
define.op("GetSessionHandle(value: T) -> (handle: string); T: type; !stateful", shape=[()], gradient="none")


@define.op(
    "GetSessionHandleV2(value: T) -> (handle: resource); T: type; !stateful",
    shape=[()],
    gradient="none",
    renamed={"data": "value"},
    exports=("get_session_handle",),
)
def get_session_handle(data: Any, name: str | None = None) -> Tensor:
    """Keep a tensor in the session; the result fetched is its handle."""


define.op("GetSessionTensor(handle: string) -> (value: dtype); dtype: type; !stateful", gradient="none")
define.op(
    'HashTable() -> (table_handle: ref(string)); container: string = ""; shared_name: string = ""; '
    "use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type; !stateful",
    shape=[[2]],
)
define.op(
    'HashTableV2() -> (table_handle: resource); container: string = ""; shared_name: string = ""; '
    "use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type; !stateful",
    shape=[()],
    gradient="none",
)
define.op(
    "InitializeTableV2(table_handle: resource, keys: Tkey, values: Tval) -> (); Tkey: type; Tval: type; !stateful",
    gradient="none",
)
define.op(
    "LookupTableFindV2(table_handle: resource, keys: Tin, default_value: Tout) -> (values: Tout); Tin: type; "
    "Tout: type; !stateful",
    gradient="none",
)
define.op(
    "LookupTableInsertV2(table_handle: resource, keys: Tin, values: Tout) -> (); Tin: type; Tout: type; !stateful",
    gradient="none",
)
define.op("LookupTableSize(table_handle: ref(string)) -> (size: int64)", shape=[()])
define.op("LookupTableSizeV2(table_handle: resource) -> (size: int64); !stateful", shape=[()], gradient="none")
define.op(
    "MapIncompleteSize() -> (size: int32); capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; "
    'dtypes: list(type); container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)
define.op(
    "MapSize() -> (size: int32); capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); "
    'container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)
define.op(
    'MutableDenseHashTable(empty_key: key_dtype) -> (table_handle: ref(string)); container: string = ""; '
    'shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type; '
    "value_shape: shape = []; initial_num_buckets: int = 131072; max_load_factor: float = 0.800000011920929; "
    "!stateful",
    shape=[[2]],
)
define.op(
    "MutableDenseHashTableV2(empty_key: key_dtype, deleted_key: key_dtype) -> (table_handle: resource); "
    'container: string = ""; shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type; '
    "value_dtype: type; value_shape: shape = []; initial_num_buckets: int = 131072; "
    "max_load_factor: float = 0.800000011920929; !stateful",
    shape=[()],
    gradient="none",
)
define.op(
    'MutableHashTable() -> (table_handle: ref(string)); container: string = ""; shared_name: string = ""; '
    "use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type; !stateful",
    shape=[[2]],
)
define.op(
    'MutableHashTableOfTensors() -> (table_handle: ref(string)); container: string = ""; '
    'shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type; '
    "value_shape: shape = []; !stateful",
    shape=[[2]],
)
define.op(
    'MutableHashTableOfTensorsV2() -> (table_handle: resource); container: string = ""; '
    'shared_name: string = ""; use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type; '
    "value_shape: shape = []; !stateful",
    shape=[()],
)
define.op(
    'MutableHashTableV2() -> (table_handle: resource); container: string = ""; shared_name: string = ""; '
    "use_node_name_sharing: bool = false; key_dtype: type; value_dtype: type; !stateful",
    shape=[()],
    gradient="none",
)
define.op(
    "OrderedMapIncompleteSize() -> (size: int32); capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; "
    'dtypes: list(type); container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)
define.op(
    "OrderedMapSize() -> (size: int32); capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; "
    'dtypes: list(type); container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)
define.op(
    "PaddingFIFOQueue() -> (handle: ref(string)); component_types: list(type) >= 1; "
    'shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = ""; shared_name: string = ""; '
    "!stateful",
    shape=[[2]],
)
define.op(
    "PaddingFIFOQueueV2() -> (handle: resource); component_types: list(type) >= 1; "
    'shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = ""; shared_name: string = ""; '
    "!stateful",
    shape=[()],
)
define.op(
    "PriorityQueue() -> (handle: ref(string)); component_types: list(type) >= 0 = []; "
    'shapes: list(shape) >= 0; capacity: int = -1; container: string = ""; shared_name: string = ""; !stateful',
    shape=[[2]],
)
define.op(
    "PriorityQueueV2() -> (handle: resource); component_types: list(type) >= 0 = []; "
    'shapes: list(shape) >= 0; capacity: int = -1; container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)
define.op("QueueCloseV2(handle: resource) -> (); cancel_pending_enqueues: bool = false; !stateful", gradient="none")
define.op(
    "QueueDequeueManyV2(handle: resource, n: int32) -> (components: list(component_types)); "
    "component_types: list(type) >= 1; timeout_ms: int = -1; !stateful",
    gradient="none",
)
define.op(
    "QueueDequeueUpToV2(handle: resource, n: int32) -> (components: list(component_types)); "
    "component_types: list(type) >= 1; timeout_ms: int = -1; !stateful",
    gradient="none",
)
define.op(
    "QueueDequeueV2(handle: resource) -> (components: list(component_types)); "
    "component_types: list(type) >= 1; timeout_ms: int = -1; !stateful",
    gradient="none",
)
define.op(
    "QueueEnqueueManyV2(handle: resource, components: list(Tcomponents)) -> (); Tcomponents: list(type) >= 1; "
    "timeout_ms: int = -1; !stateful",
    gradient="none",
)
define.op(
    "QueueEnqueueV2(handle: resource, components: list(Tcomponents)) -> (); Tcomponents: list(type) >= 1; "
    "timeout_ms: int = -1; !stateful",
    gradient="none",
)
define.op("QueueIsClosed(handle: ref(string)) -> (is_closed: bool)", shape=[()])
define.op("QueueIsClosedV2(handle: resource) -> (is_closed: bool); !stateful", shape=[()])
define.op("QueueSize(handle: ref(string)) -> (size: int32)", shape=[()])
define.op("QueueSizeV2(handle: resource) -> (size: int32); !stateful", shape=[()], gradient="none")
define.op(
    "RandomShuffleQueue() -> (handle: ref(string)); component_types: list(type) >= 1; "
    "shapes: list(shape) >= 0 = []; capacity: int = -1; min_after_dequeue: int = 0; seed: int = 0; "
    'seed2: int = 0; container: string = ""; shared_name: string = ""; !stateful',
    shape=[[2]],
)
define.op(
    "RandomShuffleQueueV2() -> (handle: resource); component_types: list(type) >= 1; "
    "shapes: list(shape) >= 0 = []; capacity: int = -1; min_after_dequeue: int = 0; seed: int = 0; "
    'seed2: int = 0; container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)
define.op("ResourceAccumulatorNumAccumulated(handle: resource) -> (num_accumulated: int32); !stateful", shape=[()])
define.op(
    "ResourceAccumulatorTakeGradient(handle: resource, num_required: int32) -> (average: dtype); "
    f"dtype: {NUMBERS}; !stateful",
    shape=lambda op: [TensorShape(None)],
)
define.op(
    f"ResourceConditionalAccumulator() -> (handle: resource); dtype: {NUMBERS}; shape: shape; "
    'container: string = ""; shared_name: string = ""; reduction_type: string in {"MEAN", "SUM"} = "MEAN"; '
    "!stateful",
    shape=[()],
)
define.op(
    "SparseAccumulatorTakeGradient(handle: ref(string), num_required: int32) -> (indices: int64, "
    f"values: dtype, shape: int64); dtype: {NUMBERS}",
    shape=lambda op: [[None], TensorShape(None), [None]],
)
define.op(
    f"SparseConditionalAccumulator() -> (handle: ref(string)); dtype: {NUMBERS}; shape: shape; "
    'container: string = ""; shared_name: string = ""; reduction_type: string in {"MEAN", "SUM"} = "MEAN"; '
    "!stateful",
    shape=[[2]],
)
define.op(
    'Stack() -> (handle: ref(string)); elem_type: type; stack_name: string = ""; !stateful',
    shape=[[2]],
    gradient="none",
)
define.op("StackClose(handle: ref(string)) -> ()", gradient="none")
define.op("StackCloseV2(handle: resource) -> (); !stateful", gradient="none")
define.op("StackPop(handle: ref(string)) -> (elem: elem_type); elem_type: type", gradient="none")
define.op(
    "StackPush(handle: ref(string), elem: T) -> (output: T); T: type; swap_memory: bool = false",
    shape=lambda op: [op.inputs[1].shape],
    gradient="none",
)
define.op(
    "StackPushV2(handle: resource, elem: T) -> (output: T); T: type; swap_memory: bool = false; !stateful",
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    'StackV2(max_size: int32) -> (handle: resource); elem_type: type; stack_name: string = ""; !stateful',
    shape=[()],
    gradient="none",
)
define.op(
    "StageSize() -> (size: int32); capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); "
    'container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)
define.op(
    "TensorArray(size: int32) -> (handle: ref(string)); dtype: type; dynamic_size: bool = false; "
    'clear_after_read: bool = true; tensor_array_name: string = ""; element_shape: shape = unknown; !stateful',
    shape=[[2]],
    gradient="none",
)
define.op("TensorArrayClose(handle: ref(string)) -> ()", gradient="none")
define.op("TensorArrayCloseV2(handle: string) -> ()", gradient="none")
define.op("TensorArrayCloseV3(handle: resource) -> (); !stateful", gradient="none")
define.op(
    "TensorArrayConcat(handle: ref(string), flow_in: float) -> (value: dtype, lengths: int64); dtype: type; "
    "element_shape_except0: shape = unknown",
    shape=lambda op: [TensorShape([None]).concatenate(op.attr("element_shape_except0")), [None]],
)
define.op(
    "TensorArrayConcatV2(handle: string, flow_in: float) -> (value: dtype, lengths: int64); dtype: type; "
    "element_shape_except0: shape = unknown",
    shape=lambda op: [TensorShape([None]).concatenate(op.attr("element_shape_except0")), [None]],
)
define.op(
    "TensorArrayConcatV3(handle: resource, flow_in: float) -> (value: dtype, lengths: int64); dtype: type; "
    "element_shape_except0: shape = unknown; !stateful",
    shape=lambda op: [TensorShape([None]).concatenate(op.attr("element_shape_except0")), [None]],
)
define.op(
    "TensorArrayGrad(handle: string, flow_in: float) -> (grad_handle: ref(string)); source: string; !stateful",
    gradient="none",
)
define.op(
    "TensorArrayGradV2(handle: string, flow_in: float) -> (grad_handle: string); source: string; !stateful",
    gradient="none",
)
define.op(
    "TensorArrayGradV3(handle: resource, flow_in: float) -> (grad_handle: resource, flow_out: float); "
    "source: string; !stateful",
    shape=[(), ()],
    gradient="none",
)
define.op(
    "TensorArrayGradWithShape(handle: resource, flow_in: float, "
    "shape_to_prepend: int32) -> (grad_handle: resource, flow_out: float); source: string; !stateful",
    shape=[(), ()],
)
define.op(
    "TensorArrayScatter(handle: ref(string), indices: int32, value: T, flow_in: float) -> (flow_out: float); T: type",
    shape=[()],
)
define.op(
    "TensorArrayScatterV2(handle: string, indices: int32, value: T, flow_in: float) -> (flow_out: float); T: type",
    shape=[()],
)
define.op(
    "TensorArrayScatterV3(handle: resource, indices: int32, value: T, flow_in: float) -> (flow_out: float); "
    "T: type; !stateful",
    shape=[()],
)
define.op("TensorArraySize(handle: ref(string), flow_in: float) -> (size: int32)", shape=[()], gradient="none")
define.op("TensorArraySizeV2(handle: string, flow_in: float) -> (size: int32)", shape=[()], gradient="none")
define.op(
    "TensorArraySizeV3(handle: resource, flow_in: float) -> (size: int32); !stateful", shape=[()], gradient="none"
)
define.op(
    "TensorArraySplit(handle: ref(string), value: T, lengths: int64, flow_in: float) -> (flow_out: float); T: type",
    shape=[()],
)
define.op(
    "TensorArraySplitV2(handle: string, value: T, lengths: int64, flow_in: float) -> (flow_out: float); T: type",
    shape=[()],
)
define.op(
    "TensorArraySplitV3(handle: resource, value: T, lengths: int64, flow_in: float) -> (flow_out: float); "
    "T: type; !stateful",
    shape=[()],
)
define.op("TensorArrayUnpack(handle: ref(string), value: T, flow_in: float) -> (flow_out: float); T: type", shape=[()])
define.op(
    "TensorArrayV2(size: int32) -> (handle: string); dtype: type; element_shape: shape = unknown; "
    'dynamic_size: bool = false; clear_after_read: bool = true; tensor_array_name: string = ""; !stateful',
    shape=[[2]],
    gradient="none",
)
define.op(
    "TensorArrayV3(size: int32) -> (handle: resource, flow: float); dtype: type; "
    "element_shape: shape = unknown; dynamic_size: bool = false; clear_after_read: bool = true; "
    'identical_element_shapes: bool = false; tensor_array_name: string = ""; !stateful',
    shape=[(), ()],
    gradient="none",
)
define.op(
    "TensorArrayWrite(handle: ref(string), index: int32, value: T, flow_in: float) -> (flow_out: float); T: type",
    shape=[()],
)
define.op(
    "TensorArrayWriteV2(handle: string, index: int32, value: T, flow_in: float) -> (flow_out: float); T: type",
    shape=[()],
)
define.op(
    "TensorArrayWriteV3(handle: resource, index: int32, value: T, flow_in: float) -> (flow_out: float); "
    "T: type; !stateful",
    shape=[()],
)
