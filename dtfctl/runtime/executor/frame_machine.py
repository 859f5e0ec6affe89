"""The frame machine: a partition with loops or with kernels that may wait.

Semantics are those of TensorFlow's executor (Yu et al., "Dynamic control flow in large-scale machine learning", 2018):
a node runs when its inputs are there; a node with a dead input is skipped and makes its consumers dead; each loop is a
frame whose iterations run in parallel, up to a limit. One thread runs everything but kernels that may wait, which get
threads of their own, and receives, which call back.
"""

from __future__ import annotations

import copy
import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.executor.device_memory import device_scope
from dtfctl.runtime.executor.frame_flow import ENTER, EXIT, NEXT, PENDING, Flow
from dtfctl.runtime.executor.frame_nodes import Kind, NodeEntry, StaticFrame, build_entries
from dtfctl.runtime.executor.frame_state import Frame, Iteration
from dtfctl.runtime.executor.keys import ROOT_FRAME
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.executor.straight_line import switch_index, uninitialized
from dtfctl.runtime.executor.workers import WORKERS
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError
from dtfctl.runtime.framework.node_graph import Node, NodeGraph
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import as_outputs
from dtfctl.runtime.kernels.variable import Variable

# Nodes between two looks at whether the step was cancelled.
_CHECK_EVERY = 8

KERNEL, STEP_KERNEL, BLOCKING = int(Kind.KERNEL), int(Kind.STEP_KERNEL), int(Kind.BLOCKING)
PASS, CONST, NOTHING, TRIGGER = int(Kind.PASS), int(Kind.CONST), int(Kind.NOTHING), int(Kind.TRIGGER)
SWITCH, SWITCH_N, MERGE = int(Kind.SWITCH), int(Kind.SWITCH_N), int(Kind.MERGE)
SEND, RECV, ARG, RETVAL = int(Kind.SEND), int(Kind.RECV), int(Kind.ARG), int(Kind.RETVAL)
HEAVY = int(Kind.HEAVY)


class FrameMachine:
    """A plan that runs `graph`.

    Args:
        heavy: kernels that take long enough to run beside others in threads.
        cores: how many kernels may run at the same time.

    Raises:
        InvalidArgumentError: its loops are malformed.
        OpError: a node has no kernel, or its kernel refuses its attributes.
    """

    engine = "frames"
    runs_in_line = False

    def __init__(
        self, graph: NodeGraph, env: Environment, heavy: frozenset[Node] = frozenset(), cores: int = 1
    ) -> None:
        self._root, self._entries = build_entries(graph, env, heavy)
        self._cores = cores
        self._initial = [e for e in self._entries if e.frame is self._root and not self._root.pending[e.index]]
        self._waits = any(e.kind in (BLOCKING, RECV, HEAVY) for e in self._entries)

    @property
    def general(self) -> FrameMachine:
        return self

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        _Run(self._root, self._initial, step, args, results, self._waits, self._cores).run()


class _Run(Flow):
    """One step: runs what is ready, here or in threads, and takes what these and receives have brought."""

    def __init__(
        self,
        root: StaticFrame,
        initial: list[NodeEntry],
        step: StepContext,
        args: Sequence[Any],
        results: list[Any],
        waits: bool,
        cores: int,
    ) -> None:
        self.cores = cores
        self.step = step
        self.args = args
        self.results = results
        super().__init__()
        iteration = Frame(root, None).iterations[0]
        iteration.ops = len(initial)
        self.ready.extend((iteration, e) for e in initial)
        # What kernels in threads and receives have brought: (iteration, node, outputs or None when dead, error).
        self.arrived: queue.SimpleQueue[tuple[Iteration, NodeEntry, Any, OpError | None] | None] = queue.SimpleQueue()
        self.threads = 0
        self.receives = 0
        self.token = CancellationToken() if waits else step.cancellation
        self.waits = waits

    def run(self) -> None:
        step, token = self.step, self.token
        withdraw: Callable[[], None] | None = None
        if self.waits:
            withdraw = step.cancellation.on_cancel(self._cancelled)
        try:
            while True:
                self._run_ready()
                if not self.threads + self.receives:
                    return
                if self.threads:
                    self._take(self.arrived.get())
                else:
                    self.step.rendezvous.wait(self._take_received)
                while not self.arrived.empty():
                    self._take(self.arrived.get())
        except OpError as e:
            if self.threads:
                token.cancel(e)
                self._await_threads()
            raise
        finally:
            step.frame = ROOT_FRAME
            if withdraw is not None:
                withdraw()

    def _take_received(self) -> str:
        """Wait for a tensor, and go on from it; its key, "" if the step was cancelled."""
        item = self.arrived.get()
        self._take(item)
        return "" if item is None else self._key(*item[:2])

    def _key(self, it: Iteration, entry: NodeEntry) -> str:
        return str(entry.key) if entry.whole_key else f"{entry.key}{it.tag}"

    def _cancelled(self) -> None:
        self.token.cancel(self.step.cancellation.reason)
        self.arrived.put(None)

    def _await_threads(self) -> None:
        while self.threads:
            item = self.arrived.get()
            if item is not None and item[1].kind != RECV:
                self.threads -= 1

    def _take(self, item: tuple[Iteration, NodeEntry, Any, OpError | None] | None) -> None:
        """Go on from what a thread or receive has brought."""
        if item is None:
            self.step.cancellation.check()
            return
        it, entry, outputs, error = item
        if entry.kind == RECV:
            self.receives -= 1
        else:
            self.threads -= 1
        if error is not None:
            raise error
        if outputs is None:
            self._spread_dead(it, entry)
        else:
            self._spread(it, entry, outputs)
        it.ops -= 1
        if not it.ops:
            self._settle(it)

    def _run_ready(self) -> None:
        """Run nodes until none is ready."""
        ready, step, trace = self.ready, self.step, self.step.trace
        check, countdown = self.token.check, _CHECK_EVERY
        take = ready.popleft
        entry: NodeEntry | None = None
        try:
            while ready:
                it, entry = take()
                pending, values = it.pending, it.values
                countdown -= 1
                if not countdown:
                    countdown = _CHECK_EVERY
                    check()
                    while not self.arrived.empty():
                        self._take(self.arrived.get())
                kind = entry.kind
                if kind == MERGE:
                    if pending[entry.index] & 1:
                        self._spread_dead(it, entry)
                    else:
                        first = entry.first
                        value, index = values[first], values[first + 1]
                        values[first] = None
                        if index in entry.reads:
                            value = value.read()
                        self._spread(it, entry, (value, np.array(index, np.int32)))
                        value = None
                    it.ops -= 1
                    if not it.ops:
                        self._settle(it)
                    continue
                if pending[entry.index]:
                    self._run_dead(it, entry)
                    it.ops -= 1
                    if not it.ops:
                        self._settle(it)
                    continue
                first, last = entry.first, entry.last
                inputs = values[first:last]
                values[first:last] = entry.nones
                for position in entry.reads:
                    inputs[position] = inputs[position].read()
                for position in entry.checked:
                    variable = inputs[position]
                    if variable.__class__ is Variable and not variable.is_initialized:
                        uninitialized(variable)
                if kind <= STEP_KERNEL:
                    started = time.monotonic_ns() if trace is not None else 0
                    if kind == KERNEL:
                        output = entry.call(*inputs)
                    else:
                        step.frame = it.tag
                        output = entry.call(step, *inputs)
                    del inputs
                    if trace is not None:
                        trace.add(step.device.name, entry.node, started, time.monotonic_ns(), as_outputs(output))
                    if entry.count != 1:
                        self._spread(it, entry, _checked_outputs(entry, output))
                        output = None
                        it.ops -= 1
                        if not it.ops:
                            self._settle(it)
                        continue
                    if entry.needs_single and isinstance(output, (tuple, list)):
                        output = output[0]
                elif kind == PASS:
                    output = inputs[0]
                    del inputs
                elif kind == CONST:
                    output = entry.call
                else:
                    self._run_special(it, entry, kind, inputs)
                    continue
                # One output, to the same iteration: `_spread`, written out.
                for target, place, position in entry.only:
                    i = target.index
                    count = pending[i]
                    if target.merge:
                        if count & 1:
                            values[place] = output
                            values[place + 1] = position
                            pending[i] = count - 1
                            if count & PENDING == 1:
                                it.ops += 1
                                ready.append((it, target))
                    else:
                        values[place] = output
                        count -= 1
                        pending[i] = count
                        if not count & PENDING:
                            it.ops += 1
                            ready.append((it, target))
                output = None
                if entry.controls:
                    self._spread_controls(it, entry, False)
                it.ops -= 1
                if not it.ops:
                    self._settle(it)
        except Exception as e:
            if entry is None:
                raise
            error = located(e, entry.name)
            if error is e:
                raise
            raise error from e

    def _run_dead(self, it: Iteration, entry: NodeEntry) -> None:
        """Skip a node with a dead input, unless it is one that runs all the same."""
        kind = entry.kind
        first, last = entry.first, entry.last
        it.values[first:last] = entry.nones
        if kind == SEND:
            self.step.rendezvous.send(entry.key if entry.whole_key else entry.key + it.tag, None, True)
        elif kind == RECV:
            self._receive(it, entry)
            return
        elif kind == TRIGGER:
            self._spread(it, entry, ())
            return
        self._spread_dead(it, entry)

    def _run_special(self, it: Iteration, entry: NodeEntry, kind: int, inputs: list[Any]) -> None:
        """Run a node that is no kernel of one output."""
        outputs: Sequence[Any] = ()
        if kind in (ENTER, EXIT, NEXT):
            self._cross(it, entry, kind, inputs[0], False)
        elif kind in (SWITCH, SWITCH_N):
            if kind == SWITCH_N:
                chosen = switch_index(inputs[1], entry.count)
            else:
                chosen = 1 if inputs[1] else 0
            for slot, consumers in enumerate(entry.consumers):
                if slot == chosen:
                    self._give(it, consumers, inputs[0])
                else:
                    self._kill(it, consumers)
            if entry.controls:
                self._spread_controls(it, entry, False)
        elif kind in (BLOCKING, HEAVY):
            self._start(it, entry, inputs)
            return
        elif kind == RECV:
            self._receive(it, entry)
        else:
            if kind == SEND:
                key = entry.key if entry.whole_key else entry.key + it.tag
                self.step.rendezvous.send(key, inputs[0], False)
            elif kind == ARG:
                outputs = (self.args[entry.call],)
            elif kind == RETVAL:
                self.results[entry.call] = inputs[0]
            self._spread(it, entry, outputs)
        it.ops -= 1
        if not it.ops:
            self._settle(it)

    def _receive(self, it: Iteration, entry: NodeEntry) -> None:
        """Have a tensor brought to `arrived`."""
        it.ops += 1
        self.receives += 1
        arrived = self.arrived
        dead_already = bool(it.pending[entry.index])

        def done(value: Any, dead: bool, error: OpError | None) -> None:
            arrived.put((it, entry, None if dead or dead_already else (value,), error))

        self.step.rendezvous.recv_async(self._key(it, entry), done)

    def _start(self, it: Iteration, entry: NodeEntry, inputs: list[Any]) -> None:
        """Run a kernel that takes long: here if there is nothing else to do meanwhile, in a thread if there is."""
        if entry.kind == HEAVY:
            alone = not self.ready or self.threads + 1 >= self.cores
        else:
            alone = not self.ready and not self.threads and not self.receives
        self.threads += 1
        if alone:
            self._compute(it, entry, inputs)
        else:
            WORKERS.submit(lambda: self._compute(it, entry, inputs))

    def _compute(self, it: Iteration, entry: NodeEntry, inputs: list[Any]) -> None:
        """Run a kernel and bring its outputs, or its error, to `arrived`."""
        step = copy.copy(self.step)
        step.cancellation, step.frame = self.token, it.tag
        started = time.monotonic_ns()
        try:
            with np.errstate(all="ignore"), device_scope(step.device):
                outputs = _checked_outputs(entry, entry.call(step, *inputs))
            if step.trace is not None:
                step.trace.add(step.device.name, entry.node, started, time.monotonic_ns(), outputs)
        except Exception as e:
            error = located(e, entry.name)
            if error is not e:
                error.__cause__ = e
            self.arrived.put((it, entry, None, error))
            return
        self.arrived.put((it, entry, outputs, None))


def _checked_outputs(entry: NodeEntry, result: Any) -> tuple[Any, ...]:
    outputs = as_outputs(result)
    if len(outputs) != entry.count and entry.count:
        raise InvalidArgumentError(f"Op '{entry.node.op}' gave {len(outputs)} outputs instead of {entry.count}")
    return outputs
