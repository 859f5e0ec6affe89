"""Regions for other lengths share their code: what differs is read from a table, and values are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import dtfctl.runtime as tf
from dtfctl.runtime.executor import planner, shaped, tuner, varied
from dtfctl.runtime.executor.varied import Varied
from dtfctl.runtime.kernels.native import compiler, kept, machine
from tests.unit.executor.harness import executors_of
from tests.unit.executor.test_fusion import node_by_node

if not machine.can_compile():
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from dtfctl.runtime.kernels.native.compile import compiled, image_of_text
from dtfctl.runtime.kernels.native.generic import Generics
from dtfctl.runtime.kernels.native.image import Image

F = np.float32
WIDTH = 8


class Counting:
    """What is compiled, and how often LLVM is asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.generics = Generics(self._image)

    def _image(self, text: str) -> Image:
        self.texts.append(text)
        return image_of_text(text)

    def compile(self, sketches: Any) -> Iterator[Any]:
        self.generics.begin()
        return iter([compiled(sketch, self.generics) for sketch in sketches])


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """Shapes are planned for when they come first, and have regions the next time."""
    monkeypatch.delenv("DTF_NATIVE", raising=False)
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    monkeypatch.setattr(planner, "COMPILED_FROM", 1)
    monkeypatch.setattr(varied, "_WORTH", 0.0)
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    request = compiler.COMPILER.request

    def waiting(sketches: Any) -> Any:
        made = request(sketches)
        compiler.COMPILER.finish()
        return made

    made = Counting()
    monkeypatch.setattr(compiler.COMPILER, "request", waiting)
    monkeypatch.setattr(compiler.COMPILER, "_known", {})
    monkeypatch.setattr(compiler.COMPILER, "_compile", made.compile)
    monkeypatch.setattr(kept, "read", lambda digest: None)
    monkeypatch.setattr(kept, "keep", lambda digest, made: None)
    yield made


def encoder(x: Any) -> Any:
    """Attention and a norm over rows of any number: what programs whose sentences are padded have."""
    heads = tf.transpose(tf.reshape(x, [3, -1, 2, WIDTH // 2]), [0, 2, 1, 3])
    weights = tf.nn.softmax(tf.matmul(heads, heads, transpose_b=True) / 3.0)
    y = x + tf.reshape(tf.transpose(tf.matmul(weights, heads), [0, 2, 1, 3]), tf.shape(x))
    mean, variance = tf.nn.moments(y, [-1], keep_dims=True)
    y = (y - mean) * tf.rsqrt(variance + 1e-6)
    return tf.reduce_mean(tf.square(tf.tanh(y)), [1])


def values(
    make: Callable[[Any], Any], batches: list[Any], config: Any = None, times: int = 4
) -> tuple[list[Any], list[Any]]:
    """What a program and its gradient give for each of some batches, the last time; and its session's plans."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [*[None] * (batches[0].ndim - 1), WIDTH])
        w = tf.Variable(np.linspace(0.5, 1.5, WIDTH).astype(F))
        y = make(x * w)
        fetches = [y, tf.gradients(y, [w])[0]]
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(times):
                found = [session.run(fetches, {x: batch}) for batch in batches]
            return found, [e.plan for e in executors_of(session)]


def batches_of(lengths: list[int]) -> list[Any]:
    rng = np.random.RandomState(1)
    return [rng.randn(3, n, WIDTH).astype(F) for n in lengths]


def test_other_lengths_need_no_other_code(counting: Counting) -> None:
    batches = batches_of([5, 7, 9, 11, 13, 10, 14, 15])
    want, _ = values(encoder, batches, node_by_node())
    at: list[int] = []
    begin = counting.generics.begin

    def beginning() -> None:
        at.append(len(counting.texts))
        begin()

    counting.generics.begin = beginning  # type: ignore[method-assign]
    got, plans = values(encoder, batches)
    (plan,) = [p for p in plans if isinstance(p, Varied)]
    assert len(plan.shapes) == len(batches)
    for x, y in zip(want, got):
        for a, b in zip(x, y):
            np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6)
    # Each of the first two has code of its own, and that of the second is for all that follow.
    first = at[1]
    assert first and at[2:] == [2 * first] * (len(batches) - 2) and len(counting.texts) == 2 * first


ROWS: list[Callable[[Any], Any]] = [
    tf.tanh,
    tf.sigmoid,
    tf.nn.relu,
    tf.nn.softmax,
    tf.square,
    lambda x: x - tf.reduce_mean(x, 1, keepdims=True),
    lambda x: x - tf.reduce_mean(x, 0, keepdims=True),
    lambda x: x / (1.0 + tf.reduce_sum(tf.square(x), [0, 1])),
    lambda x: tf.transpose(tf.transpose(x) * 2.0 + 1.0),
    lambda x: tf.concat([x[:, 3:], x[:, :3]], 1) * x,
    lambda x: tf.reshape(tf.reshape(x, [-1, 2, WIDTH // 2]) * [[1.0], [2.0]], tf.shape(x)),
    lambda x: tf.where(x > 0.1, x, 0.3 * x),
    lambda x: tf.nn.softmax(tf.concat([x, x * 0.5], 0), 0)[: tf.shape(x)[0]],
    lambda x: x * (tf.cast(tf.shape(x)[0], tf.float32) / 512.0),
]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(range(len(ROWS))), min_size=2, max_size=5),
    st.lists(st.sampled_from([1, 2, 3, 8, 9, 30, 32, 64, 520, 600, 1024]), min_size=3, max_size=5, unique=True),
)
def test_rows_of_any_number(counting: Counting, ops: list[int], sizes: list[int]) -> None:
    def make(x: Any) -> Any:
        for op in ops:
            x = ROWS[op](x)
        return x

    rng = np.random.RandomState(2)
    batches = [rng.randn(n, WIDTH).astype(F) for n in sizes]
    want, _ = values(make, batches, node_by_node(), 1)
    got, _ = values(make, batches)
    for x, y in zip(want, got):
        for a, b in zip(x, y):
            # Sums of hundreds of rows that cancel round differently, node by node most of all.
            np.testing.assert_allclose(b, a, rtol=2e-4, atol=5e-4 * np.abs(a).max(initial=0.2))
