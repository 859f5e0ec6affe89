"""Tapes: machine code that follows machine code, by one thread and in two lanes."""

from __future__ import annotations

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
from dtfctl.runtime.kernels.into.blas import step_by_blas
from dtfctl.runtime.kernels.into.factors import Factor
from dtfctl.runtime.kernels.into.registry import Unfit
from dtfctl.runtime.kernels.native import lanes, machine, tape
from dtfctl.runtime.kernels.native.compiler import COMPILER
from dtfctl.runtime.kernels.native.lanes import Memory, divide
from dtfctl.runtime.kernels.native.tape import Step, Tape
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


def by_blas(sizes: Sizes, dtype: Any = F32, ta: bool = False, tb: bool = False, is_shared: bool = False) -> Step:
    step = step_by_blas(sizes, dtype, ta, tb, False, is_shared)
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
    step = gemm_step(library(), (32, 48, 64), ta, tb)
    assert step is not None
    out = np.zeros_like(want)
    Tape([(step, [0, b, out])], code)(a)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
@pytest.mark.parametrize("ta, tb", BOTH)
@pytest.mark.parametrize("by", ["blas", "float64", "onednn", "shared", "biased", "general"])
def test_parts_of_a_product_are_its_rows(by: str, ta: bool, tb: bool, rows: int, code: Any) -> None:
    sizes = (rows, 48, 64)
    dtype = F64 if by == "float64" else F32
    a, b, want = factors(sizes, ta, tb, dtype)
    if by in ("blas", "float64"):
        step: Step | None = by_blas(sizes, dtype, ta, tb)
    elif by == "general":
        step = gemm_step(library(), sizes, ta, tb)
    elif ta:
        pytest.skip("the general routine does that")
    else:
        step = product_step(library(), sizes, tb, by == "biased", by == "shared")
    assert step is not None and step.cut is not None
    ((*parts,),) = step.cut()
    assert len(parts) == min(rows, 2) and sum(part.share for part in parts) == pytest.approx(1)
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
    # No primitive, which the library refuses.
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
@given(memories=MEMORIES, data=st.data())
def test_each_step_waits_for_those_whose_memory_it_shares(memories: Any, data: Any) -> None:
    costs = [data.draw(st.sampled_from([1.0, 5.0])) for _ in memories]
    found = divide(memories, costs)
    if found is None:
        return
    assert sorted([*found.orders[0], *found.orders[1]]) == list(range(len(memories)))
    # Lanes advance in any way that the needs allow.
    done: tuple[list[int], list[int]] = ([], [])
    ran: list[int] = []
    while len(ran) < len(memories):
        may = [
            k
            for k in (0, 1)
            if len(done[k]) < len(found.orders[k]) and found.needs[k][len(done[k])] <= len(done[1 - k])
        ]
        assert may, "both lanes wait"
        k = data.draw(st.sampled_from(may))
        n = found.orders[k][len(done[k])]
        done[k].append(n)
        ran.append(n)
    place = {n: at for at, n in enumerate(ran)}
    for n in range(len(memories)):
        for m in range(n):
            assert not conflict(memories[m], memories[n]) or place[m] < place[n]


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
    monkeypatch.setattr(tape, "threaded", lambda together, alone, count: together)
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
def test_a_lane_that_nobody_begins_is_taken_back(code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = np.zeros(lanes._POST_WORDS, np.int64)
    nobody[lanes.SYSTEM] = lanes.post(code, 1e9)[lanes.SYSTEM]
    nobody[lanes.ALIVE] = 1
    monkeypatch.setattr(tape, "post", lambda *_: nobody)
    run, check = divided(20, code)
    for _ in range(20):
        run(run.given)  # type: ignore[attr-defined]
        check()
    assert nobody[lanes.NUMBER] == 20 and nobody[lanes.STATE] == lanes.REVOKED and not nobody[lanes.BUSY]


_PROGRAM = """
    import os, sys
    import numpy as np
    from dtfctl.runtime.kernels.native import lanes, tape
    tape.granted, tape.threaded, tape.LEAST_S = (lambda: 2), (lambda together, alone, count: together), 0.0
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
