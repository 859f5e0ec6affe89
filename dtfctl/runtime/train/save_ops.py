"""Build the ops that write a checkpoint: a shard by each task, and one index of all of them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.train.saveables import SaveableObject


def save_sharded(prefix: Tensor, saveables: list[SaveableObject]) -> Tensor:
    """Save every device's variables in a shard of their own, then merge one index."""
    graph = context.get_default_graph()
    by_device: dict[str, list[SaveableObject]] = {}
    for s in saveables:
        by_device.setdefault(host_device(s.device), []).append(s)
    suffix = f"_temp_{uuid.uuid4().hex}/part"
    tmp_prefix = apply_op("StringJoin", inputs=[prefix, constant(suffix)])
    shards, saves = [], []
    for i, (device, members) in enumerate(sorted(by_device.items())):
        with graph.device(device):
            shard = apply_op("ShardedFilename", basename=tmp_prefix, shard=i, num_shards=len(by_device))
            shards.append(shard)
            saves.append(_save_op(shard, members))
    last = sorted(by_device)[-1]
    if len(by_device) == 1:
        with graph.control_dependencies(saves), graph.device(last):
            merged = _merge_op(shards, prefix)
    else:
        merged = _merge_everywhere(sorted(by_device), shards, saves, prefix)
    with graph.control_dependencies([merged]), graph.device(last):
        return apply_op("Identity", input=prefix)


def host_device(device: str) -> str:
    """Return the CPU of a variable's task: where files are."""
    if not device:
        return ""
    return replace(DeviceSpec.from_string(device), device_type="CPU", device_index=0).to_string()


def _merge_op(shards: list[Tensor], prefix: Tensor) -> Operation:
    return make_op(
        "MergeV2Checkpoints",
        checkpoint_prefixes=apply_op("Pack", values=shards),
        destination_prefix=prefix,
        delete_old_dirs=True,
    )


def _merge_everywhere(devices: list[str], shards: list[Tensor], saves: list[Operation], prefix: Tensor) -> Operation:
    """Merge at each task in turn, for tasks whose hosts share no disk: each is given the others' indices, which are
    small, and gives the data that it has their names in the whole. On a shared disk, the first does all of it."""
    graph = context.get_default_graph()
    names: list[Tensor] = []
    indices: list[Tensor] = []
    with graph.control_dependencies(saves):
        for device, shard in zip(devices, shards, strict=True):
            with graph.device(device):
                names.append(apply_op("StringJoin", inputs=[shard, constant(".index")]))
                indices.append(apply_op("ReadFile", filename=names[-1]))
    before: list[Operation] = [index.op for index in indices]
    for here, device in enumerate(devices):
        with graph.device(device), graph.control_dependencies(before):
            told = [
                make_op("WriteFile", filename=names[other], contents=indices[other])
                for other in range(len(devices))
                if other != here
            ]
            with graph.control_dependencies(told):
                rewritten = make_op("WriteFile", filename=names[here], contents=indices[here])
            with graph.control_dependencies([rewritten]):
                before = [_merge_op(shards, prefix)]
    return before[0]


def _save_op(prefix: Tensor, saveables: list[SaveableObject]) -> Operation:
    specs = [spec for s in saveables for spec in s.specs]
    return make_op(
        "SaveV2",
        prefix=prefix,
        tensor_names=[name for _, _, name in specs],
        shape_and_slices=[piece for _, piece, _ in specs],
        tensors=[_value(tensor) for tensor, _, _ in specs],
    )


def _value(tensor: Any) -> Any:
    return apply_op("Identity", input=tensor) if tensor.dtype.is_ref else tensor


def save_together(prefix: Tensor, saveables: list[SaveableObject]) -> Tensor:
    """Save all variables in one shard, written by the task that runs the op; gives the prefix once that is done."""
    save = _save_op(prefix, saveables)
    with context.get_default_graph().control_dependencies([save]):
        return apply_op("Identity", input=prefix, name="control_dependency")
