"""Entries of the collective family: what the devices of a group compute together."""

from __future__ import annotations

from dtfctl.runtime.framework.constant_value import constant_value_as_shape
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import NUMBERS

define = OpFamily("collective")

_MERGED = "T: type in {bfloat16, float, half, double, int32, int64}"
_GATHERED = "T: type in {float, half, double, int32, int64}"
_SENT = "T: type in {bool, float, half, double, int32, int64}"
_BY_NCCL = "T: type in {half, float, double, int32, int64}"
_NCCL_MERGING = 'reduction: string in {"min", "max", "prod", "sum"}'
_HOW = 'communication_hint: string = "auto"; timeout_seconds: float = 0.0'
_KEYS = "group_size: int; group_key: int; instance_key: int"
_KEY_INPUTS = "group_size: int32, group_key: int32, instance_key: int32"
_TOKENS = "ordering_token: Nordering_token * resource"
_ORDERED = f"{_HOW}; is_stateless: bool = false; Nordering_token: int >= 0 = 0"
_MERGING = 'merge_op: string in {"Min", "Max", "Mul", "Add"}; final_op: string in {"Id", "Div"}'


def _stated(op: Operation) -> list[TensorShape]:
    return [op.get_attr("shape")]


def _other_rows(op: Operation) -> list[TensorShape]:
    """Give the shape of the input, with an unknown first dimension."""
    dims = op.inputs[0].shape.dims_or_none
    return [TensorShape(None) if dims is None else TensorShape([None, *dims[1:]])]


define.op("_CollectiveStart(args: list(Targs)) -> (); Targs: list(type) >= 0; !stateful")
define.op(f"_CollectivePlace(input: T) -> (data: T); T: type in {{int32}}; {_KEYS}; {_HOW}; !stateful", shape=[(2,)])
define.op(
    f"CollectiveAllToAllV2(input: T, {_KEY_INPUTS}, {_TOKENS}) -> (data: T); {_MERGED}; {_ORDERED}; !stateful",
    shape="unchanged",
)
define.op(
    f"CollectiveAllToAllV3(input: T, communicator: resource, group_assignment: int32) -> (data: T); {_MERGED}; "
    "timeout_seconds: float = 0.0; !stateful",
    shape="unchanged",
)
define.op(
    "CollectiveAssignGroupV2(group_assignment: int32, device_index: int32, base_key: int32) -> (group_size: int32, "
    "group_key: int32); !stateful",
    shape=[(), ()],
)
define.op(f"CollectiveBcastRecv() -> (data: T); {_SENT}; {_KEYS}; shape: shape; {_HOW}; !stateful", shape=_stated)
define.op(
    f"CollectiveBcastRecvV2({_KEY_INPUTS}, shape: Tshape) -> (data: T); {_SENT}; "
    f"Tshape: type in {{int32, int64}} = int32; {_HOW}; !stateful",
    shape=lambda op: [constant_value_as_shape(op.inputs[3])],
)
define.op(
    f"CollectiveBcastSend(input: T) -> (data: T); {_SENT}; {_KEYS}; shape: shape; {_HOW}; !stateful", shape=_stated
)
define.op(f"CollectiveBcastSendV2(input: T, {_KEY_INPUTS}) -> (data: T); {_SENT}; {_HOW}; !stateful", shape="unchanged")
define.op(
    f"CollectiveGather(input: T) -> (data: T); {_GATHERED}; {_KEYS}; shape: shape; {_HOW}; !stateful", shape=_stated
)
define.op(
    f"CollectiveGatherV2(input: T, {_KEY_INPUTS}, {_TOKENS}) -> (data: T); {_GATHERED}; {_ORDERED}; !stateful",
    shape=_other_rows,
)
define.op(
    "CollectiveInitializeCommunicator(group_key: int32, rank: int32, group_size: int32) -> (communicator: resource); "
    f"{_HOW}; !stateful",
    shape=[()],
)
define.op(
    f"CollectiveReduce(input: T) -> (data: T); {_MERGED}; {_KEYS}; {_MERGING}; subdiv_offsets: list(int); "
    f"wait_for: list(int) = []; {_HOW}; !stateful",
    shape="unchanged",
)
define.op(
    f"CollectiveReduceScatterV2(input: T, {_KEY_INPUTS}, {_TOKENS}) -> (data: T); {_MERGED}; {_MERGING}; {_ORDERED}; "
    "max_subdivs_per_device: int = -1; !stateful",
    shape=_other_rows,
)
define.op(
    f"CollectiveReduceV2(input: T, {_KEY_INPUTS}, {_TOKENS}) -> (data: T); {_MERGED}; {_MERGING}; {_ORDERED}; "
    "max_subdivs_per_device: int = -1; !stateful",
    shape="unchanged",
)
define.op(
    f"CollectiveReduceV3(input: T, communicator: resource, group_assignment: int32) -> (data: T); {_MERGED}; "
    'reduction: string in {"Min", "Max", "Mul", "Add"}; timeout_seconds: float = 0.0; !stateful',
    shape="unchanged",
)
# GPUs' and TPUs': no processor has kernels for them, as in TensorFlow.
define.op(
    f"CollectivePermute(input: T, source_target_pairs: int32) -> (output: T); T: {NUMBERS}; !stateful",
    shape="unchanged",
)
define.op(
    f"NcclAllReduce(input: T) -> (data: T); {_NCCL_MERGING}; {_BY_NCCL}; num_devices: int; shared_name: string; "
    "!stateful",
    shape="unchanged",
)
define.op(f"NcclBroadcast(input: T) -> (output: T); {_BY_NCCL}; shape: shape; !stateful", shape=_stated)
define.op(
    f"NcclReduce(input: num_devices * T) -> (data: T); {_NCCL_MERGING}; {_BY_NCCL}; num_devices: int >= 1; !stateful",
    shape=lambda op: [op.inputs[0].shape],
)
