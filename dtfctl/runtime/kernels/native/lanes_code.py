"""LLVM's text of what runs parts of tapes by several threads (lanes.py, crew.py).

    ready(job, lane)            claims the first part of a lane that is ready, and gives it; null where none is
    work(job, crew, lane)       runs parts until all are done: its lane's, and others' once it has had none for a while
    run(crew, job)              publishes a job and works on it; 1 once it is done, 0 where a part has failed, -1 where
                                nobody may publish now, and nothing was run
    serve(crew, lane)           works on what is published, until there is to be an end

Claims and counts are atomic, and no thread waits for one that has no part.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from dtfctl.runtime.kernels.native import crew, lanes
from dtfctl.runtime.kernels.native.code import flush
from dtfctl.runtime.kernels.native.turns import I1, I32, I64, PTR, VOID, counted

# Looks between two at which others may have the core.
_YIELDS = 1 << 15
# Of Linux on x86-64: system calls, and what a futex is to do, for threads of this process.
_FUTEX, _YIELD, _WAIT, _WAKE, _ALL = 202, 24, 128, 129, 1 << 30


def write_lanes(module: Any) -> None:
    """Write these functions."""
    _ready(module)
    _work(module)
    _run(module)
    _serve(module)


def _ready(module: Any) -> None:
    function = ir.Function(module, ir.FunctionType(PTR, [PTR, I64]), "ready")
    function.linkage = "internal"
    job, lane = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    parts, ready, words, stride = (
        word(b, job, n) for n in (lanes.PARTS, lanes.READY, lanes.LANE_WORDS, lanes.LANE_STRIDE)
    )
    at = b.gep(b.inttoptr(ready, PTR), [b.mul(lane, stride)], source_etype=I64)
    count_zeros = module.declare_intrinsic("llvm.cttz", (I64,), ir.FunctionType(I64, [I64, I1]))
    with counted(b, I64(0), words, I64(1)) as n:
        place = b.gep(at, [n], source_etype=I64)
        first = shared(b, place)
        look, claim, got, lost, next_ = (
            function.append_basic_block(k) for k in ("look", "claim", "got", "lost", "next")
        )
        before = b.block
        b.branch(look)
        b.position_at_end(look)
        value = b.phi(I64)
        value.add_incoming(first, before)
        b.cbranch(b.icmp_signed("==", value, I64(0)), next_, claim)
        b.position_at_end(claim)
        bit = b.call(count_zeros, [value, I1(1)])
        mask = b.shl(I64(1), bit)
        was = b.atomic_rmw("and", place, b.not_(mask), "seq_cst")
        b.cbranch(b.icmp_signed("!=", b.and_(was, mask), I64(0)), got, lost)
        b.position_at_end(lost)
        value.add_incoming(b.and_(was, b.not_(mask)), lost)
        b.branch(look)
        b.position_at_end(got)
        number = b.add(b.mul(b.add(b.mul(lane, words), n), I64(64)), bit)
        b.ret(b.gep(b.inttoptr(parts, PTR), [b.mul(number, I64(lanes.STEP_WORDS))], source_etype=I64))
        b.position_at_end(next_)
    b.ret(ir.Constant(PTR, None))


def _work(module: Any) -> None:
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR, I64]), "work")
    function.linkage = "internal"
    job, crew_at, lane = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    ready = module.get_global("ready")
    count, lane_count, patience = (word(b, job, n) for n in (lanes.PART_COUNT, lanes.LANE_COUNT, lanes.PATIENCE))
    counts = b.inttoptr(word(b, job, lanes.SHARED), PTR)
    done, failed, inside = (b.gep(counts, [I64(n)], source_etype=I64) for n in (lanes.DONE, lanes.FAILED, lanes.INSIDE))
    b.atomic_rmw("add", inside, I64(1), "seq_cst")
    began = clock(b)
    own, idle, others, other, wait, run, end = (
        function.append_basic_block(n) for n in ("own", "idle", "others", "other", "wait", "run", "end")
    )
    before = b.block
    b.branch(own)

    b.position_at_end(own)
    # When there was something to do last, and how often it was looked for since.
    since, looks = b.phi(I64), b.phi(I64)
    since.add_incoming(began, before)
    looks.add_incoming(I64(1), before)
    mine = b.call(ready, [job, lane])
    b.cbranch(is_there(b, mine), run, idle)

    b.position_at_end(idle)
    left = function.append_basic_block("left")
    b.cbranch(b.icmp_signed(">=", shared(b, done), count), end, left)
    b.position_at_end(left)
    waited = b.icmp_unsigned(">", b.sub(clock(b), since), patience)
    is_alone = b.icmp_signed("<=", shared(b, inside), I64(1))
    b.cbranch(b.or_(waited, is_alone), others, wait)

    b.position_at_end(others)
    from_left = b.block
    b.branch(other)
    b.position_at_end(other)
    k = b.phi(I64)
    k.add_incoming(I64(1), from_left)
    look, found_none = function.append_basic_block("look"), function.append_basic_block("none")
    b.cbranch(b.icmp_signed("<", k, lane_count), look, wait)
    b.position_at_end(look)
    theirs = b.call(ready, [job, b.urem(b.add(lane, k), lane_count)])
    b.cbranch(is_there(b, theirs), run, found_none)
    b.position_at_end(found_none)
    k.add_incoming(b.add(k, I64(1)), found_none)
    b.branch(other)

    b.position_at_end(wait)
    _relax(b, crew_at, looks)
    since.add_incoming(since, b.block)
    looks.add_incoming(b.add(looks, I64(1)), b.block)
    b.branch(own)

    b.position_at_end(run)
    part = b.phi(PTR)
    part.add_incoming(mine, own)
    part.add_incoming(theirs, look)
    with b.if_then(b.not_(do(b, part))):
        write(b, I64(1), failed)
    after, after_count = b.inttoptr(word(b, part, lanes.AFTER), PTR), word(b, part, lanes.AFTER + 1)
    some = b.icmp_signed(">", after_count, I64(0))
    with b.if_then(some), counted(b, I64(0), after_count, I64(1)) as n:
        told = b.gep(after, [b.mul(n, I64(3))], source_etype=I64)
        was = b.atomic_rmw("sub", b.inttoptr(word(b, told, 0), PTR), I64(1), "seq_cst")
        with b.if_then(b.icmp_signed("==", was, I64(1))):
            b.atomic_rmw("or", b.inttoptr(word(b, told, 1), PTR), word(b, told, 2), "seq_cst")
    b.atomic_rmw("add", done, I64(1), "seq_cst")
    since.add_incoming(clock(b), b.block)
    looks.add_incoming(I64(1), b.block)
    b.branch(own)

    b.position_at_end(end)
    b.atomic_rmw("sub", inside, I64(1), "seq_cst")
    b.ret_void()


def _run(module: Any) -> None:
    function = ir.Function(module, ir.FunctionType(I64, [I64, I64]), "run")
    function.linkage = "internal"
    crew_word, job_word = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    refused = function.append_basic_block("refused")
    crew_at, job = b.inttoptr(crew_word, PTR), b.inttoptr(job_word, PTR)

    def place(n: int) -> Any:
        return b.gep(crew_at, [I64(n)], source_etype=I64)

    def go_on_if(fact: Any) -> None:
        go_on = function.append_basic_block()
        b.cbranch(fact, go_on, refused)
        b.position_at_end(go_on)

    go_on_if(b.icmp_signed("!=", crew_word, I64(0)))
    go_on_if(b.icmp_signed("!=", shared(b, place(crew.ALIVE)), I64(0)))
    go_on_if(b.extract_value(b.cmpxchg(place(crew.BUSY), I64(0), I64(1), "seq_cst"), 1))
    counts = b.inttoptr(word(b, job, lanes.SHARED), PTR)
    waits, first = (b.inttoptr(word(b, job, n), PTR) for n in (lanes.WAITS, lanes.WAITS_FIRST))
    with counted(b, I64(0), word(b, job, lanes.WAIT_COUNT), I64(1)) as n:
        b.store(b.load(b.gep(first, [n], source_etype=I64), typ=I64), b.gep(waits, [n], source_etype=I64))
    for n in (lanes.DONE, lanes.FAILED):
        write(b, I64(0), b.gep(counts, [I64(n)], source_etype=I64))
    ready, ready_first = (b.inttoptr(word(b, job, n), PTR) for n in (lanes.READY, lanes.READY_FIRST))
    lane_count = word(b, job, lanes.LANE_COUNT)
    with counted(b, I64(0), b.mul(lane_count, word(b, job, lanes.LANE_STRIDE)), I64(1)) as n:
        value = b.load(b.gep(ready_first, [n], source_etype=I64), typ=I64)
        with b.if_then(b.icmp_signed("!=", value, I64(0))):
            # A thread that is late may have taken a part already, and set what is ready by that.
            b.atomic_rmw("or", b.gep(ready, [n], source_etype=I64), value, "seq_cst")
    write(b, job_word, place(crew.CURRENT))
    b.atomic_rmw("add", place(crew.NUMBER), I64(1), "seq_cst")
    with b.if_then(b.icmp_signed(">", b.load_atomic(place(crew.SLEEPERS), "seq_cst", 8, typ=I64), I64(0))):
        number = b.ptrtoint(place(crew.NUMBER), I64)
        _system(b, crew_at, _FUTEX, number, I64(_WAKE), I64(_ALL))
    b.call(module.get_global("work"), [job, crew_at, I64(0)])
    write(b, I64(0), place(crew.CURRENT))
    failed = shared(b, b.gep(counts, [I64(lanes.FAILED)], source_etype=I64))
    write(b, I64(0), place(crew.BUSY))
    b.ret(b.zext(b.icmp_signed("==", failed, I64(0)), I64))
    b.position_at_end(refused)
    b.ret(I64(-1))


def _serve(module: Any) -> None:
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, I64]), "serve")
    crew_at, lane = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def place(n: int) -> Any:
        return b.gep(crew_at, [I64(n)], source_etype=I64)

    looked_at = b.gep(crew_at, [b.add(b.mul(lane, I64(crew.LINE)), I64(crew.LOOKED_AT))], source_etype=I64)
    names = ("look", "idle", "again", "sleep", "seen", "stays", "enter", "leave", "next", "end")
    look, idle, again, sleep, seen, stays, enter, leave, next_, end = (function.append_basic_block(n) for n in names)
    flush(b)
    began = clock(b)
    before = b.block
    b.branch(look)

    b.position_at_end(look)
    # The last number that was seen, and when there was work last.
    last, since = b.phi(I64), b.phi(I64)
    last.add_incoming(I64(0), before)
    since.add_incoming(began, before)
    number = shared(b, place(crew.NUMBER))
    b.cbranch(b.icmp_signed("!=", number, last), seen, idle)
    b.position_at_end(idle)
    _pause(b)
    b.cbranch(b.icmp_unsigned("<", b.sub(clock(b), since), word(b, crew_at, crew.PATIENCE)), again, sleep)
    b.position_at_end(again)
    last.add_incoming(last, again)
    since.add_incoming(since, again)
    b.branch(look)

    b.position_at_end(sleep)
    b.atomic_rmw("add", place(crew.SLEEPERS), I64(1), "seq_cst")
    with b.if_then(b.icmp_signed("==", b.load_atomic(place(crew.NUMBER), "seq_cst", 8, typ=I64), last)):
        lower = b.and_(last, I64(0xFFFFFFFF))
        _system(b, crew_at, _FUTEX, b.ptrtoint(place(crew.NUMBER), I64), I64(_WAIT), lower)
    b.atomic_rmw("sub", place(crew.SLEEPERS), I64(1), "seq_cst")
    last.add_incoming(last, b.block)
    since.add_incoming(clock(b), b.block)
    b.branch(look)

    b.position_at_end(seen)
    b.cbranch(b.icmp_signed("!=", shared(b, place(crew.ALIVE)), I64(0)), stays, end)
    b.position_at_end(stays)
    job_word = shared(b, place(crew.CURRENT))
    write(b, job_word, looked_at)
    is_published = b.icmp_signed("==", b.load_atomic(place(crew.CURRENT), "seq_cst", 8, typ=I64), job_word)
    b.cbranch(b.and_(b.icmp_signed("!=", job_word, I64(0)), is_published), enter, next_)
    b.position_at_end(enter)
    job = b.inttoptr(job_word, PTR)
    set_threads(b, word(b, job, lanes.SET_THREADS), I64(1))
    b.call(module.get_global("work"), [job, crew_at, b.urem(lane, word(b, job, lanes.LANE_COUNT))])
    b.branch(leave)
    b.position_at_end(leave)
    b.branch(next_)
    b.position_at_end(next_)
    write(b, I64(0), looked_at)
    last.add_incoming(number, b.block)
    since.add_incoming(clock(b), b.block)
    b.branch(look)
    b.position_at_end(end)
    b.ret_void()


def word(b: Any, at: Any, n: int) -> Any:
    """Read a word of a table."""
    return b.load(b.gep(at, [I64(n)], source_etype=I64), typ=I64)


def do(b: Any, step: Any) -> Any:
    """Run a step; whether it was fine."""
    run, words, arrays, given = (word(b, step, k) for k in range(4))
    call = b.inttoptr(run, ir.PointerType(ir.FunctionType(I1, [PTR, PTR, I64])))
    return b.call(call, [b.inttoptr(words, PTR), b.inttoptr(arrays, PTR), given])


def clock(b: Any) -> Any:
    """Read how many cycles have passed."""
    return b.call(b.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(I64, [])), [])


def set_threads(b: Any, function: Any, count: Any) -> None:
    """Call what sets how many threads a library uses, if there is such a function."""
    with b.if_then(b.icmp_signed("!=", function, I64(0))):
        b.call(b.inttoptr(function, ir.PointerType(ir.FunctionType(VOID, [I32]))), [b.trunc(count, I32)])


def is_there(b: Any, pointer: Any) -> Any:
    """Tell whether a pointer is none of nothing."""
    return b.icmp_unsigned("!=", b.ptrtoint(pointer, I64), I64(0))


def shared(b: Any, at: Any) -> Any:
    """Read what another thread writes."""
    return b.load_atomic(at, "acquire", 8, typ=I64)


def write(b: Any, value: Any, at: Any) -> None:
    """Write what another thread reads, after all that was written before."""
    b.atomic_rmw("xchg", at, value, "seq_cst")


def _pause(b: Any) -> None:
    b.call(b.module.declare_intrinsic("llvm.x86.sse2.pause", (), ir.FunctionType(VOID, [])), [])


def _relax(b: Any, crew_at: Any, looks: Any) -> None:
    """Wait for a moment; let others have the core from time to time."""
    _pause(b)
    with b.if_then(b.icmp_signed("==", b.and_(looks, I64(_YIELDS - 1)), I64(0))):
        _system(b, crew_at, _YIELD, I64(0), I64(0), I64(0))


def _system(b: Any, crew_at: Any, number: int, *args: Any) -> None:
    """Call the system; there is no fourth argument: a futex waits without end."""
    kind = ir.FunctionType(I64, [I64] * 5)
    call = b.inttoptr(word(b, crew_at, crew.SYSTEM), ir.PointerType(kind))
    b.call(call, [I64(number), *args, I64(0)])
