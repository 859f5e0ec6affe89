"""How values and deadness go from node to node and from frame to frame, and what is ready when they have come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.executor.frame_nodes import Kind, NodeEntry
from dtfctl.runtime.executor.frame_state import Frame, Iteration

# A node's `pending` holds how many inputs it still waits for in the low bits, and how many of them are dead above. Of a
# Merge, the lowest bit is set until a live input has come, and each control input counts two.
_DEAD = 1 << 32
PENDING = _DEAD - 1
ENTER, EXIT, NEXT = int(Kind.ENTER), int(Kind.EXIT), int(Kind.NEXT)


class Flow:
    """The state of one step: frames, their iterations, and the nodes in them that wait for something.

    Attributes:
        ready: nodes whose inputs are there, in the order in which they came to be.
    """

    def __init__(self) -> None:
        self.ready: deque[tuple[Iteration, NodeEntry]] = deque()

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
                    if count & PENDING == 1:
                        it.ops += 1
                        self.ready.append((it, target))
            else:
                values[place] = value
                count -= 1
                pending[i] = count
                if not count & PENDING:
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
                if dead and count & PENDING == 1:
                    it.ops += 1
                    self.ready.append((it, target))
            else:
                count = pending[i] = pending[i] + _DEAD - 1
                if not count & PENDING:
                    it.ops += 1
                    self.ready.append((it, target))

    def _spread_controls(self, it: Iteration, entry: NodeEntry, dead: bool) -> None:
        pending = it.pending
        for target in entry.controls:
            i = target.index
            if target.merge:
                count = pending[i] = pending[i] - 2
                left = count & PENDING
                fire = not left or (left == 1 and count // _DEAD == len(target.node.inputs))
            else:
                count = pending[i] = pending[i] - 1 + (_DEAD if dead else 0)
                fire = not count & PENDING
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
        """End a frame that has run out: what it never gave out is dead."""
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
