"""`tf.config`: this process's devices and threads, for sessions that are opened without a ConfigProto."""

from __future__ import annotations

from collections.abc import Sequence

from dtfctl.runtime.client.config import experimental as experimental, threading as threading
from dtfctl.runtime.client.device_settings import SETTINGS, LogicalDevice, PhysicalDevice

__all__ = [
    "LogicalDevice",
    "PhysicalDevice",
    "experimental",
    "get_soft_device_placement",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "set_soft_device_placement",
    "set_visible_devices",
    "threading",
]


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """List this machine's devices that programs can compute on, of a type ("CPU", "GPU") or all."""
    return SETTINGS.physical(device_type)


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """List the devices that ops of a session can be placed on, of a type or all."""
    return SETTINGS.logical(device_type)


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """List the devices that sessions use, of a type or all."""
    return SETTINGS.visible(device_type)


def set_visible_devices(
    devices: Sequence[PhysicalDevice] | PhysicalDevice | None, device_type: str | None = None
) -> None:
    """Let sessions that are opened from now on use these devices only.

    Args:
        devices: of `list_physical_devices`; an empty list of "GPU" hides all GPUs.

    Raises:
        ValueError: one is no such device, or no CPU would be left.
    """
    SETTINGS.set_visible([] if devices is None else devices, device_type)


def get_soft_device_placement() -> bool:
    """Tell whether ops go to a CPU where their device is missing or has no kernel."""
    return bool(SETTINGS.soft_placement)


def set_soft_device_placement(enabled: bool) -> None:
    """Let ops go to a CPU where their device is missing or has no kernel."""
    SETTINGS.soft_placement = bool(enabled)
