"""Read what the runtime saved of a dataset in a folder, and write the same beside it, with stock TensorFlow."""

import sys

import numpy as np
import tensorflow as tf

COMPRESSIONS = ("", "GZIP", "SNAPPY")
SPEC = {"x": tf.TensorSpec([3], tf.float32), "y": tf.TensorSpec([], tf.string)}


def dataset() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(
        {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "y": np.array([b"a", b"", b"\0c", b"d" * 300])}
    )


def elements(source: tf.data.Dataset) -> list[tuple[list[float], bytes]]:
    return [(e["x"].tolist(), e["y"]) for e in source.as_numpy_iterator()]


def main(folder: str) -> None:
    want = elements(dataset())
    for compression in COMPRESSIONS:
        loaded = tf.data.Dataset.load(f"{folder}/ours{compression}", SPEC, compression=compression or None)
        assert elements(loaded) == want, compression
        dataset().save(f"{folder}/theirs{compression}", compression=compression or None)
    assert elements(dataset().take(0).cache(f"{folder}/ourcache")) == want
    assert elements(dataset().cache(f"{folder}/theircache")) == want


if __name__ == "__main__":
    main(sys.argv[1])
