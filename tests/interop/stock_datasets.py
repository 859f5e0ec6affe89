"""Read what the runtime saved of a dataset in a folder, and write the same beside it, with stock TensorFlow."""

import sys

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops

COMPRESSIONS = ("", "GZIP", "SNAPPY")
SPEC = {"x": tf.TensorSpec([3], tf.float32), "y": tf.TensorSpec([], tf.string)}


def dataset() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(
        {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "y": np.array([b"a", b"", b"\0c", b"d" * 300])}
    )


def changed(element: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {"x": element["x"] * 2.0, "y": tf.strings.join([element["y"], "!"])}


def changes() -> list[tuple[list[float], bytes]]:
    return elements(dataset().map(changed).batch(2))


def elements(source: tf.data.Dataset) -> list[tuple[list[float], bytes]]:
    return [
        (e["x"].tolist(), e["y"].tolist() if isinstance(e["y"], np.ndarray) else e["y"])
        for e in source.as_numpy_iterator()
    ]


def main(folder: str) -> None:
    want = elements(dataset())
    for compression in COMPRESSIONS:
        loaded = tf.data.Dataset.load(f"{folder}/ours{compression}", SPEC, compression=compression or None)
        assert elements(loaded) == want, compression
        dataset().save(f"{folder}/theirs{compression}", compression=compression or None)
    written = tf.raw_ops.DatasetFromGraph(graph_def=tf.io.read_file(f"{folder}/ours.graph"))
    assert elements(dataset_ops._VariantDataset(written, dataset().map(changed).batch(2).element_spec)) == changes()
    theirs = tf.raw_ops.DatasetToGraphV2(input_dataset=dataset().map(changed).batch(2)._variant_tensor)
    tf.io.write_file(f"{folder}/theirs.graph", theirs)
    assert elements(dataset().take(0).cache(f"{folder}/ourcache")) == want
    assert elements(dataset().cache(f"{folder}/theircache")) == want


if __name__ == "__main__":
    main(sys.argv[1])
