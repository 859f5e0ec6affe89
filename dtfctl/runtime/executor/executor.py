"""One device's part of a graph, planned once and run once a step, also by several steps at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dtfctl.runtime.compiler.pause import collector_paused
from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.executor.device_memory import DeviceRendezvous, device_scope, is_gpu
from dtfctl.runtime.executor.frame_machine import FrameMachine
from dtfctl.runtime.executor.functions import FunctionRunner
from dtfctl.runtime.executor.kernel_cache import KernelCache
from dtfctl.runtime.executor.keys import RECVS, SENDS
from dtfctl.runtime.executor.liveness import BRANCHES
from dtfctl.runtime.executor.loops import LOOP_OPS, REF_LOOP_OPS, fold_loops
from dtfctl.runtime.executor.node_errors import release_values
from dtfctl.runtime.executor.schedule import Schedule, sequential_order
from dtfctl.runtime.executor.sequential import Sequential
from dtfctl.runtime.executor.straight_line import NOTHING, Resume, StraightLine, compile_straight_line
from dtfctl.runtime.executor.tuner import Plan, Tuner, available_cores
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.node_graph import FunctionLibrary, Node, NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.context import FunctionCaller, StepContext

BUILT_IN = LOOP_OPS | REF_LOOP_OPS | BRANCHES | SENDS | RECVS | NOTHING | {"_Arg", "_Retval"}


class Executor:
    """Runs a partition.

    Args:
        graph: all its nodes are on `device`; cross-device edges are sends and receives already.
        device: where kernels run.
        resources: named state, the device's or an isolated session's.
        kernels: the session's cache of stateful kernels.
        library: functions the nodes call; the graph's own by default.
        functions: runs them; made from the library by default.
        scope: see `KernelCache`.
        partial: feeds come one by one while it runs, so nodes run as their inputs arrive.
        parallelism: how many kernels may run at the same time; 1 for one after the other, 0 for as many as there are
            cores. More than one is used only where it was measured to pay.

    Raises:
        NotFoundError: a node has no kernel on the device.
        OpError: a kernel refuses its node's attributes; located at the node.
    """

    def __init__(
        self,
        graph: NodeGraph,
        device: Device,
        resources: ResourceManager,
        kernels: KernelCache,
        library: FunctionLibrary | None = None,
        functions: FunctionCaller | None = None,
        scope: str = "",
        partial: bool = False,
        parallelism: int = 0,
    ) -> None:
        self.graph = graph
        self.device = device
        self._is_gpu = is_gpu(device)
        library = library or graph.library
        self.functions = functions or FunctionRunner(library, device, resources, kernels)
        self._env = Environment(device, resources, kernels, library, self.functions, scope)
        self._acyclic = graph
        with collector_paused():
            self._plan = FrameMachine(graph, self._env) if partial else self._make_plan()
        self._tuner = self._make_tuner(parallelism or available_cores()) if not scope else None

    @cached_property
    def may_block(self) -> bool:
        """True when a run may wait for other nodes or steps, receives aside."""
        return any(map(self._may_block, self.graph))

    def _may_block(self, node: Node) -> bool:
        return node.op not in BUILT_IN and self._env.may_block(node)

    def run(self, step: StepContext) -> None:
        """Run the partition's part of a step; everything it started has ended when this returns.

        Raises:
            OpError: the first error of a node, located; `derived` where it only follows from cancellation.
        """
        step.functions = self.functions
        try:
            if self._is_gpu:
                step.rendezvous = DeviceRendezvous(step.rendezvous, self.device.array_module)
                with np.errstate(all="ignore"), device_scope(self.device):
                    self.run_function(step, (), [])
            else:
                with np.errstate(all="ignore"):
                    self.run_function(step, (), [])
        except OpError as e:
            release_values(e)
            raise

    def run_function(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        """The same for a function body; `results` has an item for each of its outputs."""
        if step.trace is not None:
            self._traceable.run(step, args, results)
            return
        try:
            (self._tuner or self._plan).run(step, args, results)
            return
        except Resume as e:
            resume = Resume(e.at, e.values)
        self._sequential.run(step, args, results, resume)

    def _make_plan(self) -> Plan:
        ops = {node.op for node in self.graph}
        if ops & REF_LOOP_OPS:
            return FrameMachine(self.graph, self._env)
        if ops & LOOP_OPS:
            folded = fold_loops(self.graph, self._env, self._may_block)
            if folded is None:
                return FrameMachine(self.graph, self._env)
            self._acyclic = folded
        if not self._schedule.is_safe:
            return FrameMachine(self.graph, self._env)
        return compile_straight_line(self._schedule.order, self._env)

    def _make_tuner(self, cores: int) -> Tuner | None:
        if cores < 2 or self._is_gpu or not isinstance(self._plan, StraightLine):
            return None

        def decide(plan: Plan) -> None:
            self._plan, self._tuner = plan, None

        def parallel(heavy: frozenset[Node]) -> Plan:
            return FrameMachine(self._acyclic, self._env, heavy, cores)

        return Tuner(self._plan, lambda: self._sequential, parallel, decide)

    @cached_property
    def _schedule(self) -> Schedule:
        return sequential_order(self._acyclic, self._may_block)

    @cached_property
    def _traceable(self) -> Plan:
        """A plan that runs every node by itself."""
        if not isinstance(self._plan, StraightLine):
            return self._plan
        return self._sequential if self._acyclic is self.graph else FrameMachine(self.graph, self._env)

    @cached_property
    def _sequential(self) -> Sequential:
        return Sequential(self._schedule.order, self._env)
