"""Which GPUs this process uses: as a ConfigProto and the environment say, found through cupy.

cupy is imported only where a GPU may be wanted: never when CUDA_VISIBLE_DEVICES hides all, device_count asks for none,
or the NVIDIA driver's device files are absent.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dtfctl.protocol import config_pb2
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.device_spec import device_name
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.resource_manager import ResourceManager

_LOG = logging.getLogger(__name__)
_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")


def find_gpus(
    job: str, task: int, config: config_pb2.ConfigProto, environment: Mapping[str, str] = os.environ
) -> list[Device]:
    """Find the task's GPU devices, GPU:0 first; none where there is no GPU, or none is wanted.

    A GPU that is there but cannot be used, for want of cupy or because CUDA does not start, is logged in one line.

    Args:
        config: device_count["GPU"] bounds how many, gpu_options.visible_device_list chooses and orders them among
            those that CUDA_VISIBLE_DEVICES leaves visible.

    Raises:
        InvalidArgumentError: visible_device_list is no list of GPUs that exist.
    """
    limit = config.device_count.get("GPU")
    if limit == 0 or not _may_have_gpu(environment):
        return []
    cupy = _start_cupy()
    if cupy is None:
        return []
    available = int(cupy.cuda.runtime.getDeviceCount())
    chosen = _chosen(config.gpu_options.visible_device_list, available)[:limit]
    return [_device(job, task, i, number, cupy) for i, number in enumerate(chosen)]


def count_of_process(environment: Mapping[str, str] = os.environ) -> int:
    """Count the GPUs that this process can compute on."""
    cupy = _start_cupy() if _may_have_gpu(environment) else None
    return 0 if cupy is None else int(cupy.cuda.runtime.getDeviceCount())


def _may_have_gpu(environment: Mapping[str, str]) -> bool:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        return False
    return any(Path(p).exists() for p in _DRIVER_FILES)


def _start_cupy() -> Any | None:
    try:
        cupy: ModuleType = importlib.import_module("cupy")
        runtime: Any = cupy.cuda.runtime
        count = runtime.getDeviceCount()
    except ImportError as e:
        _LOG.error("This host has an NVIDIA driver but its GPUs are not used: %s. Install dtfctl[gpu].", e)
        return None
    except Exception as e:  # cupy raises CUDARuntimeError, which cannot be named before it is imported
        _LOG.error("This host's GPUs are not used, CUDA does not start: %s", e)
        return None
    if count == 0:
        _LOG.error("This host has an NVIDIA driver but CUDA sees no GPU")
        return None
    return cupy


def _chosen(text: str, available: int) -> list[int]:
    if not text.strip():
        return list(range(available))
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(f"Could not parse entry in 'visible_device_list': '{text}'") from None
    for number in numbers:
        if not 0 <= number < available:
            raise InvalidArgumentError(
                f"'visible_device_list' listed an invalid GPU id '{number}' but visible device count is {available}"
            )
    if len(set(numbers)) != len(numbers):
        raise InvalidArgumentError(f"visible_device_list contains duplicate GPU ids: '{text}'")
    return numbers


def _device(job: str, task: int, index: int, number: int, cupy: Any) -> Device:
    properties = cupy.cuda.runtime.getDeviceProperties(number)
    name = properties["name"].decode()
    description = (
        f"device: {number}, name: {name}, pci bus id: {cupy.cuda.runtime.deviceGetPCIBusId(number)}, "
        f"compute capability: {properties['major']}.{properties['minor']}"
    )
    return Device(
        device_name(job, task, "GPU", index),
        memory_limit=int(properties["totalGlobalMem"]),
        description=description,
        resources=ResourceManager(job),
        array_module=cupy,
        physical_index=number,
    )
