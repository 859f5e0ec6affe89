"""Plans for known shapes: buffers kept between steps, guards, and what may not be in a buffer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.executor import observation, shaped, tuner, varied
from dtfctl.runtime.executor.adaptive import Adaptive
from dtfctl.runtime.executor.blocks import Memory
from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.executor.tuner import Tuner
from dtfctl.runtime.executor.varied import Varied
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.spans import Span, spent_s
from dtfctl.runtime.kernels.control.py_func import register_py_func
from dtfctl.runtime.kernels.into import updates
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.memory.shared_memory import common_arena
from tests.support.golden import Case, cases
from tests.unit.executor.harness import GraphText, LocalRendezvous, Runner, executors_of

F = np.float32


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first step is observed, and everything that can be is in a buffer."""
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    # On a busy machine nodes take long enough to be tried in threads.
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    yield


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("case", cases(), ids=lambda c: f"{c.group}-{c.name}")
def test_golden(case: Case) -> None:
    """Every step after the first runs in buffers; all values fetched stay what they were."""
    runner = Runner(case.graph_def())
    results = []
    for step in case.steps():
        results.append((step, runner.run(step.fetches, step.feeds, step.targets)))
    for step, got in results:
        for fetch, value, want in zip(step.fetches, got, step.want):
            case.check(fetch, value, want)


def chain(*ops: str, shape: str = "") -> GraphText:
    """x through unary ops, one after the other: op0, op1, ..."""
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    last = "x"
    for i, op in enumerate(ops):
        g.add(f"op{i}", op, last, T="float32")
        last = f"op{i}"
    return g


def observed(runner: Runner, feeds: dict[str, Any], fetches: list[str]) -> Executor:
    """The executor, after steps enough to have seen the shapes."""
    for _ in range(tuner._WARM_UP + 1):
        runner.run(fetches, feeds)
    executor = runner.executor(list(feeds), fetches)
    assert isinstance(executor.plan, Adaptive)
    return executor


def test_other_shapes_give_their_own_values() -> None:
    runner = Runner(chain("Neg", "Exp", "Square", "Tanh").proto)
    rng = np.random.default_rng(0)
    observed(runner, {"x:0": np.zeros((40, 30), F)}, ["op3:0"])
    for shape in [(40, 30), (20, 30), (40, 30), (1, 30), (7,), (40, 30), (0, 3)]:
        x = rng.standard_normal(shape).astype(F)
        (got,) = runner.run(["op3:0"], {"x:0": x})
        np.testing.assert_allclose(got, np.tanh(np.square(np.exp(-x))), rtol=1e-6)


def test_a_plan_for_known_shapes_runs_in_the_calling_thread_too() -> None:
    executor = observed(Runner(chain("Neg", "Exp").proto), {"x:0": np.zeros((40, 30), F)}, ["op1:0"])
    assert executor.runs_in_line


def test_shapes_that_keep_changing_end_in_the_plan_for_any() -> None:
    runner = Runner(chain("Neg", "Exp", "Square").proto)
    executor = runner.executor(["x:0"], ["op2:0"])
    for n in range(100):
        x = np.full((300 + n,), n / 100, F)
        (got,) = runner.run(["op2:0"], {"x:0": x})
        np.testing.assert_allclose(got, np.square(np.exp(-x)), rtol=1e-6)
    assert isinstance(executor.plan, Varied)
    assert executor.plan.shapes == [((303,),)]


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shapes get a plan when they come."""
    monkeypatch.setattr(varied, "_WORTH", 0.0)
    yield


@pytest.mark.usefixtures("ready")
def test_each_of_some_shapes_gets_a_plan() -> None:
    runner = Runner(chain("Neg", "Exp", "Square").proto)
    executor = runner.executor(["x:0"], ["op2:0"])
    sizes = [300, 400, 7, 500]
    kept = []
    for n in range(40):
        x = np.full((sizes[n % 4],), n / 40, F)
        kept.append((runner.run(["op2:0"], {"x:0": x})[0], np.square(np.exp(-x))))
    for got, wanted in kept:
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert isinstance(executor.plan, Varied)
    # Seven values are not worth a buffer.
    assert sorted(executor.plan.shapes) == [((300,),), ((400,),), ((500,),)]


def test_plans_for_several_shapes_have_their_values_in_the_same_memory() -> None:
    memory = Memory()
    first = memory.pool()
    blocks = [first.take(5000), first.take(7000)]
    held = memory.nbytes
    other = memory.pool()
    again = [other.take(4000), other.take(6000)]
    assert memory.nbytes == held
    assert {b.memory.ctypes.data for b in again} == {b.memory.ctypes.data for b in blocks}
    kept = other.take(100_000)
    assert memory.nbytes > held
    del first, blocks, other, again
    assert memory.nbytes < 101_000
    assert kept.memory.nbytes == 100_000


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("is_chosen", [False, True], ids=["one shot", "by a string that is fed"])
def test_each_of_the_shapes_that_an_iterator_gives_gets_a_plan(is_chosen: bool) -> None:
    sizes = [300, 400, 500]
    given = [*sizes * 12, -1, *sizes]
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.data.Dataset.from_tensor_slices(given).map(lambda n: tf.ones([n]) * tf.cast(n, tf.float32))
        one = tf.data.make_one_shot_iterator(rows)
        which = tf.placeholder(tf.string, [])
        chosen = tf.data.Iterator.from_string_handle(which, tf.float32, [None])
        x = (chosen if is_chosen else one).get_next()
        weight = tf.get_variable("w", [], initializer=tf.ones_initializer())
        keep = tf.nn.dropout(tf.ones([10]), 1.0)
        y = tf.square(tf.exp(-x / 500.0 * weight)) * keep[0]
        session.run(weight.initializer)
        feeds = {which: session.run(one.string_handle())} if is_chosen else {}
        for n in given:
            if n < 0:
                # An element that cannot be made is told by the step that asks for it, and the next one is there.
                with pytest.raises(InvalidArgumentError):
                    session.run(y, feeds)
                continue
            got = session.run(y, feeds)
            np.testing.assert_allclose(got, np.square(np.exp(np.full(n, -n / 500, F))), rtol=1e-6)
        (plan,) = [e.plan for e in executors_of(session) if isinstance(e.plan, Varied)]
        assert sorted(shapes[-1] for shapes in plan.shapes) == [((n,),) for n in sizes]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(y, feeds)


def test_waiting_for_an_element_that_is_looked_at_is_waiting_for_input() -> None:
    """So `status` and profiles say of a job whose input is slow, whichever plan runs its steps."""
    held_s, steps = 0.005, 20

    def rows() -> Iterator[Any]:
        for n in range(2 * steps):
            time.sleep(held_s)
            yield np.full(300, n, F)

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.data.make_one_shot_iterator(tf.data.Dataset.from_generator(rows, tf.float32, [None])).get_next()
        y = tf.square(tf.exp(-x / 500.0))
        for _ in range(steps):
            session.run(y)
        assert any(isinstance(e.plan, Adaptive) and e.plan._incoming.looks_ahead for e in executors_of(session))
        before = spent_s(Span.INPUT)
        for _ in range(steps):
            session.run(y)
        assert spent_s(Span.INPUT) - before >= steps * held_s * 0.9


def dedupe(session: Any, sizes: list[int], steps: int, period: int = 0) -> list[Executor]:
    """Train an embedding by Adam with other words in each step, or the same after a period; the executors, once values
    were compared.
    """
    words = tf.placeholder(tf.int32, [None])
    table = tf.get_variable("table", [50, 40], initializer=tf.ones_initializer())
    hidden = tf.tanh(tf.nn.embedding_lookup(table, words) * 2.0)
    loss = tf.reduce_sum(tf.square(hidden))
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    session.run(tf.global_variables_initializer())
    own, first, second = np.ones((50, 40)), np.zeros((50, 40)), np.zeros((50, 40))
    rng = np.random.default_rng(0)
    for n in range(1, steps + 1):
        if period:
            rng = np.random.default_rng(n % period)
        given = rng.integers(0, 25 + 3 * (n % period) if period else 50, sizes[n % len(sizes)])
        session.run(train, {words: given})
        gradient = np.zeros_like(own)
        np.add.at(gradient, given, 4 * np.tanh(2 * own[given]) * (1 - np.tanh(2 * own[given]) ** 2))
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        own = own - 0.1 * np.sqrt(1 - 0.999**n) / (1 - 0.9**n) * first / (np.sqrt(second) + 1e-8)
    np.testing.assert_allclose(session.run(table), own, rtol=2e-4, atol=2e-5)
    return executors_of(session)


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("sizes", "period"), [([60], 0), ([60, 70, 80], 0), ([60], 8)], ids=["one shape", "three", "the same after eight"]
)
def test_what_depends_on_values_is_no_reason_to_give_up_a_plan(sizes: list[int], period: int) -> None:
    """How many different words there are is another number in each step, whichever steps are looked at."""
    with tf.Graph().as_default(), tf.Session() as session:
        largest = max(dedupe(session, sizes, 60 * len(sizes), period), key=lambda e: len(e.graph))
        if len(sizes) == 1:
            assert isinstance(largest.plan, Adaptive)
            plans = [largest.plan]
        else:
            assert isinstance(largest.plan, Varied)
            assert sorted(largest.plan.shapes) == [((n,),) for n in sizes]
            plans = [plan for plan in largest.plan._plans.values() if isinstance(plan, Adaptive)]
        assert not any(plan.is_unsteady for plan in plans)
        assert all(plan._misses < 4 for plan in plans)


@pytest.mark.usefixtures("ready")
def test_of_more_shapes_than_plans_those_used_most_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varied, "_MOST_PLANS", 3)
    runner = Runner(chain("Neg", "Exp", "Square").proto)
    executor = runner.executor(["x:0"], ["op2:0"])

    def run(size: int, times: int) -> list[tuple[Any, ...]]:
        for n in range(times):
            x = np.full((size,), n / 10, F)
            (got,) = runner.run(["op2:0"], {"x:0": x})
            np.testing.assert_allclose(got, np.square(np.exp(-x)), rtol=1e-6)
        assert isinstance(executor.plan, (Tuner, Adaptive, Varied))
        return sorted(executor.plan.shapes) if isinstance(executor.plan, Varied) else []

    run(300, 8)
    run(310, 20)
    run(300, 20)
    assert run(320, 20) == [((300,),), ((310,),), ((320,),)]
    assert run(330, 4) == [((300,),), ((310,),), ((320,),)]
    # Now it came more than twice as often as the one that is used least.
    assert ((330,),) in run(330, 60)
    assert len(run(320, 1)) == 3


def test_shapes_are_worth_a_plan_once_their_steps_took_as_long_as_one_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = Runner(chain("Neg", "Exp", "Square").proto)
    executor = runner.executor(["x:0"], ["op2:0"])
    for size in [300] * 8 + [400] * 8:
        runner.run(["op2:0"], {"x:0": np.zeros(size, F)})
    assert isinstance(executor.plan, Varied)
    assert executor.plan.shapes == [((300,),)]
    monkeypatch.setattr(varied, "_WORTH", 0.0)
    runner.run(["op2:0"], {"x:0": np.zeros(400, F)})
    assert sorted(executor.plan.shapes) == [((300,),), ((400,),)]


def test_what_is_fetched_stays() -> None:
    runner = Runner(chain("Neg", "Exp", "Square").proto)
    fetches = ["op0:0", "op2:0"]
    observed(runner, {"x:0": np.ones(1000, F)}, fetches)
    first = runner.run(fetches, {"x:0": np.ones(1000, F)})
    runner.run(fetches, {"x:0": np.zeros(1000, F)})
    np.testing.assert_allclose(first[0], -1)
    np.testing.assert_allclose(first[1], np.exp(F(-2)), rtol=1e-6)


def test_a_view_of_a_value_is_fetched_as_it_was() -> None:
    g = chain("Neg", "Exp")
    g.const("shape", np.array([10, 100], np.int32))
    g.add("view", "Reshape", "op1", "shape", T="float32", Tshape="int32")
    g.add("after", "Square", "view", T="float32")
    runner = Runner(g.proto)
    observed(runner, {"x:0": np.ones(1000, F)}, ["view:0", "after:0"])
    view, _ = runner.run(["view:0", "after:0"], {"x:0": np.ones(1000, F)})
    runner.run(["view:0", "after:0"], {"x:0": np.zeros(1000, F)})
    np.testing.assert_allclose(view, np.exp(F(-1)), rtol=1e-6)


def test_an_operand_that_is_needed_later_is_not_overwritten() -> None:
    g = chain("Neg", "Exp")
    g.add("sum", "AddV2", "op1", "op0", T="float32")
    g.add("mix", "Mul", "sum", "op1", T="float32")
    g.add("end", "Sub", "mix", "op0", T="float32")
    runner = Runner(g.proto)
    observed(runner, {"x:0": np.ones(1000, F)}, ["end:0"])
    x = np.linspace(-1, 1, 1000, dtype=F)
    for _ in range(3):
        (got,) = runner.run(["end:0"], {"x:0": x})
        np.testing.assert_allclose(got, (np.exp(-x) - x) * np.exp(-x) + x, rtol=1e-5, atol=1e-6)


def test_steps_at_the_same_time_do_not_share_buffers() -> None:
    runner = Runner(chain(*["Tanh"] * 20).proto)
    observed(runner, {"x:0": np.ones(20_000, F)}, ["op19:0"])
    wrong: list[float] = []

    def work(value: float) -> None:
        x = np.full(20_000, value, F)
        want = x
        for _ in range(20):
            want = np.tanh(want)
        for _ in range(10):
            (got,) = runner.run(["op19:0"], {"x:0": x})
            if not np.allclose(got, want, rtol=1e-6):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(v,)) for v in (0.1, 0.5, 0.9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_follows_from_shapes_is_computed_once() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("shape", "Shape", "x", T="float32", out_type="int32")
    g.const("two", np.array(2, F))
    g.add("fill", "Fill", "shape", "two", T="float32", index_type="int32")
    g.add("y", "Mul", "x", "fill", T="float32")
    runner = Runner(g.proto)
    executor = observed(runner, {"x:0": np.ones((3, 4), F)}, ["y:0"])
    text = executor.plan.shaped.chunks[0].__code__.co_names  # type: ignore[attr-defined]
    assert not any(name.startswith("k") for name in text), text
    for shape in [(3, 4), (2, 2), (3, 4)]:
        (got,) = runner.run(["y:0"], {"x:0": np.ones(shape, F)})
        np.testing.assert_array_equal(got, np.full(shape, 2, F))


@pytest.mark.usefixtures("eager")
def test_of_what_was_not_held_no_value_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step with many values keeps only the shapes of most, be they the same in every step."""
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 1024)
    monkeypatch.setattr(observation, "_MOST_HELD", 0)
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("shape", "Shape", "x", T="float32", out_type="int32")
    g.const("two", np.float32(2.0))
    g.add("twos", "Fill", "shape", "two", T="float32", index_type="int32")
    g.add("y", "Mul", "x", "twos", T="float32")
    g.add("z", "Square", "y", T="float32")
    runner = Runner(g.proto)
    for step in range(4):
        x = np.arange(300, dtype=F) + step
        np.testing.assert_array_equal(runner.run(["z:0"], {"x:0": x})[0], (x * 2) ** 2)


def test_graph_options_turn_it_off() -> None:
    x = tf.placeholder(tf.float32, [100, 20])
    w = tf.Variable(np.zeros((20, 5), F))
    loss = tf.reduce_sum(tf.square(tf.nn.relu(tf.matmul(x, w)) - 1))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    feed = {x: np.ones((100, 20), F)}
    off = config_pb2.ConfigProto()
    off.graph_options.rewrite_options.remapping = config_pb2.RewriterConfig.OFF
    weights = []
    for config in (config_pb2.ConfigProto(), off):
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(8):
                session.run(train, feed)
            weights.append(session.run(w))
            (executor,) = (
                e
                for step in session._backend._session.signatures._compiled.values()  # type: ignore[attr-defined]
                for e in step.local.executors
                if step.feeds
            )
            assert isinstance(executor.plan, Adaptive) == (config is not off)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5)


def one_layer(op: str) -> tuple[GraphText, dict[str, Any]]:
    """w -= rate * x @ y by the op given, with variables by reference."""
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("y", "Placeholder", dtype="float32")
    g.add("rate", "Placeholder", dtype="float32")
    g.add("w", "VariableV2", dtype="float32", shape=[30, 20])
    g.const("zero", np.zeros((30, 20), F))
    g.add("init", "Assign", "w", "zero", T="float32")
    g.add("product", "MatMul", "x", "y", T="float32", transpose_a=True)
    g.add("train", op, "w", "rate", "product", T="float32")
    g.add("read", "Identity", "w", T="float32")
    rng = np.random.default_rng(0)
    feeds = {"x:0": rng.standard_normal((40, 30)).astype(F), "y:0": rng.standard_normal((40, 20)).astype(F)}
    return g, feeds


@pytest.mark.parametrize("rate", [0.5, 0.0])
def test_a_product_that_is_a_gradient_goes_into_the_variable(rate: float) -> None:
    g, feeds = one_layer("ApplyGradientDescent")
    runner = Runner(g.proto)
    runner.run([], targets=["init"])
    feeds["rate:0"] = np.array(rate, F)
    for n in range(1, 9):
        runner.run([], feeds, ["train"])
        (got,) = runner.run(["read:0"])
        np.testing.assert_allclose(got, -n * rate * (feeds["x:0"].T @ feeds["y:0"]), rtol=1e-4, atol=1e-4)
    # Other shapes that give the same product; then ones that do not fit the variable.
    feeds["x:0"], feeds["y:0"] = np.ones((7, 30), F), np.ones((7, 20), F)
    runner.run([], feeds, ["train"])
    (after,) = runner.run(["read:0"])
    np.testing.assert_allclose(after - got, -rate * 7, rtol=1e-3, atol=1e-3)
    feeds["x:0"] = np.ones((7, 29), F)
    with pytest.raises(InvalidArgumentError, match="do not have the same shape") as raised:
        runner.run([], feeds, ["train"])
    assert raised.value.node == "train"


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("size", [5, (1 << 19) + 7])
def test_a_sum_that_is_a_gradient_goes_into_the_variable(count: int, size: int) -> None:
    """Also where it is long enough to be worked on in pieces, by several threads."""
    g = GraphText()
    names = [f"x{i}" for i in range(count)]
    for name in (*names, "rate"):
        g.add(name, "Placeholder", dtype="float32")
    g.add("w", "VariableV2", dtype="float32", shape=[size])
    g.const("zero", np.zeros(size, F))
    g.add("init", "Assign", "w", "zero", T="float32")
    g.add("sum", "AddN", *names, T="float32", N=count)
    g.add("train", "ApplyGradientDescent", "w", "rate", "sum", T="float32")
    g.add("read", "Identity", "w", T="float32")
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {f"{name}:0": rng.standard_normal(size).astype(F) for name in names}
    feeds["rate:0"] = np.array(0.5, F)
    step = 0.5 * sum(feeds[f"{name}:0"] for name in names)
    runner = Runner(g.proto)
    runner.run([], targets=["init"])
    for n in range(1, 9):
        runner.run([], feeds, ["train"])
        (got,) = runner.run(["read:0"])
        np.testing.assert_allclose(got, -n * step, rtol=1e-4, atol=1e-5)
    feeds["x0:0"] = np.ones(size + 1, F)
    with pytest.raises(InvalidArgumentError, match="same s"):
        runner.run([], feeds, ["train"])
    (after,) = runner.run(["read:0"])
    np.testing.assert_array_equal(after, got)


def test_the_sum_of_one_tensor_is_that_tensor_and_may_be_kept() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("square", "Square", "x", T="float32")
    g.add("sum", "AddN", "square", T="float32", N=1)
    runner = Runner(g.proto)
    got = [runner.run(["sum:0"], {"x:0": np.full(1000, n, F)})[0] for n in range(12)]
    for n, value in enumerate(got):
        np.testing.assert_array_equal(value, np.full(1000, n * n, F))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("wanted", [False, True])
def test_a_reduction_of_which_only_the_shape_is_used_is_left_out(wanted: bool) -> None:
    """It is computed all the same where it is fetched, and where later shapes differ."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 4])
        variable = tf.Variable(np.ones(4, np.float32))
        loss = tf.reduce_mean(x * variable)
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            rng = np.random.default_rng(0)
            want = np.ones(4)
            for rows in (3, 3, 3, 5, 3, 2):
                batch = rng.standard_normal((rows, 4)).astype(np.float32)
                mean = (batch * want).mean()
                got = session.run([train, loss] if wanted else train, {x: batch})
                if wanted:
                    np.testing.assert_allclose(got[1], mean, rtol=1e-4, atol=1e-5)
                want = want - batch.sum(0) / batch.size
                np.testing.assert_allclose(session.run(variable), want, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("op", ["Relu", "MatMul"])
@pytest.mark.parametrize("view", [False, True])
def test_large_results_for_other_tasks_are_made_where_those_see_them(op: str, view: bool) -> None:
    across = {"send_device": "/a", "recv_device": "/b", "send_device_incarnation": -1}
    arena = common_arena()
    g = GraphText()
    g.add("x", "_Recv", tensor_type="float32", tensor_name="x:0", client_terminated=True, **across)
    g.add("double", "AddV2", "x", "x", T="float32")
    if op == "MatMul":
        g.const("one", np.eye(200, dtype=F))
        g.add("y", "MatMul", "double", "one", T="float32")
    else:
        g.add("y", op, "double", T="float32")
    g.const("flat", np.array([-1], np.int32))
    g.add("z", "Reshape", "y", "flat", T="float32", Tshape="int32")
    g.add("out", "_Send", "z" if view else "y", T="float32", tensor_name="out", **across)
    g.add("sum", "Square", "y", T="float32")
    g.add("fetch", "_Send", "sum", T="float32", tensor_name="sum:0", client_terminated=True, **across)
    runner = Runner(GraphText().proto)
    executor = Executor(NodeGraph.from_graph_def(g.proto), runner.device, runner.resources, runner.kernels)
    x = np.random.default_rng(0).normal(size=(200, 200)).astype(F)
    sent = []
    for step in range(4):
        rendezvous, token = LocalRendezvous(), CancellationToken()
        rendezvous.send("client;x:0", x + step, False)
        executor.run(runner.step(rendezvous, token))
        sent.append(rendezvous.recv(f"/a;{2**64 - 1:016x};/b;out;0:0", token)[0])
        fetched, _ = rendezvous.recv("client;sum:0", token)
        assert not arena.owns(fetched)
    assert [arena.block_of(array) is not None for array in sent] == [False, True, True, True]
    for step, array in enumerate(sent):
        want = (x + step) * 2
        np.testing.assert_array_equal(array.reshape(200, 200), want if op == "MatMul" else np.maximum(want, 0))


OPTIMIZERS = {
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "rms_prop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("by_handle", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_next_value_is_written_beside_one_that_somebody_holds(
    monkeypatch: pytest.MonkeyPatch, name: str, by_handle: bool
) -> None:
    """Whoever looks at a variable keeps its value, and an update copies nothing for that."""
    shape = (37, 11)
    held, copied = [], []
    update_of, copyto = Variable.update, np.copyto

    def update(self: Variable, write: Any) -> None:
        held.append(self.read())
        update_of(self, write)

    def copy(to: Any, what: Any) -> None:
        copied.append(to.shape)
        copyto(to, what)

    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=shape).astype(F), rng.normal(size=(6, *shape)).astype(F)
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.Variable(start, use_resource=by_handle)
        gradient = tf.placeholder(tf.float32, shape)
        step = OPTIMIZERS[name]().apply_gradients([(gradient, variable)])
        session.run(tf.global_variables_initializer())
        # Slots that start as a constant are copied once.
        session.run(step, {gradient: gradients[0]})
        monkeypatch.setattr(Variable, "update", update)
        monkeypatch.setattr(np, "copyto", copy)
        values = []
        for value in gradients:
            values.append(session.run(variable))
            session.run(step, {gradient: value})
    assert shape not in copied
    assert len({id(array) for array in held}) > 1
    kept = [array for array in held if array.shape == shape]
    assert len(kept) == len(values)
    for array, value in zip(kept, values):
        np.testing.assert_array_equal(array, value)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_variable_that_lies_in_memory_by_columns_is_updated(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(updates, "compiled", lambda loop, *args: loop)
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(6, 4)).astype(F), rng.normal(size=(6, 4, 6)).astype(F)
    results = []
    for by_columns in (False, True):
        with tf.Graph().as_default(), tf.Session() as session:
            variable = tf.Variable(np.zeros((4, 6), F))
            gradient = tf.placeholder(tf.float32, (4, 6))
            update = OPTIMIZERS[name]().apply_gradients([(gradient, variable)])
            session.run(tf.global_variables_initializer())
            state = [v for v in tf.global_variables() if v.shape == (4, 6)]
            whole = tf.placeholder(tf.float32, (4, 6))
            value = np.abs(start.T) + 1
            assert value.flags.f_contiguous
            for v in state:
                session.run(v.assign(whole), {whole: value if by_columns else np.ascontiguousarray(value)})
            for g in gradients:
                session.run(update, {gradient: g})
            results.append(session.run(state))
    for rows, columns in zip(*results):
        np.testing.assert_allclose(rows, columns, rtol=1e-5)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_what_a_pooling_of_single_pixels_gave_stays(dtype: str) -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype=dtype)
    g.add("double", "AddV2", "x", "x", T=dtype)
    g.add("pool", "MaxPool", "double", T=dtype, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="VALID")
    runner = Runner(g.proto)
    results = [runner.run(["pool:0"], {"x:0": np.full((1, 1, 1, 400), n, dtype)})[0] for n in range(6)]
    assert [r[0, 0, 0, 0] for r in results] == [2 * n for n in range(6)]
    results = [runner.run(["pool:0"], {"x:0": np.full((2, 3, 4, 400), n, dtype)})[0] for n in range(6)]
    assert [r[1, 2, 3, 4] for r in results] == [2 * n for n in range(6)]


@pytest.mark.usefixtures("eager")
def test_axes_that_are_computed_in_a_buffer_are_looked_at_in_each_step() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("axis", "Placeholder", dtype="int32")
    g.const("none", np.zeros(1, np.int32))
    g.add("axes", "AddV2", "axis", "none", T="int32")
    g.add("sum", "Sum", "x", "axes", T="float32", Tidx="int32")
    runner = Runner(g.proto)
    x = np.arange(9, dtype=F).reshape(3, 3)
    for n in range(8):
        (got,) = runner.run(["sum:0"], {"x:0": x, "axis:0": np.array([n % 2], np.int32)})
        np.testing.assert_array_equal(got, x.sum(n % 2))


@pytest.mark.usefixtures("eager")
def test_a_step_of_other_shapes_has_its_buffers_to_itself_until_it_ends() -> None:
    """What a step has put into buffers before it met another shape is there when node after node goes on with it."""
    met, go_on = threading.Event(), threading.Event()

    def wait(x: Any) -> Any:
        if x.size != 400:
            met.set()
            go_on.wait(30)
        return x

    token = register_py_func(wait)
    g = GraphText()
    g.add("a", "Placeholder", dtype="float32")
    g.add("b", "Placeholder", dtype="float32")
    g.add("first", "Neg", "a", T="float32")
    g.add("other", "Neg", "b", "^first", T="float32")
    g.add("more", "Square", "other", T="float32")
    g.add("wait", "PyFunc", "more", token=token, Tin=["float32"], Tout=["float32"])
    g.add("last", "Square", "first", "^wait", T="float32")
    runner = Runner(g.proto)
    feeds, fetches = ["a:0", "b:0"], ["last:0", "wait:0"]
    for _ in range(2):
        runner.run(fetches, {"a:0": np.ones(400, F), "b:0": np.ones(400, F)})
    assert isinstance(runner.executor(feeds, fetches).plan, Adaptive)
    got: list[Any] = []
    thread = threading.Thread(
        target=lambda: got.append(runner.run(fetches, {"a:0": np.full(400, 3, F), "b:0": np.ones(300, F)}))
    )
    thread.start()
    try:
        assert met.wait(30)
        runner.run(fetches, {"a:0": np.full(400, 5, F), "b:0": np.ones(400, F)})
    finally:
        go_on.set()
        thread.join()
    np.testing.assert_array_equal(got[0][0], np.full(400, 9, F))
