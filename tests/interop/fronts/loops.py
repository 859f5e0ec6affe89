"""Loops that `tf.while_loop` builds of control flow of version 1, saved as MetaGraphs and differentiated once read.

As a program, for TensorFlow: `python -m tests.interop.fronts.loops OUT FOLDER`.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

X = [1.0, 2.0, 0.5]


def plain(tf: Any, x: Any, w: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * w + x), [0, x])[1]


def nested(tf: Any, x: Any, w: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        _, z = tf.while_loop(lambda j, z: j < i + 1, lambda j, z: (j + 1, tf.tanh(z * w + x)), [0, y])
        return i + 1, z + y

    return tf.while_loop(lambda i, y: i < 3, body, [0, x])[1]


def branches(tf: Any, x: Any, w: Any) -> Any:
    """Conditions in a loop, one in another, and loops in branches of one."""

    def body(i: Any, y: Any) -> Any:
        inner = tf.cond(tf.equal(i % 2, 0), lambda: y * w, lambda: tf.cond(i > 1, lambda: y + x, lambda: tf.sin(y)))
        looped = tf.cond(
            i < 2, lambda: tf.while_loop(lambda j, z: j < 2, lambda j, z: (j + 1, z * w), [0, inner])[1], lambda: inner
        )
        return i + 1, looped + 0.1 * y

    return tf.while_loop(lambda i, y: i < 4, body, [0, x])[1]


def loop_in_a_branch(tf: Any, x: Any, w: Any) -> Any:
    looped = tf.cond(tf.reduce_sum(x) > 0, lambda: plain(tf, x, w), lambda: x * w)
    return looped + tf.cond(tf.reduce_sum(x) > 9, lambda: plain(tf, w, x), lambda: w)


def mapped(tf: Any, x: Any, w: Any) -> Any:
    return tf.map_fn(lambda v: tf.sin(v) * w, x)


def scanned(tf: Any, x: Any, w: Any) -> Any:
    return tf.scan(lambda a, v: tf.tanh(a * w + v), x, initializer=tf.zeros([3]))


def recurrent(tf: Any, x: Any, w: Any) -> Any:
    rows = tf.reshape(tf.concat([x * 1.0, x * w], 0), [2, 1, 3])
    cell = tf.nn.rnn_cell.BasicLSTMCell(4, name="cell")
    return tf.nn.dynamic_rnn(cell, rows, sequence_length=[1, 1], time_major=False, dtype=tf.float32)[0]


def random(tf: Any, x: Any, w: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, tf.nn.dropout(y * w + x, rate=0.5, seed=1)

    # One iteration at a time, or which of them takes which numbers is as it happens.
    return tf.while_loop(lambda i, y: i < 3, body, [0, x], parallel_iterations=1)[1]


def growing(tf: Any, x: Any, w: Any) -> Any:
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(
        lambda i, y: i < 2,
        lambda i, y: (i + 1, tf.concat([y, y * tf.reduce_sum(w)], 0)),
        [0, x],
        shape_invariants=shapes,
    )[1]


def asserted(tf: Any, x: Any, w: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        with tf.control_dependencies([tf.Assert(i < 5, [i])]):
            return i + 1, y * w

    return tf.while_loop(lambda i, y: i < 3, body, [0, x])[1]


def trained(tf: Any, x: Any, w: Any) -> Any:
    """A loop whose gradients are in the MetaGraph, too."""
    rows = tf.reshape(tf.concat([x * 1.0, x * w], 0), [1, 2, 3])
    out, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(3, name="cell"), rows, dtype=tf.float32)
    tf.add_to_collection("train", tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(out))))
    return out


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    f.__name__: f
    for f in (
        plain, nested, branches, loop_in_a_branch, mapped, scanned, recurrent, random, growing, asserted, trained
    )
}  # fmt: skip


def differentiated(tf: Any, meta: str, initial: dict[str, Any]) -> list[Any]:
    """Import a MetaGraph and give its result, gradients, and variables after three of its own steps."""
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(meta)
        y, x = graph.get_tensor_by_name("y:0"), graph.get_tensor_by_name("x:0")
        variables = tf.trainable_variables()
        gradients = tf.gradients(tf.reduce_sum(tf.square(y)), [x, *variables])
        with tf.Session() as session:
            for v in variables:
                session.run(v.initializer, {v.initializer.inputs[1]: np.array(initial[v.op.name], "float32")})
            found = session.run([y, *gradients], {x: X})
            for _ in range(3 if tf.get_collection("train") else 0):
                session.run(tf.get_collection("train"), {x: X})
            found += session.run(variables)
    return [np.asarray(v).tolist() for v in found]


def main(out: str, folder: str) -> None:
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    records = {}
    for name, program in PROGRAMS.items():
        meta = Path(folder) / f"{name}.meta"
        with tf.Graph().as_default():
            tf.set_random_seed(3)
            x = tf.placeholder(tf.float32, [3], name="x")
            w = tf.Variable([0.5, 0.2, 0.3], name="w")
            tf.identity(program(tf, x, w), name="y")
            tf.train.export_meta_graph(str(meta))
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                initial = {v.op.name: session.run(v).tolist() for v in tf.trainable_variables()}
        records[name] = {
            "meta": base64.b64encode(meta.read_bytes()).decode(),
            "initial": initial,
            "found": differentiated(tf, str(meta), initial),
        }
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as file:
        file.write(json.dumps(records, separators=(",", ":")).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
