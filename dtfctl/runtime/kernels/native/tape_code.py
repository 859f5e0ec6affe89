"""LLVM's text of what runs tapes: one code for all of them, which finds what it does in its table.

    tape(self, args, count)         puts its arguments where its steps want them, and runs all steps without the
                                    interpreter: True, False where a step's arrays are others and nothing was run,
                                    None where a step has failed
    execute(words, arrays, count)   primitives of oneDNN's one after the other, on arrays as they are
    loop(words, arrays, count)      a loop that numba has compiled, whose arguments lie where its words say
    gemm(words, arrays, count)      its general product of matrices
    sgemm, dgemm(words, ...)        that of BLAS, of float32 and float64

A step is the address of a function like the last ones, its words, where the arrays are that it gets, how many those
are, and what lanes.py says. What the numbers of tables are is said where they are filled in (tape.py, onednn/steps.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from dtfctl.runtime.kernels.native import machine
from dtfctl.runtime.kernels.native.code import (
    call_outside,
    entry_of,
    flushing,
    return_truth,
    word_of,
    write_fits,
)
from dtfctl.runtime.kernels.native.lanes import LEAST, STEP_WORDS
from dtfctl.runtime.kernels.native.lanes_code import clock, do, set_threads, word, write_lanes
from dtfctl.runtime.kernels.native.turns import I1, I8, I32, I64, PTR, TYPES, VOID, counted

_OWN = machine.NUMBERS + 1
_FLOAT = TYPES["f4"]
_MOST = machine.MOST_OF_STEP
# Where a tape's words have its lanes.
_LANES = _OWN + 9 + 2 * machine.TAPE_POOLS


def text() -> str:
    """Write it."""
    module = ir.Module()
    write_fits(module)
    _steps(module)
    _looks(module)
    write_lanes(module)
    _tape(module)
    _execute(module)
    _loop(module)
    _gemm(module)
    _blas(module, "sgemm", TYPES["f4"])
    _blas(module, "dgemm", TYPES["f8"])
    return str(module)


def _steps(module: Any) -> None:
    """steps(at, count): run steps one after the other, and note how long each takes at least. False as soon as one
    refuses.
    """
    function = ir.Function(module, ir.FunctionType(I1, [PTR, I64]), "steps")
    function.linkage = "internal"
    at, count = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    refused = function.append_basic_block("refused")
    with counted(b, I64(0), count, I64(1)) as n:
        step = b.gep(at, [b.mul(n, I64(STEP_WORDS))], source_etype=I64)
        began = clock(b)
        fits = do(b, step)
        taken = b.sub(clock(b), began)
        least = b.gep(step, [I64(LEAST)], source_etype=I64)
        before = b.load(least, typ=I64)
        b.store(b.select(b.icmp_unsigned("<", taken, before), taken, before), least)
        go_on = function.append_basic_block()
        b.cbranch(fits, go_on, refused)
        b.position_at_end(go_on)
    b.ret(I1(1))
    b.position_at_end(refused)
    b.ret(I1(0))


def _looks(module: Any) -> None:
    """looks(at, count, room): whether the arrays of some steps are as these want them."""
    function = ir.Function(module, ir.FunctionType(I1, [PTR, I64, PTR]), "looks")
    function.linkage = "internal"
    at, count, room = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    refused, fine = function.append_basic_block("refused"), function.append_basic_block("fine")
    some = function.append_basic_block()
    b.cbranch(b.icmp_signed(">", count, I64(0)), some, fine)
    b.position_at_end(some)
    with counted(b, I64(0), count, I64(1)) as n:
        step = b.gep(at, [b.mul(n, I64(STEP_WORDS))], source_etype=I64)
        words, arrays, given = (word(b, step, k) for k in (1, 2, 3))
        fits = b.call(module.get_global("fits"), [b.inttoptr(words, PTR), b.inttoptr(arrays, PTR), given, room])
        go_on = function.append_basic_block()
        b.cbranch(fits, go_on, refused)
        b.position_at_end(go_on)
    b.branch(fine)
    b.position_at_end(fine)
    b.ret(I1(1))
    b.position_at_end(refused)
    b.ret(I1(0))


def _tape(module: Any) -> None:
    with entry_of(module, "tape") as (b, words, args, count):
        wanted, places, patches, looks, look_count, room, steps, step_count, none = (
            _own(b, words, n) for n in range(9)
        )
        pools = [(_own(b, words, n), _own(b, words, n + 1)) for n in range(9, 9 + 2 * machine.TAPE_POOLS, 2)]
        with b.if_then(b.icmp_signed("!=", count, wanted)):
            return_truth(b, words, I1(0))
        with b.if_then(b.icmp_signed(">", patches, I64(0))), counted(b, I64(0), patches, I64(1)) as n:
            pair = b.gep(b.inttoptr(places, PTR), [b.mul(n, I64(2))], source_etype=I64)
            array = b.load(b.gep(args, [word(b, pair, 1)], source_etype=PTR), typ=PTR)
            b.store(array, b.inttoptr(word(b, pair, 0), PTR))
        fits = b.call(module.get_global("looks"), [b.inttoptr(looks, PTR), look_count, b.inttoptr(room, PTR)])
        with b.if_then(b.not_(fits)):
            return_truth(b, words, I1(0))
        state = call_outside(b, words, machine.SAVE_THREAD)
        for function, _ in pools:
            set_threads(b, function, I64(1))
        with flushing(b):
            crew, job = (word(b, words, _LANES + n) for n in range(2))
            ran = b.call(module.get_global("run"), [crew, job])
            by_all = b.icmp_signed(">=", ran, I64(0))
            with b.if_else(by_all) as (then, otherwise):
                with then:
                    fine, after = b.icmp_signed("==", ran, I64(1)), b.block
                with otherwise:
                    fine_alone = b.call(module.get_global("steps"), [b.inttoptr(steps, PTR), step_count])
                    after_alone = b.block
            ran = b.phi(I1)
            ran.add_incoming(fine, after)
            ran.add_incoming(fine_alone, after_alone)
        for function, threads in pools:
            set_threads(b, function, threads)
        call_outside(b, words, machine.RESTORE_THREAD, state)
        with b.if_then(b.not_(ran)):
            nothing = b.inttoptr(none, PTR)
            call_outside(b, words, machine.INCREF, nothing)
            b.ret(nothing)
        return_truth(b, words, I1(1))


def _execute(module: Any) -> None:
    with _step_of(module, "execute", _MOST) as (b, words, _, buffers):
        set_handle, execute, stream, point_count, points, run_count, runs = (_own(b, words, n) for n in range(7))
        point = b.inttoptr(set_handle, ir.PointerType(ir.FunctionType(I32, [I64, PTR])))
        with counted(b, I64(0), point_count, I64(1)) as n:
            at = b.gep(b.inttoptr(points, PTR), [b.mul(n, I64(3))], source_etype=I64)
            memory, which, offset = (word(b, at, k) for k in range(3))
            begin = b.load(b.gep(buffers, [which], source_etype=PTR), typ=PTR)
            b.call(point, [memory, b.gep(begin, [offset], source_etype=I8)])
        run = b.inttoptr(execute, ir.PointerType(ir.FunctionType(I32, [I64, I64, I32, I64])))
        with counted(b, I64(0), run_count, I64(1)) as n:
            at = b.gep(b.inttoptr(runs, PTR), [b.mul(n, I64(3))], source_etype=I64)
            primitive, argument_count, arguments = (word(b, at, k) for k in range(3))
            status = b.call(run, [primitive, stream, b.trunc(argument_count, I32), arguments])
            with b.if_then(b.icmp_signed("!=", status, I32(0))):
                b.ret(I1(0))
        b.ret(I1(1))


def _loop(module: Any) -> None:
    with _step_of(module, "loop", _MOST) as (b, words, _, buffers):
        address, packed, point_count, points = (_own(b, words, n) for n in range(4))
        with counted(b, I64(0), point_count, I64(1)) as n:
            at = b.gep(b.inttoptr(points, PTR), [b.mul(n, I64(3))], source_etype=I64)
            place, which, offset = (word(b, at, k) for k in range(3))
            begin = b.load(b.gep(buffers, [which], source_etype=PTR), typ=PTR)
            b.store(b.gep(begin, [offset], source_etype=I8), b.inttoptr(place, PTR))
        run = b.inttoptr(address, ir.PointerType(ir.FunctionType(I32, [I64])))
        b.ret(b.icmp_signed("==", b.call(run, [packed]), I32(0)))


def _gemm(module: Any) -> None:
    with _step_of(module, "gemm", _MOST) as (b, words, _, buffers):
        address, ta, tb = (_own(b, words, n) for n in range(3))
        matrix = (PTR, I64)
        kind = ir.FunctionType(I32, [I8, I8, I64, I64, I64, _FLOAT, *matrix, *matrix, _FLOAT, *matrix])
        run = b.inttoptr(address, ir.PointerType(kind))
        flags = b.trunc(ta, I8), b.trunc(tb, I8)
        with _products(b, words, buffers, 3) as (rows, columns, inner, a, lda, c, ldb, d):
            status = b.call(run, [*flags, rows, columns, inner, _FLOAT(1), a, lda, c, ldb, _FLOAT(0), d, columns])
            with b.if_then(b.icmp_signed("!=", status, I32(0))):
                b.ret(I1(0))
        b.ret(I1(1))


def _blas(module: Any, name: str, real: Any) -> None:
    with _step_of(module, name, _MOST) as (b, words, _, buffers):
        address, order, ta, tb = (_own(b, words, n) for n in range(4))
        # Whole numbers of 32 bits are the lower half of what is passed, in registers and on the stack.
        matrix = (PTR, I64)
        kind = ir.FunctionType(VOID, [*[I64] * 6, real, *matrix, *matrix, real, *matrix])
        run = b.inttoptr(address, ir.PointerType(kind))
        with _products(b, words, buffers, 4) as (rows, columns, inner, a, lda, c, ldb, d):
            b.call(run, [order, ta, tb, rows, columns, inner, real(1), a, lda, c, ldb, real(0), d, columns])
        b.ret(I1(1))


@contextmanager
def _products(b: Any, words: Any, buffers: Any, at: int) -> Iterator[tuple[Any, ...]]:
    """Write a loop over the products of a step, whose words from a place on say what they are (matrices.py): what is
    written inside gets sizes, and where both factors and the product begin, and the factors' rows."""
    rows, columns, inner, lda, ldb, count = (_own(b, words, at + n) for n in range(6))
    places, begins, strides = ([_own(b, words, at + 6 + 3 * k + n) for n in range(3)] for k in range(3))
    arrays = [b.load(b.gep(buffers, [place], source_etype=PTR), typ=PTR) for place in places]
    with counted(b, I64(0), count, I64(1)) as n:
        a, c, d = (
            b.gep(array, [b.add(begin, b.mul(n, stride))], source_etype=I8)
            for array, begin, stride in zip(arrays, begins, strides)
        )
        yield rows, columns, inner, a, lda, c, ldb, d


@contextmanager
def _step_of(module: Any, name: str, most: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Write a step's function: what is written inside gets the builder, words, how many arrays, and where they are."""
    function = ir.Function(module, ir.FunctionType(I1, [PTR, PTR, I64]), name)
    words, arrays, count = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    refused = function.append_basic_block("refused")
    buffers = b.alloca(PTR, size=I64(most))
    looking, going_on = function.append_basic_block(), function.append_basic_block()
    b.cbranch(b.icmp_unsigned("<=", count, I64(most)), looking, refused)
    b.position_at_end(looking)
    b.cbranch(b.call(module.get_global("fits"), [words, arrays, count, buffers]), going_on, refused)
    b.position_at_end(going_on)
    yield b, words, count, buffers
    b.position_at_end(refused)
    b.ret(I1(0))


def _own(b: Any, words: Any, n: int) -> Any:
    return word_of(b, words, _OWN + n)
