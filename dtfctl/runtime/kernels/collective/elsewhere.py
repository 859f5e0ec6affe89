"""Ops that compute over GPUs by NCCL, or over the cores of TPUs: refused here, with what does the same."""

from __future__ import annotations

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_INSTEAD = {
    "CollectivePermute": ("the cores of TPUs", "CollectiveAllToAllV2"),
    "NcclAllReduce": ("GPUs, by NCCL", "CollectiveReduceV2"),
    "NcclBroadcast": ("GPUs, by NCCL", "CollectiveBcastSendV2 and CollectiveBcastRecvV2"),
    "NcclReduce": ("GPUs, by NCCL", "AddN, or CollectiveReduceV2"),
}


@register_kernel(tuple(_INSTEAD))
def elsewhere(k: KernelBuild) -> Kernel:
    of, instead = _INSTEAD[k.node.op]
    raise InvalidArgumentError(
        f"No OpKernel was registered to support Op '{k.node.op}' on {k.device.name}: it computes over {of}, for which "
        f"there are no kernels here. Use {instead}, whose groups may have devices of any kind",
        k.node.name,
    )
