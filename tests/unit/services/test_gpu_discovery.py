"""Which GPUs a process takes, with a stand-in for cupy."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dtfctl.protocol import config_pb2
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.services import gpu


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A machine with three GPUs."""
    module: Any = ModuleType("cupy")
    properties = {"name": b"Test GPU", "major": 9, "minor": 0, "totalGlobalMem": 1 << 30}
    module.cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            getDeviceCount=lambda: 3,
            getDeviceProperties=lambda number: properties,
            deviceGetPCIBusId=lambda number: f"0000:0{number}:00.0",
        )
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(gpu, "_DRIVER_FILES", (str(tmp_path / "nvidiactl"),))
    return module


def _numbers(config: config_pb2.ConfigProto, environment: dict[str, str] | None = None) -> list[int]:
    return [d.physical_index for d in gpu.find_gpus("worker", 1, config, environment or {})]


def test_all_gpus(cupy: Any) -> None:
    found = gpu.find_gpus("worker", 1, config_pb2.ConfigProto(), {})
    assert [d.name for d in found] == [f"/job:worker/replica:0/task:1/device:GPU:{i}" for i in range(3)]
    assert all(d.array_module is cupy and d.memory_limit == 1 << 30 for d in found)
    assert found[2].description == "device: 2, name: Test GPU, pci bus id: 0000:02:00.0, compute capability: 9.0"


def test_device_count_bounds_them(cupy: Any) -> None:
    assert _numbers(config_pb2.ConfigProto(device_count={"GPU": 2})) == [0, 1]
    assert _numbers(config_pb2.ConfigProto(device_count={"GPU": 0})) == []


def test_visible_device_list_chooses_and_orders(cupy: Any) -> None:
    config = config_pb2.ConfigProto(gpu_options=config_pb2.GPUOptions(visible_device_list="2,0"))
    assert _numbers(config) == [2, 0]


@pytest.mark.parametrize("text", ["3", "0,0", "x", "-1"])
def test_a_wrong_list_is_refused(cupy: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="visible_device_list"):
        _numbers(config_pb2.ConfigProto(gpu_options=config_pb2.GPUOptions(visible_device_list=text)))


@pytest.mark.parametrize("visible", ["", "-1"])
def test_cupy_is_not_imported_where_all_are_hidden(cupy: Any, visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert _numbers(config_pb2.ConfigProto(), {"CUDA_VISIBLE_DEVICES": visible}) == []


def test_a_gpu_without_cupy_is_one_line_in_the_log(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with caplog.at_level(logging.ERROR):
        assert _numbers(config_pb2.ConfigProto()) == []
    assert len(caplog.records) == 1 and "dtfctl[gpu]" in caplog.text


def test_cuda_that_does_not_start_is_one_line_in_the_log(cupy: Any, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver")

    cupy.cuda.runtime.getDeviceCount = fail
    with caplog.at_level(logging.ERROR):
        assert _numbers(config_pb2.ConfigProto()) == []
    assert len(caplog.records) == 1 and "cudaErrorInsufficientDriver" in caplog.text
