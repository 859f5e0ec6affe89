"""A model with variables of both kinds, a vocabulary file and a sparse input, for `tf.saved_model` of either package.

`data/saved_model` is what `write(tensorflow.compat.v1, ...)` gave with TensorFlow 2.21.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write(tf: Any, folder: str, vocabulary: Path) -> None:
    """Build the model, move its variables off their initial values, write it."""
    vocabulary.write_text("zero\none\ntwo\n")
    with tf.Graph().as_default(), tf.Session() as session:
        path = tf.constant(str(vocabulary), name="vocabulary")
        tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, path)
        table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
            ),
            -1,
        )
        words = tf.placeholder(tf.string, [None], name="words")
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.get_variable("w", initializer=[[1.0], [2.0]], use_resource=True)
        b = tf.get_variable("b", initializer=0.5, use_resource=False)
        y = tf.add(tf.matmul(x, w), b, name="y")
        ids = table.lookup(words)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        session.run([tf.assign(w, [[10.0], [20.0]]), tf.assign(b, 1.5)])
        tf.saved_model.simple_save(
            session, folder, {"x": x, "words": words}, {"y": y, "ids": ids}, legacy_init_op=tf.tables_initializer()
        )


def use(tf: Any, folder: str, scope: str | None = None) -> tuple[list[Any], list[Any]]:
    """Load the model and predict."""
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], folder, import_scope=scope)
        signature = meta.signature_def[tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
        prefix = f"{scope}/" if scope else ""
        y, ids = session.run(
            [prefix + signature.outputs["y"].name, prefix + signature.outputs["ids"].name],
            {
                prefix + signature.inputs["x"].name: [[1.0, 2.0]],
                prefix + signature.inputs["words"].name: ["two", "none"],
            },
        )
    return y.tolist(), ids.tolist()
