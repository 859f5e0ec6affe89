"""Lists that a loop alone has are changed in place, and nobody can tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.kernels.control.persistent_list import PersistentList

F = np.float32
raw = tf.raw_ops
SHAPE = [2]


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One for each version of a list that is made."""
    made: list[None] = []
    replaced = PersistentList._replaced

    def counted(self: PersistentList, items: list[Any], change: Any) -> PersistentList:
        made.append(None)
        return replaced(self, items, change)

    monkeypatch.setattr(PersistentList, "_replaced", counted)
    return made


def empty(most: int = -1) -> Any:
    return raw.EmptyTensorList(element_shape=SHAPE, max_num_elements=most, element_dtype=tf.float32)


def push(held: Any, value: Any) -> Any:
    return raw.TensorListPushBack(input_handle=held, tensor=value)


def pop(held: Any) -> Any:
    held, value = raw.TensorListPopBack(input_handle=held, element_shape=SHAPE, element_dtype=tf.float32)
    return held, tf.ensure_shape(value, SHAPE)


def put(held: Any, i: Any, value: Any) -> Any:
    return raw.TensorListSetItem(input_handle=held, index=i, item=value)


def item(held: Any, i: Any) -> Any:
    value = raw.TensorListGetItem(input_handle=held, index=i, element_shape=SHAPE, element_dtype=tf.float32)
    return tf.ensure_shape(value, SHAPE)


def stacked(held: Any) -> Any:
    return raw.TensorListStack(input_handle=held, element_shape=SHAPE, element_dtype=tf.float32)


def row(i: Any) -> Any:
    return tf.cast(tf.stack([i, 10 * i]), tf.float32)


def rows(*numbers: int) -> Any:
    return [[n, 10 * n] for n in numbers]


def repeated(fetches: Any, times: int = 25) -> Any:
    """Run it until it has the plan it ends with."""
    with tf.Session() as session:
        first = session.run(fetches)
        for _ in range(times):
            got = session.run(fetches)
        for a, b in zip(first, got, strict=True):
            np.testing.assert_array_equal(a, b)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        for a, b in zip(first, session.run(fetches, options=options, run_metadata=tf.RunMetadata()), strict=True):
            np.testing.assert_array_equal(a, b)
        return first


def test_what_a_loop_stacks_up_is_no_new_list_each_time(versions: list[None]) -> None:
    _, pushed = tf.while_loop(lambda i, _: i < 50, lambda i, held: (i + 1, push(held, row(i))), (0, empty()))

    def add_last(i: Any, held: Any, total: Any) -> Any:
        held, value = pop(held)
        return i + 1, held, total + value

    _, _, popped = tf.while_loop(lambda i, *_: i < 50, add_last, (0, pushed, tf.zeros(SHAPE)))
    got = repeated([stacked(pushed), popped])
    np.testing.assert_array_equal(got[0], rows(*range(50)))
    np.testing.assert_array_equal(got[1], np.sum(rows(*range(50)), 0))
    assert not versions


def test_gradients_of_loops_make_no_versions_of_what_they_stack_up(versions: list[None]) -> None:
    x = tf.constant([0.5, -0.25])
    _, y = tf.while_loop(lambda i, _: i < 6, lambda i, y: (i + 1, tf.tanh(y) * tf.sin(y + x)), (0, x))
    (grad,) = repeated([tf.gradients(y, x)[0]])
    assert not versions

    def value(at: Any) -> Any:
        y = at
        for _ in range(6):
            y = np.tanh(y) * np.sin(y + at)
        return y

    at, near = np.array([0.5, -0.25]), 1e-6
    want = [(value(at + near * e) - value(at - near * e)).sum() / (2 * near) for e in np.eye(2)]
    np.testing.assert_allclose(grad, want, rtol=1e-4)


def test_the_list_a_loop_began_with_is_as_it_was() -> None:
    begun = push(empty(), row(7))
    _, one, other = tf.while_loop(
        lambda i, *_: i < 3,
        lambda i, one, other: (i + 1, push(one, row(i)), put(other, 0, row(i))),
        (0, begun, begun),
    )
    got = repeated([stacked(begun), stacked(one), stacked(other)])
    for a, b in zip(got, (rows(7), rows(7, 0, 1, 2), rows(2)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_loop_that_never_goes_round_gives_what_it_got() -> None:
    _, held = tf.while_loop(lambda i, _: i < 0, lambda i, held: (i + 1, push(held, row(i))), (0, push(empty(), row(4))))
    np.testing.assert_array_equal(repeated([stacked(held)])[0], rows(4))


def test_lists_that_an_iteration_also_reads() -> None:
    held = push(push(empty(), row(1)), row(2))

    def body(i: Any, held: Any, seen: Any) -> Any:
        changed = put(held, 0, item(held, 1) + row(i))
        # The one before, whichever of the two runs first.
        return i + 1, put(changed, 1, item(held, 0)), seen + item(held, 0) + item(changed, 0)

    _, held, seen = tf.while_loop(lambda i, *_: i < 4, body, (0, held, tf.zeros(SHAPE)))
    got = repeated([stacked(held), seen])
    items, total = [1, 2], 0
    for i in range(4):
        total += items[0] + items[1] + i
        items = [items[1] + i, items[0]]
    np.testing.assert_array_equal(got[0], rows(*items))
    np.testing.assert_array_equal(got[1], rows(total)[0])


def test_versions_that_something_else_takes() -> None:
    def body(i: Any, held: Any, before: Any, after: Any, seen: Any) -> Any:
        made = push(held, row(i))
        with tf.control_dependencies([made]):
            first = tf.ensure_shape(raw.TensorListLength(input_handle=held), [])
        return i + 1, made, held, made, seen + first

    begun = push(empty(), row(5))
    _, held, before, after, seen = tf.while_loop(lambda i, *_: i < 4, body, (0, begun, begun, begun, 0))
    got = repeated([stacked(held), stacked(before), stacked(after), seen])
    whole = rows(5, 0, 1, 2, 3)
    for a, b in zip(got, (whole, whole[:-1], whole, 1 + 2 + 3 + 4), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_list_that_is_read_after_it_was_changed() -> None:
    def body(i: Any, held: Any, seen: Any) -> Any:
        made = put(held, 0, row(i))
        with tf.control_dependencies([made]):
            return i + 1, made, seen + item(held, 0)

    _, held, seen = tf.while_loop(lambda i, *_: i < 4, body, (0, push(empty(), row(5)), tf.zeros(SHAPE)))
    got = repeated([stacked(held), seen])
    np.testing.assert_array_equal(got[0], rows(3))
    np.testing.assert_array_equal(got[1], rows(5 + 0 + 1 + 2)[0])


def test_lists_that_the_condition_reads() -> None:
    _, held = tf.while_loop(
        lambda i, held: raw.TensorListLength(input_handle=held) < 5,
        lambda i, held: (i + 1, push(held, row(i))),
        (0, empty()),
    )
    np.testing.assert_array_equal(repeated([stacked(held)])[0], rows(*range(5)))


def test_loops_in_loops_have_lists_of_their_own() -> None:
    def outer(i: Any, held: Any, sums: Any) -> Any:
        _, held = tf.while_loop(lambda j, _: j < i, lambda j, held: (j + 1, push(held, row(j))), (0, held))
        return i + 1, held, push(sums, tf.reduce_sum(stacked(held), 0))

    _, held, sums = tf.while_loop(lambda i, *_: i < 4, outer, (0, push(empty(), row(9)), empty()))
    got = repeated([stacked(held), stacked(sums)])
    np.testing.assert_array_equal(got[0], rows(9, 0, 0, 1, 0, 1, 2))
    np.testing.assert_array_equal(got[1], rows(9, 9, 10, 13))


def test_what_does_not_fit_is_refused_in_loops_as_outside() -> None:
    i, x = tf.constant(0), tf.placeholder(tf.float32)
    _, full = tf.while_loop(lambda i, _: i < 5, lambda i, held: (i + 1, push(held, row(i))), (i, empty(3)))
    _, none = tf.while_loop(lambda i, _: i < 5, lambda i, held: (i + 1, pop(held)[0]), (i, push(empty(), row(1))))
    _, other = tf.while_loop(lambda i, _: i < 5, lambda i, held: (i + 1, push(held, x)), (i, empty()))
    _, beyond = tf.while_loop(lambda i, _: i < 5, lambda i, held: (i + 1, put(held, 3, row(i))), (i, empty()))
    with tf.Session() as session:
        for _ in range(3):
            for held, said in (
                (full, "full list list size: 3"),
                (none, "pop from an empty list"),
                (other, "Op element shape: \\[3\\] list shape: \\[2\\]"),
                (beyond, "modify element 3 in a list with 0 elements"),
            ):
                with pytest.raises(tf.errors.InvalidArgumentError, match=said):
                    session.run(stacked(held), {x: [1.0, 2.0, 3.0]})
