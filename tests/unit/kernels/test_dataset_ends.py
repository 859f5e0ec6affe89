"""How passes end, keep step after errors, and what is said when their position is saved."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator as Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.fixture(autouse=True)
def graph() -> Generator[None, None, None]:
    with tf.Graph().as_default():
        yield


def dataset_of(variant: Any, *types: Any) -> Any:
    """A dataset of scalars that an op made."""
    from dtfctl.runtime.data.dataset import Dataset
    from dtfctl.runtime.data.structure import Structure

    shapes = (tf.TensorShape([]),) * len(types)
    return Dataset(variant, Structure(tuple(range(len(types))) if len(types) > 1 else 0, types, shapes))


def until_end(session: tf.Session, tensors: Any) -> list[Any]:
    out: list[Any] = []
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            out.append(session.run(tensors))
    return out


def test_zipped_datasets_keep_step_after_an_error() -> None:
    checked = tf.data.Dataset.from_tensor_slices(np.array([1.0, np.nan, 3.0])).map(
        lambda x: tf.debugging.check_numerics(x, "bad")
    )
    following = tf.data.Dataset.zip((checked, tf.data.Dataset.range(10))).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(following) == (1.0, 0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            session.run(following)
        assert until_end(session, following) == [(3.0, 2)]


def test_zipped_caches_are_all_complete(tmp_path: Path) -> None:
    caches = tuple(tf.data.Dataset.range(3).cache(str(tmp_path / f"cache{i}")) for i in range(3))
    following = tf.data.Dataset.zip(caches).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        until_end(session, following)
    assert sorted(p.name for p in tmp_path.glob("*.index")) == ["cache0.index", "cache1.index", "cache2.index"]


@pytest.mark.parametrize("parallel", [None, 2])
def test_a_mapped_function_may_end_the_sequence(parallel: int | None) -> None:
    queue = tf.FIFOQueue(1, tf.int64, [])

    def function(x: Any) -> Any:
        return tf.cond(x < 5, lambda: x, queue.dequeue)

    dataset = tf.data.Dataset.range(100).map(function, num_parallel_calls=parallel)
    iterator = dataset.make_initializable_iterator()
    following = iterator.get_next()
    with tf.Session() as session:
        session.run(queue.close())
        session.run(iterator.initializer)
        assert until_end(session, following) == [0, 1, 2, 3, 4]


def test_tensorflow_2_says_that_a_function_may_not_end_the_sequence() -> None:
    queue = tf.FIFOQueue(1, tf.int64, [])
    mapped = tf.data.Dataset.range(3).map(lambda _: queue.dequeue())
    made = mapped.variant.op
    strict = tf.raw_ops.MapDataset(
        input_dataset=made.inputs[0],
        other_arguments=list(made.inputs)[1:],
        f=made.get_attr("f"),
        output_types=[tf.int64],
        output_shapes=[[]],
        preserve_cardinality=True,
    )
    iterator = dataset_of(strict, tf.int64).make_initializable_iterator()
    following = iterator.get_next()
    with tf.Session() as session:
        session.run(queue.close())
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Function invocation produced OutOfRangeError"):
            session.run(following)


@pytest.mark.parametrize(("stateful", "policy"), [(True, 2), (True, 0), (False, 2)])
def test_saving_a_position_among_functions_with_state(stateful: bool, policy: int) -> None:
    def function(x: Any) -> Any:
        branch = (lambda: tf.random.uniform([])) if stateful else (lambda: tf.constant(0.0))
        return tf.cond(x > 5, branch, lambda: tf.constant(1.0))

    iterator = tf.data.Dataset.range(10).map(function).batch(2).make_initializable_iterator()
    iterator.get_next()
    saved = tf.raw_ops.SerializeIterator(resource_handle=iterator._resource, external_state_policy=policy)
    size = tf.size(tf.reshape(saved, [-1]))
    with tf.Session() as session:
        session.run(iterator.initializer)
        if stateful and policy == 2:
            with pytest.raises(tf.errors.FailedPreconditionError, match="RandomUniform is stateful"):
                session.run(size)
        else:
            assert session.run(size) == 1


# Rows of a database.


def rows(path: Path, query: str, *types: Any, driver: str = "sqlite") -> Any:
    variant = tf.raw_ops.SqlDataset(
        driver_name=driver,
        data_source_name=str(path),
        query=query,
        output_types=list(types),
        output_shapes=[[] for _ in types],
    )
    return dataset_of(variant, *types).make_initializable_iterator()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "db.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (name TEXT, age INTEGER, score REAL, member INTEGER, photo BLOB)")
        connection.executemany(
            "INSERT INTO people VALUES (?, ?, ?, ?, ?)",
            [("Ada", 36, 1.5, 7, b"\x00\xff"), ("Bo\0b", -1, None, 0, None)],
        )
    connection.close()
    return path


def test_rows_of_a_query(database: Path) -> None:
    types = (tf.string, tf.int32, tf.float64, tf.bool, tf.string)
    iterator = rows(database, "SELECT * FROM people ORDER BY name", *types)
    following = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        got = until_end(session, following)
    assert got == [(b"Ada", 36, 1.5, True, b"\x00\xff"), (b"Bo\0b", -1, 0.0, False, b"")]


@pytest.mark.parametrize(
    ("query", "driver", "error", "match"),
    [
        ("SELECT missing FROM people", "sqlite", tf.errors.UnknownError, "no such column"),
        ("SELEKT name FROM people", "sqlite", tf.errors.UnknownError, "syntax error"),
        ("SELECT name, age FROM people", "sqlite", tf.errors.InvalidArgumentError, r"columns in query \(2\)"),
        ("SELECT name FROM people", "other", tf.errors.InvalidArgumentError, "database type, other, is not supported"),
    ],
)
def test_queries_that_fail(database: Path, query: str, driver: str, error: Any, match: str) -> None:
    iterator = rows(database, query, tf.string, driver=driver)
    following = iterator.get_next()
    with tf.Session() as session, pytest.raises(error, match=match):
        session.run(iterator.initializer)
        session.run(following)


@pytest.mark.parametrize("query", ["INSERT INTO people (name) VALUES ('Cy')", "DROP TABLE people"])
def test_a_query_without_rows_changes_nothing_and_locks_nothing(database: Path, query: str) -> None:
    iterator = rows(database, query, tf.string)
    following = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"columns in query \(0\)"):
            session.run(following)
        with sqlite3.connect(database, timeout=0) as connection:
            connection.execute("INSERT INTO people (name) VALUES ('Di')")
            assert connection.execute("SELECT COUNT(*) FROM people").fetchone() == (3,)
        connection.close()


# Positions of passes that choose at random.


def shuffled(kind: str) -> Any:
    numbers = tf.data.Dataset.range(12)
    if kind == "shuffle":
        return numbers.shuffle(5).repeat(2)
    if kind == "after repeat":
        return numbers.repeat(2).shuffle(5)
    if kind == "the same each time":
        return numbers.shuffle(5, reshuffle_each_iteration=False).repeat(2)
    if kind == "ahead":
        return numbers.shuffle(5).repeat(2).prefetch(2).batch(3)
    return numbers.flat_map(lambda x: tf.data.Dataset.range(x).shuffle(4, seed=3))


@pytest.mark.parametrize("kind", ["shuffle", "after repeat", "the same each time", "ahead", "inner"])
def test_a_restored_pass_goes_on_in_the_same_order(kind: str, tmp_path: Path) -> None:
    prefix = str(tmp_path / "position")

    def build() -> tuple[Any, Any, Any]:
        iterator = shuffled(kind).make_initializable_iterator()
        following = iterator.get_next()
        state = tf.raw_ops.SerializeIterator(resource_handle=iterator._resource)
        save = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["it"], shape_and_slices=[""], tensors=[state])
        (saved,) = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=["it"], shape_and_slices=[""], dtypes=[tf.variant])
        restore = tf.raw_ops.DeserializeIterator(resource_handle=iterator._resource, serialized=saved)
        return iterator.initializer, following, (save, restore)

    initialize, following, (save, restore) = build()
    with tf.Session() as session:
        session.run(initialize)
        for _ in range(4):
            session.run(following)
        session.run(save)
        rest = [np.array(e).tolist() for e in until_end(session, following)]
    with tf.Graph().as_default():
        initialize, following, (save, restore) = build()
        with tf.Session() as session:
            session.run(initialize)
            session.run(restore)
            assert [np.array(e).tolist() for e in until_end(session, following)] == rest


@pytest.mark.parametrize("given", [0, 4])
def test_an_iterator_goes_back_to_where_it_was_saved(given: int, tmp_path: Path) -> None:
    iterator = tf.data.Dataset.range(9).shuffle(9).repeat(2).make_initializable_iterator()
    following = iterator.get_next()
    state = tf.raw_ops.SerializeIterator(resource_handle=iterator._resource)
    named = {"prefix": str(tmp_path / "position"), "tensor_names": ["it"], "shape_and_slices": [""]}
    save = tf.raw_ops.SaveV2(tensors=[state], **named)
    (saved,) = tf.raw_ops.RestoreV2(dtypes=[tf.variant], **named)
    restore = tf.raw_ops.DeserializeIterator(resource_handle=iterator._resource, serialized=saved)
    with tf.Session() as session:
        session.run(iterator.initializer)
        for _ in range(given):
            session.run(following)
        session.run(save)
        rest = until_end(session, following)
        session.run(restore)
        assert until_end(session, following) == rest


def test_a_buffer_for_all_elements() -> None:
    following = tf.data.Dataset.range(20).shuffle(-2, seed=1).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        got = until_end(session, following)
    assert sorted(got) == list(range(20)) != got


def test_a_buffer_of_no_size_is_refused() -> None:
    iterator = tf.data.Dataset.range(20).shuffle(-1, seed=1).make_initializable_iterator()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="buffer_size must be greater"):
        session.run(iterator.initializer)


def test_a_pass_given_up_ends_the_session_well_though_its_finalizer_fails(caplog: pytest.LogCaptureFixture) -> None:
    def failing(x: Any) -> Any:
        return tf.debugging.check_numerics(x * float("inf"), "never finite")

    traced = [_function(f) for f in (lambda x: x, lambda x: x, failing)]
    captured = tf.constant(1.0)
    variant = tf.raw_ops.GeneratorDataset(
        init_func_other_args=[captured],
        next_func_other_args=[],
        finalize_func_other_args=[],
        init_func=traced[0],
        next_func=traced[1],
        finalize_func=traced[2],
        output_types=[tf.float32],
        output_shapes=[[]],
    )
    iterator = dataset_of(variant, tf.float32).make_initializable_iterator()
    following = iterator.get_next()
    with tf.Session(config=tf.ConfigProto(isolate_session_state=True)) as session:
        session.run(iterator.initializer)
        assert session.run(following) == 1.0
    assert "never finite" in caplog.text


def _function(f: Any) -> Any:
    """The attribute of a graph function of one number."""
    return tf.data.Dataset.from_tensors(1.0).map(f).variant.op.get_attr("f")
