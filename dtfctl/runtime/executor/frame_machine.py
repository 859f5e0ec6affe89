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
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.executor.device_memory import device_scope
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

# A node's `pending` holds how many inputs it still waits for in the low bits, and how many of them are dead above. Of a
# Merge, the lowest bit is set until a live input has come, and each control input counts two.
_DEAD = 1 << 32
_PENDING = _DEAD - 1
# Nodes between two looks at whether the step was cancelled.
_CHECK_EVERY = 8

KERNEL, STEP_KERNEL, BLOCKING = int(Kind.KERNEL), int(Kind.STEP_KERNEL), int(Kind.BLOCKING)
PASS, CONST, NOTHING, TRIGGER = int(Kind.PASS), int(Kind.CONST), int(Kind.NOTHING), int(Kind.TRIGGER)
SWITCH, SWITCH_N, MERGE = int(Kind.SWITCH), int(Kind.SWITCH_N), int(Kind.MERGE)
ENTER, EXIT, NEXT = int(Kind.ENTER), int(Kind.EXIT), int(Kind.NEXT)
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

    def __init__(
        self, graph: NodeGraph, env: Environment, heavy: frozenset[Node] = frozenset(), cores: int = 1
    ) -> None:
        self._root, self._entries = build_entries(graph, env, heavy)
        self._cores = cores
        self._initial = [e for e in self._entries if e.frame is self._root and not self._root.pending[e.index]]
        self._waits = any(e.kind in (BLOCKING, RECV, HEAVY) for e in self._entries)

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        """Run all nodes; `results` gets the values of `_Retval` nodes.

        Raises:
            OpError: the first error of a node, located. Whatever waits has been cancelled and has ended.
        """
        _Run(self._root, self._initial, step, args, results, self._waits, self._cores).run()


class _Run:
    """One step."""

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
        self.ready: deque[tuple[Iteration, NodeEntry]] = deque()
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
                self._take(self.arrived.get())
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
                            if count & _PENDING == 1:
                                it.ops += 1
                                ready.append((it, target))
                    else:
                        values[place] = output
                        count -= 1
                        pending[i] = count
                        if not count & _PENDING:
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

        self.step.rendezvous.recv_async(entry.key if entry.whole_key else entry.key + it.tag, done)

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

    def _spread(self, it: Iteration, entry: NodeEntry, outputs: Sequence[Any]) -> None:
        """Give a live node's outputs to its consumers."""
        if entry.kind in (ENTER, EXIT, NEXT):
            self._cross(it, entry, entry.kind, outputs[0], False)
            return
        for consumers, value in zip(entry.consumers, outputs):
            if consumers:
                self._give(it, consumers, value)
        if entry.controls:
            self._spread_controls(it, entry, False)

    def _spread_dead(self, it: Iteration, entry: NodeEntry) -> None:
        """Make everything that depends on a dead node dead."""
        if entry.kind in (ENTER, EXIT, NEXT):
            self._cross(it, entry, entry.kind, None, True)
            return
        for consumers in entry.consumers:
            self._kill(it, consumers, entry.kind == ENTER)
        if entry.controls:
            self._spread_controls(it, entry, True)

    def _give(self, it: Iteration, consumers: tuple[tuple[NodeEntry, int, int], ...], value: Any) -> None:
        pending, values = it.pending, it.values
        for target, place, position in consumers:
            i = target.index
            count = pending[i]
            if target.merge:
                if count & 1:
                    values[place] = value
                    values[place + 1] = position
                    pending[i] = count - 1
                    if count & _PENDING == 1:
                        it.ops += 1
                        self.ready.append((it, target))
            else:
                values[place] = value
                count -= 1
                pending[i] = count
                if not count & _PENDING:
                    it.ops += 1
                    self.ready.append((it, target))

    def _kill(self, it: Iteration, consumers: tuple[tuple[NodeEntry, int, int], ...], from_enter: bool = False) -> None:
        pending = it.pending
        for target, _, _ in consumers:
            i = target.index
            if target.merge:
                count = pending[i] = pending[i] + _DEAD
                # A dead loop: its Merges get nothing from a next iteration.
                dead = from_enter or count // _DEAD == len(target.node.inputs)
                if dead and count & _PENDING == 1:
                    it.ops += 1
                    self.ready.append((it, target))
            else:
                count = pending[i] = pending[i] + _DEAD - 1
                if not count & _PENDING:
                    it.ops += 1
                    self.ready.append((it, target))

    def _spread_controls(self, it: Iteration, entry: NodeEntry, dead: bool) -> None:
        pending = it.pending
        for target in entry.controls:
            i = target.index
            if target.merge:
                count = pending[i] = pending[i] - 2
                left = count & _PENDING
                fire = not left or (left == 1 and count // _DEAD == len(target.node.inputs))
            else:
                count = pending[i] = pending[i] - 1 + (_DEAD if dead else 0)
                fire = not count & _PENDING
            if fire:
                it.ops += 1
                self.ready.append((it, target))

    def _cross(self, it: Iteration, entry: NodeEntry, kind: int, value: Any, dead: bool) -> None:
        """Run an Enter, Exit or NextIteration."""
        if kind == ENTER:
            self._enter(it, entry, value, dead)
        elif kind == EXIT:
            frame = it.frame
            if not dead and frame.parent is not None:
                frame.exited.add(entry)
                self._give_all(frame.parent, entry, value, False)
        elif not dead:
            frame = it.frame
            if it.number == frame.last:
                if len(frame.iterations) >= frame.parallel:
                    frame.deferred.append((entry, value))
                    return
                self._next_iteration(frame)
            self._give_all(frame.iterations[it.number + 1], entry, value, False)

    def _enter(self, it: Iteration, entry: NodeEntry, value: Any, dead: bool) -> None:
        static = entry.child
        assert static is not None
        frame = it.children.get(static)
        if frame is None:
            frame = it.children[static] = Frame(static, it)
        frame.enters -= 1
        if entry.is_constant:
            frame.invariants.append((entry, value, dead))
            for iteration in list(frame.iterations.values()):
                self._give_all(iteration, entry, value, dead)
        else:
            self._give_all(frame.iterations[0], entry, value, dead)
        first = frame.iterations.get(0)
        if first is not None and not first.ops:
            self._settle(first)

    def _give_all(self, it: Iteration, entry: NodeEntry, value: Any, dead: bool) -> None:
        """Pass on the output of a node that stands between frames."""
        if dead:
            self._kill(it, entry.consumers[0], entry.kind == ENTER)
        else:
            self._give(it, entry.consumers[0], value)
        if entry.controls:
            self._spread_controls(it, entry, dead)

    def _next_iteration(self, frame: Frame) -> None:
        """Start an iteration with what earlier ones left for it."""
        frame.last += 1
        it = frame.iterations[frame.last] = Iteration(frame, frame.last)
        # Held until everything below has been given to it.
        it.ops += 1
        deferred, frame.deferred = frame.deferred, []
        for entry, value in deferred:
            self._give_all(it, entry, value, False)
        for entry, value, dead in frame.invariants:
            self._give_all(it, entry, value, dead)
        it.ops -= 1

    def _settle(self, it: Iteration) -> None:
        """Iteration `it` has nothing ready or running: end it if nothing more can come, and then perhaps its frame."""
        frame = it.frame
        if frame.parent is None:
            return
        while True:
            oldest = frame.iterations.get(frame.oldest)
            if oldest is None or oldest.ops or oldest.children or (oldest.number == 0 and frame.enters):
                break
            del frame.iterations[frame.oldest]
            frame.oldest += 1
            if frame.deferred:
                self._next_iteration(frame)
        if not frame.iterations:
            self._end(frame)

    def _end(self, frame: Frame) -> None:
        """A frame has run out: what it never gave out is dead."""
        parent = frame.parent
        if parent is None or parent.children.get(frame.static) is not frame:
            return
        parent.ops += 1
        del parent.children[frame.static]
        for entry in frame.static.exits:
            if entry not in frame.exited:
                self._give_all(parent, entry, None, True)
        parent.ops -= 1
        if not parent.ops:
            self._settle(parent)


def _checked_outputs(entry: NodeEntry, result: Any) -> tuple[Any, ...]:
    outputs = as_outputs(result)
    if len(outputs) != entry.count and entry.count:
        raise InvalidArgumentError(f"Op '{entry.node.op}' gave {len(outputs)} outputs instead of {entry.count}")
    return outputs
