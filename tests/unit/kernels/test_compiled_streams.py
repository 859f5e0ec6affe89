"""Results that are written past the caches are numpy's, bit for bit, wherever they start and end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.executor import shaped, tuner
from dtfctl.runtime.kernels.compiled import chains, jit
from dtfctl.runtime.kernels.compiled.chains import Link
from dtfctl.runtime.kernels.into import elementwise, parallel, updates
from dtfctl.runtime.kernels.into.registry import Spec
from tests.unit.executor.test_fusion import planned

pytestmark = pytest.mark.skipif(not jit.is_available(), reason="numba is not installed")

EDGES = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-40, -1e-40, 5e-324, 3e38, 1e308, -1.5]
GUARD = 7
# An update by the sum of two gradients; the sum is wanted too in one of the tests.
SUM, STEP = "{0} + {1}", "{0} - {1} * {2}"


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(chains, "LEAST_BYTES_STREAMED", 0)
    with np.errstate(all="ignore"):
        yield


def numbers(size: int, dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    array = rng.standard_normal(size).astype(dtype)
    places = rng.integers(0, size, size // 3)
    array[places] = rng.choice(np.asarray(EDGES).astype(dtype), len(places))
    return array


def placed(size: int, dtype: str, ahead: int) -> tuple[Any, Any]:
    """A vector that starts so many elements behind a line of memory, and all around it."""
    item = np.dtype(dtype).itemsize
    room = np.full(size + 256, GUARD, dtype)
    start = (-room.ctypes.data % 64) // item + 64 + ahead
    return room[start : start + size], room


def same_bits(got: Any, want: Any) -> None:
    nothing = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nothing)
    bits = f"u{want.itemsize}"
    np.testing.assert_array_equal(np.where(nothing, 0, got).view(bits), np.where(nothing, 0, want).view(bits))


def update(size: int, dtype: str, keeps_sum: bool = False) -> Any:
    whole, number = Spec((size,), np.dtype(dtype)), Spec((), np.dtype(dtype))
    links = [Link(SUM, (1, 2), keeps_sum), Link(STEP, (0, (0,), 3), True)]
    into = chains.chain(links, [whole, whole, whole, number], whole)
    assert into is not None
    return into.call


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("ahead", [0, 1, 5, 15])
@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 63, 64, 127, 128, 129, 143, 144, 145, 1000, 4096])
def test_heads_and_tails(dtype: str, ahead: int, size: int) -> None:
    var, one, other = (numbers(size, dtype, seed) for seed in range(3))
    rate = np.dtype(dtype).type(0.3)
    out, room = placed(size, dtype, ahead)
    update(size, dtype)(var, one, other, rate, out)
    same_bits(out, var - (one + other) * rate)
    around = room.copy()
    start = (out.ctypes.data - room.ctypes.data) // out.itemsize
    around[start : start + size] = GUARD
    assert (around == GUARD).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("aheads", [(0, 0), (3, 3), (0, 1), (6, 2)])
def test_several_results_need_not_start_alike(dtype: str, aheads: tuple[int, int]) -> None:
    size = 777
    var, one, other = (numbers(size, dtype, seed) for seed in range(3))
    rate = np.dtype(dtype).type(0.3)
    total, result = (placed(size, dtype, ahead)[0] for ahead in aheads)
    update(size, dtype, keeps_sum=True)(var, one, other, rate, total, result)
    same_bits(total, one + other)
    same_bits(result, var - (one + other) * rate)


def test_the_result_may_be_where_an_operand_is() -> None:
    """Then it is stored plainly: its lines are in the cache already. So it is in an operand's memory seen anew."""
    for view in (False, True):
        var, one, other = (numbers(1000, "f4", seed) for seed in range(3))
        want = var - (one + other) * np.float32(0.3)
        update(1000, "f4")(var, one, other, np.float32(0.3), var[:] if view else var)
        same_bits(var, want)


def test_several_cores_write_parts_that_start_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_LEAST_BYTES_SHARED", 0)
    monkeypatch.setattr(parallel, "LEAST_BYTES", 0)
    var, one, other = (numbers(10_007, "f4", seed) for seed in range(3))
    run = update(10_007, "f4")
    for _ in range(6):
        out, _ = placed(10_007, "f4", 9)
        run(var, one, other, np.float32(0.3), out)
        same_bits(out, var - (one + other) * np.float32(0.3))


def test_only_results_elsewhere_without_rows_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And these are stored in a way that leaves caches alone, or all of this would be in vain."""
    made: list[str] = []
    jitted = chains.jitted

    def noted(source: str) -> Any:
        made.append(source)
        return jitted(source)

    def asked() -> list[bool]:
        return ["stream(" in source for source in made]

    monkeypatch.setattr(chains, "jitted", noted)
    whole, row = Spec((6, 5), np.dtype("f4")), Spec((5,), np.dtype("f4"))
    x = np.ones((6, 5), "f4")
    into = chains.chain([Link(SUM, (0, 1), True)], [whole, whole], whole)
    assert into is not None and asked() == [True]
    into.call(x, x.copy(), np.empty_like(x))
    assert "!nontemporal" in machine_code(made[0])
    into.call(x, x.copy(), x)
    assert asked() == [True, False]
    assert "!nontemporal" not in machine_code(made[1])
    chains.chain([Link(SUM, (0, 1), True)], [whole, row], whole)
    assert asked() == [True, False, False]
    monkeypatch.setattr(chains, "LEAST_BYTES_STREAMED", whole.nbytes + 1)
    chains.chain([Link(SUM, (0, 1), True)], [whole, whole], whole)
    assert asked() == [True, False, False, False]


def machine_code(source: str) -> str:
    """What numba makes of a loop over vectors of float32."""
    import numba

    from dtfctl.runtime.kernels.compiled.compile import function_of, llvm_text

    function = function_of({"source": source})
    number, vector = numba.float32, numba.float32[::1]
    count = function.__code__.co_argcount
    return llvm_text(function, [number, number, *[vector] * (count - 2)])


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is observed, and small arrays count as large ones."""
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    monkeypatch.setattr(parallel, "LEAST_BYTES", 0)
    monkeypatch.setattr(jit, "LEAST_BYTES", 0)
    monkeypatch.setattr(updates, "LEAST_BYTES", 0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_updates_by_sums_have_numpys_values(workers: int, by_handle: bool, dtype: str) -> None:
    """Beside a value that somebody holds, and in place."""
    size = 1003
    start = numbers(size, dtype, 9)
    given = [[numbers(size, dtype, 10 * step + n) for n in range(workers)] for step in range(5)]
    # A rate is of 32 bits before it becomes the variable's type.
    rate = np.dtype(dtype).type(np.float32(0.3))
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.Variable(start, use_resource=by_handle)
        gradients = [tf.placeholder(start.dtype, [size]) for _ in range(workers)]
        total = tf.add_n(gradients) if workers > 1 else gradients[0]
        step = tf.train.GradientDescentOptimizer(float(rate)).apply_gradients([(total, variable)])
        session.run(tf.global_variables_initializer())
        want, held = start, []
        for n, values in enumerate(given):
            if n != 3:
                held.append((session.run(variable), want))
            session.run(step, dict(zip(gradients, values)))
            summed = values[0]
            for value in values[1:]:
                summed = summed + value
            want = want - summed * rate
        same_bits(session.run(variable), want)
        for got, then in held:
            same_bits(got, then)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("is_large", [False, True])
def test_a_single_operation_is_a_loop_where_its_result_is_streamed(
    monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    if not is_large:
        monkeypatch.setattr(chains, "LEAST_BYTES_STREAMED", 1 << 30)
    made: list[str] = []
    jitted = chains.jitted
    monkeypatch.setattr(chains, "jitted", lambda source: made.append(source) or jitted(source))
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [40, 25])
        # Nothing else is arithmetic.
        end = tf.matmul(tf.multiply(x, 0.5), tf.ones([25, 1]))
        for seed in range(3):
            value = numbers(1000, "f4", seed).reshape(40, 25)
            value[~np.isfinite(value)] = 1
            got = session.run(end, {x: value})
            np.testing.assert_allclose(got[:, 0], (value * np.float32(0.5)).sum(1), rtol=1e-4, atol=1e-4)
        assert planned(session) is not None
    assert [elementwise._FORMULAS["Mul"].format("x0_0", "x0_1") in source for source in made] == [True] * is_large
