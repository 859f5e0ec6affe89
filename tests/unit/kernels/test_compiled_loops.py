"""The loops that numba compiles give numpy's values: as Python for small arrays, compiled for large ones."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.errors import InternalError
from dtfctl.runtime.kernels.compiled import jit, loops
from dtfctl.runtime.kernels.into import updates
from dtfctl.runtime.kernels.native import kept
from dtfctl.runtime.kernels.native.compiler import Compiler, Process
from dtfctl.runtime.kernels.state import scatter_update

F = np.float32
FORMS = [
    pytest.param(lambda loop: loop, 64, id="python"),
    pytest.param(
        lambda loop: jit.compiled(loop, np.dtype(F), jit.LEAST_BYTES),
        5000,
        id="compiled",
        marks=pytest.mark.skipif(not jit.is_available(), reason="numba is not installed"),
    ),
]
RULES = {
    updates.momentum: (1, [(F(0.1), F(0.9), False), (F(0.1), F(0.9), True)]),
    updates.adam: (2, [(F(0.81), F(0.98), F(0.01), F(0.9), F(0.99), F(1e-6), n) for n in (False, True)]),
    updates.rms_prop: (2, [(F(0.01), F(0.9), F(0.5), F(1e-6))]),
    updates.adagrad: (1, [(F(0.1), True), (F(0.1), False)]),
}


@pytest.mark.parametrize(("form", "size"), FORMS)
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_updates(form: Callable[[Any], Any], size: int, rule: Any) -> None:
    rng = np.random.default_rng(0)
    slots, settings = RULES[rule]
    for rates in settings:
        grad = rng.standard_normal(size).astype(F)
        arrays = [rng.random(size).astype(F) + F(0.1) for _ in range(slots + 1)]
        want = [a.copy() for a in arrays]
        before, elsewhere = arrays[0].copy(), np.empty_like(grad)
        copies = [a.copy() for a in arrays]
        rule(rates, grad, *want, want[0], np.empty_like(grad))
        loop = updates._by_loop(rule, form(updates._LOOPS[rule]))
        loop(rates, grad, *arrays, arrays[0], None)
        for got, expected in zip(arrays, want):
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)
        loop(rates, grad, *copies, elsewhere, None)
        np.testing.assert_array_equal(elsewhere, arrays[0])
        np.testing.assert_array_equal(copies[0], before)


@pytest.mark.parametrize(("form", "size"), FORMS)
def test_max_pool_gradient(form: Callable[[Any], Any], size: int) -> None:
    """The first of equal elements gets the gradient."""
    x = np.random.default_rng(0).integers(0, 3, (2, 4, 6, 3)).astype(F)
    windows = x.reshape(2, 2, 2, 2, 3, 3).transpose(0, 1, 3, 5, 2, 4).reshape(2, 2, 2, 3, 6)
    y = np.ascontiguousarray(windows.max(-1))
    grad = np.arange(y.size, dtype=F).reshape(y.shape) + 1
    want = np.zeros_like(windows)
    np.put_along_axis(want, windows.argmax(-1)[..., None], grad[..., None], -1)
    out = np.empty_like(x)
    form(loops.max_pool_gradient)(x, y, grad, out, 2, 3, np.empty(3, np.bool_))
    got = out.reshape(2, 2, 2, 2, 3, 3).transpose(0, 1, 3, 5, 2, 4).reshape(want.shape)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("form", "size"), FORMS)
@pytest.mark.parametrize("kind", ["Add", "Sub"])
def test_rows_added_in_order(monkeypatch: pytest.MonkeyPatch, form: Callable[[Any], Any], size: int, kind: str) -> None:
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 20, 300)
    rows = rng.standard_normal((300, 2, 3)).astype(F)
    target = rng.standard_normal((20, 2, 3)).astype(F)
    want = target.copy()
    scatter_update.scatter_rows(want, indices, rows, kind)
    monkeypatch.setattr(scatter_update, "compiled", lambda loop, dtype, nbytes, least: form(loop))
    scatter_update.scatter_rows(target, indices, rows, kind)
    np.testing.assert_allclose(target, want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "size"), FORMS)
@pytest.mark.parametrize("width", [1, 5, 200])
@pytest.mark.parametrize("kind", ["i4", "i8"])
def test_rows_taken(form: Callable[[Any], Any], size: int, width: int, kind: str) -> None:
    """Also where a row is more than memory is asked for in advance, and where a row is the last of the table."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((30, width)).astype(F)
    table[3, 0] = np.nan
    indices = np.append(rng.integers(0, 30, 99), [29, 3, 0, 29]).astype(kind)
    out = np.empty((indices.size, width), F)
    form(loops.take_rows)(table, indices, out)
    np.testing.assert_array_equal(out, table[indices])


@pytest.mark.skipif(not jit.is_available(), reason="numba is not installed")
@pytest.mark.parametrize("loop", [loops.take_rows, loops.add_rows])
def test_memory_is_asked_for_rows_in_advance(loop: Callable[..., None]) -> None:
    assert jit.compiled(loop, np.dtype(F), jit.LEAST_BYTES) is not None
    numba, compile = import_module("numba"), import_module("dtfctl.runtime.kernels.compiled.compile")
    rows, numbers = numba.float32[:, ::1], numba.int64[::1]
    kinds = [rows, numbers, rows, *[numba.float32] * (loop is loops.add_rows)]
    assert "@llvm.prefetch" in compile.llvm_text(loop, kinds)


def test_small_arrays_and_a_switch_leave_numba_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jit.compiled(loops.adam, np.dtype(F), 100) is None
    monkeypatch.setenv("DTF_NUMBA", "0")
    jit._is_installed.cache_clear()
    try:
        assert jit.compiled(loops.adam, np.dtype(F), jit.LEAST_BYTES) is None
    finally:
        monkeypatch.undo()
        jit._is_installed.cache_clear()


@pytest.mark.skipif(not jit.is_available(), reason="numba is not installed")
def test_a_loop_is_compiled_again_if_what_compiled_it_was_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And never by the process that runs it, which numba would cost 100 MB and half a second each time."""
    process, asked = Process("dtfctl.runtime.kernels.compiled.compile"), []

    def compile(orders: Sequence[Any]) -> Iterator[Any]:
        asked.append(orders)
        return process.compile(orders) if len(asked) > 1 else iter(())

    monkeypatch.setattr(kept, "_folder", lambda: tmp_path)
    monkeypatch.setattr(jit, "_COMPILER", Compiler(compile))
    x = np.arange(12, dtype=F).reshape(3, 4)
    out = np.empty_like(x)
    try:
        jit.Loop("below_largest", "")(x, out)
        np.testing.assert_array_equal(out, x - x.max(1, keepdims=True))
        assert len(asked) == 2 and len(list(tmp_path.iterdir())) == 1
        # What was kept is read by another process.
        monkeypatch.setattr(jit, "_COMPILER", Compiler(lambda orders: iter(())))
        with pytest.raises(InternalError, match="DTF_NUMBA=0"):
            jit.Loop("below_largest", "")(x[:, ::-1], out)  # that is of another kind
    finally:
        process.end()
    out[:] = 0
    jit.Loop("below_largest", "")(x, out)
    np.testing.assert_array_equal(out, x - x.max(1, keepdims=True))


def test_a_compiler_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = threading.Event()

    def never(orders: Sequence[Any]) -> Iterator[None]:
        stuck.wait()
        yield from [None] * len(orders)

    monkeypatch.setattr(kept, "read", lambda digest: None)
    monkeypatch.setattr(jit, "_COMPILER", Compiler(never))
    monkeypatch.setattr(jit, "_MOST_S", 0.2)
    x = np.ones((4, 3), np.float32)
    try:
        with pytest.raises(InternalError, match=r"below_largest was not compiled within 0\.2 s.*DTF_NUMBA=0"):
            jit.Loop("below_largest", "")(x, np.empty_like(x))
    finally:
        stuck.set()


@pytest.mark.skipif(not jit.is_available(), reason="numba is not installed")
def test_who_runs_a_loop_does_not_import_numba() -> None:
    program = (
        "import sys, numpy as np\n"
        "from dtfctl.runtime.kernels.compiled import jit\n"
        "x = np.ones((1024, 600), np.float32); out = np.empty_like(x)\n"
        "jit.compiled(jit.loops.below_largest, x.dtype, x.nbytes)(x, out)\n"
        "print(out.any(), 'numba' in sys.modules, 'llvmlite' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False False\n"
