"""Every rule that lets one call do the work of several nodes: what it makes, and when it is not taken.

The rules stand where the calls are made (kernels/into, `@fuses`). Each is put to work here on a graph of its own; one
that has none fails. That nothing is done at once which somebody else wants is the plan's business, whatever a rule
says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.executor import shaped, tuner
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.kernels.compiled import jit
from dtfctl.runtime.kernels.into import fusions, pools, products
from dtfctl.runtime.kernels.into.fusions import Line, fusion_rules
from dtfctl.runtime.kernels.into.registry import Into
from dtfctl.runtime.kernels.native import machine, updating
from dtfctl.runtime.kernels.onednn import cache, find
from dtfctl.runtime.kernels.state import scatter_update
from tests.unit.executor.test_fusion import done_by_others, node_by_node, planned

F = np.float32
RULES = [(rule, op) for op, rules in sorted(fusion_rules().items()) for rule in rules]


@dataclass
class Example:
    """A graph in which a rule applies.

    Attributes:
        fetch: what a step is asked for; variables: what it changes.
        replaced: ops of the nodes that have no line of their own then.
    """

    fetch: Any
    feeds: dict[Any, tuple[int, ...]]
    replaced: set[str]
    variables: tuple[Any, ...] = ()


def variable_of(value: Any, op: str) -> tuple[Any, Any]:
    """A variable, and what an op of this name takes of it."""
    variable = tf.Variable(value.astype(F), use_resource=op.startswith("Resource"))
    return variable, variable.handle if op.startswith("Resource") else variable._ref()


def descend(op: str) -> Example:
    return _descend(op, "MatMul")


def descend_by_sum(op: str) -> Example:
    return _descend(op, "AddN")


def _descend(op: str, maker: str) -> Example:
    x, y = tf.placeholder(tf.float32, [6, 4]), tf.placeholder(tf.float32, [6, 4])
    by_product = maker == "MatMul"
    gradient = tf.matmul(x, y, transpose_a=True) if by_product else tf.add_n([x, y])
    variable, target = variable_of(np.arange(16 if by_product else 24).reshape(-1, 4), op)
    update = make_op(op, var=target, alpha=tf.constant(0.5), delta=gradient)
    return Example(update, {x: (6, 4), y: (6, 4)}, {maker}, (variable,))


def scale_rows(op: str) -> Example:
    return _scale_rows(op, False)


def scale_and_negate_rows(op: str) -> Example:
    return _scale_rows(op, True)


def _scale_rows(op: str, is_negated: bool) -> Example:
    rows = tf.placeholder(tf.float32, [5, 3])
    variable, target = variable_of(np.arange(24).reshape(8, 3), op)
    updates = -(rows * 0.25) if is_negated else 0.25 * rows
    name = "resource" if op.startswith("Resource") else "ref"
    update = make_op(op, indices=tf.constant([1, 7, 1, 0, 3]), updates=updates, **{name: target})
    return Example(update, {rows: (5, 3)}, {"Mul", "Neg"} if is_negated else {"Mul"}, (variable,))


def added(op: str, value: Any, bias: Any) -> Any:
    return apply_op(op, value=value, bias=bias) if op == "BiasAdd" else apply_op(op, x=bias, y=value)


def convolve_with_bias(op: str) -> Example:
    x, kernel = tf.placeholder(tf.float32, [2, 6, 6, 16]), tf.placeholder(tf.float32, [3, 3, 16, 16])
    bias = tf.placeholder(tf.float32, [16])
    made = added(op, tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME"), bias)
    return Example(tf.reduce_sum(made, 3), {x: (2, 6, 6, 16), kernel: (3, 3, 16, 16), bias: (16,)}, {"Conv2D"})


def multiply_with_bias(op: str) -> Example:
    x, y, bias = (tf.placeholder(tf.float32, shape) for shape in ([4, 6], [6, 5], [5]))
    made = added(op, tf.matmul(x, y), bias)
    return Example(tf.reduce_sum(made, 1), {x: (4, 6), y: (6, 5), bias: (5,)}, {"MatMul"})


def sum_up_bias(op: str) -> Example:
    x, dy = tf.placeholder(tf.float32, [2, 6, 6, 16]), tf.placeholder(tf.float32, [2, 6, 6, 16])
    gradient = dy * 2.0
    total = apply_op("BiasAddGrad", out_backprop=gradient)
    by_filter = apply_op(
        op, input=x, filter_sizes=[3, 3, 16, 16], out_backprop=gradient, strides=[1, 1, 1, 1], padding="SAME"
    )
    fetch = tf.reduce_sum(by_filter, [0, 1, 2]) + tf.exp(total * 0.01)
    return Example(fetch, {x: (2, 6, 6, 16), dy: (2, 6, 6, 16)}, {"BiasAddGrad"})


def pool_rectified(op: str) -> Example:
    x, bias = tf.placeholder(tf.float32, [2, 4, 6, 3]), tf.placeholder(tf.float32, [3])
    pool = tf.nn.max_pool(tf.nn.relu(tf.nn.bias_add(x * 2.0, bias)), [1, 2, 3, 1], [1, 2, 3, 1], "SAME")
    by_image, by_bias = tf.gradients(tf.reduce_sum(pool * pool), [x, bias])
    fetch = tf.reduce_sum(by_image, [0, 1, 2]) + by_bias
    return Example(fetch, {x: (2, 4, 6, 3), bias: (3,)}, {"Relu", "MaxPoolGrad"})


def sum_of_products(op: str) -> Example:
    pairs = [[tf.placeholder(tf.float32, [rows, size]) for size in (6, 4)] for rows in (5, 2, 5)]
    made = tf.add_n([tf.matmul(x, y, transpose_a=True) for x, y in pairs])
    return Example(
        tf.reduce_sum(made, 1), {x: (r, s) for r, p in zip((5, 2, 5), pairs) for x, s in zip(p, (6, 4))}, {"MatMul"}
    )


def add_up_and_apply(op: str) -> Example:
    rows, places = tf.placeholder(tf.float32, [5, 3]), tf.placeholder(tf.float32, [5])
    core = op.rpartition("Apply")[2]
    names = {"Momentum": ["accum"], "Adagrad": ["accum"], "RMSProp": ["ms", "mom"], "Ftrl": ["accum", "linear"]}[core]
    made = {name: variable_of(np.arange(24).reshape(8, 3) / 8 + 1, op) for name in ("var", *names)}
    rates = {"Momentum": ["momentum"], "Adagrad": [], "RMSProp": ["rho", "momentum", "epsilon"], "Ftrl": ["l1", "l2"]}
    given = {name: tf.constant(0.25) for name in ("lr", *rates[core])}
    given |= {"lr_power": tf.constant(-0.5)} if core == "Ftrl" else {}
    different, which = tf.unique(tf.cast(tf.minimum(tf.abs(places) * 3.0, 7.0), tf.int64))
    total = tf.math.unsorted_segment_sum(rows, which, tf.shape(different)[0])
    refs = {name: target for name, (_, target) in made.items()}
    update = make_op(op, grad=total, indices=different, **refs, **given)
    replaced = {"Unique", "UnsortedSegmentSum", "Shape", "StridedSlice"}
    return Example(update, {rows: (5, 3), places: (5,)}, replaced, tuple(variable for variable, _ in made.values()))


EXAMPLES: dict[str, list[Callable[[str], Example]]] = {
    "_descend_by_what_gives_the_gradient": [descend, descend_by_sum],
    "_scale_rows": [scale_rows, scale_and_negate_rows],
    "_convolve_with_bias": [convolve_with_bias],
    "_multiply_with_bias": [multiply_with_bias],
    "_sum_up_bias": [sum_up_bias],
    "_pool_rectified": [pool_rectified],
    "_sum_of_products": [sum_of_products],
    "_add_up_and_apply": [add_up_and_apply],
}
BY_CODE = {"_add_up_and_apply"}
BY_ONEDNN = {"_convolve_with_bias", "_multiply_with_bias", "_sum_up_bias"}


class AtOnce:
    """Compiles updates when they are asked for, in this process."""

    def find(self, sketch: Any) -> Any:
        from dtfctl.runtime.kernels.native.compile import compiled

        return compiled(sketch)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is observed, everything that can be is in a buffer, and small work has the forms of large work."""
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    monkeypatch.setattr(cache, "_LEAST_WORK", 0)
    monkeypatch.setattr(products, "_MOST_ALONE", 0)
    monkeypatch.setattr(products, "_LARGE", 0)
    monkeypatch.setattr(jit, "is_available", lambda: False)
    # The loops numba compiles, without compiling them.
    monkeypatch.setattr(pools, "compiled", lambda loop, *args: loop)
    monkeypatch.setattr(scatter_update, "compiled", lambda loop, *args: loop)
    monkeypatch.setattr(updating, "COMPILER", AtOnce())


def run(example: Callable[[], Example], steps: int, config: Any = None) -> tuple[list[Any], set[str], set[str]]:
    """What some steps of an example give and leave, whose work others' lines did, and whose should be."""
    with tf.Graph().as_default():
        made = example()
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            rng = np.random.default_rng(0)
            got = []
            for _ in range(steps):
                feeds = {tensor: rng.standard_normal(shape).astype(F) for tensor, shape in made.feeds.items()}
                got.append(session.run(made.fetch, feeds))
            done = set() if config is not None else done_by_others(planned(session))
            return [*got, *session.run(list(made.variables))], done, made.replaced


def same(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=True):
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rule", "op"), RULES, ids=[f"{rule.__name__}-{op}" for rule, op in RULES])
def test_a_call_for_several_nodes_gives_what_they_give(rule: Any, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if rule.__name__ in BY_ONEDNN and find.find_library() is None:
        pytest.skip("oneDNN is not installed")
    if rule.__name__ in BY_CODE:
        if not machine.can_compile():
            pytest.skip("llvmlite is not installed")
        monkeypatch.delenv("DTF_NATIVE", raising=False)
    for example in EXAMPLES[rule.__name__]:
        want, _, _ = run(partial(example, op), 4, node_by_node())
        got, done, replaced = run(partial(example, op), 4)
        assert replaced <= done, f"{example.__name__}: only {done} were done by other lines"
        same(got, want)


def test_the_gradient_of_another_pooling_is_its_own() -> None:
    """Its windows are others, though it gets the image, the result and the shapes of the pooling that is there."""

    def example() -> Example:
        x, dy = tf.placeholder(tf.float32, [1, 4, 4, 2]), tf.placeholder(tf.float32, [1, 2, 2, 2])
        relu = tf.nn.relu(x * 2.0)
        pool = tf.nn.max_pool(relu, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        gradient = apply_op(
            "MaxPoolGrad",
            orig_input=relu,
            orig_output=pool,
            grad=dy,
            ksize=[1, 1, 1, 1],
            strides=[1, 2, 2, 1],
            padding="SAME",
        )
        by_x = apply_op("ReluGrad", gradients=gradient, features=relu)
        fetch = tf.reduce_sum(by_x, [0]) + tf.reduce_sum(pool)
        return Example(fetch, {x: (1, 4, 4, 2), dy: (1, 2, 2, 2)}, set())

    want, _, _ = run(example, 3, node_by_node())
    got, done, _ = run(example, 3)
    assert "Relu" not in done
    same(got, want)


# Rules that have looked at nothing ------------------------------------------------------------------------------------


def careless(node: Any, around: Any) -> Any:
    """Do Sqrt(Exp(x)) at once, whoever else wants the Exp."""
    exp = around.root(node.inputs[0])[0]
    spec = around.spec((node, 0))
    if exp.op == "Exp" and spec is not None:
        into = Into(lambda x, out: np.exp(x / 2, out))
        yield [Line(node, into, [around.root(exp.inputs[0])], [((node, 0), spec)], (exp,))]


def early(node: Any, around: Any) -> Any:
    """Let the line of a Sqrt do the Exp of the same operand, too, wherever that stands and is wanted."""
    made = around.root(node.inputs[0])
    for other in around.taken_by(made):
        if other.op == "Exp":
            into = Into(lambda x, one, other: (np.sqrt(x, one), np.exp(x, other)))
            spec = around.spec((node, 0))
            yield [Line(node, into, [made], [((node, 0), spec), ((other, 0), spec)], (other,))]


def root(y: Any) -> Any:
    return tf.reduce_sum(tf.sqrt(y))


def of_two(x: Any, second: Callable[[Any], Any]) -> Any:
    exp = tf.exp(x * 1.5)
    return root(exp) + second(exp)


def in_order(x: Any, *, is_early: bool) -> Any:
    """The Exp before the Sqrt; what takes the Exp runs before the Sqrt if `is_early`, and after it otherwise."""
    positive = tf.square(x) + 1.0
    exp = tf.exp(positive)
    if is_early:
        taken = tf.reduce_sum(tf.tanh(exp))
        with tf.control_dependencies([taken]):
            return root(positive) + taken
    with tf.control_dependencies([exp]):
        square_root = tf.sqrt(positive)
    with tf.control_dependencies([square_root]):
        return tf.reduce_sum(square_root) + tf.reduce_sum(tf.tanh(exp))


@pytest.mark.parametrize(
    ("rule", "graph", "is_taken"),
    [
        (careless, lambda x: root(tf.exp(x * 1.5)), True),
        (careless, lambda x: root(tf.identity(tf.exp(x * 1.5))), True),
        (careless, lambda x: of_two(x, tf.reduce_sum), False),
        (careless, lambda x: of_two(x, lambda exp: tf.reduce_sum(tf.reshape(exp, [-1]))), False),
        (careless, lambda x: [root(exp := tf.exp(x * 1.5)), exp], False),
        (careless, lambda x: [root(exp := tf.exp(x * 1.5)), tf.identity(exp)], False),
        (careless, lambda x: tf.sqrt(tf.exp(x * 1.5)), False),
        (early, lambda x: in_order(x, is_early=False), True),
        (early, lambda x: in_order(x, is_early=True), False),
    ],
    ids=[
        "nobody else",
        "through an identity",
        "another one",
        "another shape of it",
        "a client",
        "a client, through an identity",
        "a client wants the end",
        "wanted after",
        "wanted before",
    ],
)
def test_what_somebody_wants_is_made(
    monkeypatch: pytest.MonkeyPatch, rule: Any, graph: Callable[[Any], Any], is_taken: bool
) -> None:
    monkeypatch.setitem(fusions._RULES, "Sqrt", [rule])

    def example() -> Example:
        x = tf.placeholder(tf.float32, [40, 9])
        return Example(graph(x), {x: (40, 9)}, set())

    want, _, _ = run(example, 4, node_by_node())
    got, done, _ = run(example, 4)
    assert ("Exp" in done) == is_taken
    for a, b in zip(got, want, strict=True):
        same(a if isinstance(a, list) else [a], b if isinstance(b, list) else [b])
