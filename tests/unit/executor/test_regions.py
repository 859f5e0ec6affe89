"""Regions of a plan as machine code have the values of their nodes one by one."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import dtfctl.runtime as tf
from dtfctl.runtime.executor import planner, shaped, tuner
from dtfctl.runtime.executor.adaptive import Adaptive
from dtfctl.runtime.kernels.into import updates
from dtfctl.runtime.kernels.into.parallel import ThreadPool
from dtfctl.runtime.kernels.into.registry import Spec
from dtfctl.runtime.kernels.native import calls, compiler, kept, machine, updating
from tests.unit.executor.harness import executors_of
from tests.unit.executor.test_fusion import node_by_node

if not machine.can_compile():
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from dtfctl.runtime.kernels.native.compile import compiled
from dtfctl.runtime.kernels.native.sketch import Sketch

F = np.float32
SHAPE = (6, 4)
# All that was to be compiled.
REQUESTED: list[Sketch] = []
READ, KEEP = kept.read, kept.keep
# So many units in the last place may results of exponentials and the like, one after the other, differ.
CLOSE = 3e-6


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first step is observed, the second has regions compiled, in this process, and the third uses them."""
    monkeypatch.delenv("DTF_NATIVE", raising=False)
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    monkeypatch.setattr(planner, "COMPILED_FROM", 1)
    request = compiler.COMPILER.request

    def waiting(sketches: Any) -> Any:
        REQUESTED.extend(sketches)
        made = request(sketches)
        compiler.COMPILER.finish()
        return made

    monkeypatch.setattr(compiler.COMPILER, "request", waiting)
    monkeypatch.setattr(compiler.COMPILER, "_known", {})
    monkeypatch.setattr(compiler.COMPILER, "_compile", lambda sketches: map(compiled, sketches))
    monkeypatch.setattr(kept, "read", lambda digest: None)
    monkeypatch.setattr(kept, "keep", lambda digest, made: None)
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    yield


def plans(session: Any) -> list[Any]:
    return [e.plan.shaped for e in executors_of(session) if isinstance(e.plan, Adaptive)]


def regions(session: Any) -> list[Any]:
    """The lines of a session that are regions: the ops each of them stands for."""
    found = []
    for plan in plans(session):
        for at in {by for _, by in plan.folds}:
            found.append({plan.order[n].op for n, by in plan.folds if by == at} | {plan.order[at].op})
    return found


def both(
    make: Callable[[], tuple[Any, dict[Any, Any]]], steps: int = 4, expected: bool = True
) -> tuple[list[Any], list[Any]]:
    """Fetch what a program makes, node by node and with regions, in the last of some steps."""
    results = []
    for config in (node_by_node(), None):
        with tf.Graph().as_default():
            fetches, feeds = make()
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(steps):
                    given = session.run(fetches, feeds)
                results.append(given)
                if config is None and expected:
                    assert any(plan.is_shaped for plan in plans(session))
                    assert regions(session)
    return results[0], results[1]


def same(want: Any, got: Any, close: float = CLOSE) -> None:
    for x, y in zip(want, got):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(y, x, rtol=close, atol=close)


# Any program -----------------------------------------------------------------------------------------------------

UNARY: list[Callable[[Any], Any]] = [
    tf.tanh,
    tf.sigmoid,
    tf.exp,
    tf.nn.softplus,
    tf.nn.relu,
    tf.nn.relu6,
    tf.nn.elu,
    tf.nn.leaky_relu,
    lambda x: tf.nn.leaky_relu(x, 0.5),
    tf.square,
    tf.negative,
    tf.nn.softmax,
    tf.zeros_like,
    lambda x: tf.sqrt(tf.abs(x) + 1.0),
    lambda x: tf.log(tf.abs(x) + 1.0),
    lambda x: tf.rsqrt(tf.square(x) + 0.5),
    lambda x: tf.transpose(tf.reshape(x, [4, 6])),
    lambda x: tf.reshape(tf.transpose(x), SHAPE),
    lambda x: x - tf.reduce_mean(x, 1, keepdims=True),
    lambda x: x / (1.0 + tf.abs(tf.reduce_sum(x, 0, keepdims=True))),
    lambda x: x + tf.reduce_max(x, [0, 1]),
    lambda x: x * tf.reduce_min(x, 0),
    lambda x: tf.concat([x[:, 2:], x[:, :2]], 1),
    lambda x: tf.concat(tf.split(x, 3, 0)[::-1], 0),
    lambda x: tf.stack(tf.unstack(x, axis=1), 1),
    lambda x: tf.cast(x > 0.25, tf.float32),
    lambda x: tf.where(x > 0.0, x * 0.1, tf.exp(-tf.abs(x))),
    lambda x: tf.tile(tf.reduce_sum(x, 1, keepdims=True), [1, 4]),
    lambda x: tf.reduce_sum(tf.reshape(x, [6, 1, 4]) * 2.0, 1),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    tf.add,
    tf.subtract,
    tf.multiply,
    tf.maximum,
    tf.minimum,
    tf.squared_difference,
    lambda x, y: x / (tf.abs(y) + 1.0),
    lambda x, y: tf.add_n([x, y, x]),
    lambda x, y: tf.where(x > y, x, y),
    lambda x, y: tf.concat([x, y], 0)[3:9],
    lambda x, y: x + y[0],
]


@st.composite
def programs(draw: Any) -> list[tuple[Callable[..., Any], list[int]]]:
    """Each step of a program: what is done, and to which values from before."""
    steps: list[tuple[Callable[..., Any], list[int]]] = []
    for n in range(draw(st.integers(2, 9))):
        of = draw(st.sampled_from([UNARY, BINARY]))
        count = 1 if of is UNARY else 2
        steps.append((draw(st.sampled_from(of)), [draw(st.integers(0, n + 1)) for _ in range(count)]))
    return steps


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs(), st.integers(0, 9), st.integers(0, 1000))
def test_any_program_has_its_values(program: Any, kept: int, seed: int) -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        random = np.random.default_rng(seed)
        inputs = [tf.placeholder(tf.float32, SHAPE) for _ in range(2)]
        values = list(inputs)
        for do, operands in program:
            values.append(tf.clip_by_value(do(*(values[n] for n in operands)), -9.0, 9.0))
        fetched = [values[-1], values[min(kept, len(values) - 1)] * 2.0]
        return fetched, {x: random.standard_normal(SHAPE).astype(F) for x in inputs}

    want, got = both(make, expected=False)
    same(want, got, 3e-5)


@pytest.mark.parametrize("n", range(len(UNARY)))
def test_gradients_of_each(n: int) -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, SHAPE)
        y = UNARY[n](x * 1.5) * tf.tanh(x)
        return [y, *tf.gradients(tf.reduce_sum(y * y), [x])], {x: np.linspace(-2, 2.1, 24, dtype=F).reshape(SHAPE)}

    same(*both(make), close=1e-5)


# What numbers are ------------------------------------------------------------------------------------------------

EDGES = np.array([0.0, -0.0, 1.0, -1.5, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 3e38, -3e38, 1e-38], F)


def test_edges_of_numbers() -> None:
    """NaN, infinities, zeros of both signs: bit by bit what numpy's passes give, but for the last places."""

    def make() -> tuple[Any, dict[Any, Any]]:
        x, y = tf.placeholder(tf.float32, [12, 1]), tf.placeholder(tf.float32, [12])
        made = [x + y, x * y, tf.maximum(x, y), tf.minimum(y, x), x / y, tf.nn.relu(x) - y, tf.cast(x < y, tf.float32)]
        made += [tf.nn.leaky_relu(x) + y, *tf.gradients(tf.nn.leaky_relu(x + 0.0) * y, [x])]
        made += [tf.tanh(x) + 0.0, tf.sigmoid(x) + 0.0, tf.exp(x) + 0.0, tf.log(x) + 0.0, tf.reduce_max(x + y, 1)]
        return made, {x: EDGES[:, None], y: EDGES}

    want, got = both(make)
    for x, y in zip(want, got):
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
        normal = np.isfinite(x) & (np.abs(x) > 1e-37)
        np.testing.assert_allclose(y[normal], x[normal], rtol=1e-6)
        np.testing.assert_array_equal(x[np.isinf(x)], y[np.isinf(x)])


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64])
def test_arithmetic_is_numpys_to_the_last_bit(dtype: Any) -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x, y = tf.placeholder(dtype, [5, 7]), tf.placeholder(dtype, [7])
        z = (x + y) * x - y
        return [z, tf.maximum(z, x), -z, tf.reduce_sum(z, 0)], {
            x: np.arange(35).reshape(5, 7) * 3 % 11,
            y: np.arange(7) - 3,
        }

    want, got = both(make)
    for x, y in zip(want, got):
        np.testing.assert_array_equal(x, y)


def test_nothing_has_no_elements() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [0, 3])
        y = tf.tanh(x) * 2.0 + 1.0
        return [y, tf.reduce_sum(y, 0)], {x: np.zeros((0, 3), F)}

    want, got = both(make, expected=False)
    same(want, got)


# Memory -----------------------------------------------------------------------------------------------------------


def cell(x: Any) -> Any:
    return tf.tanh(x * 2.0) * tf.sigmoid(x) + 1.0


def test_what_was_fetched_stays() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, SHAPE)
        y = cell(x)
        z = tf.reduce_sum(cell(y))
        fetched = [session.run([y, z], {x: np.full(SHAPE, n, F)}) for n in range(6)]
        assert regions(session)
        for n, (value, total) in enumerate(fetched):
            want = np.tanh(2 * F(n)) / (1 + np.exp(-F(n))) + 1
            np.testing.assert_allclose(value, np.full(SHAPE, want), rtol=1e-5)
            assert total > 0


def test_one_array_as_several_operands_and_arrays_that_are_not_contiguous() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(tf.float32, [6, 6]), tf.placeholder(tf.float32, [6, 6])
        z = cell(x) * cell(y) - x
        array = np.arange(36, dtype=F).reshape(6, 6) / 36
        for _ in range(3):
            session.run(z, {x: array, y: array})
        want = session.run(z, {x: array.copy(), y: array.T.copy()})
        np.testing.assert_array_equal(session.run(z, {x: array, y: array.T}), want)
        assert regions(session)


def test_other_shapes_are_run_all_the_same() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3])
        y = cell(x) + tf.cast(tf.shape(x)[0], tf.float32)
        for rows in (4, 4, 4, 2, 4, 1):
            value = np.full((rows, 3), 0.5, F)
            want = np.tanh(F(1)) / (1 + np.exp(-F(0.5))) + 1 + rows
            np.testing.assert_allclose(session.run(y, {x: value}), np.full((rows, 3), want), rtol=1e-6)


def test_variables_learn_the_same() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [8, 5])
        w = tf.Variable(np.linspace(-1, 1, 20, dtype=F).reshape(5, 4))
        b = tf.Variable(np.zeros(4, F))
        y = tf.tanh(tf.matmul(x, w) + b)
        loss = tf.reduce_mean(tf.square(y - 0.25))
        train = tf.train.AdamOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([train]):
            return [tf.identity(loss), w.read_value(), b.read_value()], {
                x: np.linspace(-2, 2, 40, dtype=F).reshape(8, 5)
            }

    same(*both(make, steps=8), close=2e-5)


def test_loops_learn_the_same() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [4, 6])
        w = tf.Variable(np.linspace(-1, 1, 36, dtype=F).reshape(6, 6))

        def body(n: Any, state: Any) -> tuple[Any, Any]:
            return n + 1, tf.tanh(tf.matmul(state, w) + x) * tf.sigmoid(state)

        _, state = tf.while_loop(lambda n, _: n < 5, body, (0, x))
        loss = tf.reduce_mean(tf.square(state))
        return [loss, *tf.gradients(loss, [w, x])], {x: np.linspace(-2, 2, 24, dtype=F).reshape(4, 6)}

    same(*both(make, steps=6, expected=False), close=1e-5)


def test_large_regions_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LEAST_BYTES_SHARED", 0)

    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [64, 40])
        y = tf.nn.softmax(tf.tanh(x) * 3.0)
        z = y * tf.rsqrt(tf.reduce_mean(tf.square(y), 1, keepdims=True) + 1e-3)
        return [z, tf.reduce_sum(z, 0)], {x: np.random.default_rng(0).standard_normal((64, 40)).astype(F)}

    same(*both(make), close=1e-5)


@pytest.mark.parametrize("is_shared", [False, True])
def test_numbers_that_are_no_arrays_are_operands_all_the_same(is_shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a loop's counter is, of which each iteration gives the next."""
    if is_shared:
        monkeypatch.setattr(kept, "LEAST_BYTES_SHARED", 0)
        pool = ThreadPool(2)
        monkeypatch.setattr(calls, "shared_pool", lambda: pool)
        monkeypatch.setattr(calls, "threaded", lambda together, *_, **__: together)
    missed: list[Adaptive] = []
    monkeypatch.setattr(Adaptive, "_missed", missed.append)

    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [64, 40])

        def body(n: Any, state: Any) -> tuple[Any, Any]:
            state = tf.tanh(state) * tf.sigmoid(state)
            return n + 1, state

        n, state = tf.while_loop(lambda n, _: n < 5, body, (0, x))
        grad = tf.gradients(state, x)[0]
        return [n, state, grad], {x: np.random.default_rng(0).standard_normal((64, 40)).astype(F)}

    same(*both(make, steps=8, expected=False), close=1e-5)
    assert REQUESTED and not missed


# Updates of variables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("rule", ["Adam", "Momentum", "RMSProp", "Adagrad"])
@pytest.mark.parametrize("flag", [False, True])
def test_updates_are_numpys_to_the_last_bit(dtype: str, rule: str, flag: bool) -> None:
    by_numpy = {"Adam": updates.adam, "Momentum": updates.momentum, "RMSProp": updates.rms_prop}
    given = {"Adam": 6, "Momentum": 2, "RMSProp": 4, "Adagrad": 1}[rule]
    flags = () if rule == "RMSProp" else (flag,)
    random = np.random.default_rng(1)
    for shape in ((3, 7), (1,), (1001,)):
        sketch = updating.sketch_of(rule, any(flags), Spec(shape, np.dtype(dtype)))
        assert sketch is not None
        with pytest.raises(KeyError):
            updating.update_by(sketch)
        compiler.COMPILER.request([sketch])
        rates = (*(np.dtype(dtype).type(n) for n in random.uniform(0.1, 0.9, given)), *flags)
        grad, var, *slots = (random.uniform(0.1, 2, shape).astype(dtype) for _ in range(4 if given > 2 else 3))
        for out in (var.copy(), None):
            arrays = [var.copy(), *(s.copy() for s in slots)]
            native = [a.copy() for a in arrays]
            target = native[0] if out is None else out
            by_numpy.get(rule, updates.adagrad)(rates, grad, *arrays, arrays[0], np.empty_like(grad))
            apply, wants = updates._natively(rule, any(flags), Spec(shape, np.dtype(dtype)))
            assert apply is not None and not wants
            apply(rates, grad, *native, target)
            for x, y in zip([target, *native[1:]], arrays):
                np.testing.assert_array_equal(x, y)


OPTIMIZERS: list[Callable[[], Any]] = [
    lambda: tf.train.AdamOptimizer(0.1),
    lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    lambda: tf.train.AdagradOptimizer(0.1),
]


@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["adam", "momentum", "rms", "adagrad"])
def test_an_optimizer_uses_them(optimizer: Callable[[], Any], by_handle: bool) -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        w = tf.get_variable("w", initializer=np.linspace(-1, 1, 12, dtype=F).reshape(3, 4), use_resource=by_handle)
        with tf.control_dependencies([optimizer().minimize(tf.reduce_sum(w * w * w))]):
            return [w.read_value()], {}

    REQUESTED.clear()
    want, got = both(make, steps=6, expected=False)
    same(want, got, 1e-6)
    assert any(sketch.steps[0].op.startswith("_") for sketch in REQUESTED)


# What it costs ----------------------------------------------------------------------------------------------------


def sketch_of_a_session() -> Sketch:
    """A region that a session has had compiled."""
    found: list[Sketch] = []
    with tf.Graph().as_default(), tf.Session() as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler.COMPILER, "_compile", lambda sketches: found.extend(sketches) or iter(()))
        x = tf.placeholder(tf.float32, SHAPE)
        y = cell(x)
        for _ in range(3):
            session.run(y, {x: np.ones(SHAPE, F)})
    (sketch,) = found
    return sketch


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this test keeps code."""
    monkeypatch.setattr(kept, "read", READ)
    monkeypatch.setattr(kept, "keep", KEEP)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept._folder.cache_clear()
    yield tmp_path / "dtfctl" / "native"
    kept._folder.cache_clear()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[compiler.Process]:
    # One that compiles loops may still run, of a test before.
    monkeypatch.setattr(compiler, "_running", set())
    made = compiler.Process()
    yield made
    made.end()


def test_code_is_kept_and_nothing_else_is_run(folder: Path) -> None:
    sketch = sketch_of_a_session()
    made = compiled(sketch)
    assert kept.read(sketch.digest) is None
    kept.keep(sketch.digest, made)
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert kept.read(sketch.digest) == made
    whole = file.read_bytes()
    for harmed in (whole[:-9], b"", whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]):
        file.write_bytes(harmed)
        assert kept.read(sketch.digest) is None
    file.write_bytes(whole)
    file.chmod(0o620)
    assert kept.read(sketch.digest) is None
    file.chmod(0o600)
    file.rename(folder / "elsewhere")
    file.symlink_to(folder / "elsewhere")
    assert kept.read(sketch.digest) is None
    folder.chmod(0o777)
    kept._folder.cache_clear()
    assert kept._folder() is None


def test_another_process_compiles_and_the_next_one_finds_it(folder: Path, process: compiler.Process) -> None:
    sketch = sketch_of_a_session()
    assert Sketch.of(sketch.text) == sketch
    first, second = compiler.Compiler(process.compile), compiler.Compiler(lambda sketches: iter(()))
    with pytest.raises(KeyError):
        first.find(sketch)
    request = first.request([sketch, sketch])
    first.finish()
    assert request.is_done
    made = second.find(sketch)
    assert made is not None and made == compiled(sketch)
    out = np.empty(SHAPE, F)
    arrays = [np.full(SHAPE, 0.5, F), out, np.empty(max(made.scratch, 1), np.uint8)]
    assert machine.load(made.image, made.numbers)["region"](*arrays)
    np.testing.assert_allclose(out, np.full(SHAPE, np.tanh(1.0) / (1 + np.exp(-0.5)) + 1), rtol=1e-6)


def test_a_process_that_dies_takes_nothing_else_with_it(folder: Path, process: compiler.Process) -> None:
    sketch = sketch_of_a_session()
    answers = process.compile([sketch, sketch])
    assert next(answers) == compiled(sketch)
    (running,) = compiler._running
    running.kill()
    running.wait()
    assert list(answers) == []
    assert not compiler._running


def test_a_process_that_died_meanwhile_is_started_again(folder: Path, process: compiler.Process) -> None:
    sketch = sketch_of_a_session()
    assert list(process.compile([sketch])) == [compiled(sketch)]
    (running,) = compiler._running
    running.kill()
    running.wait()
    assert list(process.compile([sketch])) == [compiled(sketch)]


def test_a_forked_process_that_ends_leaves_what_compiles_for_others(folder: Path, process: compiler.Process) -> None:
    sketch = sketch_of_a_session()
    assert list(process.compile([sketch])) == [compiled(sketch)]
    (running,) = compiler._running
    child = os.fork()
    if not child:
        compiler._end()
        os._exit(0)
    os.waitpid(child, 0)
    assert list(process.compile([sketch])) == [compiled(sketch)]
    assert list(compiler._running) == [running]


def test_after_a_fault_regions_are_compiled_again(folder: Path) -> None:
    sketch = sketch_of_a_session()
    given: list[Any] = [OSError("gone"), iter([None])]

    def compile(sketches: Any) -> Any:
        answer = given.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    asked = compiler.Compiler(compile)
    for _ in range(2):
        request = asked.request([sketch])
        asked.finish()
        assert request.is_done
    assert asked.find(sketch) is None


def test_a_forked_process_compiles_too(folder: Path) -> None:
    sketch, parent = sketch_of_a_session(), os.getpid()
    entered, end = threading.Event(), threading.Event()

    def compile(sketches: Any) -> Iterator[None]:
        if os.getpid() == parent:
            entered.set()
            end.wait()
        return iter([None] * len(sketches))

    asked = compiler.Compiler(compile)
    asked.request([sketch])
    entered.wait()
    child = os.fork()
    if not child:
        request = asked.request([sketch])
        asked.finish()
        os._exit(0 if request.is_done else 1)
    end.set()
    asked.finish()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_lies_in_the_working_folder_is_not_run(
    folder: Path, process: compiler.Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sketch = sketch_of_a_session()
    where = tmp_path / "anybodys"
    where.mkdir()
    (where / "signal.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(where)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    assert list(process.compile([sketch])) == [compiled(sketch)]


def test_what_cannot_be_compiled_is_left_to_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def fail(sketches: Any) -> Iterator[None]:
        tried.append(len(sketches))
        yield from [None] * len(sketches)

    monkeypatch.setattr(compiler.COMPILER, "_compile", fail)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, SHAPE)
        y = cell(x)
        for _ in range(6):
            np.testing.assert_allclose(session.run(y, {x: np.zeros(SHAPE, F)}), np.ones(SHAPE))
        assert not regions(session)
    assert tried == [1]


def test_what_cannot_be_kept_is_said_once(folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def refuse(path: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(kept, "whole_file", refuse)
    made = compiled(sketch_of_a_session())
    kept._warn.cache_clear()
    for digest in ("one", "two", "three"):
        kept.keep(digest, made)
    assert [r.getMessage() for r in caplog.records if "cannot be kept" in r.getMessage()] == [
        f"regions cannot be kept in {folder}: PermissionError: Permission denied"
    ]


def test_where_nobody_may_run_what_was_written_numpy_goes_on(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(machine, "_protect", lambda *args: -1)
    monkeypatch.setattr(machine.ctypes, "get_errno", lambda: 13)
    monkeypatch.setattr(machine, "_refused", threading.Event())
    monkeypatch.setattr(calls, "_loaded", machine.load)
    machine._mapped.cache_clear()
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, SHAPE)
        made = [cell(x), cell(tf.matmul(x, x, transpose_a=True))]
        for _ in range(6):
            session.run(made, {x: np.zeros(SHAPE, F)})
        assert not regions(session)
    said = [r for r in caplog.records if "may not be run here" in r.getMessage()]
    assert [r.getMessage() for r in said] == [
        "compiled code may not be run here: Permission denied; steps go on by numpy"
    ]
    assert not said[0].exc_info
    assert not machine.is_available()


def test_copies_of_a_cell_are_compiled_once() -> None:
    asked: list[Sketch] = []

    def count(sketches: Any) -> Iterator[Any]:
        asked.extend(sketches)
        return map(compiled, sketches)

    with tf.Graph().as_default(), tf.Session() as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler.COMPILER, "_compile", count)
        x, w = tf.placeholder(tf.float32, SHAPE), tf.constant(np.eye(4, dtype=F))
        y = x
        for _ in range(8):
            y = cell(tf.matmul(y, w))
        for _ in range(4):
            session.run(y, {x: np.ones(SHAPE, F)})
        # All of the cells and their products are one call.
        assert regions(session) == [{"MatMul", "Mul", "Tanh", "Sigmoid", "AddV2"}]
    # Those that nobody outside takes, and the one that is fetched: to a region it makes no difference.
    assert len([order for order in asked if isinstance(order, Sketch)]) == 1


def test_sessions_let_go_of_their_code() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, SHAPE)
        y = cell(x)
        session = tf.Session()
        for _ in range(3):
            session.run(y, {x: np.ones(SHAPE, F)})
        assert regions(session)
        plan = weakref.ref(plans(session)[0])
        session.close()
        del session
    gc.collect()
    assert plan() is None


def test_steps_beside_each_other() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, SHAPE)
        y = tf.reduce_sum(cell(cell(x)), 1)
        wanted = {n: session.run(y, {x: np.full(SHAPE, n, F)}) for n in range(4)}
        wrong: list[Any] = []

        def work(n: int) -> None:
            for _ in range(20):
                got = session.run(y, {x: np.full(SHAPE, n, F)})
                if not np.allclose(got, wanted[n], rtol=1e-5):
                    wrong.append(got)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
