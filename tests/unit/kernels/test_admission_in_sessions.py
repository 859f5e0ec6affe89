"""What cannot fit is refused in every plan of a session, and where elements are gathered one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.kernels import admission, free_memory

SIDE = 1 << 20
HUGE = 2**40
F = np.float32


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(admission, "free_bytes", lambda: 256 << 20)
    with tf.Graph().as_default():
        yield


PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "Mul": lambda a, b: a * b,
    "AddV2": lambda a, b: a + b,
    "SquaredDifference": tf.squared_difference,
    "Less": tf.less,
    "MatMul": tf.matmul,
    "Einsum": lambda a, b: tf.einsum("ij,jk->ik", a, b),
    "of what is made of them": lambda a, b: tf.tanh(a * 2.0) * tf.exp(b - 1.0),
    "before a reduction": lambda a, b: tf.reduce_sum(tf.nn.relu((a + 1.0) * (b + 2.0) - 3.0)),
    "after one as small": lambda a, b: (a + a) * (a + 1.0) * b,
}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("steps", [0, 1, 25])
def test_an_outer_product(product: Callable[[Any, Any], Any], steps: int) -> None:
    """In the first step, by the plan for any shapes, and by the one for the shapes that it was seen to have."""
    a, b = tf.placeholder(tf.float32, [None, 1]), tf.placeholder(tf.float32, [1, None])
    y = product(a, b)
    with tf.Session() as session:
        for _ in range(steps):
            session.run(y, {a: np.ones((300, 1), F), b: np.ones((1, 300), F)})
        for _ in range(2):
            with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM when allocating tensor with shape"):
                session.run(y, {a: np.ones((SIDE, 1), F), b: np.ones((1, SIDE), F)})
        assert session.run(y, {a: np.ones((2, 1), F), b: np.ones((1, 2), F)}).size in (1, 4)


def test_an_outer_product_of_variables_and_in_one_branch() -> None:
    a, b = tf.get_variable("a", [SIDE, 1]), tf.get_variable("b", [1, SIDE])
    first = tf.placeholder(tf.bool, [])
    either = tf.cond(first, lambda: tf.reduce_sum(a * b), lambda: tf.reduce_sum(a + b))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for fetch, feed in ((a * b, {}), (either, {first: True}), (either, {first: False})):
            for _ in range(3):
                with pytest.raises(tf.errors.ResourceExhaustedError):
                    session.run(fetch, feed)


@pytest.mark.parametrize("use_resource", [False, True])
def test_an_outer_product_of_variables_that_have_other_shapes_than_they_were_declared_with(use_resource: bool) -> None:
    a = tf.get_variable("a", [1], use_resource=use_resource)
    b = tf.get_variable("b", [1], use_resource=use_resource)
    values = tf.placeholder(tf.float32, None)
    if use_resource:
        assigned = [tf.raw_ops.AssignVariableOp(resource=v.handle, value=values) for v in (a, b)]
    else:
        assigned = [tf.assign(v, values, validate_shape=False).op for v in (a, b)]
    product = tf.reduce_sum(a * b)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(assigned[0], {values: np.ones((1 << 14, 1), F)})
        session.run(assigned[1], {values: np.ones((1, 1 << 14), F)})
        with pytest.raises(tf.errors.ResourceExhaustedError, match="more than are free"):
            session.run(product)


def first_of(dataset: Any) -> Any:
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        return session.run(element)


DATASETS: dict[str, Callable[[], Any]] = {
    "batch": lambda: tf.data.Dataset.range(10).batch(HUGE),
    "shuffle": lambda: tf.data.Dataset.range(10).shuffle(HUGE),
    "prefetch": lambda: tf.data.Dataset.range(10).prefetch(HUGE),
    "repeat": lambda: tf.data.Dataset.range(10).repeat(HUGE),
    "window": lambda: tf.data.Dataset.range(10).window(HUGE).flat_map(lambda window: window.batch(3)),
    "prefetch of what does not fit": lambda: large().prefetch(HUGE),
}
TOO_MUCH: dict[str, Callable[[], Any]] = {
    "batch": lambda: large().batch(HUGE),
    "shuffle": lambda: large().shuffle(HUGE),
    "window": lambda: large().window(HUGE).flat_map(lambda window: window.batch(1)),
    "padded_batch": lambda: tf.data.Dataset.range(4).map(lambda n: tf.fill([n], 1)).padded_batch(2, [HUGE]),
}


def large() -> Any:
    """Elements of a megabyte, more than anybody waits for."""
    return tf.data.Dataset.range(HUGE).map(lambda n: tf.ones([1 << 18]))


@pytest.mark.parametrize("make", DATASETS.values(), ids=DATASETS)
def test_a_large_size_takes_nothing(make: Callable[[], Any]) -> None:
    assert np.size(first_of(make())) in (1, 3, 10, 1 << 18)


@pytest.mark.parametrize("make", TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_is_gathered_ends_before_the_memory_does(make: Callable[[], Any]) -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM when allocating tensor with shape"):
        first_of(make())


@pytest.mark.parametrize(
    "make",
    [
        lambda most: tf.FIFOQueue(most, tf.float32),
        lambda most: tf.RandomShuffleQueue(most, most - 1, tf.float32),
        lambda most: tf.PaddingFIFOQueue(most, [tf.float32], [[]]),
        lambda most: tf.PriorityQueue(most, [tf.float32], [[]]),
    ],
)
def test_the_capacity_of_a_queue_takes_nothing(make: Callable[[int], Any]) -> None:
    queue = make(2**31 - 1)
    with tf.Session() as session:
        assert session.run(queue.size()) == 0


def test_the_capacity_of_a_queue_is_32_bits() -> None:
    queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], capacity=2**31)
    wrong = "Attr capacity has value 2147483648 out of range for an int32"
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=wrong):
        session.run(tf.raw_ops.QueueSizeV2(handle=queue))


def test_the_buckets_of_a_table() -> None:
    table = tf.raw_ops.MutableDenseHashTableV2(
        empty_key=tf.constant(0, tf.int64),
        deleted_key=tf.constant(-1, tf.int64),
        value_dtype=tf.float32,
        initial_num_buckets=HUGE,
    )
    with tf.Session() as session, pytest.raises(tf.errors.ResourceExhaustedError):
        session.run(tf.raw_ops.LookupTableSizeV2(table_handle=table))


LISTS: dict[str, Callable[[], Any]] = {
    "an array that is written far behind its end": lambda: (
        tf.TensorArray(tf.float32, 1, dynamic_size=True).write(2**31 - 2, 1.0).size()
    ),
    "a list that is written far behind its end": lambda: tf.raw_ops.TensorListLength(
        input_handle=tf.raw_ops.TensorListScatterV2(
            tensor=[1.0], indices=[2**31 - 2], element_shape=tf.constant([], tf.int32), num_elements=-1
        )
    ),
    "zeros in place of what was not written": lambda: tf.raw_ops.TensorListStack(
        input_handle=tf.raw_ops.TensorListReserve(element_shape=[SIDE], num_elements=SIDE, element_dtype=tf.float32),
        element_shape=[SIDE],
        element_dtype=tf.float32,
        num_elements=-1,
    ),
    "rows of a variable again and again": lambda: tf.gather(
        tf.get_variable("table", [1, SIDE], use_resource=True, initializer=tf.zeros_initializer()),
        tf.zeros([SIDE], tf.int32),
    ),
    "rows again and again": lambda: tf.gather(tf.zeros([1, SIDE]), tf.zeros([SIDE], tf.int32)),
    "an item far behind the others": lambda: tf.dynamic_stitch([[2**31 - 2]], [[1.0]]),
}


@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
def test_items_far_behind_or_again_and_again(make: Callable[[], Any]) -> None:
    fetch = make()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM when allocating tensor with shape"):
            session.run(fetch)


def test_this_host_says_how_much_it_has() -> None:
    assert 0 < free_memory.free_bytes() < free_memory.UNKNOWN
