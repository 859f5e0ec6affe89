"""`tf.distribute.MirroredStrategy`."""

from __future__ import annotations

from collections.abc import Sequence

from dtfctl.runtime.strategies.cross_device_ops import CrossDeviceOps
from dtfctl.runtime.strategies.devices import canonical
from dtfctl.runtime.strategies.mirrored import MirroredExtended, own_devices
from dtfctl.runtime.strategies.sharded_state import ShardedStateExtended
from dtfctl.runtime.strategies.strategy import Strategy


class MirroredStrategy(Strategy):
    """A replica on each device of a task, or on devices of several tasks that one client drives.

    Args:
        devices: their names; the GPUs of this process's task when None, its CPU where it has none.
        cross_device_ops: what reduces gradients; `ReductionToOneDevice()` when None.
        shard_optimizer_state: keep the slots that an optimizer of tf.train has beside each variable on one of the
            devices, which updates that variable for all, instead of on each (ZeRO, stage 1).

    Raises:
        ValueError: a device is named twice, or none is.
    """

    def __init__(
        self,
        devices: Sequence[str] | None = None,
        cross_device_ops: CrossDeviceOps | None = None,
        shard_optimizer_state: bool = False,
    ) -> None:
        chosen = own_devices() if devices is None else [canonical(d) for d in devices]
        kind = ShardedStateExtended if shard_optimizer_state else MirroredExtended
        super().__init__(kind(self, chosen, cross_device_ops))
