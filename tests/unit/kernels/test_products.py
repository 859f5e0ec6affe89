"""Products by whichever library, with however many threads, have the values of numpy's."""

from __future__ import annotations

import multiprocessing
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.kernels.blas_in_use import blas_in_use, open_blas
from dtfctl.runtime.kernels.into import products, threads
from dtfctl.runtime.kernels.into.linear import _sum_of_rows
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit
from dtfctl.runtime.kernels.onednn import passes
from dtfctl.runtime.kernels.onednn.find import find_library
from dtfctl.runtime.kernels.onednn.library import Library

F = np.dtype(np.float32)
with_onednn = pytest.mark.skipif(find_library() is None, reason="oneDNN is not installed")

# Small ones, large ones, few rows, short rows, and one row.
SHAPES = [(3, 5, 4), (80, 70, 60), (64, 200, 90), (100, 10, 400), (1, 700, 600), (130, 300, 40)]


def spec(x: Any) -> Spec:
    return Spec(x.shape, x.dtype)


def factors(shape: tuple[int, int, int], ta: bool, tb: bool, dtype: Any = F) -> tuple[Any, Any, Any]:
    rows, inner, columns = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, inner)), rng.standard_normal((inner, columns))
    a, b = a.astype(dtype), b.astype(dtype)
    want = a.astype("f8") @ b.astype("f8")
    return np.ascontiguousarray(a.T) if ta else a, np.ascontiguousarray(b.T) if tb else b, want


def fill(into: Into, out: Any, *inputs: Any) -> None:
    into.call(*inputs, *into.extras, out, *(np.full(s.shape, np.nan, s.dtype) for s in into.scratch))


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("beside", [False, pytest.param(True, marks=with_onednn)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products(shape: tuple[int, int, int], transposed: tuple[bool, bool], beside: bool, dtype: str) -> None:
    a, b, want = factors(shape, *transposed, dtype)
    into = products.product(spec(a), spec(b), *transposed)
    if beside and into.beside_onednn is not None:
        into = into.beside_onednn()
    out = np.empty(want.shape, dtype)
    # By one thread, then by all.
    for _ in range(5):
        out.fill(np.nan)
        fill(into, out, a, b)
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    total = np.ones(want.shape, dtype)
    add = products.adder(spec(a), spec(b), *transposed, beside)
    assert add is not None
    add(-0.5, a, b, total)
    np.testing.assert_allclose(total, 1 - 0.5 * want, rtol=1e-4, atol=1e-4)


def claimed_if_it_can(call: Any, alone: Any, count: int, crowd: Any = None, claimed: Any = None) -> Any:
    return claimed or alone


@with_onednn
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_in_parts_that_threads_claim(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int], transposed: tuple[bool, bool]
) -> None:
    monkeypatch.setattr(products, "_MOST_ALONE", 1)
    monkeypatch.setattr(products, "_LARGE", 1)
    monkeypatch.setattr(passes, "adapts", lambda: True)
    for module in (products, passes):
        monkeypatch.setattr(module, "threaded", claimed_if_it_can)
    a, b, want = factors(shape, *transposed)
    out, row = np.full(want.shape, np.nan, F), np.arange(shape[2], dtype=F)
    into = products.product_by_onednn(spec(a), spec(b), *transposed, False)
    assert into is not None
    fill(into, out, a, b)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    if (biased := products.product_by_onednn(spec(a), spec(b), *transposed, True)) is not None:
        fill(biased, out, a, b, row)
        np.testing.assert_allclose(out, want + row, rtol=1e-4, atol=1e-4)
    add = products.adder(spec(a), spec(b), *transposed, True)
    assert add is not None
    total = np.ones(want.shape, F)
    add(-0.5, a, b, total)
    np.testing.assert_allclose(total, 1 - 0.5 * want, rtol=1e-4, atol=1e-4)


@with_onednn
def test_only_large_products_are_worth_onednn() -> None:
    def large(rows: int, inner: int, columns: int, dtype: Any = F) -> bool:
        return products.is_large(Spec((inner, rows), dtype), Spec((columns, inner), dtype), True, True)

    assert large(256, 784, 2048)
    assert large(64, 784, 256)
    assert large(64, 256, 256)
    assert not large(64, 256, 128)
    assert not large(256, 784, 2048, np.dtype("f8"))


@with_onednn
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_products_with_a_row_added_to_each_of_theirs(shape: tuple[int, int, int], tb: bool) -> None:
    a, b, want = factors(shape, False, tb)
    into = products.product_by_onednn(spec(a), spec(b), False, tb, True)
    assert into is not None
    # Other arrays each time, by one thread, then by all.
    for n in range(6):
        bias, out = np.full(shape[2], n, F), np.full(want.shape, np.nan, F)
        fill(into, out, a * n, b.copy(), bias)
        np.testing.assert_allclose(out, want * n + n, rtol=1e-4, atol=5e-4)


@with_onednn
def test_what_onednn_does_not_multiply_faster_is_left_to_others() -> None:
    a, b = Spec((80, 70), F), Spec((70, 60), F)
    assert products.product_by_onednn(a, b, False, False, True) is not None
    assert products.product_by_onednn(Spec((70, 80), F), b, True, False, True) is None
    assert products.product_by_onednn(Spec((8, 7), F), Spec((7, 6), F), False, False, False) is None
    double = np.dtype("f8")
    assert products.product_by_onednn(Spec((80, 70), double), Spec((70, 60), double), False, False, False) is None


@with_onednn
def test_a_product_does_not_hold_its_factors() -> None:
    a, b, _ = factors((80, 70, 60), False, False)
    into = products.product_by_onednn(spec(a), spec(b), False, False, False)
    assert into is not None
    for _ in range(5):
        fill(into, np.empty((80, 60), F), a, b)
    held = [weakref.ref(a), weakref.ref(b)]
    del a, b
    assert [r() for r in held] == [None, None]


def _in_child(queue: Any, into: Into, a: Any, b: Any) -> None:
    try:
        fill(into, np.empty((80, 60), F), a, b)
    except Unfit:
        queue.put("unfit")
    else:
        queue.put("done")


@with_onednn
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_leaves_the_threads_it_does_not_have_alone() -> None:
    a, b, _ = factors((80, 70, 60), False, False)
    into = products.product(spec(a), spec(b), False, False)
    assert into.beside_onednn is not None
    into = into.beside_onednn()
    for _ in range(5):
        fill(into, np.empty((80, 60), F), a, b)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue, into, a, b))
    child.start()
    try:
        assert queue.get(timeout=60) == "unfit"
    finally:
        child.kill()
        child.join()


def _add_in_child(queue: Any, a: Any, b: Any) -> None:
    total = np.zeros((a.shape[1], b.shape[1]), F)
    products.add_product(a, b, total)
    queue.put(total)


@with_onednn
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_adds_products_without_those_threads() -> None:
    a, b = (np.random.RandomState(n).randn(600, 100).astype(F) for n in range(2))
    total = np.zeros((100, 100), F)
    for _ in range(8):
        products.add_product(a, b, total)
    np.testing.assert_allclose(total, 8 * (a.T @ b), rtol=1e-3, atol=1e-2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_add_in_child, args=(queue, a, b))
    child.start()
    try:
        np.testing.assert_allclose(queue.get(timeout=60), a.T @ b, rtol=1e-3, atol=1e-2)
    finally:
        child.kill()
        child.join()


def test_blas_says_what_it_is() -> None:
    found = open_blas()
    if found is None:
        pytest.skip("numpy's BLAS is not OpenBLAS")
    assert blas_in_use() == f"{found.core_name().decode()} x{found.threads()}"


class Machine:
    """Products on a machine with a clock of its own: what each takes, by how many threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, alone: float, together: float) -> None:
        self.took = {1: alone, 2: together}
        self.now, self.count = 100.0, 2
        self.used: list[int] = []
        monkeypatch.setattr(threads, "clock", lambda: self.now)
        monkeypatch.delenv("DTF_ADAPT_THREADS", raising=False)
        self.crowd = threads.Crowd()
        self.product: Callable[..., None] = threads.threaded(
            self.call, threads.by_one(self.call, self.set_threads, 2), 2, self.crowd
        )

    def set_threads(self, count: int) -> None:
        self.count = count

    def call(self) -> None:
        self.used.append(self.count)
        self.now += self.took[self.count]

    def run(self, count: int) -> list[int]:
        """By how many threads each of so many products was made."""
        self.used = []
        for _ in range(count):
            self.product()
        assert self.count == 2
        return self.used


class _Counting:
    """A library of two threads that notes for how many each pass is made, and by how many each runs."""

    by_one_thread = Library.by_one_thread

    def __init__(self) -> None:
        self.count = 2
        self.made: list[int] = []
        self.used: list[tuple[int, int]] = []

    def threads(self) -> int:
        return 2

    def set_threads(self, count: int) -> None:
        self.count = count

    def make(self) -> Any:
        made = self.count
        self.made.append(made)
        return SimpleNamespace(run=lambda: self.used.append((made, self.count)))


def test_a_pass_for_threads_is_made_when_they_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DTF_ADAPT_THREADS", raising=False)
    running = tmp_path / "loadavg"
    running.write_text("9.00 9.00 9.00 9/100 1\n")
    monkeypatch.setattr(threads, "_CROWD", threads.Crowd(threads.Host(str(running)), cores=2))
    clock = iter(range(10**6))
    monkeypatch.setattr(threads, "clock", lambda: float(next(clock)))
    library: Any = _Counting()
    call = passes.adapted(library, library.make)
    for _ in range(20):
        call()
    assert (library.made, set(library.used), library.count) == ([1], {(1, 1)}, 2)
    running.write_text("9.00 9.00 9.00 1/100 1\n")
    for _ in range(20):
        call()
    assert (library.made, set(library.used), library.count) == ([1, 2], {(1, 1), (2, 2)}, 2)
    # Who wants all threads whatever happens gets no other pass.
    monkeypatch.setenv("DTF_ADAPT_THREADS", "0")
    other: Any = _Counting()
    passes.adapted(other, other.make)()
    assert (other.made, other.used) == ([2], [(2, 2)])


def test_threads_that_help_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 300e-6, 160e-6)
    assert machine.run(6) == [1, 1, 1, 2, 2, 2]
    # What they gain is looked at anew now and then.
    assert machine.run(1000).count(2) > 980
    # A moment's delay is forgotten soon.
    machine.took[2] = 900e-6
    machine.run(1)
    machine.took[2] = 160e-6
    assert machine.run(100).count(2) > 95


def test_threads_that_take_longer_than_one_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 60e-6, 100e-6)
    machine.run(6)
    machine.run(5000)
    # Trying them costs less than a twentieth.
    assert 2 <= machine.used.count(2) < 150
    # They are found to be better soon when they are.
    machine.took[2] = 40e-6
    machine.run(2000)
    assert machine.run(1000).count(2) > 950


def test_threads_that_wait_for_each_other_are_given_up_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 300e-6, 160e-6)
    machine.run(50)
    machine.took[2] = 20e-3
    began = machine.now
    used = machine.run(20000)
    assert 2 <= used.count(2) < 20
    assert machine.now - began < 1.05 * 20000 * 300e-6
    machine.took[2] = 160e-6
    machine.run(20000)
    assert machine.run(1000).count(2) > 950


def test_threads_that_gain_more_than_a_core_that_is_away_at_times_costs_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch, 300e-6, 160e-6)
    machine.run(50)
    for _ in range(50):
        machine.took[2] = 2e-3
        machine.run(1)
        machine.took[2] = 160e-6
        assert machine.run(100).count(2) > 90


class Others:
    """A host's file that says how many threads want to run."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "loadavg"
        self.want(1)

    def want(self, running: int) -> None:
        self.path.write_text(f"9.99 9.99 9.99 {running}/999 12345\n")


def test_products_leave_cores_to_others_before_they_lose_by_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine, others = Machine(monkeypatch, 300e-6, 160e-6), Others(tmp_path)
    crowd = threads.Crowd(threads.Host(str(others.path)), cores=2)
    machine.product = threads.threaded(machine.call, threads.by_one(machine.call, machine.set_threads, 2), 2, crowd)
    machine.run(8)

    def most(count: int) -> int:
        used = machine.run(count)
        return max((1, 2), key=used.count)

    # The second of the two that run is the product's own.
    others.want(2)
    assert most(500) == 2
    others.want(3)
    machine.run(200)
    assert set(machine.run(300)) == {1}
    others.want(2)
    assert set(machine.run(500)) == {1}
    others.want(1)
    machine.run(200)
    assert most(300) == 2
    # Those that come and go do not count.
    others.want(3)
    machine.run(10)
    others.want(1)
    assert most(300) == 2


def test_where_others_want_the_cores_parts_are_claimed_if_that_takes_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine, others = Machine(monkeypatch, 3e-3, 1.6e-3), Others(tmp_path)
    crowd = threads.Crowd(threads.Host(str(others.path)), cores=2)
    claims = [9e-3, 9e-3, 9e-3, 9e-3]

    def claimed() -> None:
        machine.used.append(0)
        machine.now += claims.pop() if claims else 2e-3

    alone = threads.by_one(machine.call, machine.set_threads, 2)
    machine.product = threads.threaded(machine.call, alone, 2, crowd, claimed)
    # Cores are there: nobody claims.
    assert 0 not in machine.run(500)
    others.want(4)
    machine.run(200)
    # What the first runs had to make does not count.
    assert machine.run(300).count(0) > 290
    # A team is not tried, and one thread is what is left where parts take longer.
    claims[:] = [5e-3] * 10_000
    machine.run(1000)
    assert machine.run(1000).count(0) < 60
    assert 2 not in machine.used
    # After a while all is learned anew.
    claims.clear()
    machine.now += 2 * threads._CLAIMS_KNOWN_S
    machine.run(300)
    assert machine.run(300).count(0) > 290


def test_parts_that_take_much_longer_are_left_after_a_few_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Beside others a training's first steps cost twice as much by trials of what would not pay."""
    machine, others = Machine(monkeypatch, 3e-3, 1.6e-3), Others(tmp_path)
    crowd = threads.Crowd(threads.Host(str(others.path)), cores=2)

    def claimed() -> None:
        machine.used.append(0)
        machine.now += 9e-3

    alone = threads.by_one(machine.call, machine.set_threads, 2)
    machine.product = threads.threaded(machine.call, alone, 2, crowd, claimed)
    machine.run(500)
    others.want(4)
    assert machine.run(100).count(0) <= threads._FEW_CLAIMS + 2 < threads._CLAIMS


@pytest.mark.parametrize("stays_awake", [False, True])
def test_a_long_call_whose_threads_stay_awake_is_tried_a_few_times(
    stays_awake: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine, others = Machine(monkeypatch, 3e-3, 1.6e-3), Others(tmp_path)
    crowd = threads.Crowd(threads.Host(str(others.path)), cores=2)

    def claimed() -> None:
        machine.used.append(0)
        machine.now += 3.2e-3

    alone = threads.by_one(machine.call, machine.set_threads, 2)
    machine.product = threads.threaded(machine.call, alone, 2, crowd, claimed, stays_awake)
    machine.run(500)
    others.want(4)
    claims = machine.run(60).count(0)
    if stays_awake:
        assert claims <= threads._TRIALS + 2 < threads._CLAIMS
    else:
        assert claims >= threads._CLAIMS


def test_who_has_the_cores_between_products_only_takes_none_from_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A ps, a client and a thread that receives run when this process waits for them."""
    machine, others = Machine(monkeypatch, 3e-3, 1.6e-3), Others(tmp_path)
    crowd = threads.Crowd(threads.Host(str(others.path)), cores=2)

    def call() -> None:
        # They still run when the product begins.
        others.want(1 if machine.count == 1 else 2)
        machine.call()

    machine.product = threads.threaded(call, threads.by_one(call, machine.set_threads, 2), 2, crowd)

    def steps(count: int) -> list[int]:
        used = []
        for _ in range(count):
            used += machine.run(3)
            others.want(4)
            machine.now += 10e-3
        return used

    steps(3)
    assert steps(100).count(2) > 290

    # Others that run beside products, as often, do.
    def beside() -> None:
        others.want(3 if machine.count == 1 else 4)
        machine.call()

    machine.product = threads.threaded(beside, threads.by_one(beside, machine.set_threads, 2), 2, crowd)
    steps(20)
    assert set(steps(100)) == {1}


def test_where_the_host_does_not_say_who_runs_all_cores_are_there(tmp_path: Path) -> None:
    for text in ("", "no numbers at all here", "1 2 3"):
        (tmp_path / "loadavg").write_text(text)
        host = threads.Host(str(tmp_path / "loadavg"))
        for now in (0.0, 1.0):
            host.ran(1.0, 1, now)
        assert host.wanting == 0.0
    crowd = threads.Crowd(threads.Host(str(tmp_path / "none")), cores=2)
    crowd.ran(1.0, 1, 0.0)
    assert crowd.leaves_room(2)


@pytest.mark.parametrize("shape", [(3, 5, 4), (80, 70, 60), (64, 256, 300), (200, 300, 400)])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8"])
def test_products_of_any_shapes(shape: tuple[int, int, int], transposed: tuple[bool, bool], dtype: str) -> None:
    rng = np.random.default_rng(0)
    rows, inner, columns = shape
    a = rng.integers(-9, 9, (rows, inner)).astype(dtype)
    b = rng.integers(-9, 9, (inner, columns)).astype(dtype)
    x, y = (f.T.copy() if t else f for f, t in zip((a, b), transposed))
    want = a.astype("f8" if dtype != "c8" else "c16") @ b.astype("f8" if dtype != "c8" else "c16")
    got = products.multiply(x, y, *transposed)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, want.astype(dtype))
    # Of every other row.
    np.testing.assert_array_equal(products.multiply(np.repeat(x, 2, 0)[::2], y, *transposed), want.astype(dtype))
    stacks = products.multiply_stacks(np.stack([a, 2 * a]), np.stack([b, b]))
    np.testing.assert_array_equal(stacks, np.stack([want, 2 * want]).astype(dtype))


def test_products_know_together_that_threads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 300e-6, 160e-6)
    first = machine.product
    other = threads.threaded(machine.call, threads.by_one(machine.call, machine.set_threads, 2), 2, machine.crowd)
    for _ in range(10):
        first()
        other()
    machine.took[2] = 20e-3
    machine.used = []
    for _ in range(3):
        first()
        other()
    assert machine.used == [2, 1, 1, 1, 1, 1]


def test_a_thread_that_wakes_late_for_a_small_product_does_not_cost_large_ones_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch, 24e-6, 20e-6)
    small = machine.product
    large = threads.threaded(machine.call, threads.by_one(machine.call, machine.set_threads, 2), 2, machine.crowd)

    def a_step() -> int:
        machine.took = {1: 24e-6, 2: 20e-6}
        for _ in range(20):
            small()
        machine.took = {1: 9e-3, 2: 4.5e-3}
        large()
        return machine.used[-1]

    for _ in range(10):
        a_step()
    for _ in range(20):
        # As long as it takes to wake one that sleeps.
        machine.took = {1: 24e-6, 2: 500e-6}
        small()
        # One of these may be looked at anew.
        assert [a_step() for _ in range(5)].count(2) >= 4


def test_what_no_threads_had_yet_is_not_given_them_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 9e-3, 0.3)
    others = [
        threads.threaded(machine.call, threads.by_one(machine.call, machine.set_threads, 2), 2, machine.crowd)
        for _ in range(20)
    ]
    for _ in range(20):
        for product in others:
            product()
    # Three tries for each of them would take 18 s.
    assert machine.used.count(2) < 10
    machine.took[2] = 4.5e-3
    machine.now += 50
    for _ in range(10):
        machine.used = []
        for product in others:
            product()
    assert machine.used.count(2) >= 18


def test_waits_of_the_past_are_forgotten_where_nobody_uses_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 9e-3, 4.5e-3)
    machine.run(10)
    machine.took[2] = 1.0
    machine.run(20)
    # They are looked at anew once.
    assert machine.run(10).count(2) <= 1
    machine.took[2] = 4.5e-3
    machine.now += 50
    assert machine.run(10).count(2) >= 9


def test_what_a_core_takes_is_learned_anew_when_all_became_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 300e-6, 160e-6)
    machine.run(6)
    machine.took = {1: 900e-6, 2: 480e-6}
    machine.run(5000)
    assert machine.run(1000).count(2) > 950


def test_threads_are_left_as_they_are_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, 1.0, 1.0)
    assert threads.threaded(machine.call, machine.call, 1) == machine.call
    monkeypatch.setenv("DTF_ADAPT_THREADS", "0")
    assert threads.threaded(machine.call, machine.product, 2) == machine.call


def test_a_failed_product_leaves_the_threads_as_they_were() -> None:
    counts: list[int] = []

    def fail() -> None:
        raise Unfit

    with pytest.raises(Unfit):
        threads.by_one(fail, counts.append, 2)()
    assert counts == [1, 2]


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from(["f4", "f8"]), st.integers(0, 9))
def test_sums_of_rows(rows: int, columns: int, dtype: str, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((rows, columns)).astype(dtype)
    out = np.empty(columns, dtype)
    fill(_sum_of_rows(spec(x)), out, x)
    np.testing.assert_allclose(out, x.astype("f8").sum(0), rtol=1e-4, atol=1e-4)


def test_a_sum_of_many_like_numbers_rounds_little() -> None:
    x = np.full((50_001, 3), 0.1, F)
    out = np.empty(3, F)
    fill(_sum_of_rows(spec(x)), out, x)
    np.testing.assert_allclose(out, 5000.1, rtol=1e-5)
    x[7, 1], x[8, 2] = np.nan, np.inf
    fill(_sum_of_rows(spec(x)), out, x)
    assert np.isnan(out[1]) and np.isinf(out[2])
