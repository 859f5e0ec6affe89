"""Choosing and making the plans of a partition. docs/internals/executor.md says why each engine is there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property

from dtfctl.runtime.compiler.optimize import PLAIN_PLAN
from dtfctl.runtime.compiler.pause import collector_paused
from dtfctl.runtime.executor.adaptive import Adaptive
from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.executor.blocks import Memory
from dtfctl.runtime.executor.device_memory import is_gpu
from dtfctl.runtime.executor.frame_machine import FrameMachine
from dtfctl.runtime.executor.incoming import Incoming, Shapes
from dtfctl.runtime.executor.loops import fold_loops, share_reads_with_loops
from dtfctl.runtime.executor.observation import Observation
from dtfctl.runtime.executor.plan import Plan
from dtfctl.runtime.executor.schedule import Schedule, sequential_order
from dtfctl.runtime.executor.sequential import Sequential
from dtfctl.runtime.executor.straight_compiler import CHUNK, compile_straight_line
from dtfctl.runtime.executor.straight_line import StraightLine
from dtfctl.runtime.executor.tuner import Tuner
from dtfctl.runtime.executor.varied import Varied
from dtfctl.runtime.framework.node_graph import Node, NodeGraph
from dtfctl.runtime.framework.structural_ops import (
    BOUNDARIES,
    CONTROL_FLOW,
    LOOP_OPS,
    NOTHING,
    RECVS,
    REF_LOOP_OPS,
    SENDS,
)
from dtfctl.runtime.kernels.into.fusions import Output
from dtfctl.runtime.kernels.into.registry import load_makers
from dtfctl.runtime.kernels.native import machine

BUILT_IN = CONTROL_FLOW | SENDS | RECVS | NOTHING | BOUNDARIES

# Plans that have run so often have what is missing of their regions compiled.
COMPILED_FROM = 16
# Larger partitions are not observed: planning them again would take seconds.
_MOST_NODES = 20_000


class Planner:
    """Makes the plans of one partition.

    Args:
        cores: how many kernels may run at the same time.
    """

    def __init__(self, graph: NodeGraph, env: Environment, cores: int) -> None:
        self.graph = graph
        self.env = env
        self._cores = cores
        # The same with its loops folded into nodes, once that was tried.
        self._acyclic = graph
        # Outputs that had other shapes in steps that got the same from outside.
        self.unsteady: set[Output] = set()

    def may_block(self, node: Node) -> bool:
        """Tell whether running the node may wait for other nodes or steps, receives aside."""
        return node.op not in BUILT_IN and self.env.may_block(node)

    def machine(self, heavy: frozenset[Node] = frozenset()) -> FrameMachine:
        """Make a frame machine: for all nodes, loops too, or one that runs heavy kernels beside each other."""
        graph = self._acyclic if heavy else self.graph
        return FrameMachine(graph, self.env, heavy, self._cores)

    def first(self) -> Plan:
        """Make the plan for steps of any kind.

        Raises:
            OpError: a node has no kernel, or its kernel refuses its attributes.
        """
        ops = {node.op for node in self.graph}
        if ops & REF_LOOP_OPS:
            share_reads_with_loops(self.graph)
            return self.machine()
        if ops & LOOP_OPS:
            folded = fold_loops(self.graph, self.env, self.may_block)
            if folded is None:
                return self.machine()
            self._acyclic = folded
        return self.straight() if self.schedule.is_safe else self.machine()

    def straight(
        self, seen: Observation | None = None, chunk_size: int = CHUNK, memory: Memory | None = None
    ) -> StraightLine:
        """Make straight lines, for steps of any kind, or for those like one that was seen with values in `memory`."""
        plan = compile_straight_line(self.schedule.order, self.env, chunk_size, seen, memory)
        plan.beside = self
        return plan

    def tuned(self, general: Plan, use: Callable[[Plan], None], is_function: bool = False) -> Plan:
        """Make a plan that measures which is best and has that one used; return `general` where there is no choice.

        Args:
            use: called with a plan that is to be used from then on.
            is_function: whether it is a function's body, whose caller has its place in a step.
        """
        if is_gpu(self.env.device) or not isinstance(general, StraightLine) or len(general.order) > _MOST_NODES:
            return general
        is_plain = any(PLAIN_PLAN in node.raw_attrs for node in self.graph)
        shaping = _Shaping(self, general, use, is_plain)

        def beside(heavy: frozenset[Node]) -> Plan | None:
            # Regions and libraries share their work out to cores themselves, which nodes in threads would do without.
            if not is_plain and machine.is_available() and sum(n.op not in load_makers() for n in heavy) < 2:
                return None
            return self.machine(heavy)

        has_choice = self._cores > 1 and not is_function
        return Tuner(
            general,
            lambda: self.interpreter,
            shaping.incoming,
            shaping.shape,
            beside if has_choice else None,
            use,
        )

    @cached_property
    def schedule(self) -> Schedule:
        return sequential_order(self._acyclic, self.may_block)

    @cached_property
    def traced(self) -> Plan:
        """A plan that runs every node of the graph by itself."""
        return self.interpreter if self._acyclic is self.graph else self.machine()

    @cached_property
    def interpreter(self) -> Sequential:
        return Sequential(self.schedule.order, self.env)


class _Shaping:
    """Makes the plans of a partition for known shapes.

    Args:
        use: called with a plan that is to be used from then on.
        is_plain: whether the plan for steps of any kind is wanted.
    """

    def __init__(self, planner: Planner, general: StraightLine, use: Callable[[Plan], None], is_plain: bool) -> None:
        self.incoming = Incoming(general.order, planner.env)
        self._planner = planner
        self._general = general
        self._use = use
        self._is_plain = is_plain
        self._memory, self._lock = Memory(), threading.Lock()
        self._has_planned = False

    def shape(self, seen: Observation, shapes: Shapes) -> Plan:
        """Make the plan for steps like one that was seen, which got such shapes from outside."""
        seen.rely_but_on(self._planner.unsteady)
        shaped = self._general if self._is_plain else self._straight(seen)
        if not shaped.is_shaped:
            return self._general
        # For other shapes regions mostly differ in numbers only from those of the first, and cost little then.
        after = 1 if self._has_planned else COMPILED_FROM
        self._has_planned = True
        plan = Adaptive(
            shaped, self._general, self.incoming, shapes, self._lock, seen, lambda: self._straight(seen), after
        )
        plan.varied, plan.gave_up = self._varied, lambda: self._use(self._general)
        return plan

    def _straight(self, seen: Observation) -> StraightLine:
        with collector_paused():
            return self._planner.straight(seen, memory=self._memory)

    def _varied(self, plan: Adaptive) -> None:
        planner = self._planner
        self._use(
            Varied(self._general, lambda: planner.interpreter, self.incoming, self.shape, plan, len(planner.graph))
        )
