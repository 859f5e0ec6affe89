"""From a region's loops to LLVM's text.

    region(self, args, count)      looks at its arrays, then runs all loops       True, or False: they are others
    bare(words, args, count)       the same without the interpreter: of its table it gets the words; for tapes
    rows(at, args, count)          some blocks of the loops of a phase; `at` has the words, phase, first block and end
    check0(numbers)                whether numbers that choose rows choose what is there
    part(self, args, count)        the same with (phase, first, end) before them: some blocks of the loops of a phase;
                                   where one is worth being shared out
    loop0(buffers..., first, end)  one loop: some blocks of its outermost dimension

Loops one after the other that touch, in a block of rows, nothing that another one makes outside of that block, are a
phase: a block goes through all of them while it is in cache, and blocks may be shared out to cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

from llvmlite import ir

from dtfctl.runtime.kernels.native import kept, machine
from dtfctl.runtime.kernels.native.nests import Buffer, Choice, Loops, View, collapsed
from dtfctl.runtime.kernels.native.turns import I1, I8, I32, I64, PTR, SIZES, TYPES, VOID, Body, Flat, counted

# What a block of rows touches stays in a core's own cache.
_BLOCK_BYTES = 192 << 10
# Regions that touch more let other threads have the interpreter meanwhile.
_LONG_BYTES = 128 << 10
_ALIGNMENT = 64
# Of the register that says how a thread computes with real numbers: results that are not normal are zero.
_FLUSH = 1 << 15


@dataclass
class Code:
    """What is to be compiled.

    Attributes:
        text: LLVM's; scratch: bytes of memory that is needed besides; phases: in order.
        described: the arrays that it gets: the place of their type in its table, flags, rank, and sizes of each.
    """

    text: str
    scratch: int
    phases: list[Phase]
    described: list[int]


def generate(loops: Loops, operands: list[int], outputs: list[int]) -> Code:
    """Write the code of a region that gets buffers in this order, the scratch memory last."""
    return _Generator(loops, operands, outputs).generate()


@dataclass
class Phase:
    """Loops that go through rows together.

    Attributes:
        blocks: in how many parts of the same size they may be cut; 1: in none.
        nbytes: how much they touch.
        touched: what they touch.
    """

    loops: list[int]
    blocks: int
    nbytes: int
    touched: list[kept.Touched] = field(default_factory=list)


class _Generator:
    def __init__(self, loops: Loops, operands: list[int], outputs: list[int]) -> None:
        self.buffers = loops.buffers
        self.demands = loops.checks
        self.given = [*operands, *outputs]
        self.flats = [Flat(g, *collapsed(g)) for g in loops.groups]
        self.module = ir.Module()
        # Which groups touch a buffer at all.
        self.touched: dict[int, set[int]] = {}
        for n, flat in enumerate(self.flats):
            for view in flat.strides:
                self.touched.setdefault(view.buffer, set()).add(n)
        self.offsets: dict[int, int] = {}
        self.scratch = 0
        for n, buffer in enumerate(self.buffers):
            if buffer.role == "temporary" and self._is_stored(n):
                self.offsets[n] = self.scratch
                self.scratch += -(-prod(buffer.shape) * SIZES[buffer.kind] // _ALIGNMENT) * _ALIGNMENT
        self.phases = self._phases()

    def _is_stored(self, buffer: int) -> bool:
        """Tell whether a value is more than a register of one loop."""
        if self.buffers[buffer].role != "temporary" or len(self.touched.get(buffer, ())) > 1:
            return True
        groups = [self.flats[n].group for n in self.touched.get(buffer, ())]
        return any(a.how for g in groups for a in g.assignments if buffer in (t.buffer for t in a.targets))

    def generate(self) -> Code:
        for n, flat in enumerate(self.flats):
            self._loop(n, flat)
        self._run()
        write_fits(self.module)
        self._bare()
        self._rows()
        self._region()
        if any(kept.is_shared(phase.blocks, phase.nbytes) for phase in self.phases):
            self._part()
        for phase in self.phases:
            phase.touched = self._touched(phase)
        return Code(str(self.module), self.scratch, self.phases, self._described())

    def _touched(self, phase: Phase) -> list[kept.Touched]:
        written = {t.buffer for n in phase.loops for a in self.flats[n].group.assignments for t in a.targets}
        # Whether all that is done with an array goes by rows.
        found: dict[int, bool] = {}
        for n in phase.loops:
            flat = self.flats[n]
            for view, strides in flat.strides.items():
                if self._is_stored(view.buffer):
                    by_rows = not flat.is_in_order and self._has_rows(view, strides, flat, phase.blocks)
                    found[view.buffer] = found.get(view.buffer, True) and by_rows
                for choice in view.chosen:
                    found[choice.index.buffer] = False
        touched = []
        for buffer, by_rows in found.items():
            size = prod(self.buffers[buffer].shape) * SIZES[self.buffers[buffer].kind]
            if buffer in self.offsets:
                touched.append(kept.Touched(len(self.given), self.offsets[buffer], size, buffer in written, by_rows))
            elif buffer in self.given:
                touched.append(kept.Touched(self.given.index(buffer), 0, size, buffer in written, by_rows))
        return touched

    def _has_rows(self, view: View, strides: list[int], flat: Flat, blocks: int) -> bool:
        """Tell whether each of so many blocks of a loop touches, of a view, its own part of the buffer only."""
        size = prod(self.buffers[view.buffer].shape)
        if view.chosen or size % blocks or flat.sizes[0] % blocks:
            return False
        rows = flat.sizes[0] // blocks
        reach = view.offset + sum((s - 1) * t for s, t in zip(flat.sizes[1:], strides[1:]))
        return strides[0] * rows == size // blocks and reach + (rows - 1) * strides[0] < size // blocks

    # Phases -----------------------------------------------------------------------------------------------------------

    def _phases(self) -> list[Phase]:
        phases: list[Phase] = []
        for n, flat in enumerate(self.flats):
            nbytes = sum(self._bytes(view, flat) for view in flat.strides if self._is_stored(view.buffer))
            blocks = 1 if flat.is_in_order else flat.sizes[0]
            if phases and blocks > 1:
                last = phases[-1]
                common = gcd(last.blocks, blocks)
                while common > 1 and not self._goes_by_rows([*last.loops, n], common):
                    common = next((c for c in range(common // 2, 1, -1) if common % c == 0), 1)
                if common >= 8 or (common > 1 and common == max(last.blocks, blocks)):
                    phases[-1] = Phase([*last.loops, n], common, last.nbytes + nbytes)
                    continue
            phases.append(Phase([n], blocks, nbytes))
        return phases

    def _bytes(self, view: View, flat: Flat) -> int:
        count = 1
        varying = [flat.strides[view], *(flat.strides[c.index] for c in view.chosen)]
        for size, *strides in zip(flat.sizes, *varying):
            count *= size if any(strides) else 1
        return count * SIZES[self.buffers[view.buffer].kind]

    def _goes_by_rows(self, loops: list[int], blocks: int) -> bool:
        """Tell whether each block of these loops needs of what they write only what the same block has written."""
        written = {t.buffer for n in loops for a in self.flats[n].group.assignments for t in a.targets}
        for n in loops:
            flat = self.flats[n]
            if flat.sizes[0] % blocks or flat.is_in_order:
                return False
            for view, strides in flat.strides.items():
                is_shared = view.buffer in written and self._is_stored(view.buffer)
                if is_shared and not self._has_rows(view, strides, flat, blocks):
                    return False
        return True

    # One loop ---------------------------------------------------------------------------------------------------------

    def _arguments(self, flat: Flat) -> list[int]:
        return [n for n in dict.fromkeys(v.buffer for v in flat.strides) if self._is_stored(n)]

    def _loop(self, n: int, flat: Flat) -> None:
        arguments = self._arguments(flat)
        function = ir.Function(self.module, ir.FunctionType(VOID, [*[PTR] * len(arguments), I64, I64]), f"loop{n}")
        function.linkage = "internal"
        function.attributes.add("noinline")
        function.attributes.add("nounwind")
        for argument in function.args[: len(arguments)]:
            argument.add_attribute("noalias")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        at = dict(zip(arguments, function.args))
        Body(b, self._is_stored, self.buffers, flat, at, function.args[-2], function.args[-1]).write()

    # Entries ----------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """run(buffers, phase, first, end): some blocks of a phase."""
        function = ir.Function(self.module, ir.FunctionType(VOID, [PTR, I64, I64, I64]), "run")
        function.linkage = "internal"
        function.attributes.add("noinline")
        function.attributes.add("nounwind")
        buffers, number, first, end = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        done = function.append_basic_block("done")
        choice = b.switch(number, done)
        for n, phase in enumerate(self.phases):
            choice.add_case(I64(n), block := function.append_basic_block(f"phase{n}"))
            b.position_at_end(block)
            at: dict[int, Any] = {}
            for buffer in dict.fromkeys(a for k in phase.loops for a in self._arguments(self.flats[k])):
                at[buffer] = self._address(b, buffers, buffer)
            for k in phase.loops:
                flat = self.flats[k]
                rows = I64(flat.sizes[0] // phase.blocks) if phase.blocks > 1 else I64(0)
                low, high = (b.mul(first, rows), b.mul(end, rows)) if phase.blocks > 1 else (I64(0), I64(flat.sizes[0]))
                loop = self.module.get_global(f"loop{k}")
                b.call(loop, [*(at[a] for a in self._arguments(flat)), low, high])
            b.branch(done)
        b.position_at_end(done)
        b.ret_void()

    def _address(self, b: Any, buffers: Any, buffer: int) -> Any:
        if buffer in self.offsets:
            scratch = b.load(b.gep(buffers, [I64(len(self.given))], source_etype=PTR), typ=PTR)
            return b.gep(scratch, [I64(self.offsets[buffer])], source_etype=I8)
        return b.load(b.gep(buffers, [I64(self.given.index(buffer))], source_etype=PTR), typ=PTR)

    def _described(self) -> list[int]:
        """Describe the arrays that the code gets, the scratch memory last."""
        described: list[int] = []
        for buffer in [*(self.buffers[n] for n in self.given), Buffer("u1", (max(self.scratch, 1),), "output")]:
            flags = machine.CONTIGUOUS | (machine.WRITABLE if buffer.role in ("output", "updated") else 0)
            described += [machine.DTYPES + machine.TYPES.index(buffer.kind), flags, len(buffer.shape), *buffer.shape]
        return described

    def _bare(self) -> None:
        """bare(words, arrays, count): run all loops, whoever holds the interpreter; False where arrays are others."""
        function = ir.Function(self.module, ir.FunctionType(I1, [PTR, PTR, I64]), "bare")
        if self._checks():
            # A step of a tape never refuses arrays for what is in them.
            function.linkage = "internal"
        words, arrays, count = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        total = len(self.given) + 1
        buffers = b.alloca(PTR, size=I64(total))
        refused = self._look(b, words, arrays, count, buffers)
        run = self.module.get_global("run")
        for n, phase in enumerate(self.phases):
            step = phase.blocks
            if phase.blocks > 1 and len(phase.loops) > 1:
                step = max(1, phase.blocks * _BLOCK_BYTES // max(phase.nbytes, 1))
            if step >= phase.blocks:
                b.call(run, [buffers, I64(n), I64(0), I64(phase.blocks)])
                continue
            with counted(b, I64(0), I64(phase.blocks), I64(step)) as at:
                end = b.add(at, I64(step))
                end = b.select(b.icmp_signed("<", end, I64(phase.blocks)), end, I64(phase.blocks))
                b.call(run, [buffers, I64(n), at, end])
        b.ret(I1(1))
        b.position_at_end(refused)
        b.ret(I1(0))

    def _rows(self) -> None:
        """rows(at, arrays, count): run some blocks of a phase; False where arrays are others."""
        function = ir.Function(self.module, ir.FunctionType(I1, [PTR, PTR, I64]), "rows")
        if self._checks():
            function.linkage = "internal"
        at, arrays, count = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        words, phase, first, end = (
            b.load(b.gep(at, [I64(n)], source_etype=I64), typ=PTR if n == 0 else I64) for n in range(4)
        )
        buffers = b.alloca(PTR, size=I64(len(self.given) + 1))
        refused = self._look(b, words, arrays, count, buffers)
        b.call(self.module.get_global("run"), [buffers, phase, first, end])
        b.ret(I1(1))
        b.position_at_end(refused)
        b.ret(I1(0))

    def _look(self, b: Any, words: Any, arrays: Any, count: Any, buffers: Any) -> Any:
        """Write the looking at arrays; the block that is gone to where they are others."""
        function = b.function
        refused = function.append_basic_block("refused")

        def demand(fact: Any) -> None:
            go_on = function.append_basic_block()
            b.cbranch(fact, go_on, refused)
            b.position_at_end(go_on)

        total = len(self.given) + 1
        demand(b.icmp_signed("==", count, I64(total)))
        demand(b.call(self.module.get_global("fits"), [words, arrays, I64(total), buffers]))
        for check in self._checks():
            numbers = b.load(b.gep(buffers, [I64(self.given.index(check.index.buffer))], source_etype=PTR), typ=PTR)
            demand(b.call(self._check(check), [numbers]))
        return refused

    def _region(self) -> None:
        with entry_of(self.module, "region") as (b, words, args, count):
            is_long = sum(p.nbytes for p in self.phases) >= _LONG_BYTES
            state = call_outside(b, words, machine.SAVE_THREAD) if is_long else None
            with flushing(b):
                fits = b.call(self.module.get_global("bare"), [words, args, count])
            if state is not None:
                call_outside(b, words, machine.RESTORE_THREAD, state)
            return_truth(b, words, fits)

    def _part(self) -> None:
        with entry_of(self.module, "part") as (b, words, args, count):
            buffers = b.alloca(PTR, size=I64(len(self.given) + 1))
            arrays = b.gep(args, [I64(3)], source_etype=PTR)
            refused = self._look(b, words, arrays, b.sub(count, I64(3)), buffers)
            state = call_outside(b, words, machine.SAVE_THREAD)
            as_number = [b.load(b.gep(args, [I64(n)], source_etype=PTR), typ=PTR) for n in range(3)]
            # What comes first are arrays of one number: nothing of the interpreter is asked for it.
            values = [b.load(b.load(field_of(b, a, machine.DATA), typ=PTR), typ=I64) for a in as_number]
            with flushing(b):
                b.call(self.module.get_global("run"), [buffers, *values])
            call_outside(b, words, machine.RESTORE_THREAD, state)
            return_truth(b, words, I1(1))
            b.position_at_end(refused)
            return_truth(b, words, I1(0))

    def _checks(self) -> list[Choice]:
        """List what has to be looked at before anything is read by numbers that may be any."""
        chosen = [c for f in self.flats for v in f.strides for c in v.chosen if not c.is_made]
        return list(dict.fromkeys([*self.demands, *chosen]))

    def _check(self, choice: Choice) -> Any:
        """Write a function of an array: whether its numbers choose what is there."""
        name = f"check{self._checks().index(choice)}"
        if name in self.module.globals:
            return self.module.get_global(name)
        function = ir.Function(self.module, ir.FunctionType(I1, [PTR]), name)
        function.linkage = "internal"
        b = ir.IRBuilder(function.append_basic_block("entry"))
        index = choice.index
        kind = TYPES[self.buffers[index.buffer].kind]
        compare = b.icmp_signed if choice.skips else b.icmp_unsigned
        # Along what a view is broadcast its numbers are the same ones.
        dimensions = [(size, stride) for size, stride in zip(index.shape, index.strides) if stride and size > 1]

        def look(rest: list[tuple[int, int]], at: Any, wrong: Any) -> Any:
            if not rest:
                number = b.load(b.gep(function.args[0], [at], source_etype=kind), typ=kind)
                return b.or_(wrong, b.zext(compare(">=", number, kind(choice.limit)), I8))
            size, stride = rest[0]
            before = b.block
            with counted(b, I64(0), I64(size), I64(1)) as n:
                so_far = b.phi(I8)
                so_far.add_incoming(wrong, before)
                found = look(rest[1:], b.add(at, b.mul(n, I64(stride))), so_far)
                so_far.add_incoming(found, b.block)
            return found

        wrong = look(dimensions, I64(index.offset), I8(0))
        b.ret(b.icmp_unsigned("==", wrong, I8(0)))
        return function


@contextmanager
def entry_of(module: Any, name: str) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Write a built-in function: what is written inside gets the builder, the table's words, the arguments and their
    number, and returns a truth."""
    function = ir.Function(module, ir.FunctionType(PTR, [PTR, PTR, I64]), name)
    table, args, count = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    yield b, b.load(field_of(b, table, machine.DATA), typ=PTR), args, count


@contextmanager
def flushing(b: Any) -> Iterator[None]:
    """Have results that are too small to be normal be zero in what is written inside, as TensorFlow's kernels have.

    A processor takes a hundred times as long for each, and the gradients of deep nets can be full of them.
    """
    as_found = flush(b)
    yield
    _control(b, "llvm.x86.sse.ldmxcsr", as_found)


def flush(b: Any) -> Any:
    """Write that from now on such results are zero; returns where it is kept what was before."""
    with b.goto_entry_block():
        as_found, flushing = b.alloca(I32), b.alloca(I32)
    _control(b, "llvm.x86.sse.stmxcsr", as_found)
    b.store(b.or_(b.load(as_found, typ=I32), I32(_FLUSH)), flushing)
    _control(b, "llvm.x86.sse.ldmxcsr", flushing)
    return as_found


def _control(b: Any, name: str, at: Any) -> None:
    b.call(b.module.declare_intrinsic(name, (), ir.FunctionType(VOID, [PTR])), [at])


def word_of(b: Any, words: Any, n: int) -> Any:
    return b.load(b.gep(words, [I64(n)], source_etype=I64), typ=I64)


def call_outside(b: Any, words: Any, n: int, *args: Any) -> Any:
    """Call a function of the interpreter, whose address the table has at place `n`."""
    kind = ir.FunctionType(PTR if n == machine.SAVE_THREAD else VOID, [PTR] * len(args))
    return b.call(b.inttoptr(word_of(b, words, n), ir.PointerType(kind)), list(args))


def return_truth(b: Any, words: Any, fact: Any) -> None:
    """Return True or False of the interpreter's."""
    truth = b.select(fact, word_of(b, words, machine.TRUE), word_of(b, words, machine.FALSE))
    truth = b.inttoptr(truth, PTR)
    call_outside(b, words, machine.INCREF, truth)
    b.ret(truth)


def write_fits(module: Any) -> Any:
    """fits(words, arrays, count, buffers): whether arrays are as they are described; fills in where they are."""
    function = ir.Function(module, ir.FunctionType(I1, [PTR, PTR, I64, PTR]), "fits")
    function.linkage = "internal"
    words, arrays, count, buffers = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    refused = function.append_basic_block("refused")

    def word(at: Any) -> Any:
        return b.load(b.gep(words, [at], source_etype=I64), typ=I64)

    def demand(x: Any, y: Any) -> None:
        go_on = function.append_basic_block()
        b.cbranch(b.icmp_signed("==", x, y), go_on, refused)
        b.position_at_end(go_on)

    first = b.add(word(I64(machine.NUMBERS)), I64(machine.NUMBERS))
    kind = word(I64(machine.ARRAY_TYPE))
    before = b.block
    with counted(b, I64(0), count, I64(1)) as n:
        at = b.phi(I64)
        at.add_incoming(first, before)
        array = b.load(b.gep(arrays, [n], source_etype=PTR), typ=PTR)
        demand(b.load(field_of(b, array, 8), typ=I64), kind)
        demand(b.load(field_of(b, array, machine.DESCRIPTOR), typ=I64), word(word(at)))
        flags = b.trunc(word(b.add(at, I64(1))), I32)
        demand(b.and_(b.load(field_of(b, array, machine.FLAGS), typ=I32), flags), flags)
        rank = word(b.add(at, I64(2)))
        demand(b.zext(b.load(field_of(b, array, machine.RANK), typ=I32), I64), rank)
        sizes = b.add(at, I64(3))
        dimensions = b.load(field_of(b, array, machine.DIMENSIONS), typ=PTR)
        with b.if_then(b.icmp_signed(">", rank, I64(0))), counted(b, I64(0), rank, I64(1)) as d:
            demand(b.load(b.gep(dimensions, [d], source_etype=I64), typ=I64), word(b.add(sizes, d)))
        data = b.load(field_of(b, array, machine.DATA), typ=PTR)
        b.store(data, b.gep(buffers, [n], source_etype=PTR))
        at.add_incoming(b.add(sizes, rank), b.block)
    b.ret(I1(1))
    b.position_at_end(refused)
    b.ret(I1(0))
    return function


def field_of(b: Any, object_: Any, offset: int) -> Any:
    return b.gep(object_, [I64(offset)], source_etype=I8)
