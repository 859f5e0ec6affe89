"""Where arrays are when a plan runs on a GPU, with a stand-in for cupy."""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.executor import Executor, KernelCache
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from tests.unit.executor.harness import GraphText, LocalRendezvous, Runner, client_graph

F = np.float32
seen: list[tuple[str, bool]] = []


class GpuArray:
    """An array that only its own module can compute with."""

    def __init__(self, host: np.ndarray) -> None:
        self.host = host
        self.nbytes, self.shape, self.ndim, self.dtype = host.nbytes, host.shape, host.ndim, host.dtype
        self.size = host.size

    def get(self) -> np.ndarray:
        return self.host

    def __array__(self, *args: Any, **options: Any) -> np.ndarray:
        raise TypeError("a GPU array is not converted by itself")

    def reshape(self, shape: Any) -> GpuArray:
        seen.append(("reshape", isinstance(shape, GpuArray)))
        return GpuArray(self.host.reshape(shape))


@pytest.fixture
def gpu() -> Device:
    module: Any = ModuleType("fake_cupy")
    module.asarray = lambda x: x if isinstance(x, GpuArray) else GpuArray(np.asarray(x))
    module.cuda = SimpleNamespace(Device=lambda index: nullcontext())
    module.ndarray = GpuArray
    return Device("/job:localhost/replica:0/task:0/device:GPU:0", array_module=module)


@pytest.mark.parametrize("size", [2, 4096])
def test_feeds_go_to_the_gpu_and_fetches_come_back(gpu: Device, size: int) -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("shape", "Placeholder", dtype="int32")
    g.add("y", "Reshape", "x", "shape", T="float32", Tshape="int32")
    g.add("z", "Identity", "y", T="float32")
    graph = client_graph(NodeGraph.from_graph_def(g.proto), ["x:0", "shape:0"], ["z:0"], ())
    executor = Executor(graph, gpu, ResourceManager(), KernelCache())
    rendezvous, token = LocalRendezvous(), CancellationToken()
    rendezvous.send("client;x:0", np.zeros(size, F), False)
    rendezvous.send("client;shape:0", np.array([2, size // 2], np.int32), False)
    seen.clear()
    step = Runner(g.proto).step(rendezvous, token)
    step.device = gpu
    executor.run(step)
    value, dead = rendezvous.recv("client;z:0", token)
    assert type(value) is np.ndarray and value.shape == (2, size // 2) and not dead
    assert seen == [("reshape", False)]
