"""Programs over datasets whose elements are ragged, sparse or optional: all elements, and what is said of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

SPARSE: list[Any] = [[[0, 1], [2, 0]], [1.0, 2.0], [3, 4]]


def plain(value: Any) -> Any:
    if getattr(value, "_fields", ()) == ("indices", "values", "dense_shape"):
        return {"sparse": [plain(part) for part in value]}
    if hasattr(value, "to_list"):
        return {"ragged": value.to_list()}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.decode() if isinstance(value, bytes) else value


def elements(tf: Any, dataset: Any) -> list[Any]:
    iterator = tf.data.make_initializable_iterator(dataset)
    following, found = iterator.get_next(), []
    with tf.Session() as session:
        session.run(iterator.initializer)
        while True:
            try:
                found.append(plain(session.run(following)))
            except tf.errors.OutOfRangeError:
                return found


def spec(tf: Any, dataset: Any) -> list[str]:
    known = (tf.data.get_output_types, tf.data.get_output_shapes, tf.data.get_output_classes)
    return [str(dataset.element_spec), *(str(of(dataset)) for of in known)]


def words(tf: Any) -> Any:
    """A vector of n times n, for n from 0 to 4."""
    return tf.data.Dataset.range(5).map(lambda n: tf.fill([n], n))


def example(tf: Any, n: int) -> bytes:
    numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=range(n)))
    text: bytes = tf.train.Example(features=tf.train.Features(feature={"x": numbers})).SerializeToString()
    return text


def grid(tf: Any) -> Any:
    return tf.SparseTensor(*SPARSE)


def marks(tf: Any) -> Any:
    """A sparse row for each n, with n in place n."""
    return tf.data.Dataset.range(3).map(lambda n: tf.SparseTensor([[0, n]], [n], [1, 4]))


def parsed(tf: Any, text: Any) -> Any:
    parse = tf.parse_single_example if text.shape.rank == 0 else tf.parse_example
    return parse(text, {"x": tf.VarLenFeature(tf.int64)})


def examples(tf: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices([example(tf, n) for n in range(4)])


def many(tf: Any, n: Any) -> Any:
    return {"a": tf.fill([n], n), "b": n, "c": tf.ones([2]) * tf.cast(n, tf.float32)}


DATASETS: dict[str, Callable[[Any], Any]] = {
    "ragged_batch": lambda tf: words(tf).ragged_batch(2),
    "ragged_batch, whole ones": lambda tf: words(tf).ragged_batch(2, drop_remainder=True),
    "ragged_batch, int32": lambda tf: words(tf).ragged_batch(2, row_splits_dtype=tf.int32),
    "ragged_batch, row splits": lambda tf: words(tf).ragged_batch(2, False, tf.int32).map(lambda r: r.row_splits),
    "ragged_batch of scalars": lambda tf: tf.data.Dataset.range(3).ragged_batch(2),
    "ragged_batch of matrices": lambda tf: (
        tf.data.Dataset.range(1, 4).map(lambda n: tf.fill([n, 2], n)).ragged_batch(3)
    ),
    "ragged_batch of any matrices": lambda tf: (
        tf.data.Dataset.range(1, 4).map(lambda n: tf.fill([n, n], n)).ragged_batch(3)
    ),
    "ragged_batch of several": lambda tf: tf.data.Dataset.range(3).map(lambda n: many(tf, n)).ragged_batch(2),
    "dense_to_ragged_batch": lambda tf: words(tf).apply(tf.data.experimental.dense_to_ragged_batch(batch_size=3)),
    "dense_to_ragged_batch, whole ones": lambda tf: words(tf).apply(
        tf.data.experimental.dense_to_ragged_batch(3, drop_remainder=True, row_splits_dtype=tf.int32)
    ),
    "ragged: map": lambda tf: words(tf).ragged_batch(2).map(lambda r: (tf.reduce_sum(r, 1), r * 2, r.to_tensor(-1))),
    "ragged: batch": lambda tf: words(tf).ragged_batch(2).batch(2),
    "ragged: unbatch": lambda tf: words(tf).ragged_batch(2).unbatch(),
    "ragged: rebatch": lambda tf: words(tf).ragged_batch(2).rebatch(3),
    "ragged: filter, repeat, prefetch": lambda tf: (
        words(tf).ragged_batch(2).filter(lambda r: tf.reduce_sum(r) > 1).repeat(2).prefetch(1).shuffle(1)
    ),
    "ragged: zip": lambda tf: tf.data.Dataset.zip((words(tf).ragged_batch(2), tf.data.Dataset.range(9))),
    "ragged: window": lambda tf: words(tf).ragged_batch(1).window(2).flat_map(lambda w: w.batch(2)),
    "ragged: group_by_window": lambda tf: (
        words(tf)
        .ragged_batch(1)
        .apply(
            tf.data.experimental.group_by_window(
                lambda r: tf.cast(tf.reduce_sum(r) % 2, tf.int64), lambda k, w: w.batch(2), 2
            )
        )
    ),
    "ragged: concatenate": lambda tf: words(tf).ragged_batch(3).concatenate(words(tf).ragged_batch(2, True)),
    "ragged: choose": lambda tf: tf.data.Dataset.choose_from_datasets(
        [words(tf).ragged_batch(2), words(tf).ragged_batch(3)], tf.data.Dataset.from_tensor_slices(np.array([1, 0, 1]))
    ),
    "ragged: slices": lambda tf: tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1, 2], [], [3]])),
    "ragged: slices, two dimensions": lambda tf: tf.data.Dataset.from_tensor_slices(
        tf.ragged.constant([[[1], [2, 3]], [], [[3]]])
    ),
    "ragged: tensors": lambda tf: tf.data.Dataset.from_tensors(tf.ragged.constant([[1, 2], [], [3]])),
    "ragged: a value": lambda tf: tf.data.Dataset.from_tensors({"a": tf.ragged.constant_value([["x", "y"], []])}),
    "sparse: tensors": lambda tf: tf.data.Dataset.from_tensors(grid(tf)),
    "sparse: slices": lambda tf: tf.data.Dataset.from_tensor_slices((grid(tf), [7, 8, 9])),
    "sparse: slices of a value": lambda tf: tf.data.Dataset.from_tensor_slices(tf.SparseTensorValue(*SPARSE)),
    "sparse: batch": lambda tf: tf.data.Dataset.from_tensor_slices((grid(tf), [7, 8, 9])).batch(2),
    "sparse: unbatch": lambda tf: tf.data.Dataset.from_tensors(grid(tf)).unbatch(),
    "sparse: rebatch": lambda tf: tf.data.Dataset.from_tensors((grid(tf), [7, 8, 9])).rebatch(2),
    "sparse: map": lambda tf: tf.data.Dataset.from_tensor_slices((grid(tf), [7, 8, 9])).map(
        lambda s, n: (tf.sparse.to_dense(s), n + 1)
    ),
    "sparse: flat_map": lambda tf: tf.data.Dataset.from_tensors(grid(tf)).flat_map(tf.data.Dataset.from_tensor_slices),
    "sparse: interleave": lambda tf: tf.data.Dataset.range(2).interleave(
        lambda n: tf.data.Dataset.from_tensors(tf.SparseTensor([[0, n]], [n], [1, 4])).repeat(2), cycle_length=2
    ),
    "sparse: concatenate": lambda tf: tf.data.Dataset.from_tensors(grid(tf)).concatenate(
        tf.data.Dataset.from_tensors(tf.SparseTensor([[0, 1]], [1.0], [3, 5]))
    ),
    "sparse: scan": lambda tf: marks(tf).apply(
        tf.data.experimental.scan(np.int64(0), lambda state, s: (state + tf.sparse.reduce_sum(s), (state, s)))
    ),
    "sparse: cache, enumerate": lambda tf: marks(tf).cache().enumerate().skip(1),
    "sparse_batch": lambda tf: words(tf).sparse_batch(2, [6]),
    "sparse_batch, as large as the largest": lambda tf: words(tf).sparse_batch(2, [None]),
    "dense_to_sparse_batch": lambda tf: words(tf).apply(tf.data.experimental.dense_to_sparse_batch(3, [5])),
    "sparse_batch, used": lambda tf: (
        words(tf).sparse_batch(3, [5]).map(lambda s: (tf.sparse.to_dense(s), tf.sparse.reduce_sum(s, 1)))
    ),
    "words of sentences": lambda tf: (
        tf.data.Dataset.from_tensor_slices(["a b", "c"]).map(lambda s: tf.string_split([s])).map(lambda s: s.values)
    ),
    "examples, parsed in batches": lambda tf: examples(tf).batch(2).map(lambda text: parsed(tf, text)),
    "examples, parsed and batched": lambda tf: examples(tf).map(lambda text: parsed(tf, text)).batch(2),
    "sparse: from a generator": lambda tf: tf.data.Dataset.from_generator(
        lambda: (tf.SparseTensorValue([[i]], [1.0], [3]) for i in range(2)),
        output_signature=tf.SparseTensorSpec([3], tf.float32),
    ),
    "optionals": lambda tf: (
        tf.data.Dataset.range(3)
        .map(lambda n: tf.data.experimental.Optional.from_value((n, tf.fill([2], n))))
        .map(lambda optional: (optional.has_value(), optional.get_value()))
    ),
}


def _whole(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(tf: Any) -> Any:
        dataset = make(tf)
        return elements(tf, dataset), spec(tf, dataset)

    return run


def _again(make: Callable[[Any], Any], by_handle: bool) -> Callable[[Any], Any]:
    """Take the first element by an iterator that knows only what the dataset says of its elements."""

    def run(tf: Any) -> Any:
        dataset = make(tf)
        types, shapes, classes = (
            of(dataset) for of in (tf.data.get_output_types, tf.data.get_output_shapes, tf.data.get_output_classes)
        )
        with tf.Session() as session:
            if by_handle:
                one = tf.data.make_one_shot_iterator(dataset)
                handle = tf.placeholder(tf.string, [])
                iterator = tf.data.Iterator.from_string_handle(handle, types, shapes, classes)
                element = plain(session.run(iterator.get_next(), {handle: session.run(one.string_handle())}))
            else:
                iterator = tf.data.Iterator.from_structure(types, shapes, output_classes=classes)
                session.run(iterator.make_initializer(dataset))
                element = plain(session.run(iterator.get_next()))
        return element, str(iterator.output_types), str(iterator.output_shapes), str(iterator.output_classes)

    return run


def _next_as_optional(tf: Any) -> Any:
    iterator = tf.data.make_initializable_iterator(words(tf).sparse_batch(3, [6]))
    optional = iterator.get_next_as_optional()
    has, value = optional.has_value(), optional.get_value()
    with tf.Session() as session:
        session.run(iterator.initializer)
        found = [session.run([has, value]), session.run([has, value]), session.run(has)]
    return found, str(optional.element_spec), str(has.shape), str(value.shape)


def _optional_values(tf: Any) -> Any:
    kind = tf.data.experimental.Optional
    made = kind.from_value({"a": tf.constant([1.0, 2.0]), "b": tf.constant("x")})
    empty = kind.empty(tf.TensorSpec([3], tf.int32))
    with tf.Session() as session:
        values = session.run([made.has_value(), made.get_value(), empty.has_value()])
    return values, str(made.element_spec), str(empty.element_spec), str(empty.get_value().shape), isinstance(made, kind)


def _optional_in_cond(tf: Any) -> Any:
    iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.range(1))
    optional = tf.data.experimental.get_next_as_optional(iterator)
    value = tf.cond(optional.has_value(), optional.get_value, lambda: tf.constant(-1, tf.int64))
    with tf.Session() as session:
        return [session.run(value), session.run(value)]


def _optional_in_a_loop(tf: Any) -> Any:
    pairs = tf.data.Dataset.zip((tf.data.Dataset.range(3), tf.data.Dataset.range(3, 6)))
    iterator = tf.data.make_one_shot_iterator(pairs)

    def body(total: Any, _: Any) -> Any:
        optional = iterator.get_next_as_optional()
        more = optional.has_value()
        product = tf.cond(more, lambda: tf.multiply(*optional.get_value()), lambda: tf.constant(0, tf.int64))
        return total + product, more

    totals = tf.while_loop(lambda total, more: more, body, [tf.constant(0, tf.int64), tf.constant(True)])
    with tf.Session() as session:
        return session.run(totals)


def _optional_elements(tf: Any) -> Any:
    dataset = tf.data.Dataset.range(2).map(tf.data.experimental.Optional.from_value)
    optional = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as session:
        return session.run(optional.get_value()), spec(tf, dataset)


def _reduced(tf: Any) -> Any:
    total = words(tf).ragged_batch(2).reduce(np.int64(0), lambda state, rows: state + tf.reduce_sum(rows))
    with tf.Session() as session:
        return session.run(total)


def _specs(tf: Any) -> Any:
    scalar = tf.TensorSpec([], tf.int64)
    made = [tf.SparseTensorSpec([3, None], tf.float32), tf.OptionalSpec(scalar), tf.data.DatasetSpec(scalar)]
    return [str(each) for each in [*made, tf.data.Dataset.range(4).window(2).element_spec]]


def _text(run: Callable[[Any], Any]) -> Callable[[Any], list[str]]:
    """Give what a program finds as text, with classes by their last name and unknown dimensions as None."""

    def text(tf: Any) -> list[str]:
        found = json.dumps(plain(run(tf))).replace("?", "None")
        return [re.sub(r"<class '[\w.]*\.(\w+)'>", r"<\1>", found)]

    return text


PROGRAMS: dict[str, Callable[[Any], list[str]]] = {
    name: _text(run)
    for name, run in {
        **{name: _whole(make) for name, make in DATASETS.items()},
        "ragged: an iterator by its types": _again(DATASETS["ragged_batch"], False),
        "ragged: an iterator by its handle": _again(DATASETS["ragged: zip"], True),
        "sparse: an iterator by its types": _again(DATASETS["sparse: slices"], False),
        "sparse: an iterator by its handle": _again(DATASETS["sparse_batch"], True),
        "ragged: reduce": _reduced,
        "the next element as an optional": _next_as_optional,
        "optional: values": _optional_values,
        "optional: in a branch": _optional_in_cond,
        "optional: in a loop": _optional_in_a_loop,
        "optional: as an element": _optional_elements,
        "specs": _specs,
    }.items()
}
