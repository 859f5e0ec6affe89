"""What is done with ragged tensors: functions of a front end that give what to fetch, and what to feed.

Run as a program, for TensorFlow: `python -m tests.interop.ragged.cases OUT`.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[Any], Any]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def _rows(tf: Any) -> Any:
    return tf.ragged.constant([[3, 1, 4, 1], [], [5, 9, 2], [6], []])


def _deep(tf: Any) -> Any:
    return tf.ragged.constant([[[1.0, 2.0], [3.0]], [], [[4.0, 5.0, 6.0], [], [7.0]]])


@case
def constructors(tf: Any) -> Any:
    values = tf.constant([3, 1, 4, 1, 5, 9, 2, 6])
    R = tf.RaggedTensor
    made = [
        R.from_row_splits(values, [0, 4, 4, 7, 8, 8]),
        R.from_row_lengths(values, [4, 0, 3, 1, 0]),
        R.from_value_rowids(values, [0, 0, 0, 0, 2, 2, 2, 3], nrows=5),
        R.from_value_rowids(values, [0, 0, 0, 0, 2, 2, 2, 3]),
        R.from_row_starts(values, [0, 4, 4, 7, 8]),
        R.from_row_limits(values, [4, 4, 7, 8, 8]),
        R.from_uniform_row_length(values, 2),
        R.from_uniform_row_length(R.from_row_splits(values, [0, 4, 4, 7, 8]), 2),
        R.from_nested_row_splits(values, [[0, 2, 2, 3], [0, 4, 4, 8]]),
        R.from_nested_row_lengths(values, [[2, 0, 1], [4, 0, 4]]),
        R.from_nested_value_rowids(values, [[0, 0, 2], [0, 0, 0, 0, 2, 2, 2, 2]], [4, 3]),
        R.from_tensor([[1, 2, 0], [3, 0, 0], [0, 4, 0]]),
        R.from_tensor([[1, 2, 0], [3, 0, 0], [0, 4, 0]], padding=0),
        R.from_tensor([[1, 2, 0], [3, 0, 0], [0, 4, 0]], lengths=[1, 0, 3]),
        R.from_tensor(np.arange(12).reshape(2, 3, 2), ragged_rank=2, row_splits_dtype=tf.int32),
        R.from_tensor(np.arange(12).reshape(2, 3, 2), lengths=([3, 1], [1, 0, 2, 2])),
        R.from_sparse(tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [7, 8, 9], [4, 2])),
    ]
    return [made, [(r.shape.as_list(), r.ragged_rank, r.row_splits.dtype.name) for r in made]]


@case
def constants(tf: Any) -> Any:
    made = [
        _rows(tf),
        _deep(tf),
        tf.ragged.constant([["a", "bc"], ["d"]]),
        tf.ragged.constant([[[1, 2], [3, 4]], [], [[5, 6]]], ragged_rank=1),
        tf.ragged.constant([[[1, 2], [3, 4]], [], [[5, 6]]], inner_shape=(2,)),
        tf.ragged.constant([], ragged_rank=1, dtype=tf.int64),
        tf.ragged.constant([[], []], ragged_rank=1, dtype=tf.float32),
        tf.ragged.constant([[[]], []], dtype=tf.int32),
        tf.ragged.constant([1, 2, 3]),
        tf.ragged.constant([[1, 2], [3]], dtype=tf.float64, row_splits_dtype=tf.int32),
    ]
    values = tf.ragged.constant_value([[1, 2], [3]])
    return [made, [(r.shape.as_list(), r.dtype.name) for r in made], [values.to_list(), values.ragged_rank]]


@case
def accessors(tf: Any) -> Any:
    r, d = _rows(tf), _deep(tf)
    return [
        r.values, r.row_splits, r.row_starts(), r.row_limits(), r.row_lengths(), r.value_rowids(), r.nrows(),
        d.flat_values, list(d.nested_row_splits), list(d.nested_row_lengths()), list(d.nested_value_rowids()),
        d.row_lengths(axis=2), d.bounding_shape(), d.bounding_shape(axis=1), d.bounding_shape(out_type=tf.int32),
        d.with_flat_values(tf.range(7)), r.with_values(tf.range(8)), d.values.nrows(tf.int32),
        d.merge_dims(0, 1), d.merge_dims(1, 2), d.merge_dims(0, 2), d.merge_dims(-2, -1),
        tf.size(d), tf.rank(d),
    ]  # fmt: skip


@case
def operators(tf: Any) -> Any:
    r, d = _rows(tf), _deep(tf)
    f = tf.cast(r, tf.float32)
    other = tf.ragged.constant([[1, 2, 3, 4], [], [5, 6, 7], [8], []])
    return [
        r + 1, 10 - r, r * other, r // 2, r % 3, -r, abs(-r), f / 2.0, f**2.0, 2.0**f, r > 2, r <= other, ~(r > 2),
        (r > 2) & (other > 2), (r > 2) | (other > 2), (r > 2) ^ (other > 2), d + 0.5, d * [[[2.0]]],
        r + tf.constant([[10], [20], [30], [40], [50]]), tf.constant([[100]]) + r, d + [[[1.0]], [[2.0]], [[3.0]]],
        d - tf.ragged.constant([[1.0, 2.0], [], [3.0, 4.0, 5.0]])[:, :, tf.newaxis],
    ]  # fmt: skip


@case
def elementwise(tf: Any) -> Any:
    r, d = _rows(tf), _deep(tf)
    words = tf.ragged.constant([["Ab", "c "], [], ["DEF"]])
    return [
        tf.square(r), tf.exp(d), tf.nn.relu(d - 3.0), tf.sqrt(d), tf.math.log(d), tf.sigmoid(d),
        tf.add(r, r), tf.subtract(r, 1), tf.maximum(r, 3), tf.minimum(r, 3), tf.pow(r, 2), tf.equal(r, 1),
        tf.not_equal(r, 1), tf.logical_not(tf.equal(r, 1)), tf.clip_by_value(r, 2, 5), tf.cast(r, tf.float64),
        tf.zeros_like(d), tf.ones_like(r), tf.identity(d), tf.truediv(r, 2), tf.squared_difference(d, 1.0),
        tf.strings.upper(words), tf.strings.length(words), tf.strings.substr(words, 0, 1), tf.strings.strip(words),
        tf.strings.to_hash_bucket_fast(words, 10), tf.strings.join([words, words], "-"), tf.as_string(r),
        tf.strings.regex_replace(words, "[A-Z]", "x"), tf.one_hot(r, 4), tf.add_n([r, r, r]),
        tf.ragged.map_flat_values(lambda x, y: x * 10 + y, r, r), tf.nn.dropout(d, rate=0.0),
    ]  # fmt: skip


@case
def reductions(tf: Any) -> Any:
    r, d = _rows(tf), _deep(tf)
    f = tf.cast(r, tf.float32)
    return [
        [reduce(r, axis) for axis in (None, 0, 1, [0, 1]) for reduce in
         (tf.reduce_sum, tf.reduce_prod, tf.reduce_max, tf.reduce_min)],
        [reduce(d, axis) for axis in (None, 0, 1, 2, -1, [0, 1], [1, 2]) for reduce in (tf.reduce_sum, tf.reduce_max)],
        [tf.reduce_mean(f, axis=a) for a in (0, 1)], [tf.reduce_mean(d, axis=a) for a in (0, 1, 2)],
        tf.reduce_all(r > 1, axis=1), tf.reduce_any(r > 4, axis=1), tf.reduce_any(r > 4, axis=0),
        tf.reduce_sum(r, axis=1, keepdims=True), tf.reduce_max(d, axis=2, keepdims=True),
        tf.math.unsorted_segment_sum(r, [1, 0, 1, 1, 0], 3), tf.math.unsorted_segment_max(d, [0, 2, 0], 3),
        tf.strings.reduce_join(tf.ragged.constant([["a", "b"], [], ["c"]]), axis=1, separator="-"),
    ]  # fmt: skip


@case
def joined(tf: Any) -> Any:
    r, d = _rows(tf), _deep(tf)
    return [
        tf.concat([r, r], 0), tf.concat([r, [[0], [1], [2], [3], [4]]], 1), tf.concat([r, r, r], axis=1),
        tf.concat([d, d], 0), tf.concat([d, d], 1), tf.concat([d, d], 2), tf.concat([d, d], -1),
        tf.stack([r, r]), tf.stack([r, r], 1), tf.stack([r, r], axis=2), tf.ragged.stack([[1, 2], [3]]),
        tf.ragged.stack([r, d[:, :, 0:0].values[:, :0]][:1]), tf.tile(r, [2, 2]), tf.tile(d, [1, 2, 1]),
        tf.tile(d, [2, 1, 3]), tf.expand_dims(r, 0), tf.expand_dims(r, 1), tf.expand_dims(r, -1),
        tf.squeeze(tf.expand_dims(r, 0), [0]), tf.squeeze(tf.expand_dims(r, 1), [1]), tf.reverse(r, [0]),
        tf.reverse(r, [1]), tf.reverse(d, [0, 2]), tf.split(r, 5), tf.split(r, [2, 3]), tf.split(d, [1, 0, 2]),
    ]  # fmt: skip


@case
def gathered(tf: Any) -> Any:
    r, d = _rows(tf), _deep(tf)
    nested = tf.ragged.constant([[0, 2], [], [3]])
    return [
        tf.gather(r, [2, 0, 0]), tf.gather(r, 2), tf.gather(r, [[0, 1], [2, 3]]), tf.gather(d, [2, 0]),
        tf.gather(d, [[2], [0]]), tf.gather(r, nested), tf.gather(tf.constant([10, 20, 30, 40]), nested),
        tf.gather(r, tf.ragged.constant([[1], [], [2, 0], [0], []]), axis=1, batch_dims=1),
        tf.gather(d, tf.ragged.constant([[1], [], [0, 2]]), axis=1, batch_dims=1),
        tf.batch_gather(r, tf.ragged.constant([[3, 0], [], [1], [0], []])),
        tf.gather_nd(r, [[0, 1], [2, 2]]), tf.gather_nd(d, [[0, 1], [2, 0]]), tf.gather_nd(d, [[2, 0, 1]]),
        tf.ragged.boolean_mask(r, [True, False, True, True, False]), tf.ragged.boolean_mask(r, r > 2),
        tf.ragged.boolean_mask([[1, 2], [3, 4]], [[True, False], [True, True]]), tf.ragged.boolean_mask(d, d > 2.0),
        tf.where(r > 2, r, -r), tf.where(r > 2), tf.where([True, False, True, False, False], r, r * 10),
        tf.nn.embedding_lookup(tf.reshape(tf.range(20.0), [10, 2]), r),
    ]  # fmt: skip


@case
def indexed(tf: Any) -> Any:
    r, d = _rows(tf), _deep(tf)
    i = tf.constant(2)
    return [
        r[0], r[2], r[-2], r[i], r[1:], r[:-1], r[::2], r[::-1], r[:, :2], r[:, 1:], r[:, -2:], r[:, ::2], r[:, ::-1],
        r[:, -1:0:-1], r[2:4, :1], r[..., :1], r[0, 1], r[tf.newaxis], r[:, tf.newaxis], r[..., tf.newaxis],
        d[0], d[0, 1], d[2, 0, 1:], d[:, :1], d[:, :, :1], d[:, :, ::-1], d[1:, 1:, 1:], d[..., 1:], d[2, :, :1],
        d[:, tf.newaxis], d[:0], r[3:1], r[1:i + 1], r[:, :i],
        tf.RaggedTensor.from_uniform_row_length(tf.range(6), 3)[:, 1],
    ]  # fmt: skip


@case
def converted(tf: Any) -> Any:
    r, d = _rows(tf), _deep(tf)
    wide = tf.ragged.constant([[[1, 2], [3, 4]], [], [[5, 6]]], ragged_rank=1)
    return [
        r.to_tensor(), r.to_tensor(-1), r.to_tensor(shape=[None, 2]), r.to_tensor(7, shape=[6, 5]), d.to_tensor(),
        d.to_tensor(0.5), wide.to_tensor(), wide.to_tensor([8, 9]), r.to_sparse(), d.to_sparse(), wide.to_sparse(),
        tf.ragged.range([3, 0, 2], [5, 0, 9], [1, 1, 3]), tf.ragged.range(4),
        tf.ragged.range([1.0, 2.0], [2.0, 4.5], 0.5),
        tf.ragged.row_splits_to_segment_ids([0, 2, 2, 5]), tf.ragged.segment_ids_to_row_splits([0, 0, 2], 4),
        tf.ragged.stack_dynamic_partitions([10, 20, 30, 40], [1, 0, 1, 3], 4),
        tf.ragged.cross([tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["x", "y"], ["z"]])]),
        tf.ragged.cross_hashed([tf.ragged.constant([["a"], ["b"]]), tf.constant([["x"], ["y"]])], num_buckets=100),
        r.with_row_splits_dtype(tf.int32).row_splits,
    ]  # fmt: skip


@case
def strings(tf: Any) -> Any:
    words = tf.constant(["a b c", "", "d  e"])
    text = tf.constant(["Gr\u00fc\u00dfe", "\u4f60\u597d", ""])
    points = tf.strings.unicode_decode(text, "UTF-8")
    return [
        tf.strings.split(words, result_type="RaggedTensor"), tf.strings.split(words, " ", result_type="RaggedTensor"),
        tf.strings.split(words), tf.string_split(words, result_type="RaggedTensor"),
        tf.strings.split([["a b"], ["c"]], result_type="RaggedTensor"), tf.strings.bytes_split(words),
        points, tf.strings.unicode_decode("h\u00e9", "UTF-8"), tf.strings.unicode_split(text, "UTF-8"),
        list(tf.strings.unicode_decode_with_offsets(text, "UTF-8")),
        list(tf.strings.unicode_split_with_offsets(text, "UTF-8")), tf.strings.unicode_encode(points, "UTF-8"),
        tf.strings.unicode_encode(points, "UTF-16-BE"), tf.strings.unicode_encode([[72, 105]], "UTF-8"),
        tf.strings.ngrams(tf.strings.split(words, result_type="RaggedTensor"), 2),
        tf.strings.ngrams(tf.strings.split(words, result_type="RaggedTensor"), [1, 2], "|", ("<", ">")),
        tf.strings.format("{} of {}", [_rows(tf), tf.constant(3)]),
    ]  # fmt: skip


@case
def mapped(tf: Any) -> Any:
    r, d = _rows(tf), _deep(tf)
    return [
        tf.map_fn(tf.reduce_sum, r, dtype=tf.int32), tf.map_fn(lambda x: x * 2, r),
        tf.map_fn(lambda x: tf.reduce_sum(x), d, dtype=tf.float32), tf.map_fn(lambda x: x + 1.0, d),
        tf.map_fn(tf.range, tf.constant([3, 0, 2]), fn_output_signature=tf.RaggedTensorSpec([None], tf.int32)),
        tf.map_fn(lambda x: (tf.size(x), x[::-1]), r, fn_output_signature=(
            tf.int32, tf.RaggedTensorSpec([None], tf.int32))),
    ]  # fmt: skip


@case
def control_flow(tf: Any) -> Any:
    r = _rows(tf)
    yes = tf.placeholder_with_default(True, [])
    chosen = tf.cond(yes, lambda: r * 2, lambda: r)
    _, looped = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), [tf.constant(0), r])
    return [chosen, looped]


@case
def fed(tf: Any) -> Any:
    given = tf.ragged.placeholder(tf.float32, 1, value_shape=[])
    deep = tf.ragged.placeholder(tf.int32, 2, value_shape=[2])
    value = tf.ragged.RaggedTensorValue(np.array([1.0, 2.0, 4.0], np.float32), np.array([0, 1, 1, 3]))
    inner = tf.ragged.RaggedTensorValue(np.arange(6).reshape(3, 2).astype(np.int32), np.array([0, 2, 3]))
    outer = tf.ragged.RaggedTensorValue(inner, np.array([0, 2, 2]))
    return [given, given * 2.0, tf.reduce_sum(given, 1), deep + 1, given.to_tensor()], {given: value, deep: outer}


@case
def gradients(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0, 3.0, 4.0])
    r = tf.RaggedTensor.from_row_splits(x, [0, 1, 1, 4])
    fill = tf.constant(0.5)
    picked = tf.gather(r, [2, 0, 2])
    losses = [
        tf.reduce_sum(r * r), tf.reduce_sum(tf.square(tf.reduce_sum(r, axis=1))),
        tf.reduce_sum(tf.square(tf.reduce_mean(r, axis=0))), tf.reduce_sum(tf.square(r.to_tensor(fill))),
        tf.reduce_sum(picked * picked), tf.reduce_sum(tf.square(r[:, :2].flat_values)),
        tf.reduce_sum(tf.square((r + [[1.0], [2.0], [3.0]]).flat_values)),
        tf.reduce_sum(tf.square(tf.concat([r, r], 1).flat_values)),
        tf.reduce_sum(tf.sparse.to_dense(r.to_sparse()) ** 2),
        tf.reduce_sum(tf.square(tf.map_fn(tf.reduce_sum, r, dtype=tf.float32))),
    ]  # fmt: skip
    slopes = [tf.convert_to_tensor(tf.gradients(loss, x)[0]) for loss in losses]
    return [losses, slopes, tf.gradients(losses[3], fill)]


@case
def trained(tf: Any) -> Any:
    """A bag of words model: embeddings of ragged ids averaged, a layer, a few steps of training."""
    ids = tf.ragged.constant([[1, 2], [3], [4, 5, 6], [0, 1]])
    labels = tf.constant([0, 1, 0, 1])
    table = tf.Variable(tf.reshape(tf.range(28.0), [7, 4]) / 28.0)
    bag = tf.reduce_mean(tf.nn.embedding_lookup(table, ids), axis=1)
    w = tf.Variable(tf.reshape(tf.range(8.0), [4, 2]) / 8.0)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.matmul(bag, w))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.control_dependencies([step]):
        after = tf.identity(loss)
    return [loss, after]


GRAPH = "graph"
"""A graph made by TensorFlow, run here by its names."""


def stock_graph(tf: Any) -> list[str]:
    """Build the graph in the default one and name what is fetched."""
    rows = _rows(tf)
    parts = [
        rows.to_tensor(), rows.to_sparse().indices, tf.gather(rows, [2, 0]).flat_values,
        tf.ragged.range([1, 2], [4, 3]).flat_values, tf.map_fn(lambda x: x * 2, rows).flat_values,
        tf.concat([rows, rows], 1).row_splits, tf.reduce_sum(rows, 1),
    ]  # fmt: skip
    return [p.name for p in parts]


def described(value: Any) -> Any:
    """A fetched value as JSON: ragged ones by their rows."""
    if type(value).__name__ == "RaggedTensorValue":
        return {"rows": described(value.to_list())}
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    if isinstance(value, dict):
        return {k: described(v) for k, v in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return {"dtype": value.dtype.name, "value": described(value.tolist())}
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, float):
        return None if np.isnan(value) else float(f"{value:.6g}")
    return value


def run(tf: Any, case: Case) -> Any:
    """Build a case in a graph of its own and run it."""
    with tf.Graph().as_default():
        made = case(tf)
        fetches, feed = made if isinstance(made, tuple) else (made, {})
        fetched: list[Any] = []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for item in fetches:
                facts = isinstance(item, list) and not any(_has_tensor(tf, v) for v in item)
                fetched.append(item if facts else session.run(item, feed))
        return json.loads(json.dumps(described(fetched)))


def _has_tensor(tf: Any, value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_tensor(tf, v) for v in value)
    return isinstance(value, (tf.Tensor, tf.RaggedTensor, tf.SparseTensor))


def main(out: str) -> None:
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    found = {name: run(tf, made) for name, made in CASES.items()}
    with tf.Graph().as_default() as graph:
        names = stock_graph(tf)
        found[GRAPH] = {
            "graph": base64.b64encode(graph.as_graph_def().SerializeToString()).decode(),
            "fetches": names,
            "values": described(tf.Session().run(names)),
        }
    with open(out, "w") as file:
        json.dump(found, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
