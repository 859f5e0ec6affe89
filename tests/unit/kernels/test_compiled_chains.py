"""Chains of arithmetic as one compiled loop have numpy's values, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.executor import fusion, shaped, tuner
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.compiled import chains, jit
from dtfctl.runtime.kernels.compiled.chains import Link
from dtfctl.runtime.kernels.into import elementwise, parallel
from dtfctl.runtime.kernels.into.registry import Spec
from tests.unit.executor.test_fusion import done_by_others, planned

pytestmark = pytest.mark.skipif(not jit.is_available(), reason="numba is not installed")

# Of each formula: how many operands, and what numpy gives.
FORMULAS: dict[str, tuple[int, Any]] = {
    elementwise._FORMULAS["Add"]: (2, np.add),
    elementwise._FORMULAS["Sub"]: (2, np.subtract),
    elementwise._FORMULAS["Mul"]: (2, np.multiply),
    elementwise._FORMULAS["RealDiv"]: (2, np.true_divide),
    elementwise._FORMULAS["Maximum"]: (2, np.maximum),
    elementwise._FORMULAS["Minimum"]: (2, np.minimum),
    elementwise._FORMULAS["Square"]: (1, np.square),
    elementwise._FORMULAS["Neg"]: (1, np.negative),
    elementwise._FORMULAS["Sqrt"]: (1, np.sqrt),
    elementwise._LARGER.replace("{1}", "zero"): (1, lambda x: np.maximum(x, x.dtype.type(0))),
    elementwise._RELU_GRADIENT: (2, lambda g, x: g * (x > 0)),
    "{0} + {1} + {2}": (3, lambda x, y, z: (x + y) + z),
    "{1} * (one - {0} * {0})": (2, lambda y, g: g * (1 - y * y)),
    "{1} * ({0} * (one - {0}))": (2, lambda y, g: g * (y * (1 - y))),
}
EDGES = [0.0, -0.0, 1.0, -1.5, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 3e38, 5e-324, 1e308]
SHAPE = (6, 5)
SHAPES = [SHAPE, SHAPE, (5,), (1, 5), (), (1, 1)]


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    with np.errstate(over="ignore"):
        edges = st.sampled_from([float(v) for v in np.asarray(EDGES).astype(dtype)])
    return hnp.arrays(dtype, shape, elements=edges | st.floats(-10, 10, width=32))


@st.composite
def programs(draw: Any) -> tuple[list[Any], list[Link], list[Any]]:
    """Operands, a chain, and what numpy gives for each link."""
    dtype = draw(st.sampled_from(["f4", "f8"]))
    operands = [draw(numbers(shape, dtype)) for shape in SHAPES]
    links: list[Link] = []
    values: list[Any] = []
    with np.errstate(all="ignore"):
        for n in range(draw(st.integers(1, 3))):
            formula, (count, function) = draw(st.sampled_from(sorted(FORMULAS.items(), key=lambda i: i[0])))
            # The first one of each link is as large as what it gives.
            first: int | tuple[int] = (n - 1,) if n else 0
            others: list[int | tuple[int]] = [draw(st.sampled_from(range(len(SHAPES)))) for _ in range(count - 1)]
            given_operands = [first, *others]
            links.append(Link(formula, tuple(given_operands), draw(st.booleans())))
            given_values = [values[o[0]] if isinstance(o, tuple) else operands[o] for o in given_operands]
            values.append(np.broadcast_to(function(*given_values), SHAPE))
    links[-1] = Link(links[-1].formula, links[-1].operands, True)
    return operands, links, values


def same(got: Any, want: Any) -> None:
    """Equal to the last bit, but for the sign of zeros and what kind of nothing a NaN is."""
    np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(programs(), st.sampled_from([None, 0, 1]))
def test_loops_give_numpys_values(program: Any, reused: int | None) -> None:
    operands, links, values = program
    spec = Spec(SHAPE, operands[0].dtype)
    into = chains.chain(links, [Spec(o.shape, o.dtype) for o in operands], spec)
    assert into is not None and into.in_place == (0, 1)
    given_operands = [o.copy() for o in operands]
    outputs = [np.full(SHAPE, 7, spec.dtype) for link in links if link.kept]
    if reused is not None:
        outputs[0] = given_operands[reused]
    into.call(*given_operands, *outputs)
    for got, want in zip(outputs, [v for v, link in zip(values, links) if link.kept]):
        same(got, want)


def test_what_does_not_fit_is_left_to_numpy() -> None:
    f4, f8 = np.dtype("f4"), np.dtype("f8")
    link = [Link("{0} + {1}", (0, 1), True)]
    assert chains.chain(link, [Spec((6, 5), f4), Spec((6, 5), f8)], Spec((6, 5), f4)) is None
    assert chains.chain(link, [Spec((6, 5), f4), Spec((6, 1), f4)], Spec((6, 5), f4)) is None
    assert chains.chain(link, [Spec((6, 5), f4), None], Spec((6, 5), f4)) is None
    assert chains.chain(link, [Spec((0, 5), f4), Spec((0, 5), f4)], Spec((0, 5), f4)) is None
    assert chains.chain(link, [Spec((5,), f4), Spec((1, 5), f4)], Spec((6, 5), f4)) is None
    assert chains.chain(link, [Spec((6, 5), np.dtype("i4"))] * 2, Spec((6, 5), np.dtype("i4"))) is None


def test_large_arrays_are_shared_by_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_LEAST_BYTES_SHARED", 0)
    monkeypatch.setattr(parallel, "LEAST_BYTES", 0)
    rng = np.random.default_rng(0)
    x, row = rng.standard_normal((64, 33)).astype("f4"), rng.standard_normal(33).astype("f4")
    links = [Link("{0} + {1}", (0, 1), True), Link(elementwise._RELU_GRADIENT, (0, (0,)), True)]
    spec = Spec(x.shape, x.dtype)
    into = chains.chain(links, [spec, Spec(row.shape, row.dtype)], spec)
    assert into is not None
    for target in (np.empty_like(x), x.copy()):
        source, second = (x if target is not x else target), np.empty_like(x)
        if np.array_equal(target, x):
            source = target
        for _ in range(5):
            source[...] = x
            into.call(source, row, target, second)
            same(target, x + row)
            same(second, x * (x + row > 0))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is observed, and small arrays count as large ones."""
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset[Node]())
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    monkeypatch.setattr(parallel, "LEAST_BYTES", 0)
    monkeypatch.setattr(jit, "LEAST_BYTES", 0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("wanted", ["end", "middle", "both", "gradient"])
def test_a_plan_has_loops_where_a_chain_is_arithmetic(wanted: str) -> None:
    """Cut where it is not; what is fetched of the middle is there."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [8, 12])
        row = tf.Variable(np.linspace(-1, 1, 12).astype("f4"))
        middle = tf.nn.relu(x + row) * 0.5
        end = tf.tanh(middle) * x + tf.square(x) - 1.0
        gradient = tf.gradients(tf.reduce_sum(end), [x, row])
        # What is fetched is nobody's buffer: something in between lets go of it.
        fetches = {
            "end": [tf.reduce_sum(end)],
            "middle": [tf.reduce_sum(middle), tf.reduce_sum(end)],
            "both": [middle, end],
            "gradient": gradient,
        }[wanted]
        off = config_pb2.ConfigProto()
        off.graph_options.rewrite_options.remapping = config_pb2.RewriterConfig.OFF
        rng = np.random.default_rng(0)
        batches = [rng.standard_normal((8, 12)).astype("f4") for _ in range(4)]
        batches[2][0, :4] = [np.nan, np.inf, -np.inf, 0]
        got: dict[bool, list[Any]] = {}
        for plain in (False, True):
            with tf.Session(config=off if plain else None) as session:
                session.run(tf.global_variables_initializer())
                got[plain] = [session.run(fetches, {x: batch}) for batch in batches]
                if not plain and wanted == "end":
                    assert done_by_others(planned(session))
        for one, other in zip(got[False], got[True]):
            for a, b in zip(one, other):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_formulas_that_take_numpy_several_passes() -> None:
    assert not fusion.takes_passes(elementwise._FORMULAS["Add"]) and not fusion.takes_passes("")
    assert fusion.takes_passes(elementwise._RELU_GRADIENT) and fusion.takes_passes("{0} + {1} + {2}")
