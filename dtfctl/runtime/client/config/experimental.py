"""`tf.config.experimental`: former names of `tf.config`, and how GPUs' memory is taken."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.client.device_settings import SETTINGS, PhysicalDevice

__all__ = [
    "get_device_details",
    "get_memory_growth",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "set_memory_growth",
    "set_visible_devices",
]

list_physical_devices = SETTINGS.physical
list_logical_devices = SETTINGS.logical
get_visible_devices = SETTINGS.visible
set_visible_devices = SETTINGS.set_visible


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Tell whether a GPU's memory is taken as it is needed."""
    return SETTINGS.memory_growth.get(_gpu(device), False)


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Take a GPU's memory as it is needed, as `GPUOptions.allow_growth` does.

    Raises:
        ValueError: the device is no GPU of this machine.
    """
    SETTINGS.memory_growth[_gpu(device)] = bool(enable)


def get_device_details(device: PhysicalDevice) -> dict[str, Any]:
    """Return what is known of a device: of a GPU its name and compute capability, of a CPU nothing."""
    if device not in SETTINGS.physical():
        raise ValueError(f"Unrecognized device: {device!r}. tf.config.list_physical_devices() lists them")
    if device.device_type != "GPU":
        return {}
    import cupy

    number = int(device.name.rpartition(":")[2])
    properties = cupy.cuda.runtime.getDeviceProperties(number)
    return {
        "device_name": properties["name"].decode(),
        "compute_capability": (properties["major"], properties["minor"]),
    }


def _gpu(device: PhysicalDevice) -> PhysicalDevice:
    if device not in SETTINGS.physical("GPU"):
        raise ValueError(f"Cannot set memory growth on a device that is no GPU of this machine: {device!r}")
    return device
