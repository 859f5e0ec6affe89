"""One loop of a region as LLVM's instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from dtfctl.runtime.kernels.native.nests import ROUTINE, Assignment, Buffer, Group, Number, View

I1, I8, I32, I64, PTR = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.PointerType()
VOID = ir.VoidType()
TYPES: dict[str, Any] = {
    "f4": ir.FloatType(),
    "f8": ir.DoubleType(),
    "i4": ir.IntType(32),
    "i8": ir.IntType(64),
    "b1": I8,
}
SIZES = {"f4": 4, "f8": 8, "i4": 4, "i8": 8, "b1": 1}
_LOOSE = ("reassoc", "nsz")


@dataclass
class Flat:
    """A group with its dimensions merged."""

    group: Group
    sizes: list[int]
    reduced: list[bool]
    strides: dict[View, list[int]]

    @property
    def adds_up(self) -> bool:
        """True when turns of an outer loop add to what others have reduced, in memory."""
        return any(self.reduced[:-1]) or (any(self.reduced) and not self.reduced[-1])

    @property
    def is_in_order(self) -> bool:
        """True when one thread has to run it from its beginning to its end."""
        scatters = any(a.target.chosen for a in self.group.assignments)
        return self.reduced[0] or scatters or self.group.is_routine or self.group.rows is not None


@contextmanager
def counted(b: Any, first: Any, end: Any, step: Any, carried: list[tuple[Any, Any]] | None = None) -> Iterator[Any]:
    """Write a loop over [first, end), not empty; what is written inside is its body."""
    before, function = b.block, b.function
    body, after = function.append_basic_block(), function.append_basic_block()
    b.branch(body)
    b.position_at_end(body)
    at = b.phi(I64)
    at.add_incoming(first, before)
    yield at
    following = b.add(at, step, flags=("nsw",))
    at.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, end), body, after)
    b.position_at_end(after)


class Body:
    """Writes the loop of a group."""

    def __init__(
        self,
        b: Any,
        stored: Callable[[int], bool],
        buffers: Sequence[Buffer],
        flat: Flat,
        at: dict[int, Any],
        first: Any,
        end: Any,
    ) -> None:
        self.b, self.flat, self.at = b, flat, at
        self.is_stored, self.buffers = stored, buffers
        self.first, self.end = first, end
        self.in_register = flat.reduced[-1]
        self.adds_up = flat.adds_up

    def write(self) -> None:
        b = self.b
        for a in self.flat.group.assignments:
            if a.how == ROUTINE:
                a.emit(b, *(self.at[v.buffer] for v in (*a.reads(), *a.targets)))
                b.ret_void()
                return
        if self.flat.reduced[0]:
            self._fill_all([])
        self._nest(0, [])
        b.ret_void()

    def _reductions(self) -> list[Assignment]:
        return [a for a in self.flat.group.assignments if a.how]

    def _fill_all(self, indices: list[Any]) -> None:
        """Begin what is added up in memory, at these indices of the outer dimensions."""
        if self.adds_up:
            for a in self._reductions():
                self._fill(a, indices)

    def _fill(self, a: Assignment, indices: list[Any]) -> None:
        b, d = self.b, len(indices)
        if d == len(self.flat.sizes):
            kind = TYPES[self.buffers[a.target.buffer].kind]
            b.store(_start(a.how, kind), self._place(a.target, indices))
        elif self.flat.reduced[d]:
            self._fill(a, [*indices, I64(0)])
        else:
            with counted(b, I64(0), I64(self.flat.sizes[d]), I64(1)) as at:
                self._fill(a, [*indices, at])

    def _nest(self, d: int, indices: list[Any]) -> None:
        b, flat = self.b, self.flat
        last = d == len(flat.sizes) - 1
        first, end = (self.first, self.end) if d == 0 else (I64(0), I64(flat.sizes[d]))
        rows = flat.group.rows
        if d == 0 and rows is not None:
            end = b.load(self.at[rows.buffer], typ=TYPES[self.buffers[rows.buffer].kind])
            end = b.sext(end, I64) if end.type.width < 64 else end
        if not last:
            with counted(b, first, end, I64(1)) as at:
                if d == 0 and not flat.reduced[0]:
                    self._fill_all([at])
                self._nest(d + 1, [*indices, at])
            return
        if not self.in_register:
            with counted(b, first, end, I64(1)) as at:
                self._element([*indices, at], {})
            return
        reductions = self._reductions()
        before = b.block
        body, after = b.function.append_basic_block(), b.function.append_basic_block()
        b.branch(body)
        b.position_at_end(body)
        at = b.phi(I64)
        at.add_incoming(first, before)
        so_far: dict[int, Any] = {}
        for n, a in enumerate(reductions):
            kind = TYPES[self.buffers[a.target.buffer].kind]
            so_far[n] = b.phi(kind)
            so_far[n].add_incoming(_start(a.how, kind), before)
        results = self._element([*indices, at], so_far)
        following = b.add(at, I64(1), flags=("nsw",))
        at.add_incoming(following, b.block)
        for n, value in results.items():
            so_far[n].add_incoming(value, b.block)
        b.cbranch(b.icmp_signed("<", following, end), body, after)
        b.position_at_end(after)
        for n, a in enumerate(reductions):
            value = results[n]
            place = self._place(a.target, [*indices, I64(0)])
            if self.adds_up:
                value = _combine(b, a.how, b.load(place, typ=value.type), value, False)
            b.store(value, place)

    def _element(self, indices: list[Any], so_far: dict[int, Any]) -> dict[int, Any]:
        """Write what one turn does; the reductions' next values by their number."""
        b = self.b
        known: dict[Any, Any] = {}
        results: dict[int, Any] = {}
        number = 0
        for a in self.flat.group.assignments:
            values = [self._load(s, indices, known) for s in a.sources]
            kind = self.buffers[a.target.buffer].kind
            value = a.emit(b, *values)
            if not a.how:
                if not a.target.chosen:
                    known[a.target.buffer, a.target.strides, a.target.offset, ()] = value
                if self.is_stored(a.target.buffer):
                    stored = b.zext(value, I8) if kind == "b1" else value
                    b.store(stored, self._place(a.target, indices))
            elif number in so_far:
                results[number] = _combine(b, a.how, so_far[number], value, True)
                number += 1
            else:
                place = self._place(a.target, indices)
                b.store(_combine(b, a.how, b.load(place, typ=value.type), value, False), place)
        return results

    def _load(self, source: Any, indices: list[Any], known: dict[Any, Any]) -> Any:
        if isinstance(source, Number):
            return source.value
        key = source.buffer, source.strides, source.offset, source.chosen
        if key not in known:
            kind = self.buffers[source.buffer].kind
            value = self.b.load(self._place(source, indices), typ=TYPES[kind])
            known[key] = self.b.icmp_unsigned("!=", value, I8(0)) if kind == "b1" else value
        return known[key]

    def _place(self, view: View, indices: list[Any]) -> Any:
        b = self.b
        at: Any = None
        for index, stride in zip(indices, self.flat.strides[view]):
            if stride:
                term = b.mul(index, I64(stride), flags=("nsw",)) if stride != 1 else index
                at = term if at is None else b.add(at, term, flags=("nsw",))
        if view.offset:
            at = I64(view.offset) if at is None else b.add(at, I64(view.offset), flags=("nsw",))
        for choice in view.chosen:
            if not choice.stride:
                continue
            number = b.load(self._place(choice.index, indices), typ=TYPES[self.buffers[choice.index.buffer].kind])
            if choice.skips:
                number = b.select(b.icmp_signed("<", number, number.type(0)), number.type(0), number)
            number = b.sext(number, I64) if number.type.width < 64 else number
            term = b.mul(number, I64(choice.stride), flags=("nsw",)) if choice.stride != 1 else number
            at = term if at is None else b.add(at, term, flags=("nsw",))
        kind = TYPES[self.buffers[view.buffer].kind]
        base = self.at[view.buffer]
        return base if at is None else b.gep(base, [at], source_etype=kind, inbounds=True)


def _start(how: str, kind: Any) -> Any:
    if how == "sum":
        return ir.Constant(kind, 0.0 if not isinstance(kind, ir.IntType) else 0)
    return ir.Constant(kind, float("-inf" if how == "max" else "inf"))


def _combine(b: Any, how: str, x: Any, y: Any, is_loose: bool) -> Any:
    if how == "sum":
        if isinstance(x.type, ir.IntType):
            return b.add(x, y)
        return b.fadd(x, y, flags=_LOOSE if is_loose else ())
    name = "llvm.maximum" if how == "max" else "llvm.minimum"
    function = b.module.declare_intrinsic(name, [x.type], ir.FunctionType(x.type, [x.type, x.type]))
    return b.call(function, [x, y])
