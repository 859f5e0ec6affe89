"""What a region computes, as loops over arrays: views, assignments, and the groups of assignments that share a loop.

A view says where a value's elements are, in steps along each dimension; slices, transposes and broadcasts are views and
cost nothing. An assignment computes an element of its target from the same element of its sources. Assignments of one
shape share a loop where each reads only what the same turn of it has made: then the value stays in a register, and what
nobody else reads has no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from dtfctl.errors import Signal
from dtfctl.runtime.kernels.into.registry import Spec

KINDS = {np.dtype(t): t for t in ("f4", "f8", "i4", "i8", "b1")}
# Columns of more are reduced in blocks.
_MOST_ROWS_AT_ONCE = 512
# Sources and targets of a loop; with more there are not enough registers for their addresses.
_MOST_STREAMS = 24


class Unsupported(Signal):
    """No loop for this."""


@dataclass(frozen=True)
class View:
    """A value's elements in a buffer; strides and offset in elements.

    Attributes:
        chosen: what more is added to where an element lies, by numbers that the region gets. Such a view is for
            assignments only: a lowering gives none back.
    """

    buffer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    chosen: tuple[Choice, ...] = ()

    @property
    def is_contiguous(self) -> bool:
        return not self.chosen and (self.strides == strides_of(self.shape) or 0 in self.shape)

    def broadcast(self, shape: tuple[int, ...]) -> View:
        lead = len(shape) - len(self.shape)
        own = ((0 if size != shape[lead + n] else s) for n, (size, s) in enumerate(zip(self.shape, self.strides)))
        chosen = tuple(replace(c, index=c.index.broadcast(shape)) for c in self.chosen)
        return View(self.buffer, shape, (0,) * lead + tuple(own), self.offset, chosen)


@dataclass(frozen=True)
class Choice:
    """Rows of something, chosen by whole numbers.

    Attributes:
        index: the numbers: an operand, of the shape of the view that they choose for; stride: between rows.
        limit: how many rows there are. A region with a number that is none of them refuses to run.
        skips: whether numbers below zero are let through; they choose the first row.
        is_made: whether the region makes the numbers itself, and none that is wrong.
    """

    index: View
    stride: int
    limit: int
    skips: bool = False
    is_made: bool = False


@dataclass(frozen=True)
class Number:
    """A value that is the same number everywhere, known when the region is made."""

    value: Any
    shape: tuple[int, ...] = ()


Value = View | Number
# Makes an element of those of the sources, by LLVM's builder.
Emit = Callable[..., Any]


@dataclass
class Buffer:
    """Attributes: kind: one of `KINDS`; role: "operand", "updated" (an operand that is changed), "output" or
    "temporary".
    """

    kind: str
    shape: tuple[int, ...]
    role: str = "temporary"


# An assignment whose `emit` gets the addresses of its sources and targets, all of one dimension, and writes all of it.
ROUTINE = "routine"


@dataclass(frozen=True)
class Assignment:
    """What makes a value, or changes a part of one.

    Attributes:
        how: "sum", "max" or "min" where the target's strides of 0 say along what, or `ROUTINE`; else empty.
        rows: a number that tells for how many of the first dimension it is done; None for all.
        also: what else a routine fills.
    """

    emit: Emit
    sources: tuple[Value, ...]
    target: View
    how: str = ""
    rows: View | None = None
    also: tuple[View, ...] = ()

    @property
    def reduced(self) -> tuple[bool, ...]:
        shape = self.target.shape
        return tuple(self.how not in ("", ROUTINE) and s == 0 and n > 1 for s, n in zip(self.target.strides, shape))

    @property
    def targets(self) -> tuple[View, ...]:
        return (self.target, *self.also)

    def reads(self) -> list[View]:
        """List what it looks at: its sources, and what tells where something is and how much."""
        sources = [s for s in self.sources if isinstance(s, View)]
        chosen = [c.index for v in (*sources, self.target) for c in v.chosen]
        return [*sources, *chosen, *(() if self.rows is None else (self.rows,))]


@dataclass
class Group:
    """Assignments in one loop."""

    shape: tuple[int, ...]
    reduced: tuple[bool, ...]
    rows: View | None = None
    assignments: list[Assignment] = field(default_factory=list)

    @property
    def is_routine(self) -> bool:
        return any(a.how == ROUTINE for a in self.assignments)

    def views(self) -> list[View]:
        return [v for a in self.assignments for v in (*a.reads(), *a.targets)]


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class Loops:
    """The loops of a region, in the order in which they run."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.assignments: list[Assignment] = []
        self.groups: list[Group] = []
        # What has to be looked at before anything runs, besides numbers that assignments choose by.
        self.checks: list[Choice] = []
        # Groups that write a buffer, and how they do.
        self._written: dict[int, list[tuple[int, Assignment]]] = {}

    # Values -----------------------------------------------------------------------------------------------------------

    def _buffer(self, kind: str, shape: tuple[int, ...], role: str) -> View:
        self.buffers.append(Buffer(kind, shape, role))
        return View(len(self.buffers) - 1, shape, strides_of(shape))

    def operand(self, spec: Spec) -> View:
        """Name something the region gets.

        Raises:
            Unsupported: of a type that no loop takes.
        """
        if spec.dtype not in KINDS:
            raise Unsupported
        return self._buffer(KINDS[spec.dtype], spec.shape, "operand")

    def room(self, kind: str, shape: tuple[int, ...]) -> View:
        """Make room for a value that parts are put into."""
        return self._buffer(kind, shape, "temporary")

    def kind(self, value: View) -> str:
        return self.buffers[value.buffer].kind

    def map(self, emit: Emit, sources: Sequence[Value], kind: str, shape: tuple[int, ...]) -> View:
        """Compute a value element by element, its sources broadcast."""
        target = self.room(kind, shape)
        self.put(emit, sources, target)
        return target

    def put(self, emit: Emit, sources: Sequence[Value], target: View, rows: View | None = None) -> None:
        """Compute a part of a value element by element.

        Args:
            rows: one whole number, larger than 0, that says how many of the first rows; None for all.
        """
        given = tuple(s.broadcast(target.shape) if isinstance(s, View) else s for s in sources)
        # Of one row there is never less.
        rows = rows.broadcast(target.shape) if rows is not None and target.shape[0] > 1 else None
        self._add(Assignment(emit, given, target, rows=rows))

    def routine(self, emit: Emit, sources: Sequence[View], *targets: View) -> None:
        """Have values filled by code that `emit` writes, which gets addresses."""
        first, *also = targets
        self._add(Assignment(emit, tuple(sources), first, ROUTINE, also=tuple(also)))

    def copy(self, source: Value, kind: str, shape: tuple[int, ...]) -> View:
        return self.map(_same, [source], kind, shape)

    def put_copy(self, source: Value, target: View) -> None:
        self.put(_same, [source], target)

    def reduce(
        self, how: str, emit: Emit, sources: Sequence[Value], shape: tuple[int, ...], axes: Sequence[int]
    ) -> View:
        """Reduce a value of this shape along axes, which stay with a size of 1.

        Columns are reduced in blocks of rows first: blocks may be shared out, and long sums round less.
        """
        blocks = _blocks(shape, axes)
        if blocks:
            rows = (blocks, shape[0] // blocks, *shape[1:])
            given = [_split(s.broadcast(shape), blocks) if isinstance(s, View) else s for s in sources]
            part = self._reduce(how, emit, given, rows, [1, *(n + 1 for n in axes[1:])])
            return self._reduce(how, _same, [_joined(part)], (blocks, *_joined(part).shape[1:]), [0])
        return self._reduce(how, emit, sources, shape, axes)

    def _reduce(
        self, how: str, emit: Emit, sources: Sequence[Value], shape: tuple[int, ...], axes: Sequence[int]
    ) -> View:
        kept = tuple(1 if n in axes else size for n, size in enumerate(shape))
        kinds = {self.kind(s) for s in sources if isinstance(s, View)}
        if len(kinds) != 1 or 0 in shape:
            raise Unsupported
        kind = kinds.pop()
        if all(shape[n] == 1 for n in axes):
            return self.map(emit, sources, kind, shape)
        room = self.room(kind, kept)
        given = tuple(s.broadcast(shape) if isinstance(s, View) else s for s in sources)
        target = View(room.buffer, shape, tuple(0 if n in axes else s for n, s in enumerate(room.strides)))
        self._add(Assignment(emit, given, target, how))
        return room

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        if isinstance(value, Number):
            return Number(value.value, shape)
        if not value.is_contiguous:
            value = self.copy(value, self.kind(value), value.shape)
        return View(value.buffer, shape, strides_of(shape), value.offset)

    def output(self, value: Value, spec: Spec) -> int:
        """Have a value filled into memory of its own; the buffer that is it."""
        if isinstance(value, View):
            held = self.buffers[value.buffer]
            if held.role == "temporary" and value.is_contiguous and prod(value.shape) == prod(held.shape):
                held.role, held.shape = "output", spec.shape
                return value.buffer
        made = self.copy(value, KINDS[spec.dtype], spec.shape)
        self.buffers[made.buffer].role = "output"
        return made.buffer

    # Loops ------------------------------------------------------------------------------------------------------------

    def _add(self, made: Assignment) -> None:
        self.assignments.append(made)

    def back_to(self, buffers: int, assignments: int) -> None:
        """Forget what was added since there were so many."""
        del self.buffers[buffers:], self.assignments[assignments:]

    def group(self) -> None:
        """Share out to loops what outputs need."""
        needed = {n for n, buffer in enumerate(self.buffers) if buffer.role in ("output", "updated")}
        kept = []
        for made in reversed(self.assignments):
            if any(target.buffer in needed for target in made.targets):
                needed.update(view.buffer for view in made.reads())
                kept.append(made)
        for made in reversed(kept):
            self._join(made)

    def _join(self, made: Assignment) -> None:
        """Add an assignment to a loop of its shape that it can share, the first one; else to one of its own."""
        first = 0
        shared: set[int] = set()
        for source in made.reads():
            for at, writer in self._written.get(source.buffer, ()):
                target = writer.target
                alike = not writer.how and (target.strides, target.offset) == (source.strides, source.offset)
                is_same = alike and target.shape == source.shape and not target.chosen and not source.chosen
                if is_same:
                    shared.add(at)
                first = max(first, at if is_same else at + 1)
        reduced = made.reduced
        for at in range(len(self.groups) if made.how == ROUTINE else first, len(self.groups)):
            group = self.groups[at]
            if group.shape == made.target.shape and self._may_join(group, made, reduced):
                break
        else:
            at = len(self.groups)
            self.groups.append(Group(made.target.shape, (False,) * len(reduced), made.rows))
        group = self.groups[at]
        if any(reduced):
            group.reduced = reduced
        group.assignments.append(made)
        for target in made.targets:
            self._written.setdefault(target.buffer, []).append((at, made))

    @staticmethod
    def _may_join(group: Group, made: Assignment, reduced: tuple[bool, ...]) -> bool:
        if any(reduced) and any(group.reduced) and reduced != group.reduced:
            return False
        if group.is_routine or group.rows != made.rows:
            return False
        # What is reduced to nothing but itself is as an element of a loop; of the rest one kind is enough.
        streams = {(v.buffer, v.strides, v.offset) for v in group.views()}
        return len(streams) + len(made.sources) < _MOST_STREAMS


def _same(b: Any, x: Any) -> Any:
    return x


def _blocks(shape: tuple[int, ...], axes: Sequence[int]) -> int:
    """Tell in how many blocks of rows the first dimensions are reduced; 0: at once."""
    if list(axes) != list(range(len(axes))) or len(axes) == len(shape):
        return 0
    rows = prod(shape[: len(axes)])
    if rows < _MOST_ROWS_AT_ONCE or prod(shape[len(axes) :]) == 1:
        return 0
    fitting = (n for n in range(int(rows**0.5), 1, -1) if shape[0] % n == 0)
    return next(fitting, 0)


def _split(view: View, blocks: int) -> View:
    """Cut the first dimension in two."""
    shape, strides = (blocks, view.shape[0] // blocks, *view.shape[1:]), view.strides
    chosen = tuple(replace(c, index=_split(c.index, blocks)) for c in view.chosen)
    return View(view.buffer, shape, (strides[0] * shape[1], *strides), view.offset, chosen)


def _joined(view: View) -> View:
    """Leave out the second dimension, which has one element."""
    return replace(view, shape=(view.shape[0], *view.shape[2:]), strides=(view.strides[0], *view.strides[2:]))


def collapsed(group: Group) -> tuple[list[int], list[bool], dict[View, list[int]]]:
    """Merge dimensions along which all of a group's views go on evenly, and leave out those of size 1.

    Returns:
        Sizes, which of them are reduced, and the strides of each view.
    """
    views = list(dict.fromkeys(group.views()))
    sizes: list[int] = []
    reduced: list[bool] = []
    strides: dict[View, list[int]] = {v: [] for v in views}
    for n, size in enumerate(group.shape):
        if size == 1:
            continue
        # How often a loop runs that a number tells is what its first dimension is.
        is_whole = group.rows is not None and len(sizes) == 1
        is_even = all(s[-1:] == [v.strides[n] * size] for v, s in strides.items())
        if sizes and not is_whole and reduced[-1] == group.reduced[n] and is_even:
            sizes[-1] *= size
            for v, s in strides.items():
                s[-1] = v.strides[n]
            continue
        sizes.append(size)
        reduced.append(group.reduced[n])
        for v, s in strides.items():
            s.append(v.strides[n])
    if not sizes:
        return [1], [False], {v: [0] for v in views}
    return sizes, reduced, strides
