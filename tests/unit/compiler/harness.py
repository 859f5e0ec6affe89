"""Runs graphs through compiler and executor, without sessions and transports: tasks and devices are threads here."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.colocation import ColocationGraph
from dtfctl.runtime.compiler.compile import CompileOptions, PreparedGraph, compile_step, prepare
from dtfctl.runtime.compiler.devices import DeviceInfo, DeviceSet
from dtfctl.runtime.compiler.expand import expand
from dtfctl.runtime.compiler.partition import split_by_device
from dtfctl.runtime.executor import Executor, KernelCache
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.context import StepContext
from tests.unit.executor.harness import LocalRendezvous

WORKER, PS = "/job:worker/replica:0/task:0", "/job:ps/replica:0/task:0"
_STEP_IDS = itertools.count(1)


def device_set(*names: str, filters: Sequence[str] = ()) -> DeviceSet:
    """Devices by full name; the first one's task is the master's."""
    infos = [DeviceInfo(n, n.rsplit(":", 2)[1], i + 1) for i, n in enumerate(names)]
    return DeviceSet(infos, names[0].split("/device:")[0], filters)


TWO_TASKS = (f"{WORKER}/device:CPU:0", f"{PS}/device:CPU:0")
THREE_DEVICES = tuple(f"{WORKER}/device:CPU:{i}" for i in range(3))


def scatter(graph: NodeGraph, devices: DeviceSet, seed: int) -> None:
    """Ask for a random device for every group of nodes that must share one."""
    for node in graph:
        node.device = ""
    groups = ColocationGraph(graph, devices, {}, False)
    rng = random.Random(seed)
    chosen: dict[Any, str] = {}
    for node in graph:
        root = groups.root(node)
        if root not in chosen:
            chosen[root] = rng.choice(devices.names())
        node.device = chosen[root]


class Cluster:
    """A graph on several devices, with state that lasts from step to step."""

    def __init__(
        self,
        graph_def: graph_pb2.GraphDef,
        names: Sequence[str] = TWO_TASKS,
        seed: int | None = None,
        options: CompileOptions | None = None,
    ) -> None:
        self.devices = device_set(*names)
        self.options = options or CompileOptions()
        self.real = {n: Device(n, incarnation=self.devices.by_name[n].incarnation) for n in names}
        self.kernels = {n: KernelCache() for n in names}
        graph = NodeGraph.from_graph_def(graph_def)
        if seed is not None:
            graph = expand(graph, self.options.expand_all_calls)
            scatter(graph, self.devices, seed)
        self.prepared: PreparedGraph = prepare(graph, self.devices, self.options)
        self._executors: dict[Any, list[Executor]] = {}

    def parts(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> dict[str, NodeGraph]:
        """Parts by device."""
        step = compile_step(self.prepared, feeds, fetches, targets, self.devices, self.options)
        out: dict[str, NodeGraph] = {}
        for part in step.partitions.values():
            out.update(split_by_device(part, self.devices.incarnations()))
        return out

    def executors(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> list[Executor]:
        key = tuple(feeds), tuple(fetches), tuple(targets)
        if key not in self._executors:
            self._executors[key] = [
                Executor(part, self.real[name], self.real[name].resources, self.kernels[name])
                for name, part in self.parts(feeds, fetches, targets).items()
            ]
        return self._executors[key]

    def run(
        self, fetches: Sequence[str], feeds: Mapping[str, Any] | None = None, targets: Sequence[str] = ()
    ) -> list[Any]:
        feeds = feeds or {}
        asked = [f for f in dict.fromkeys(fetches) if f not in feeds]
        executors = self.executors(list(feeds), asked, targets) if asked or targets else []
        rendezvous, token = LocalRendezvous(), CancellationToken()
        for name, value in feeds.items():
            rendezvous.send(f"client;{name}", np.asarray(value), False)
        step_id = next(_STEP_IDS)
        errors: list[OpError] = []

        def run_one(executor: Executor) -> None:
            device = executor.device
            own = ResourceManager()
            step = StepContext(
                step_id,
                device,
                device.resources,
                own,
                token,
                rendezvous,
                None,  # type: ignore[arg-type]
            )
            try:
                executor.run(step)
            except OpError as e:
                errors.append(e)
                token.cancel(e)
            finally:
                own.clear()

        threads = [threading.Thread(target=run_one, args=(e,), daemon=True) for e in executors]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        if any(t.is_alive() for t in threads):
            raise TimeoutError("a partition hangs")
        if errors:
            raise errors[0]
        values = {f: rendezvous.recv(f"client;{f}", token)[0] for f in asked}
        return [values[f] if f in values else feeds[f] for f in fetches]
