"""A user's fused op runs where a graph computes its pattern, and nowhere else."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dtfctl.runtime as tf
from dtfctl.runtime.compiler.passes.fuse import PATTERNS
from dtfctl.runtime.framework.errors import InvalidArgumentError

OFF = tf.GraphOptions(rewrite_options={"remapping": 2})  # RewriterConfig.OFF


@pytest.fixture(autouse=True)
def only_those_of_the_test() -> Iterator[None]:
    before = {op: [*found] for op, found in PATTERNS.items()}
    yield
    PATTERNS.clear()
    PATTERNS.update(before)


def run(fetch: Any, feeds: Any = None, **config: Any) -> tuple[Any, list[str]]:
    """A step's value and the names of the ops that it ran."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
    with tf.Session(config=tf.ConfigProto(**config)) as session:
        session.run(tf.global_variables_initializer())
        value = session.run(fetch, feeds, options=options, run_metadata=metadata)
    labels = [n.timeline_label for d in metadata.step_stats.dev_stats for n in d.node_stats]
    return value, [label.split(" = ")[1].split("(")[0] for label in labels]


def scaled(x: Any) -> Any:
    return 2.0 * tf.tanh(x) + x


def numbers(x: float) -> float:
    return 2 * float(np.tanh(x)) + x


def scaled_kernel(build: Any) -> Callable[..., Any]:
    return lambda x: np.tanh(x) * x.dtype.type(2) + x


@pytest.fixture
def fused(request: pytest.FixtureRequest) -> str:
    """`scaled` as one op, of another name in each test: ops stay registered as long as the process lives."""
    return tf.register_fused(f"Scaled{abs(hash(request.node.nodeid))}", pattern=scaled, kernel=scaled_kernel)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_it_runs_instead_of_the_ops_with_the_same_values(fused: str, dtype: Any) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(dtype, [None])
        y = x + tf.tanh(x) * 2.0 + 1.0  # operands of commutative ops stand in any order
        feeds = {x: [0.5, -1.0]}
        value, ops = run(y, feeds)
        plain, before = run(y, feeds, graph_options=OFF)
    assert fused in ops and "Tanh" not in ops and "Mul" not in ops
    assert fused not in before and "Tanh" in before
    np.testing.assert_allclose(value, plain, rtol=1e-6)


def test_it_takes_variables_and_names_stay(fused: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable([1.0, 2.0])
        y = tf.identity(scaled(v), name="result")
        session.run(v.initializer)
        np.testing.assert_allclose(session.run("result:0"), 2 * np.tanh([1, 2]) + [1, 2], rtol=1e-6)
        assert fused in run(y)[1]


def test_every_place_is_found_also_one_behind_another(fused: str) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        y = scaled(scaled(scaled(x))) + scaled(-x)
        value, ops = run(y, {x: 0.25})
    assert ops.count(fused) == 4 and "Tanh" not in ops
    assert value == pytest.approx(numbers(numbers(numbers(0.25))) + numbers(-0.25), rel=1e-6)


def _inside_fetched(x: Any) -> Any:
    inner = tf.tanh(x)
    return [2.0 * inner + x, inner]


def _inside_used(x: Any) -> Any:
    inner = tf.tanh(x)
    return 2.0 * inner + x - tf.sqrt(inner)


def _inside_waited_for(x: Any) -> Any:
    inner = tf.tanh(x)
    with tf.control_dependencies([inner]):
        return 2.0 * inner + x + tf.constant(1.0)


def _on_two_devices(x: Any) -> Any:
    with tf.device("/cpu:1"):
        inner = tf.tanh(x)
    with tf.device("/cpu:0"):
        return 2.0 * inner + x


def _another_constant(x: Any) -> Any:
    return 3.0 * tf.tanh(x) + x


def _another_operand(x: Any) -> Any:
    return 2.0 * tf.tanh(x) + (x + 1.0)


def _another_shape(x: Any) -> Any:
    return tf.constant([2.0, 2.0]) * tf.tanh(x) + x


@pytest.mark.parametrize(
    "program",
    [
        _inside_fetched,
        _inside_used,
        _inside_waited_for,
        _on_two_devices,
        _another_constant,
        _another_operand,
        _another_shape,
    ],
)
def test_a_graph_that_needs_more_or_other_things_stays(fused: str, program: Callable[[Any], Any]) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        fetch = program(x)
        _, ops = run(fetch, {x: 0.5}, device_count={"CPU": 2})
    assert fused not in ops and "Tanh" in ops


def test_it_waits_for_what_the_inside_and_its_constants_waited_for(fused: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        with tf.control_dependencies([tf.assert_less(x, 9.0)]):
            inner = tf.tanh(x)
        late = tf.Variable(0.0)
        with tf.control_dependencies([late.assign(7.0)]):
            two = tf.constant(2.0)
        y = two * inner + x
        session.run(late.initializer)
        assert fused in run(y, {x: 0.5})[1]
        assert session.run(y, {x: 0.5}) == pytest.approx(numbers(0.5), rel=1e-6)
        assert session.run(late) == 7.0
        with pytest.raises(InvalidArgumentError):
            session.run(y, {x: 10.0})


def apart(a: Any, b: Any) -> Any:
    return tf.reduce_sum(tf.square(tf.expand_dims(a, 1) - tf.expand_dims(b, 0)), axis=2)


def apart_kernel(build: Any) -> Callable[..., Any]:
    return lambda a, b: np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T, 0)


def test_what_folding_would_take_apart_is_found_as_it_was_written() -> None:
    op = tf.register_fused("ApartOfConstants", pattern=apart, kernel=apart_kernel)
    points, centres = np.float32([[0, 0], [3, 4]]), np.float32([[0, 0], [0, 4]])
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 2])
        frozen, ops = run(apart(x, tf.constant(centres)), {x: points})
        both, _ = run(apart(tf.constant(points), tf.constant(centres)))
    assert op in ops and "Square" not in ops and "ExpandDims" not in ops
    assert frozen.tolist() == both.tolist() == [[0, 16], [25, 9]]


def test_an_unevenly_written_pattern_is_found_after_other_rewrites() -> None:
    """Twice the same, an identity between, numbers that fold: both the pattern and the program, not alike."""
    op = tf.register_fused(
        "ScaledOtherwise",
        pattern=lambda x: tf.constant(1.0) * 2.0 * tf.identity(tf.tanh(x)) + tf.tanh(x) * tf.tanh(x),
        kernel=lambda build: lambda x: 2 * np.tanh(x) + np.tanh(x) ** 2,
        types=[tf.float32],
    )
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        inner = tf.tanh(x)
        value, ops = run(2.0 * inner + inner * tf.identity(inner), {x: 0.5})
    assert op in ops and value == pytest.approx(2 * np.tanh(0.5) + np.tanh(0.5) ** 2, rel=1e-6)


class Counted:
    """A kernel of `scaled` that notes each call."""

    def __init__(self, name: str) -> None:
        self.calls = 0
        self.op = tf.register_fused(name, pattern=scaled, kernel=lambda build: self)

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return np.tanh(x) * x.dtype.type(2) + x


def test_it_is_found_in_bodies_of_loops_branches_and_functions() -> None:
    kernel = Counted("ScaledInBodies")
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        loop = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, 2.0 * tf.tanh(v) + v), [0, x])[1]
        branch = tf.cond(x > 0.0, lambda: scaled(x), lambda: -x)
        mapped = tf.map_fn(scaled, tf.stack([x, -x]))
        fetches = [loop, branch, mapped]
        for config, calls in (({}, 3 + 1 + 2), ({"graph_options": OFF}, 0)):
            kernel.calls = 0
            with tf.Session(config=tf.ConfigProto(**config)) as session:
                values = session.run(fetches, {x: 0.5})
            assert values[0] == pytest.approx(numbers(numbers(numbers(0.5))), rel=1e-5)
            assert values[1] == pytest.approx(numbers(0.5), rel=1e-5)
            np.testing.assert_allclose(values[2], [numbers(0.5), numbers(-0.5)], rtol=1e-5)
            assert kernel.calls == calls
        with tf.Session() as session:
            kernel.calls = 0
            assert session.run(branch, {x: -0.5}) == 0.5 and kernel.calls == 0


def test_it_is_found_between_switch_and_merge_and_is_dead_where_its_constant_is() -> None:
    """Conditionals of TensorFlow 1: what is inside of one waits for its pivot."""
    kernel = Counted("ScaledInSwitch")
    with tf.Graph().as_default():
        x, taken = tf.placeholder(tf.float32, []), tf.placeholder(tf.bool, [])
        no, yes = tf.raw_ops.Switch(data=x, pred=taken)
        with tf.control_dependencies([tf.identity(yes)]):
            two = tf.constant(2.0)
        out = tf.raw_ops.Merge(inputs=[two * tf.tanh(yes) + yes, -no])[0]
        with tf.Session() as session:
            assert session.run(out, {x: 0.5, taken: True}) == pytest.approx(numbers(0.5), rel=1e-6)
            assert kernel.calls == 1
            assert session.run(out, {x: 0.5, taken: False}) == -0.5
            assert kernel.calls == 1


def test_a_second_output_lives_though_the_result_is_of_a_branch_not_taken() -> None:
    op = tf.register_fused(
        "GatedInSwitch", pattern=gated, kernel=lambda build: lambda x, gate: (np.tanh(x) * gate, np.tanh(x))
    )
    with tf.Graph().as_default():
        x, gate, taken = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, []), tf.placeholder(tf.bool, [])
        slope = tf.tanh(x)
        no, yes = tf.raw_ops.Switch(data=gate, pred=taken)
        out = tf.raw_ops.Merge(inputs=[slope * yes, no])[0]
        for take, wanted in ((True, np.tanh(0.5) * 3), (False, 3.0)):
            (value, inner), ops = run([out, slope + 1.0], {x: 0.5, gate: 3.0, taken: take})
            assert op not in ops
            assert value == pytest.approx(wanted, rel=1e-6) and inner == pytest.approx(np.tanh(0.5) + 1, rel=1e-6)


def test_what_a_gradient_needs_from_inside_is_given_as_more_outputs() -> None:
    def pattern(x: Any) -> Any:
        inner = tf.tanh(x)
        return 2.0 * inner + x, inner

    def kernel(build: Any) -> Callable[..., Any]:
        def both(x: Any) -> Any:
            inner = np.tanh(x)
            return inner * x.dtype.type(2) + x, inner

        return both

    op = tf.register_fused("ScaledAndInner", pattern=pattern, kernel=kernel)
    with tf.Graph().as_default():
        v = tf.Variable([0.5, -0.25])
        y = scaled(v)
        (gradient,) = tf.gradients(y, v)
        (value, slope), ops = run([y, gradient])
    assert op in ops and "Tanh" not in ops
    np.testing.assert_allclose(value, 2 * np.tanh([0.5, -0.25]) + [0.5, -0.25], rtol=1e-6)
    np.testing.assert_allclose(slope, 2 * (1 - np.tanh([0.5, -0.25]) ** 2) + 1, rtol=1e-6)


def gated(x: Any, gate: Any) -> Any:
    slope = tf.tanh(x)
    return slope * gate, slope


def test_an_input_that_is_made_of_an_output_is_not_waited_for() -> None:
    """One op cannot take what it gives."""

    with tf.Graph().as_default():

        def kernel(build: Any) -> Callable[..., Any]:
            return lambda x, gate: (np.tanh(x) * gate, np.tanh(x))

        name = tf.register_fused("Gated", pattern=gated, kernel=kernel)
        x, gate = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
        feeds = {x: [0.5, -1.0], gate: [2.0, 3.0]}
        slope = tf.tanh(x)
        value, ops = run(slope * tf.exp(slope) + slope, feeds)
        slopes = np.tanh([0.5, -1.0])
        np.testing.assert_allclose(value, slopes * np.exp(slopes) + slopes, rtol=1e-6)
        assert name not in ops
        apart, ops = run(tf.add(*gated(x, gate)), feeds)
        np.testing.assert_allclose(apart, slopes * [2.0, 3.0] + slopes, rtol=1e-6)
        assert name in ops


def test_a_signature_says_more_types() -> None:
    op = tf.register_fused(
        "TakenRows(table: T, ids: Tids) -> (rows: T); T: type in {float, half}; Tids: type in {int32, int64}",
        pattern=lambda table, ids: tf.gather(table, tf.minimum(ids, 2)),
        kernel=lambda build: lambda table, ids: table[np.minimum(ids, 2)],
    )
    with tf.Graph().as_default():
        ids = tf.placeholder(tf.int64, [None])
        table = tf.constant(np.arange(6, dtype=np.float16).reshape(3, 2))
        value, ops = run(tf.gather(table, tf.minimum(ids, 2)), {ids: [0, 7]})
    assert op in ops and value.tolist() == [[0, 1], [4, 5]]


def test_the_larger_pattern_is_taken() -> None:
    small = tf.register_fused("OnlyTanhTwice", pattern=lambda x: tf.tanh(tf.tanh(x)), kernel=scaled_kernel)
    large = tf.register_fused(
        "SinTanhTwice",
        pattern=lambda x: tf.tanh(tf.tanh(tf.sin(x))),
        kernel=lambda build: lambda x: np.tanh(np.tanh(np.sin(x))),
    )
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        value, ops = run(tf.tanh(tf.tanh(tf.sin(x))), {x: 1.0})
    assert large in ops and small not in ops and value == pytest.approx(np.tanh(np.tanh(np.sin(1.0))), rel=1e-6)


@pytest.mark.parametrize(
    ("op", "pattern", "said"),
    [
        ("BadNothing", lambda x: x, "computes nothing"),
        ("BadUnused", lambda x, y: tf.tanh(x), "does not use y"),
        ("BadRandom", lambda x: x + tf.random_uniform([]), "has a state or draws numbers"),
        ("BadVariable", lambda x: x + tf.Variable(1.0), "has a state or draws numbers"),
        ("BadApart", lambda x, y: (tf.tanh(x), tf.tanh(y)), "is not on the way to its first output"),
        ("BadLarge", lambda x: sum((tf.sin(x * (i + 2.0)) for i in range(40)), x), "may have 64"),
        ("BadType", lambda x: tf.cast(x, tf.int32), "is int32 and not float32"),
        ("BadNames(a: T) -> (b: T); T: type in {float}", lambda x: tf.tanh(x), "parameters ['x'] of its pattern"),
        ("BadCount(x: T) -> (a: T, b: T); T: type in {float}", lambda x: tf.tanh(x), "gives 1 of 2 outputs"),
        ("BadAttr(x: float) -> (y: float); n: int = 1", lambda x: tf.tanh(x), "a constant in it, or an input"),
        ("BadList(x: N * float) -> (y: float); N: int", lambda x: tf.tanh(x), "is to be one tensor"),
    ],
)
def test_a_pattern_that_cannot_be_found_is_refused(op: str, pattern: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said.replace("[", r"\[").replace("]", r"\]")):
        tf.register_fused(op, pattern=pattern, kernel=scaled_kernel)
    assert not [p for found in PATTERNS.values() for p in found if p.op == op.split("(")[0]], "it leaves nothing behind"
    with tf.Graph().as_default(), pytest.raises(tf.errors.NotFoundError):
        tf.apply_op(op.split("(")[0], x=1.0)


OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "add": (tf.add, np.add, 2),
    "subtract": (tf.subtract, np.subtract, 2),
    "multiply": (tf.multiply, np.multiply, 2),
    "maximum": (tf.maximum, np.maximum, 2),
    "tanh": (tf.tanh, np.tanh, 1),
    "negative": (tf.negative, np.negative, 1),
    "sin": (tf.sin, np.sin, 1),
}
Tree = Any


def built(tree: Tree, values: Any, of_numpy: bool) -> Any:
    if isinstance(tree, int):
        return values[tree]
    name, *operands = tree
    function = OPS[name][1] if of_numpy else OPS[name][0]
    return function(*(built(operand, values, of_numpy) for operand in operands))


def trees(leaves: int) -> st.SearchStrategy[Tree]:
    def grown(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.sampled_from(sorted(OPS)).flatmap(lambda name: st.tuples(st.just(name), *[inner] * OPS[name][2]))

    return st.recursive(st.integers(0, leaves - 1), grown, max_leaves=6)


_count = iter(range(10**6))


@settings(max_examples=60, deadline=None)
@given(pattern=trees(2).filter(lambda t: not isinstance(t, int)), graph=trees(2), how=st.lists(trees(3), max_size=2))
def test_whatever_is_replaced_the_values_stay(pattern: Tree, graph: Tree, how: list[Tree]) -> None:
    def holds(tree: Tree, leaf: int) -> bool:
        return tree == leaf if isinstance(tree, int) else any(holds(part, leaf) for part in tree[1:])

    used = [leaf for leaf in (0, 1) if holds(pattern, leaf)]
    before = {op: [*found] for op, found in PATTERNS.items()}
    names = ", ".join(f"x{leaf}" for leaf in used)
    scope = {"built": built, "pattern": pattern}
    pick = f"{{{', '.join(f'{leaf}: x{leaf}' for leaf in used)}}}"
    try:
        tf.register_fused(
            f"Random{next(_count)}",
            pattern=eval(f"lambda {names}: built(pattern, {pick}, False)", scope),
            kernel=lambda build: eval(f"lambda {names}: built(pattern, {pick}, True)", scope),
        )
    except InvalidArgumentError:
        return  # it came to nothing: -(-x) is x
    try:
        with tf.Graph().as_default():
            x, y = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.float32, [3])
            inside = built(pattern, [x, built(graph, [x, y], False)], False)
            fetches = [inside, *(built(tree, [x, y, inside], False) for tree in how)]
            feeds = {x: [0.1, -0.7, 2.0], y: [1.0, 0.3, -0.2]}
            found, _ = run(fetches, feeds)
            plain, _ = run(fetches, feeds, graph_options=OFF)
        for one, other in zip(found, plain):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    finally:
        PATTERNS.clear()
        PATTERNS.update(before)


def test_tasks_take_it_from_a_module_and_c_code_may_be_the_kernel(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "norms.c").write_text(
        "void norms(const float *x, float *y, long rows, long width) {"
        " for (long i = 0; i < rows; i++) { float s = 0; for (long j = 0; j < width; j++)"
        " s += x[i * width + j] * x[i * width + j]; y[i] = s; } }"
    )
    library = tmp_path / "norms.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, tmp_path / "norms.c"], check=True)
    assert ctypes.CDLL(str(library)).norms
    (tmp_path / "my_norms.py").write_text(
        f"""
import cffi, numpy as np
import dtfctl.runtime as tf

ffi = cffi.FFI()
ffi.cdef("void norms(const float *x, float *y, long rows, long width);")
C = ffi.dlopen({str(library)!r})


def norms(x):
    x = np.ascontiguousarray(x)
    y = np.empty(len(x), np.float32)
    C.norms(ffi.from_buffer("float[]", x), ffi.from_buffer("float[]", y, require_writable=True), *x.shape)
    return y


tf.register_fused(
    "RowNorms",
    pattern=lambda x: tf.reduce_sum(tf.square(x), axis=1),
    kernel=lambda build: norms,
    types=[tf.float32],
)
"""
    )
    program = """
import sys
import numpy as np
import dtfctl.runtime as tf

server = tf.train.Server({"worker": ["127.0.0.1:0"]}, protocol="grpc")
x = tf.placeholder(tf.float32, [None, 4])
y = tf.reduce_sum(tf.square(x), axis=1)
metadata = tf.RunMetadata()
with tf.Session(server.target) as session:
    value = session.run(y, {x: np.arange(8).reshape(2, 4)}, options=tf.RunOptions(trace_level=3), run_metadata=metadata)
labels = [n.timeline_label for d in metadata.step_stats.dev_stats for n in d.node_stats]
assert value.tolist() == [14.0, 126.0], value
assert any("RowNorms" in label for label in labels), labels
"""
    environment = {**os.environ, "DTF_OPS": "my_norms", "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=60)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda x: np.zeros(2), "gave float64 as output 0, which is float32"),
        (lambda x: 1.5, "gave float as output 0"),
        (lambda x: (x, x), "gave a tuple of 2, and .* has 1 outputs"),
        (lambda x: None, "gave NoneType, and .* has 1 outputs"),
    ],
)
def test_what_a_kernel_gives_is_held_to_its_op(request: pytest.FixtureRequest, made: Any, says: str) -> None:
    name = f"Held{abs(hash(request.node.nodeid))}"
    tf.register_fused(name, pattern=scaled, kernel=lambda build: made)
    with tf.Graph().as_default(), pytest.raises(tf.errors.InternalError, match=says):
        run(scaled(tf.placeholder(tf.float32, [None], name="x")), {"x:0": [1.0, 2.0]})


def test_a_kernel_of_two_outputs_gives_two(request: pytest.FixtureRequest) -> None:
    """An array was taken for its rows."""
    name = f"Two{abs(hash(request.node.nodeid))}"
    tf.register_fused(name, pattern=lambda x: (tf.exp(tf.tanh(x)), tf.tanh(x)), kernel=lambda build: np.tanh)
    with tf.Graph().as_default(), pytest.raises(tf.errors.InternalError, match=r"gave ndarray, and .* has 2 outputs"):
        inner = tf.tanh(tf.placeholder(tf.float32, [None], name="x"))
        run([tf.exp(inner), inner], {"x:0": [1.0, 2.0]})


def test_what_is_no_pattern_and_no_device_is_told() -> None:
    for pattern in (lambda x: 3, lambda x: (), lambda x: None):
        with pytest.raises(InvalidArgumentError, match="Odd: the pattern returns"):
            tf.register_fused("Odd", pattern=pattern, kernel=scaled_kernel)
    for devices in (("TPU",), ()):
        with pytest.raises(InvalidArgumentError, match="Odd: devices are 'CPU' and 'GPU'"):
            tf.register_fused("Odd", pattern=scaled, kernel=scaled_kernel, devices=devices)
