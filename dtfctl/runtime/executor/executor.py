"""One device's part of a graph, planned once and run once a step, also by several steps at a time."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from dtfctl.cores import available
from dtfctl.runtime.compiler.optimize import NOT_FUSED
from dtfctl.runtime.compiler.pause import collector_paused
from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.executor.device_memory import DeviceRendezvous, device_scope, is_gpu
from dtfctl.runtime.executor.functions import FunctionRunner
from dtfctl.runtime.executor.kernel_cache import KernelCache
from dtfctl.runtime.executor.keys import DEAD, ClientEnds, client_key, is_client_terminated
from dtfctl.runtime.executor.node_errors import release_values
from dtfctl.runtime.executor.plan import Plan
from dtfctl.runtime.executor.planner import Planner
from dtfctl.runtime.executor.quiet import quietly
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.framework.structural_ops import RECVS, SENDS
from dtfctl.runtime.kernels.context import FunctionCaller, StepContext
from dtfctl.runtime.memory.heap import keep_freed


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

    Attributes:
        plan: what runs the nodes now; a function's body is run by it alone.
        planner: makes it.
        ends: what the plan takes as arguments and gives as results: feeds and fetches; none of a partial run.

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
        keep_freed()
        self.graph = graph
        self.device = device
        self.is_gpu = is_gpu(device)
        library = library or graph.library
        self.functions = functions or FunctionRunner(
            library, device, resources, kernels, Executor, not any(NOT_FUSED in n.raw_attrs for n in graph)
        )
        self._own_functions = self.functions if functions is None else None
        self.ends = ClientEnds() if partial or scope else ClientEnds.of(graph)
        self._env = Environment(device, resources, kernels, library, self.functions, scope, self.ends)
        self.planner = Planner(graph, self._env, parallelism or available())
        # Kernels make constants of theirs when they are built.
        with collector_paused(), device_scope(device):
            self.plan: Plan = self.planner.machine() if partial else self.planner.first()
        self.plan = self.planner.tuned(self.plan, self._use, is_function=bool(scope))

    @cached_property
    def is_self_contained(self) -> bool:
        """True when a run on the host exchanges nothing but feeds and fetches with the world outside the plan."""
        return not self.is_gpu and not any(
            (node.op in SENDS or node.op in RECVS) and not is_client_terminated(node) for node in self.graph
        )

    @cached_property
    def may_block(self) -> bool:
        """True when a run may wait for other nodes or steps, receives aside."""
        return any(map(self.planner.may_block, self.graph))

    @property
    def runs_in_line(self) -> bool:
        """True when a run is one node after the other in the calling thread and waits for nothing but receives."""
        return self.plan.runs_in_line and not self.may_block

    def _use(self, plan: Plan) -> None:
        self.plan = plan

    def retire(self) -> None:
        """Break the cycles the executor is part of, so that what it holds goes with it and not with a full collection.

        No further run is to begin. Runs that have begun end as they would have.
        """
        self.plan = self.plan.general
        if isinstance(self._own_functions, FunctionRunner):
            self._own_functions.retire()

    def run(self, step: StepContext) -> None:
        """Run the partition's part of a step; everything it started has ended when this returns.

        Feeds are in the step's rendezvous, and fetches are left there, unless the executor was made for a partial run.

        Raises:
            OpError: the first error of a node, located; `derived` where it only follows from cancellation.
        """
        if self.is_gpu:
            step.rendezvous = DeviceRendezvous(step.rendezvous, self.device)
        rendezvous, cancellation = step.rendezvous, step.cancellation
        args = [rendezvous.recv(client_key(name), cancellation)[0] for name in self.ends.feeds]
        results = self.results()
        self.run_direct(step, args, results)
        for name, value in zip(self.ends.fetches, results):
            rendezvous.send(client_key(name), None if value is DEAD else value, value is DEAD)

    def results(self) -> list[Any]:
        """Room for the results of a run: `DEAD` until they are there."""
        return [DEAD] * len(self.ends.fetches)

    def run_direct(self, step: StepContext, args: list[Any], results: list[Any]) -> None:
        """Run the partition's part of a step with feeds and fetches by hand, in the order of `ends`.

        Raises:
            OpError: see `run`. Neither it nor the lists hold the step's tensors then.
        """
        step.functions = self.functions
        try:
            if self.is_gpu:
                with np.errstate(all="ignore"), device_scope(self.device):
                    self.plan.run(step, args, results)
            else:
                quietly(self.plan.run, step, args, results)
        except OpError as e:
            release_values(e)
            args.clear()
            results.clear()
            raise
