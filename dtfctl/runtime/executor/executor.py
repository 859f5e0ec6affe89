"""One device's part of a graph, planned once and run once a step, also by several steps at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dtfctl.runtime.compiler.optimize import PLAIN_PLAN
from dtfctl.runtime.compiler.pause import collector_paused
from dtfctl.runtime.executor.adaptive import Adaptive
from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.executor.device_memory import DeviceRendezvous, device_scope, is_gpu
from dtfctl.runtime.executor.frame_machine import FrameMachine
from dtfctl.runtime.executor.functions import FunctionRunner
from dtfctl.runtime.executor.kernel_cache import KernelCache
from dtfctl.runtime.executor.keys import DEAD, RECVS, SENDS, ClientEnds, client_key, is_client_terminated
from dtfctl.runtime.executor.liveness import BRANCHES
from dtfctl.runtime.executor.loops import LOOP_OPS, REF_LOOP_OPS, fold_loops, share_reads_with_loops
from dtfctl.runtime.executor.node_errors import release_values
from dtfctl.runtime.executor.quiet import quietly
from dtfctl.runtime.executor.schedule import Schedule, sequential_order
from dtfctl.runtime.executor.sequential import Sequential
from dtfctl.runtime.executor.shaped import Observation
from dtfctl.runtime.executor.straight_compiler import compile_straight_line
from dtfctl.runtime.executor.straight_line import NOTHING, Resume, StraightLine
from dtfctl.runtime.executor.tuner import Plan, Tuner, available_cores
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import Node, NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.context import FunctionCaller, StepContext

BUILT_IN = LOOP_OPS | REF_LOOP_OPS | BRANCHES | SENDS | RECVS | NOTHING | {"_Arg", "_Retval"}

# How often a plan for certain shapes is made for a partition whose shapes keep changing.
_MOST_OBSERVATIONS = 4
# Larger partitions are not observed: planning them again would take seconds.
_MOST_NODES = 20_000


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
        self.graph = graph
        self.device = device
        self.is_gpu = is_gpu(device)
        library = library or graph.library
        self.functions = functions or FunctionRunner(library, device, resources, kernels)
        self.ends = ClientEnds() if partial or scope else ClientEnds.of(graph)
        self._env = Environment(device, resources, kernels, library, self.functions, scope, self.ends)
        self._acyclic = graph
        # Kernels make constants of theirs when they are built.
        with collector_paused(), device_scope(device):
            self._plan = FrameMachine(graph, self._env) if partial else self._make_plan()
        self._cores = parallelism or available_cores()
        self._observations = 0
        self._tuner = self._make_tuner() if not scope else None

    @cached_property
    def is_self_contained(self) -> bool:
        """True when a run on the host exchanges nothing but feeds and fetches with the world outside the plan."""
        return not self.is_gpu and not any(
            (node.op in SENDS or node.op in RECVS) and not is_client_terminated(node) for node in self.graph
        )

    @cached_property
    def may_block(self) -> bool:
        """True when a run may wait for other nodes or steps, receives aside."""
        return any(map(self._may_block, self.graph))

    @property
    def runs_in_line(self) -> bool:
        """True when a run is one node after the other in the calling thread and waits for nothing but receives."""
        return self._tuner is None and isinstance(self._plan, (StraightLine, Adaptive)) and not self.may_block

    def _may_block(self, node: Node) -> bool:
        return node.op not in BUILT_IN and self._env.may_block(node)

    def retire(self) -> None:
        """No further run is to begin: break the cycles this is part of, so that what it holds goes with it and not with
        a full collection. Runs that have begun end as they would have.
        """
        self._tuner = None
        if isinstance(self._plan, Adaptive):
            self._plan = self._plan.general

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
        """The same with feeds and fetches by hand, in the order of `ends`.

        Raises:
            OpError: see `run`. Neither it nor the lists hold the step's tensors then.
        """
        step.functions = self.functions
        try:
            if self.is_gpu:
                with np.errstate(all="ignore"), device_scope(self.device):
                    self.run_function(step, args, results)
            else:
                quietly(self.run_function, step, args, results)
        except OpError as e:
            release_values(e)
            args.clear()
            results.clear()
            raise

    def run_function(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        """Run the plan: of a function body, with its arguments and room for its outputs, or of a partition."""
        if step.trace is not None:
            self._traceable.run(step, args, results)
            return
        try:
            (self._tuner or self._plan).run(step, args, results)
            return
        except Resume as e:
            resume = Resume(e.at, e.values, e.dead, e.late, e.done)
        self._sequential.run(step, args, results, resume)

    def _make_plan(self) -> Plan:
        ops = {node.op for node in self.graph}
        if ops & REF_LOOP_OPS:
            share_reads_with_loops(self.graph)
            return FrameMachine(self.graph, self._env)
        if ops & LOOP_OPS:
            folded = fold_loops(self.graph, self._env, self._may_block)
            if folded is None:
                return FrameMachine(self.graph, self._env)
            self._acyclic = folded
        if not self._schedule.is_safe:
            return FrameMachine(self.graph, self._env)
        return compile_straight_line(self._schedule.order, self._env)

    def _make_tuner(self) -> Tuner | None:
        general, cores = self._plan, self._cores
        if self.is_gpu or not isinstance(general, StraightLine) or len(general.order) > _MOST_NODES:
            return None

        is_plain = any(PLAIN_PLAN in node.raw_attrs for node in self.graph)

        def shape(seen: Observation) -> Plan:
            if is_plain:
                return general
            with collector_paused():
                shaped = compile_straight_line(self._schedule.order, self._env, seen=seen)
            return Adaptive(shaped, general, changed) if shaped.is_shaped else general

        def changed() -> None:
            self._plan = general
            self._observations += 1
            if self._observations < _MOST_OBSERVATIONS:
                self._tuner = self._make_tuner()

        def decide(plan: Plan) -> None:
            self._plan, self._tuner = plan, None

        def parallel(heavy: frozenset[Node]) -> Plan:
            return FrameMachine(self._acyclic, self._env, heavy, cores)

        return Tuner(general, lambda: self._sequential, shape, parallel if cores > 1 else None, decide)

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
