"""Tapes: machine code that follows machine code, by one thread and by several."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.framework.errors import InternalError
from dtfctl.runtime.kernels.compiled import jit, loops
from dtfctl.runtime.kernels.compiled.steps import loop_step
from dtfctl.runtime.kernels.into.blas import step_by_blas
from dtfctl.runtime.kernels.into.factors import Factor
from dtfctl.runtime.kernels.into.registry import Spec, Unfit
from dtfctl.runtime.kernels.native import crew, machine, tape
from dtfctl.runtime.kernels.native.compiler import COMPILER
from dtfctl.runtime.kernels.native.lanes import Memory, divide
from dtfctl.runtime.kernels.native.matrices import Matrices
from dtfctl.runtime.kernels.native.tape import Step, Tape
from dtfctl.runtime.kernels.nn.common import Window
from dtfctl.runtime.kernels.onednn import convolution as convolutions, convolution_steps
from dtfctl.runtime.kernels.onednn.cache import convolution_for
from dtfctl.runtime.kernels.onednn.convolution_steps import convolution_step
from dtfctl.runtime.kernels.onednn.find import find_library
from dtfctl.runtime.kernels.onednn.steps import gemm_step, product_step

if not machine.can_compile():
    pytest.skip("llvmlite is not installed", allow_module_level=True)

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
Sizes = tuple[int, int, int]


@pytest.fixture(scope="module", autouse=True)
def code() -> Any:
    try:
        tape.image()
    except KeyError:
        COMPILER.request([tape.ORDER]).wait(120)
    found = tape.image()
    assert found is not None
    return found


def values(*shape: int, dtype: Any = F32, seed: int = 3) -> Any:
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def factors(sizes: Sizes, ta: bool, tb: bool, dtype: Any = F32) -> tuple[Any, Any, Any]:
    """Make two factors, and what their product is."""
    rows, inner, columns = sizes
    a = values(*((inner, rows) if ta else (rows, inner)), dtype=dtype)
    b = values(*((columns, inner) if tb else (inner, columns)), dtype=dtype, seed=4)
    return a, b, (a.T if ta else a) @ (b.T if tb else b)


def held(array: Any) -> Any:
    box = np.empty((), object)
    box[()] = Factor(array)
    return box


def matrices(sizes: Sizes, ta: bool = False, tb: bool = False, dtype: Any = F32, stack: Any = ()) -> Matrices:
    rows, inner, columns = sizes
    shapes = [(inner, rows) if ta else (rows, inner), (columns, inner) if tb else (inner, columns), (rows, columns)]
    return Matrices(sizes, ta, tb, [Spec((*stack, *shape), dtype) for shape in shapes], count=math.prod(stack))


def by_blas(sizes: Sizes, dtype: Any = F32, ta: bool = False, tb: bool = False, is_shared: bool = False) -> Step:
    step = step_by_blas(matrices(sizes, ta, tb, dtype), False, is_shared)
    if step is None:
        pytest.skip("numpy's BLAS was not found")
    return step


def library() -> Any:
    found = find_library()
    if found is None:
        pytest.skip("oneDNN is not installed")
    return found


# One step ---------------------------------------------------------------------------------------------------------

BOTH = [(ta, tb) for ta in (False, True) for tb in (False, True)]


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("ta, tb", BOTH)
def test_blas_multiplies_as_numpy_does(ta: bool, tb: bool, dtype: Any, code: Any) -> None:
    a, b, want = factors((5, 7, 3), ta, tb, dtype)
    out = np.zeros_like(want)
    Tape([(by_blas((5, 7, 3), dtype, ta, tb), [a, 0, out])], code)(b)
    np.testing.assert_allclose(out, want, rtol=1e-5)


@pytest.mark.parametrize("tb", [False, True])
def test_blas_multiplies_with_a_shared_factor(tb: bool, code: Any) -> None:
    a, b, want = factors((5, 7, 7), False, tb)
    out = np.zeros_like(want)
    Tape([(by_blas((5, 7, 7), tb=tb, is_shared=True), [a, 0, out])], code)(held(b))
    np.testing.assert_allclose(out, want, rtol=1e-5)


@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("is_shared", [False, True])
def test_onednn_multiplies_as_numpy_does(tb: bool, is_shared: bool, code: Any) -> None:
    a, b, want = factors((32, 96, 64), False, tb)
    step = product_step(library(), (32, 96, 64), tb, is_shared=is_shared)
    assert step is not None
    out = np.zeros_like(want)
    Tape([(step, [a, 0, out])], code)(held(b) if is_shared else b)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_onednn_adds_a_row(code: Any) -> None:
    a, b, want = factors((32, 96, 64), False, False)
    step = product_step(library(), (32, 96, 64), False, biased=True)
    assert step is not None
    row, out = values(64, seed=5), np.zeros_like(want)
    Tape([(step, [a, b, 0, out])], code)(row)
    np.testing.assert_allclose(out, want + row, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ta, tb", BOTH)
def test_the_general_routine_multiplies_as_numpy_does(ta: bool, tb: bool, code: Any) -> None:
    a, b, want = factors((32, 48, 64), ta, tb)
    step = gemm_step(library(), matrices((32, 48, 64), ta, tb))
    assert step is not None
    out = np.zeros_like(want)
    Tape([(step, [0, b, out])], code)(a)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows, count", [(1, 2), (2, 2), (7, 2), (64, 2), (7, 3), (64, 5)])
@pytest.mark.parametrize("ta, tb", BOTH)
@pytest.mark.parametrize("by", ["blas", "float64", "onednn", "shared", "biased", "general"])
def test_parts_of_a_product_are_its_rows(by: str, ta: bool, tb: bool, rows: int, count: int, code: Any) -> None:
    sizes = (rows, 48, 64)
    dtype = F64 if by == "float64" else F32
    a, b, want = factors(sizes, ta, tb, dtype)
    if by in ("blas", "float64"):
        step: Step | None = by_blas(sizes, dtype, ta, tb)
    elif by == "general":
        step = gemm_step(library(), matrices(sizes, ta, tb))
    elif ta:
        pytest.skip("the general routine does that")
    else:
        step = product_step(library(), sizes, tb, by == "biased", by == "shared")
    assert step is not None and step.cut is not None
    ((*parts,),) = step.cut(count)
    assert len(parts) == min(rows, count) and sum(part.share for part in parts) == pytest.approx(1)
    row = values(64, seed=5)
    out = np.full_like(want, np.nan)
    given = [a, 0, *([row] if by == "biased" else []), out]
    want = want + row if by == "biased" else want
    # Each writes to what it says.
    for part in parts:
        out[:] = np.nan
        Tape([(replace(step, entry=part.entry, words=part.words, held=part), given)], code)(
            held(b) if by == "shared" else b
        )
        ((begin, end),) = [(begin, end) for n, begin, end, is_written in part.touched if is_written]
        written = slice(begin // want.itemsize, end // want.itemsize)
        np.testing.assert_allclose(out.reshape(-1)[written], want.reshape(-1)[written], rtol=1e-4, atol=1e-4)
        assert np.isnan(out).sum() == out.size - (written.stop - written.start)


@pytest.mark.parametrize("count", [0, 2, 5])
@pytest.mark.parametrize("ta, tb", BOTH)
@pytest.mark.parametrize("by", ["blas", "float64", "general"])
def test_stacks_are_multiplied_and_cut_into_stacks(by: str, ta: bool, tb: bool, count: int, code: Any) -> None:
    dtype, sizes, stack = (F64 if by == "float64" else F32), (5, 7, 3), (2, 3)
    of = matrices(sizes, ta, tb, dtype, stack)
    a, b, out = (values(*spec.shape, dtype=dtype, seed=n) for n, spec in enumerate(of.specs))
    want = np.matmul(a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b)
    step = gemm_step(library(), of) if by == "general" else step_by_blas(of, False)
    assert step is not None and step.cut is not None
    ((*parts,),) = step.cut(count) if count else ((None,),)
    for part in parts:
        one = step if part is None else replace(step, entry=part.entry, words=part.words, held=part)
        out[:] = np.nan
        Tape([(one, [0, b, out])], code)(a)
        written = np.zeros(out.size, bool)
        for _, begin, end, is_written in part.touched if part is not None else [(2, 0, out.nbytes, True)]:
            if is_written:
                written[begin // out.itemsize : end // out.itemsize] = True
        np.testing.assert_allclose(out.reshape(-1)[written], want.reshape(-1)[written], rtol=1e-4, atol=1e-5)
        assert np.isnan(out.reshape(-1)[~written]).all()
    assert not count or len(parts) == count


CONVOLUTIONS = {
    "same": ((6, 12, 12, 8), (3, 3, 8, 16), (1, 1), "SAME"),
    "strided": ((6, 13, 12, 8), (3, 3, 8, 24), (2, 2), "SAME"),
    "one channel": ((5, 28, 28, 1), (5, 5, 1, 32), (1, 1), "SAME"),
    "valid": ((2, 14, 14, 32), (5, 5, 32, 64), (1, 1), "VALID"),
}


def passes(name: str) -> tuple[Any, dict[str, tuple[Any, list[Any], list[int], list[Any]]]]:
    """Make a convolution, and of each of its passes the kind, its arrays, the places of operands, and its results."""
    x_shape, w_shape, strides, padding = CONVOLUTIONS[name]
    g = Window(strides, (1, 1), padding).geometry(x_shape[1:3], w_shape[:2])
    library()
    found = convolution_for(F32, x_shape, w_shape, g.output, g.strides, g.dilations, g.pads)
    assert found is not None
    x, w, bias, sizes = values(*x_shape), values(*w_shape, seed=4), values(w_shape[3], seed=5), np.zeros(4, np.int32)
    y, dx, dw, db = (np.zeros((x_shape[0], *g.output, w_shape[3]), F32), *map(np.zeros_like, (x, w, bias)))
    dy = values(*y.shape, seed=6)
    biased, dw_too = np.zeros_like(y), np.zeros_like(dw)
    found.forward(x, w, y)
    found.biased(x, w, bias, biased)
    found.input_gradient(dy, w, dx)
    found.filter_gradient(x, dy, dw)
    found.filter_and_bias_gradient(x, dy, dw_too, db)
    return found, {
        "forward": (convolutions.FORWARD, [x, w], [0, 1, 2], [y]),
        "biased": (convolutions.BIASED, [x, w, bias], [0, 1, 2, 3], [biased]),
        "input": (convolutions.INPUT_GRADIENT, [sizes, w, dy], [2, 1, 3], [dx]),
        "filter": (convolutions.FILTER_GRADIENT, [x, sizes, dy], [0, 2, 3], [dw]),
        "both": (convolutions.FILTER_AND_BIAS_GRADIENT, [x, dy], [0, 1, 2, 3], [dw, db]),
    }


@pytest.mark.parametrize("count", [0, 2, 4])
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("by", ["forward", "biased", "input", "filter", "both"])
def test_a_convolution_is_a_step_and_parts_of_its_images(by: str, name: str, count: int, code: Any) -> None:
    convolution, of = passes(name)
    kind, given, places, want = of[by]
    out = [np.full_like(array, np.nan) for array in want]
    arrays = [*given, *out]
    step = convolution_step(convolution, kind, [Spec(a.shape, a.dtype) for a in arrays], places)
    assert step is not None and step.cut is not None
    parts = [part for together in step.cut(count) for part in together] if count else []
    assert sum(part.share for part in parts) == pytest.approx(1) or not count
    steps = [replace(step, entry=part.entry, words=part.words, held=part) for part in parts] or [step]
    run = Tape([(one, [0, *arrays[1:]]) for one in steps], code)
    for _ in range(2):
        run(arrays[0])
        for a, b in zip(out, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)
            a[:] = np.nan
    # What is written, by what parts say.
    for part, one in zip(parts, steps):
        Tape([(one, [0, *arrays[1:]])], code)(arrays[0])
        for n, array in enumerate(out, len(given)):
            written = np.zeros(array.nbytes, bool)
            for at, begin, end, is_written in part.touched:
                if at == n and is_written:
                    written[begin:end] = True
            assert np.isnan(array.reshape(-1)[~written[::4]]).all()
            array[:] = np.nan


def test_large_sums_are_not_made_apart(code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    convolution, of = passes("same")
    kind, given, places, want = of["filter"]
    step = convolution_step(convolution, kind, [Spec(a.shape, a.dtype) for a in (*given, *want)], places)
    assert step is not None and step.cut is not None
    monkeypatch.setattr(convolution_steps, "_MOST_ROOM", 3 * want[0].nbytes)
    assert [len(together) for together in step.cut(8)] == [3, 1]
    monkeypatch.setattr(convolution_steps, "_MOST_ROOM", want[0].nbytes)
    assert step.cut(8) == []


def pooled(dtype: Any) -> dict[str, tuple[Any, list[Any], list[Any], list[Any], bool]]:
    """Make of each loop for pools what it is given, what else, its results, and whether it goes by rows."""
    if not jit.is_available():
        pytest.skip("numba is not installed")
    x, least = values(6, 8, 8, 24, dtype=dtype), dtype.type(-1e30)
    y, positive = np.zeros((6, 4, 4, 24), dtype), np.zeros((6, 4, 4, 24), dtype)
    chosen, dx, dx_too, total = np.zeros(y.shape, np.uint8), np.zeros_like(x), np.zeros_like(x), np.zeros(24, dtype)
    dy = values(*y.shape, dtype=dtype, seed=4)
    loops.max_pool(x, y, 2, 2, least)
    loops.max_pool_gradient(x, y, dy, dx, 2, 2, np.ones(24, bool))
    loops.rectified_max_pool(x, positive, chosen, 2, 2)
    loops.chosen_gradient(dy, chosen, dx_too, 2, 2)
    loops.chosen_sum(dy, chosen, total, np.zeros(24, dtype))
    return {
        "max_pool": (loops.max_pool, [x], [2, 2, least], [y], True),
        "gradient": (loops.max_pool_gradient, [x, y, dy], [2, 2, Spec((24,), np.dtype(bool))], [dx], True),
        "rectified": (loops.rectified_max_pool, [x], [2, 2], [positive, chosen], True),
        "its gradient": (loops.chosen_gradient, [dy, chosen], [2, 2], [dx_too], True),
        "sum": (loops.chosen_sum, [dy, chosen], [Spec((24,), dtype)], [total], False),
    }


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", ["max_pool", "gradient", "rectified", "its gradient", "sum"])
def test_a_pool_is_a_step_and_parts_of_its_rows(name: str, dtype: Any, code: Any) -> None:
    loop, given, more, want, is_by_rows = pooled(dtype)[name]
    out = [np.zeros_like(array) for array in want]
    arrays = [*given, *out]
    step = loop_step(loop, [Spec(a.shape, a.dtype) for a in arrays], more, len(out), is_by_rows)()
    assert step is not None and (step.cut is not None) == is_by_rows
    for count in (0, 2, 5) if step.cut is not None else (0,):
        parts = [part for together in step.cut(count) for part in together] if count and step.cut else []
        assert len(parts) == count
        steps = [replace(step, entry=part.entry, words=part.words, held=part) for part in parts] or [step]
        for array in out:
            array[:] = 77
        Tape([(one, [0, *arrays[1:]]) for one in steps], code)(arrays[0])
        for a, b in zip(out, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


# What a tape is given ---------------------------------------------------------------------------------------------


def test_an_argument_may_have_its_rows_anywhere(code: Any) -> None:
    a, b, want = factors((5, 7, 3), False, False)
    out = np.zeros_like(want)
    run = Tape([(by_blas((5, 7, 3)), [0, b, out])], code)
    for given_as in (np.asfortranarray(a), a, np.repeat(a, 2, 0)[::2]):
        out[:] = 0
        run(given_as)
        np.testing.assert_allclose(out, want, rtol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((7, 5), F32), np.zeros((5, 7), F64), np.zeros(35, F32), None, 3.0],
    ids=["shape", "type", "rank", "None", "number"],
)
def test_nothing_is_run_with_what_a_later_step_was_not_made_for(wrong: Any, code: Any) -> None:
    a, b, want = factors((5, 7, 3), False, False)
    first, second = np.zeros_like(want), np.zeros_like(want)
    step = by_blas((5, 7, 3))
    run = Tape([(step, [a, b, first]), (step, [0, b, second])], code)
    with pytest.raises(Unfit):
        run(wrong)
    assert not first.any() and not second.any()
    run(a)
    np.testing.assert_allclose(second, want, rtol=1e-5)


def test_a_factor_of_another_shape_is_refused(code: Any) -> None:
    a, b, want = factors((5, 7, 3), False, False)
    out = np.zeros_like(want)
    run = Tape([(by_blas((5, 7, 3), is_shared=True), [a, 0, out])], code)
    with pytest.raises(Unfit):
        run(held(b.T.copy()))
    assert not out.any()


def test_a_product_that_fails_is_an_error(code: Any) -> None:
    a, b, want = factors((32, 96, 64), False, False)
    step = product_step(library(), (32, 96, 64), False)
    assert step is not None
    words = step.words.copy()
    # No stream, which the library refuses.
    words[machine.NUMBERS + 1 + 2] = 0
    run = Tape([(replace(step, words=words), [0, b, np.zeros_like(want)])], code)
    with pytest.raises(InternalError, match="DTF_NATIVE=0"):
        run(a)


def test_others_have_the_interpreter_meanwhile(code: Any) -> None:
    a, b, want = factors((512, 512, 512), False, False)
    turns, ended = [0], threading.Event()

    def count() -> None:
        while not ended.is_set():
            turns[0] += 1
            time.sleep(0)

    run = Tape([(by_blas((512, 512, 512)), [0, b, np.zeros_like(want)])] * 20, code)
    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    # Nobody is interrupted: each has the interpreter until it lets go of it.
    sys.setswitchinterval(3600)
    try:
        thread.start()
        while not turns[0]:
            time.sleep(0)
        before = turns[0]
        run(a)
        assert turns[0] > before
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()


# Lanes ------------------------------------------------------------------------------------------------------------

MEMORIES = st.lists(
    st.lists(
        st.builds(lambda at, size, w: Memory(at, at + size, w), *[st.integers(0, 12), st.integers(1, 3)], st.booleans())
    ),
    min_size=1,
    max_size=14,
)


def conflict(x: Any, y: Any) -> bool:
    return any((m.is_written or n.is_written) and m.begin < n.end and n.begin < m.end for m in x for n in y)


@settings(max_examples=300, deadline=None)
@given(memories=MEMORIES, count=st.integers(2, 4), data=st.data())
def test_each_part_waits_for_those_whose_memory_it_shares(memories: Any, count: int, data: Any) -> None:
    costs = [data.draw(st.sampled_from([1.0, 5.0])) for _ in memories]
    found = divide(memories, costs, count)
    if found is None:
        return
    assert len(found.orders) == count
    assert sorted(n for order in found.orders for n in order) == list(range(len(memories)))
    # In any order that what each waits for allows.
    ran: list[int] = []
    while len(ran) < len(memories):
        ready = [n for n, of in enumerate(found.before) if n not in ran and set(of) <= set(ran)]
        ran.append(data.draw(st.sampled_from(ready)))
    place = {n: at for at, n in enumerate(ran)}
    for n in range(len(memories)):
        for m in range(n):
            assert not conflict(memories[m], memories[n]) or place[m] < place[n]
    # Each lane's order is one of them, too.
    for n, of in enumerate(found.before):
        order = next(order for order in found.orders if n in order)
        assert all(order.index(m) < order.index(n) for m in of if m in order)


def test_nobody_waits_for_what_is_waited_for_anyway() -> None:
    steps = [
        [Memory(0, 8, True)],
        [Memory(0, 8, False), Memory(8, 9, True)],
        [Memory(0, 9, False), Memory(9, 10, True)],
    ]
    found = divide([*steps, *([Memory(20 + n, 21 + n, True)] for n in range(9))], [1.0] * 12)
    assert found is not None and list(found.before[:3]) == [[], [0], [1]]


def test_what_follows_each_other_has_no_lanes() -> None:
    steps = [[Memory(n, n + 1, False), Memory(n + 1, n + 2, True)] for n in range(10)]
    assert divide(steps, [1.0] * 10) is None


def two_chains(length: int, code: Any) -> tuple[Tape, Callable[[], None]]:
    """Make a tape of two chains of products, which takes the first factor; and what looks at what it gave."""
    x, w = values(64, 64), values(64, 64, seed=4) / 8
    step = by_blas((64, 64, 64))
    made: list[list[Any]] = [[], []]
    steps: list[tuple[Step, list[Any]]] = []
    for _ in range(length):
        for chain in made:
            out = np.zeros((64, 64), F32)
            steps.append((step, [chain[-1] if chain else 0, w, out]))
            chain.append(out)
    run = Tape(steps, code)

    def check() -> None:
        want = x
        for first, second in zip(*made):
            want = want @ w
            np.testing.assert_allclose(first, want, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(first, second)
            first[:] = second[:] = np.nan

    run.given = x  # type: ignore[attr-defined]
    return run, check


@pytest.fixture
def in_lanes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tapes are divided as soon as it is known how, and then run in lanes only."""
    monkeypatch.setattr(tape, "granted", lambda: 2)
    monkeypatch.setattr(tape, "threaded", lambda together, *_, **__: together)
    monkeypatch.setattr(tape, "LEAST_S", 0.0)
    monkeypatch.setattr(tape, "_CUT_S", 0.0)
    yield


def divided(length: int, code: Any) -> tuple[Tape, Callable[[], None]]:
    run, check = two_chains(length, code)
    for _ in range(tape._RUNS):
        run(run.given)  # type: ignore[attr-defined]
        check()
    assert run._run is not run._alone
    return run, check


@pytest.mark.usefixtures("in_lanes")
def test_lanes_give_what_one_thread_gives(code: Any) -> None:
    run, check = divided(20, code)
    for _ in range(300):
        run(run.given)  # type: ignore[attr-defined]
        check()


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.usefixtures("in_lanes")
def test_parts_of_a_primitive_have_memory_of_their_own(is_shared: bool, code: Any) -> None:
    """The library copies rows that are no whole number of vectors long before it multiplies them."""
    sizes = (64, 156, 512)
    a, b, want = factors(sizes, False, False)
    step = product_step(library(), sizes, False, is_shared=is_shared)
    if step is None:
        pytest.skip("the library copies the factor")
    out = np.zeros_like(want)
    second = np.zeros_like(want)
    run = Tape([(step, [a, 0, out]), (step, [a, 0, second])], code)
    for _ in range(500):
        out[:] = second[:] = np.nan
        run(held(b) if is_shared else b)
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(out, second)
    assert run._run is not run._alone


@pytest.mark.usefixtures("in_lanes")
def test_tapes_of_several_threads_do_not_disturb_each_other(code: Any) -> None:
    made = [divided(10, code) for _ in range(3)]
    errors: list[BaseException] = []

    def work(run: Any, check: Callable[[], None]) -> None:
        try:
            for _ in range(100):
                run(run.given)
                check()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=pair) for pair in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.usefixtures("in_lanes")
def test_lanes_that_nobody_begins_are_the_callers(code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = crew.Crew(code, 1e9, 0)
    monkeypatch.setattr(tape, "crew", lambda *_: nobody)
    run, check = divided(20, code)
    for _ in range(20):
        run(run.given)  # type: ignore[attr-defined]
        check()
    assert nobody.words[crew.NUMBER] == 20
    assert not nobody.words[crew.CURRENT] and not nobody.words[crew.BUSY]


def test_a_process_that_may_have_no_more_threads_does_without(code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    workers = crew.Crew(code, 1e9, 2)
    assert workers._threads == []
    workers.end()


@pytest.mark.usefixtures("in_lanes")
def test_threads_of_another_job_do_not_keep_a_tape_from_being_dropped(code: Any) -> None:
    for _ in range(30):
        run, check = divided(3, code)
        run(run.given)  # type: ignore[attr-defined]
        check()
        del run, check
    workers = crew.crew(code, 1e9)
    divided(3, code)
    # Of those whose tapes are gone at most what a thread looks at is left.
    assert len(workers._left) <= len(workers._threads) + 1


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.usefixtures("in_lanes")
def test_as_many_threads_as_there_are_cores(threads: int, code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "granted", lambda: threads + 1)
    workers = crew.Crew(code, 1e9, threads)
    monkeypatch.setattr(tape, "crew", lambda *_: workers)
    try:
        run, check = divided(20, code)
        for _ in range(200):
            run(run.given)  # type: ignore[attr-defined]
            check()
    finally:
        workers.end()
    assert not any(thread.is_alive() for thread in workers._threads)


_PROGRAM = """
    import os, sys
    import numpy as np
    from dtfctl.runtime.kernels.native import tape
    tape.granted, tape.threaded, tape.LEAST_S = (lambda: 2), (lambda together, *_, **__: together), 0.0
    sys.path.insert(0, {root!r})
    from tests.unit.kernels.test_tapes import divided
    run, check = divided(20, tape.image())
    for _ in range(20):
        run(run.given)
        check()
    {more}
    print("ended")
"""


def ran(more: str) -> str:
    root = str(machine.__file__).split("/dtfctl/runtime/")[0]
    program = textwrap.dedent(_PROGRAM).format(root=root, more=more)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120, env={**os.environ}
    ).stdout


def test_a_process_that_has_used_lanes_ends() -> None:
    assert ran("pass") == "ended\n"


def test_a_forked_process_runs_tapes_alone() -> None:
    more = """
    child = os.fork()
    if not child:
        for _ in range(20):
            run(run.given)
            check()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    run(run.given)
    check()
    """
    assert ran(textwrap.dedent(more)) == "ended\n"
