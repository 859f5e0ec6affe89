"""LLVM's text of what runs tapes: one code for all of them, which finds what it does in its table.

    tape(self, args, count)         puts its arguments where its steps want them, and runs all steps without the
                                    interpreter: True, False where a step's arrays are others and nothing was run,
                                    None where a step has failed
    product(words, arrays, count)   one primitive of oneDNN's, on arrays as they are
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
    flush,
    flushing,
    return_truth,
    word_of,
    write_fits,
)
from dtfctl.runtime.kernels.native.lanes import (
    ALIVE,
    BUSY,
    COUNT,
    FAILED,
    FIRST_DONE,
    IDLE,
    LEAST,
    NEED,
    NUMBER,
    PATIENCE,
    PLACE,
    POSTED,
    REVOKED,
    SECOND_DONE,
    SET_THREADS,
    SLEEPS,
    STATE,
    STEP_WORDS,
    STEPS,
    SYSTEM,
    TAKEN,
)
from dtfctl.runtime.kernels.native.turns import I1, I8, I32, I64, PTR, TYPES, VOID, counted

_OWN = machine.NUMBERS + 1
_FLOAT = TYPES["f4"]
# Arrays that a product gets at most.
_MOST = machine.MOST_OF_PRODUCT
# Where a tape's words have its lanes.
_LANES = _OWN + 9 + 2 * machine.TAPE_POOLS
# Looks before a lane that nobody has begun is taken back, and between two at which others may have the core.
_PATIENCE, _YIELDS = 2000, 1 << 15
# Of Linux on x86-64: system calls, and what a futex is to do, for threads of this process.
_FUTEX, _YIELD, _WAIT, _WAKE = 202, 24, 128, 129


def text() -> str:
    """Write it."""
    module = ir.Module()
    write_fits(module)
    _steps(module)
    _looks(module)
    _lane(module)
    _run(module)
    _serve(module)
    _tape(module)
    _product(module)
    _gemm(module)
    _blas(module, "sgemm", TYPES["f4"])
    _blas(module, "dgemm", TYPES["f8"])
    return str(module)


def _steps(module: Any) -> None:
    """steps(at, count, done): run steps one after the other, but for those of which a place says that they are done;
    note how long each takes at least. False as soon as one refuses.
    """
    function = ir.Function(module, ir.FunctionType(I1, [PTR, I64, I64]), "steps")
    function.linkage = "internal"
    at, count, done = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    refused = function.append_basic_block("refused")
    with counted(b, I64(0), count, I64(1)) as n:
        step = b.gep(at, [b.mul(n, I64(STEP_WORDS))], source_etype=I64)
        with b.if_then(b.icmp_signed(">=", _word(b, step, PLACE), done)):
            began = _clock(b)
            fits = _do(b, step)
            taken = b.sub(_clock(b), began)
            least = b.gep(step, [I64(LEAST)], source_etype=I64)
            before = b.load(least, typ=I64)
            b.store(b.select(b.icmp_unsigned("<", taken, before), taken, before), least)
            go_on = function.append_basic_block()
            b.cbranch(fits, go_on, refused)
            b.position_at_end(go_on)
    b.ret(I1(1))
    b.position_at_end(refused)
    b.ret(I1(0))


def _do(b: Any, step: Any) -> Any:
    run, words, arrays, given = (_word(b, step, k) for k in range(4))
    call = b.inttoptr(run, ir.PointerType(ir.FunctionType(I1, [PTR, PTR, I64])))
    return b.call(call, [b.inttoptr(words, PTR), b.inttoptr(arrays, PTR), given])


def _clock(b: Any) -> Any:
    return b.call(b.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(I64, [])), [])


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
        words, arrays, given = (_word(b, step, k) for k in (1, 2, 3))
        fits = b.call(module.get_global("fits"), [b.inttoptr(words, PTR), b.inttoptr(arrays, PTR), given, room])
        go_on = function.append_basic_block()
        b.cbranch(fits, go_on, refused)
        b.position_at_end(go_on)
    b.branch(fine)
    b.position_at_end(fine)
    b.ret(I1(1))
    b.position_at_end(refused)
    b.ret(I1(0))


def _lane(module: Any) -> None:
    """lane(at, count, post, own, other, gives_up): run the steps of a lane, each once the other lane has done enough.

    How many were run: fewer than there are where it gives up, as nobody has begun the other lane for a while, and
    nobody will any more. `own` and `other` are places in `post` where each lane says how many it has done.
    """
    function = ir.Function(module, ir.FunctionType(I64, [PTR, I64, PTR, I64, I64, I1]), "lane")
    function.linkage = "internal"
    at, count, post, own, other, gives_up = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    done = b.gep(post, [own], source_etype=I64)
    others = b.gep(post, [other], source_etype=I64)
    state = b.gep(post, [I64(STATE)], source_etype=I64)
    with counted(b, I64(0), count, I64(1)) as n:
        step = b.gep(at, [b.mul(n, I64(STEP_WORDS))], source_etype=I64)
        need = _word(b, step, NEED)
        look, wait, run = (function.append_basic_block(name) for name in ("look", "wait", "run"))
        before = b.block
        b.branch(look)
        b.position_at_end(look)
        looks = b.phi(I64)
        looks.add_incoming(I64(0), before)
        b.cbranch(b.icmp_signed(">=", _shared(b, others), need), run, wait)
        b.position_at_end(wait)
        more = b.add(looks, I64(1))
        _relax(b, post, more)
        with b.if_then(b.and_(gives_up, b.icmp_signed(">", more, I64(_PATIENCE)))):
            given_up = b.extract_value(b.cmpxchg(state, I64(POSTED), I64(REVOKED), "seq_cst"), 1)
            with b.if_then(given_up):
                b.ret(n)
        looks.add_incoming(more, b.block)
        b.branch(look)
        b.position_at_end(run)
        with b.if_then(b.not_(_do(b, step))):
            _write(b, I64(1), b.gep(post, [I64(FAILED)], source_etype=I64))
        _write(b, b.add(n, I64(1)), done)
    b.ret(count)


def _run(module: Any) -> None:
    """run(lanes, steps, count): run steps by two threads where there are lanes and the other thread is there."""
    function = ir.Function(module, ir.FunctionType(I1, [PTR, I64, I64]), "run")
    function.linkage = "internal"
    lanes, steps, count = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    post_at, first, first_count, second, second_count, set_threads = (_word(b, lanes, n) for n in range(6))
    post = b.inttoptr(post_at, PTR)
    alone = function.append_basic_block("alone")
    at = b.inttoptr(steps, PTR)

    def place(n: int) -> Any:
        return b.gep(post, [I64(n)], source_etype=I64)

    def go_on_if(fact: Any) -> None:
        go_on = function.append_basic_block()
        b.cbranch(fact, go_on, alone)
        b.position_at_end(go_on)

    go_on_if(b.icmp_signed("!=", post_at, I64(0)))
    go_on_if(b.icmp_signed("!=", _shared(b, place(ALIVE)), I64(0)))
    go_on_if(b.extract_value(b.cmpxchg(place(BUSY), I64(0), I64(1), "seq_cst"), 1))
    for n in (FIRST_DONE, SECOND_DONE, FAILED):
        b.store(I64(0), place(n))
    b.store(second, place(STEPS))
    b.store(second_count, place(COUNT))
    b.store(set_threads, place(SET_THREADS))
    _write(b, I64(POSTED), place(STATE))
    b.atomic_rmw("add", place(NUMBER), I64(1), "seq_cst")
    with b.if_then(b.icmp_signed("!=", b.load_atomic(place(SLEEPS), "seq_cst", 8, typ=I64), I64(0))):
        _system(b, post, _FUTEX, b.ptrtoint(place(NUMBER), I64), I64(_WAKE), I64(1))
    done = b.call(
        module.get_global("lane"),
        [b.inttoptr(first, PTR), first_count, post, I64(FIRST_DONE), I64(SECOND_DONE), I1(1)],
    )
    took_back = b.icmp_signed("<", done, first_count)
    own = b.extract_value(b.cmpxchg(place(STATE), I64(POSTED), I64(REVOKED), "seq_cst"), 1)
    took_back = b.or_(took_back, own)
    rest, wait, finish = (function.append_basic_block(name) for name in ("rest", "wait", "finish"))
    before = b.block
    b.cbranch(took_back, rest, wait)
    b.position_at_end(rest)
    fine = b.call(module.get_global("steps"), [at, count, done])
    with b.if_then(b.not_(fine)):
        b.store(I64(1), place(FAILED))
    b.branch(finish)
    b.position_at_end(wait)
    looks = b.phi(I64)
    looks.add_incoming(I64(1), before)
    _relax(b, post, looks)
    more = b.add(looks, I64(1))
    looks.add_incoming(more, b.block)
    b.cbranch(b.icmp_signed("==", _shared(b, place(STATE)), I64(TAKEN)), wait, finish)
    b.position_at_end(finish)
    failed = b.load(place(FAILED), typ=I64)
    _write(b, I64(0), place(BUSY))
    b.ret(b.icmp_signed("==", failed, I64(0)))
    b.position_at_end(alone)
    b.ret(b.call(module.get_global("steps"), [at, count, I64(0)]))


def _serve(module: Any) -> None:
    """serve(post): run second lanes as they are posted, until there is to be an end."""
    function = ir.Function(module, ir.FunctionType(VOID, [PTR]), "serve")
    (post,) = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def place(n: int) -> Any:
        return b.gep(post, [I64(n)], source_etype=I64)

    look, sleep, work, lane, end = (function.append_basic_block(n) for n in ("look", "sleep", "work", "lane", "end"))
    flush(b)
    start, began = _shared(b, place(NUMBER)), _clock(b)
    before = b.block
    b.branch(look)
    b.position_at_end(look)
    # The last number that was seen, and when there was work last.
    last, since = b.phi(I64), b.phi(I64)
    last.add_incoming(start, before)
    since.add_incoming(began, before)
    number = _shared(b, place(NUMBER))
    idle, again = function.append_basic_block(), function.append_basic_block()
    b.cbranch(b.icmp_signed("!=", number, last), work, idle)
    b.position_at_end(idle)
    _pause(b)
    b.cbranch(b.icmp_unsigned("<", b.sub(_clock(b), since), _word(b, post, PATIENCE)), again, sleep)
    b.position_at_end(again)
    last.add_incoming(last, b.block)
    since.add_incoming(since, b.block)
    b.branch(look)
    b.position_at_end(sleep)
    _write(b, I64(1), place(SLEEPS))
    now = b.load_atomic(place(NUMBER), "seq_cst", 8, typ=I64)
    with b.if_then(b.icmp_signed("==", now, last)):
        _system(b, post, _FUTEX, b.ptrtoint(place(NUMBER), I64), I64(_WAIT), b.and_(last, I64(0xFFFFFFFF)))
    _write(b, I64(0), place(SLEEPS))
    last.add_incoming(last, b.block)
    since.add_incoming(_clock(b), b.block)
    b.branch(look)
    b.position_at_end(work)
    stays = b.icmp_signed("!=", _shared(b, place(ALIVE)), I64(0))
    b.cbranch(stays, lane, end)
    b.position_at_end(lane)
    taken = b.extract_value(b.cmpxchg(place(STATE), I64(POSTED), I64(TAKEN), "seq_cst"), 1)
    with b.if_then(taken):
        _set_threads(b, _word(b, post, SET_THREADS), I64(1))
        steps, count = b.inttoptr(_word(b, post, STEPS), PTR), _word(b, post, COUNT)
        b.call(module.get_global("lane"), [steps, count, post, I64(SECOND_DONE), I64(FIRST_DONE), I1(0)])
        _write(b, I64(IDLE), place(STATE))
    last.add_incoming(number, b.block)
    since.add_incoming(_clock(b), b.block)
    b.branch(look)
    b.position_at_end(end)
    b.ret_void()


def _shared(b: Any, at: Any) -> Any:
    """Read what another thread writes."""
    return b.load_atomic(at, "acquire", 8, typ=I64)


def _pause(b: Any) -> None:
    b.call(b.module.declare_intrinsic("llvm.x86.sse2.pause", (), ir.FunctionType(VOID, [])), [])


def _write(b: Any, value: Any, at: Any) -> None:
    """Write what another thread reads, after all that was written before."""
    b.atomic_rmw("xchg", at, value, "seq_cst")


def _relax(b: Any, post: Any, looks: Any) -> None:
    """Wait for a moment; let others have the core from time to time."""
    _pause(b)
    with b.if_then(b.icmp_signed("==", b.and_(looks, I64(_YIELDS - 1)), I64(0))):
        _system(b, post, _YIELD, I64(0), I64(0), I64(0))


def _system(b: Any, post: Any, number: int, *args: Any) -> None:
    """Call the system; there is no fourth argument: a futex waits without end."""
    kind = ir.FunctionType(I64, [I64] * 5)
    call = b.inttoptr(_word(b, post, SYSTEM), ir.PointerType(kind))
    b.call(call, [I64(number), *args, I64(0)])


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
            array = b.load(b.gep(args, [_word(b, pair, 1)], source_etype=PTR), typ=PTR)
            b.store(array, b.inttoptr(_word(b, pair, 0), PTR))
        fits = b.call(module.get_global("looks"), [b.inttoptr(looks, PTR), look_count, b.inttoptr(room, PTR)])
        with b.if_then(b.not_(fits)):
            return_truth(b, words, I1(0))
        state = call_outside(b, words, machine.SAVE_THREAD)
        for set_threads, _ in pools:
            _set_threads(b, set_threads, I64(1))
        with flushing(b):
            ran = b.call(module.get_global("run"), [b.gep(words, [I64(_LANES)], source_etype=I64), steps, step_count])
        for set_threads, threads in pools:
            _set_threads(b, set_threads, threads)
        call_outside(b, words, machine.RESTORE_THREAD, state)
        with b.if_then(b.not_(ran)):
            nothing = b.inttoptr(none, PTR)
            call_outside(b, words, machine.INCREF, nothing)
            b.ret(nothing)
        return_truth(b, words, I1(1))


def _set_threads(b: Any, function: Any, count: Any) -> None:
    with b.if_then(b.icmp_signed("!=", function, I64(0))):
        b.call(b.inttoptr(function, ir.PointerType(ir.FunctionType(VOID, [I32]))), [b.trunc(count, I32)])


def _product(module: Any) -> None:
    with _step_of(module, "product", _MOST) as (b, words, count, buffers):
        set_handle, execute, primitive, stream, argument_count, arguments = (_own(b, words, n) for n in range(6))
        point = b.inttoptr(set_handle, ir.PointerType(ir.FunctionType(I32, [I64, PTR])))
        with counted(b, I64(0), count, I64(1)) as n:
            memory, offset = (
                b.load(b.gep(words, [b.add(n, I64(_OWN + at))], source_etype=I64), typ=I64) for at in (6, 6 + _MOST)
            )
            begin = b.load(b.gep(buffers, [n], source_etype=PTR), typ=PTR)
            b.call(point, [memory, b.gep(begin, [offset], source_etype=I8)])
        run = b.inttoptr(execute, ir.PointerType(ir.FunctionType(I32, [I64, I64, I32, I64])))
        status = b.call(run, [primitive, stream, b.trunc(argument_count, I32), arguments])
        b.ret(b.icmp_signed("==", status, I32(0)))


def _gemm(module: Any) -> None:
    with _step_of(module, "gemm", 3) as (b, words, _, buffers):
        address, ta, tb, rows, columns, inner, lda, ldb = (_own(b, words, n) for n in range(8))
        a, c, d = _factors(b, words, buffers, 8)
        matrix = (PTR, I64)
        kind = ir.FunctionType(I32, [I8, I8, I64, I64, I64, _FLOAT, *matrix, *matrix, _FLOAT, *matrix])
        run = b.inttoptr(address, ir.PointerType(kind))
        flags = b.trunc(ta, I8), b.trunc(tb, I8)
        status = b.call(run, [*flags, rows, columns, inner, _FLOAT(1), a, lda, c, ldb, _FLOAT(0), d, columns])
        b.ret(b.icmp_signed("==", status, I32(0)))


def _factors(b: Any, words: Any, buffers: Any, at: int) -> tuple[Any, Any, Any]:
    """Read where two factors and a product begin, the first and the last some bytes behind where their arrays do."""
    a, c, d = (b.load(b.gep(buffers, [I64(n)], source_etype=PTR), typ=PTR) for n in range(3))
    ahead, behind = (_own(b, words, at + n) for n in range(2))
    return b.gep(a, [ahead], source_etype=I8), c, b.gep(d, [behind], source_etype=I8)


def _blas(module: Any, name: str, real: Any) -> None:
    with _step_of(module, name, 3) as (b, words, _, buffers):
        address, order, ta, tb, rows, columns, inner, lda, ldb = (_own(b, words, n) for n in range(9))
        a, c, d = _factors(b, words, buffers, 9)
        # Whole numbers of 32 bits are the lower half of what is passed, in registers and on the stack.
        matrix = (PTR, I64)
        kind = ir.FunctionType(VOID, [*[I64] * 6, real, *matrix, *matrix, real, *matrix])
        run = b.inttoptr(address, ir.PointerType(kind))
        b.call(run, [order, ta, tb, rows, columns, inner, real(1), a, lda, c, ldb, real(0), d, columns])
        b.ret(I1(1))


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


def _word(b: Any, at: Any, n: int) -> Any:
    return b.load(b.gep(at, [I64(n)], source_etype=I64), typ=I64)
